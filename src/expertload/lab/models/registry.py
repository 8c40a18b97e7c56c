"""Networks by name, or by import path for networks of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from expertload._check import check_count
from expertload.exceptions import ParameterError
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
from expertload.losses.build import call_builder, import_callable

_MODELS: dict[str, Callable[..., Classifier]] = {
    "tiny-cnn": tiny_cnn,
    "small-cnn": small_cnn,
    "resnet8": resnet8,
    "resnet9": resnet9,
    "resnet14": resnet14,
    "resnet20": resnet20,
    "resnet18": resnet18,
    "resnet34": resnet34,
    "resnet50": resnet50,
    "wide-resnet-28-10": wide_resnet28_10,
}


def model_names() -> tuple[str, ...]:
    """Return the names that `build_model` accepts.

    Examples
    --------
    >>> from expertload.lab.models import model_names
    >>> len(model_names())
    10
    """
    return tuple(_MODELS)


def build_model(name: str, *, num_classes: int, in_channels: int = 3, **options: Any) -> nn.Module:
    """Build a network.

    Parameters
    ----------
    name : str
        One of `model_names`, or ``"module:callable"`` for a network of your own or of another
        library: ``"torchvision.models:resnet18"``, ``"mypackage.nets:build"``. That callable gets
        ``num_classes`` and the options; pass its own option for the channels of the image
        (``in_chans=1`` for timm).
    num_classes : int
    in_channels : int, default=3
        Channels of the images; not passed on to an import path.
    **options
        Passed on, ``stem="medium"`` for example.

    Returns
    -------
    Module
        Maps images (n, channels, height, width) to logits (n, num_classes).

    Examples
    --------
    >>> from expertload.lab.models import build_model
    >>> model = build_model("resnet20", num_classes=100)
    >>> sum(p.numel() for p in model.parameters())
    275572
    """
    check_count(num_classes, "num_classes", minimum=2)
    check_count(in_channels, "in_channels")
    if ":" in name:
        builder, sizes = import_callable(name, "model"), {"num_classes": num_classes}
    elif name in _MODELS:
        sizes = {"num_classes": num_classes, "in_channels": in_channels}
        builder = _MODELS[name]
    else:
        raise ParameterError(
            f"build_model found no model {name!r}. Hint: use one of {', '.join(_MODELS)}, or "
            "'module:callable'."
        )
    return call_builder(builder, {**sizes, **options}, name=name, what="model")


def features_of(model: nn.Module, images: Tensor) -> Tensor:
    """Return the input of the last linear layer of a network.

    Parameters
    ----------
    model : Module
        A network of this package, or any whose last linear layer returns the logits.
    images : Tensor of shape (n, channels, height, width)

    Returns
    -------
    Tensor of shape (n, width)

    Examples
    --------
    >>> import torch
    >>> from expertload.lab.models import build_model, features_of
    >>> features_of(build_model("small-cnn", num_classes=10), torch.zeros(2, 3, 8, 8)).shape
    torch.Size([2, 64])
    """
    if isinstance(model, Classifier):
        return model.features(images)
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise ParameterError("features_of needs a network with a linear layer. Got none.")
    seen: list[Tensor] = []
    handle = linear[-1].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        model(images)
    finally:
        handle.remove()
    return seen[-1]
