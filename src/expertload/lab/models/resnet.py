"""Residual networks, for images from 28 to 224 pixels a side.

References
----------
He et al., "Deep residual learning for image recognition", CVPR 2016.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from expertload._validation import check_option
from expertload.lab.models.blocks import BasicBlock, Bottleneck, GlobalPool, conv3x3, initialise
from expertload.lab.models.classifier import Classifier

__all__ = [
    "STEMS",
    "resnet8",
    "resnet9",
    "resnet14",
    "resnet18",
    "resnet20",
    "resnet34",
    "resnet50",
]

STEMS = ("small", "medium", "large")


def _stem(kind: str, in_channels: int) -> list[nn.Module]:
    check_option(kind, STEMS, "stem")
    if kind == "large":
        first = nn.Conv2d(in_channels, 64, 7, stride=2, padding=3, bias=False)
        return [first, nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
    first = conv3x3(in_channels, 64, stride=2 if kind == "medium" else 1)
    return [first, nn.BatchNorm2d(64), nn.ReLU(inplace=True)]


def _stages(
    block: type[BasicBlock] | type[Bottleneck], depths: Sequence[int]
) -> tuple[list[nn.Module], int]:
    layers: list[nn.Module] = []
    channels = 64
    for stage, depth in enumerate(depths):
        width = 64 * 2**stage
        for position in range(depth):
            layers.append(block(channels, width, 2 if stage and not position else 1))
            channels = width * block.expansion
    return layers, channels


def _resnet(
    name: str,
    block: type[BasicBlock] | type[Bottleneck],
    depths: Sequence[int],
    num_classes: int,
    in_channels: int,
    stem: str,
) -> Classifier:
    layers, channels = _stages(block, depths)
    body = nn.Sequential(*_stem(stem, in_channels), *layers, GlobalPool())
    network = Classifier(body, channels, num_classes)
    initialise(network)
    return network


def resnet18(num_classes: int, *, in_channels: int = 3, stem: str = "small") -> Classifier:
    """Build ResNet-18.

    Parameters
    ----------
    num_classes : int
    in_channels : int, default=3
    stem : {"small", "medium", "large"}, default="small"
        How the first layer takes the image: at full size (28 or 32 pixels a side), at half
        (64 pixels), or, as for ImageNet, at a quarter (224 pixels).

    Examples
    --------
    >>> from expertload.lab.models import resnet18
    >>> sum(p.numel() for p in resnet18(10).parameters())
    11173962
    """
    return _resnet("resnet18", BasicBlock, (2, 2, 2, 2), num_classes, in_channels, stem)


def resnet34(num_classes: int, *, in_channels: int = 3, stem: str = "small") -> Classifier:
    """Build ResNet-34; see `resnet18` for the parameters.

    Examples
    --------
    >>> from expertload.lab.models import resnet34
    >>> sum(p.numel() for p in resnet34(10).parameters())
    21282122
    """
    return _resnet("resnet34", BasicBlock, (3, 4, 6, 3), num_classes, in_channels, stem)


def resnet50(num_classes: int, *, in_channels: int = 3, stem: str = "small") -> Classifier:
    """Build ResNet-50; see `resnet18` for the parameters.

    Examples
    --------
    >>> from expertload.lab.models import resnet50
    >>> sum(p.numel() for p in resnet50(10).parameters())
    23520842
    """
    return _resnet("resnet50", Bottleneck, (3, 4, 6, 3), num_classes, in_channels, stem)


def _thin_resnet(blocks: int, num_classes: int, in_channels: int) -> Classifier:
    """Three stages of 16, 32 and 64 channels, with shortcuts that have no parameters."""
    layers: list[nn.Module] = [conv3x3(in_channels, 16), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
    channels = 16
    for width in (16, 32, 64):
        for position in range(blocks):
            stride = 2 if width > channels and not position else 1
            layers.append(BasicBlock(channels, width, stride, padded=width != channels))
            channels = width
    network = Classifier(nn.Sequential(*layers, GlobalPool()), channels, num_classes)
    initialise(network)
    return network


def resnet8(num_classes: int, *, in_channels: int = 3) -> Classifier:
    """Build a network of He et al.'s CIFAR design with one block per stage.

    It trains about three times as fast as ResNet-20.

    Examples
    --------
    >>> from expertload.lab.models import resnet8
    >>> sum(p.numel() for p in resnet8(10).parameters())
    75290
    """
    return _thin_resnet(1, num_classes, in_channels)


def resnet9(num_classes: int, *, in_channels: int = 3, width: int = 24) -> Classifier:
    """Build a shallow residual network that learns CIFAR-100 in a few epochs.

    Two convolutions and a pair with a shortcut, twice, with max pooling in between and at the end;
    Page's design for fast training ("How to train your ResNet", 2018).

    Parameters
    ----------
    num_classes : int
    in_channels : int, default=3
    width : int, default=24
        Channels of the first convolution; the last has eight times as many.

    Examples
    --------
    >>> from expertload.lab.models import resnet9
    >>> sum(p.numel() for p in resnet9(100).parameters())
    944380
    """
    body = nn.Sequential(
        *_normalised(in_channels, width),
        *_normalised(width, 2 * width),
        nn.MaxPool2d(2),
        BasicBlock(2 * width, 2 * width, 1),
        *_normalised(2 * width, 4 * width),
        nn.MaxPool2d(2),
        *_normalised(4 * width, 8 * width),
        nn.MaxPool2d(2),
        BasicBlock(8 * width, 8 * width, 1),
        _ScaledMaxPool(),
    )
    network = Classifier(body, 8 * width, num_classes)
    initialise(network)
    return network


class _ScaledMaxPool(nn.Module):
    """An eighth of the largest value over all positions.

    Without the factor, which is Page's, logits begin large and a rate of 0.2 is not stable.
    """

    def forward(self, x: Tensor) -> Tensor:
        return x.amax(dim=(2, 3)) / 8


def _normalised(inputs: int, outputs: int) -> list[nn.Module]:
    return [conv3x3(inputs, outputs), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]


def resnet14(num_classes: int, *, in_channels: int = 3) -> Classifier:
    """Build a network of He et al.'s CIFAR design with two blocks per stage.

    Examples
    --------
    >>> from expertload.lab.models import resnet14
    >>> sum(p.numel() for p in resnet14(10).parameters())
    172506
    """
    return _thin_resnet(2, num_classes, in_channels)


def resnet20(num_classes: int, *, in_channels: int = 3) -> Classifier:
    """Build the ResNet-20 of He et al.'s CIFAR experiments, which trains on a CPU.

    Three stages of three blocks, 16, 32 and 64 channels, with shortcuts that have no parameters.

    Examples
    --------
    >>> from expertload.lab.models import resnet20
    >>> sum(p.numel() for p in resnet20(10).parameters())
    269722
    """
    return _thin_resnet(3, num_classes, in_channels)
