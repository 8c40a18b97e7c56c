"""Networks for small images, each a feature extractor with a linear layer on top."""

from expertload._check import needs_extra

with needs_extra("lab", "expertload.lab.models"):
    from expertload.lab.models.networks import (
        Classifier,
        resnet8,
        resnet9,
        resnet14,
        resnet18,
        resnet20,
        resnet34,
        resnet50,
        small_cnn,
        tiny_cnn,
        wide_resnet28_10,
    )
    from expertload.lab.models.registry import build_model, features_of, model_names

__all__ = [
    "Classifier",
    "build_model",
    "features_of",
    "model_names",
    "resnet8",
    "resnet9",
    "resnet14",
    "resnet18",
    "resnet20",
    "resnet34",
    "resnet50",
    "small_cnn",
    "tiny_cnn",
    "wide_resnet28_10",
]
