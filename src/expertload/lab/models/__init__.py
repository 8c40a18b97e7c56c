"""Networks for small images, each a feature extractor with a linear layer on top."""

from expertload._validation import needs_extra

with needs_extra("lab", "expertload.lab.models"):
    from expertload.lab.models.classifier import Classifier
    from expertload.lab.models.registry import build_model, features_of, model_names
    from expertload.lab.models.resnet import (
        resnet8,
        resnet9,
        resnet14,
        resnet18,
        resnet20,
        resnet34,
        resnet50,
    )
    from expertload.lab.models.small_cnn import small_cnn
    from expertload.lab.models.tiny_cnn import tiny_cnn
    from expertload.lab.models.wide_resnet import wide_resnet28_10

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
