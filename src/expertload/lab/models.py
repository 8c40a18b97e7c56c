"""Networks by name for images from 8 to 224 pixels a side, or by import path for others.

The networks of this module are feature extractors with a linear layer on top.

References
----------
He et al., "Deep residual learning for image recognition", CVPR 2016.
Zagoruyko and Komodakis, "Wide residual networks", BMVC 2016.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from expertload._check import check_count, check_option, needs_extra
from expertload.exceptions import ParameterError

with needs_extra("lab", "expertload.lab.models"):
    from torch import Tensor, nn
    from torch.nn import functional as F  # noqa: N812 - the customary name

from expertload.losses.build import call_builder, import_callable

SIDE = 7  # side of the map that the hidden layer of the tiny network sees, for images of any size


def _classifier(body: nn.Module, width: int, num_classes: int) -> nn.Sequential:
    """Return a network with a linear last layer on the features (n, width) that a body gives.

    Convolutions are drawn as He et al. do, by the number of outputs.
    """
    network = nn.Sequential(OrderedDict(body=body, head=nn.Linear(width, num_classes)))
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


def conv3x3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    """Return a 3 x 3 convolution that keeps the size, or divides it by the stride."""
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)


def _normalised(inputs: int, outputs: int, stride: int = 1) -> list[nn.Module]:
    """Return a convolution with batch norm and rectifier."""
    return [conv3x3(inputs, outputs, stride), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]


def _projection(inputs: int, outputs: int, stride: int) -> nn.Module:
    """Return the shortcut of He et al.'s option B: the identity if shapes agree, else 1 x 1."""
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


class PaddedShortcut(nn.Module):
    """The shortcut of He et al.'s option A: every other pixel, and zeros for new channels."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.new = outputs - inputs

    def forward(self, x: Tensor) -> Tensor:
        """Return every other pixel of x, with zeros for the new channels."""
        thinned = x[:, :, :: self.stride, :: self.stride]
        return F.pad(thinned, (0, 0, 0, 0, self.new // 2, self.new - self.new // 2))


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions with a shortcut."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int, *, padded: bool = False) -> None:
        super().__init__()
        self.conv1, self.norm1 = conv3x3(inputs, width, stride), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = conv3x3(width, width), nn.BatchNorm2d(width)
        # The identity has no weights either, so blocks that keep the shape are the same.
        shortcut = PaddedShortcut if padded and inputs != width else _projection
        self.shortcut = shortcut(inputs, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return relu(shortcut(x) + convolutions(x))."""
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x), inplace=True)


class Bottleneck(nn.Module):
    """A 3 x 3 convolution between two of 1 x 1, four times as wide outside as inside."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * self.expansion
        self.conv1, self.norm1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = conv3x3(width, width, stride), nn.BatchNorm2d(width)
        self.conv3, self.norm3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.shortcut = _projection(inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return relu(shortcut(x) + convolutions(x))."""
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        y = F.relu(self.norm2(self.conv2(y)), inplace=True)
        return F.relu(self.norm3(self.conv3(y)) + self.shortcut(x), inplace=True)


class GlobalPool(nn.Module):
    """The mean over all positions."""

    def forward(self, x: Tensor) -> Tensor:
        """Return (n, channels) of (n, channels, height, width)."""
        return x.mean(dim=(2, 3))


# ------------------------------------------------------------------ small


def small_cnn(num_classes: int, *, in_channels: int = 3, width: int = 32) -> nn.Sequential:
    """Build four convolutions with batch norm, for images of 8 pixels a side or more.

    Parameters
    ----------
    num_classes : int
    in_channels : int, default=3
    width : int, default=32
        Channels of the first half; the second half has twice as many.

    Examples
    --------
    >>> from expertload.lab.models import small_cnn
    >>> sum(p.numel() for p in small_cnn(10, in_channels=1).parameters())
    65834
    """
    layers: list[nn.Module] = []
    channels = in_channels
    for outputs, stride in ((width, 1), (width, 1), (2 * width, 2), (2 * width, 1)):
        layers += _normalised(channels, outputs, stride)
        channels = outputs
    return _classifier(nn.Sequential(*layers, GlobalPool()), channels, num_classes)


def tiny_cnn(
    num_classes: int, *, in_channels: int = 3, width: int = 16, hidden: int = 128
) -> nn.Sequential:
    """Build two convolutions of stride 2 with batch norm, and a hidden layer.

    Parameters
    ----------
    num_classes : int
    in_channels : int, default=3
    width : int, default=16
        Channels of the first convolution; the second has twice as many.
    hidden : int, default=128
        Units of the hidden layer, which are the features.

    Examples
    --------
    >>> from expertload.lab.models import tiny_cnn
    >>> sum(p.numel() for p in tiny_cnn(7).parameters())
    206871
    """
    body = nn.Sequential(
        *_normalised(in_channels, width, 2),
        *_normalised(width, 2 * width, 2),
        nn.AdaptiveAvgPool2d(SIDE),
        nn.Flatten(),
        nn.Linear(2 * width * SIDE * SIDE, hidden),
        nn.ReLU(inplace=True),
    )
    return _classifier(body, hidden, num_classes)


# ------------------------------------------------------------------ residual


def _stem(kind: str, in_channels: int) -> list[nn.Module]:
    check_option(kind, ("small", "medium", "large"), "stem")
    if kind == "large":
        first = nn.Conv2d(in_channels, 64, 7, stride=2, padding=3, bias=False)
        return [first, nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
    return _normalised(in_channels, 64, 2 if kind == "medium" else 1)


def _resnet(
    block: type[BasicBlock] | type[Bottleneck],
    depths: Sequence[int],
    *,
    num_classes: int,
    in_channels: int = 3,
    stem: str = "small",
) -> nn.Sequential:
    """Build a residual network of He et al.'s ImageNet design.

    The `stem` takes the image at full size ("small", 28 or 32 pixels a side), at half ("medium", 64
    pixels), or, as for ImageNet, at a quarter ("large", 224 pixels).
    """
    stages = [(64 * 2**stage, depth) for stage, depth in enumerate(depths)]
    blocks = _stages(block, 64, stages, block.expansion)
    body = nn.Sequential(*_stem(stem, in_channels), *blocks, GlobalPool())
    return _classifier(body, stages[-1][0] * block.expansion, num_classes)


def _stages(
    block: Callable[[int, int, int], nn.Module],
    channels: int,
    stages: Iterable[tuple[int, int]],
    expansion: int = 1,
) -> Iterator[nn.Module]:
    """Build the blocks of stages, each (width, depth); all but the first halve the image."""
    for stage, (width, depth) in enumerate(stages):
        for position in range(depth):
            yield block(channels, width, 2 if stage and not position else 1)
            channels = width * expansion


def _thin_resnet(blocks: int, *, num_classes: int, in_channels: int = 3) -> nn.Sequential:
    """Build He et al.'s CIFAR design: three stages of 16, 32 and 64 channels.

    Shortcuts have no parameters. ResNet-20 has three blocks per stage and trains on a CPU; ResNet-8
    has one and trains about three times as fast.
    """
    block = partial(BasicBlock, padded=True)
    body = _stages(block, 16, [(16, blocks), (32, blocks), (64, blocks)])
    stem = _normalised(in_channels, 16)
    return _classifier(nn.Sequential(*stem, *body, GlobalPool()), 64, num_classes)


class _ScaledMaxPool(nn.Module):
    """An eighth of the largest value over all positions.

    Without the factor, which is Page's, logits begin large and a rate of 0.2 is not stable.
    """

    def forward(self, x: Tensor) -> Tensor:
        return x.amax(dim=(2, 3)) / 8


def resnet9(num_classes: int, *, in_channels: int = 3, width: int = 24) -> nn.Sequential:
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
    return _classifier(body, 8 * width, num_classes)


# ------------------------------------------------------------------ wide


class _WideBlock(nn.Module):
    """Normalise, rectify, convolve, twice; the shortcut starts after the first rectifier."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(inputs), conv3x3(inputs, outputs, stride)
        self.norm2, self.conv2 = nn.BatchNorm2d(outputs), conv3x3(outputs, outputs)
        self.projection = (
            nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else None
        )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(x), inplace=True)
        shortcut = x if self.projection is None else self.projection(y)
        y = self.conv2(F.relu(self.norm2(self.conv1(y)), inplace=True))
        result: Tensor = y + shortcut
        return result


def wide_resnet28_10(
    num_classes: int, *, in_channels: int = 3, depth: int = 28, widen: int = 10
) -> nn.Sequential:
    """Build the Wide-ResNet-28-10, or one of another depth and width.

    Parameters
    ----------
    num_classes : int
    in_channels : int, default=3
    depth : int, default=28
        Layers: six per block plus four, so 16, 22, 28, 40, ...
    widen : int, default=10
        How many times wider than an ordinary residual network.

    Examples
    --------
    >>> from expertload.lab.models import wide_resnet28_10
    >>> sum(p.numel() for p in wide_resnet28_10(10, depth=16, widen=4).parameters())
    2748890
    """
    blocks, rest = divmod(depth - 4, 6)
    if rest or blocks < 1:
        raise ParameterError(
            f"'depth' must be six per block plus four (16, 22, 28, ...). Got {depth} instead."
        )
    width = 64 * widen
    body = nn.Sequential(
        conv3x3(in_channels, 16),
        *_stages(_WideBlock, 16, [(width // 4, blocks), (width // 2, blocks), (width, blocks)]),
        *(nn.BatchNorm2d(width), nn.ReLU(inplace=True), GlobalPool()),
    )
    return _classifier(body, width, num_classes)


# ------------------------------------------------------------------ by name

MODELS: dict[str, Callable[..., nn.Module]] = {
    "tiny-cnn": tiny_cnn,
    "small-cnn": small_cnn,
    "resnet8": partial(_thin_resnet, 1),
    "resnet9": resnet9,
    "resnet14": partial(_thin_resnet, 2),
    "resnet20": partial(_thin_resnet, 3),
    "resnet18": partial(_resnet, BasicBlock, (2, 2, 2, 2)),
    "resnet34": partial(_resnet, BasicBlock, (3, 4, 6, 3)),
    "resnet50": partial(_resnet, Bottleneck, (3, 4, 6, 3)),
    "wide-resnet-28-10": wide_resnet28_10,
}


def build_model(name: str, *, num_classes: int, in_channels: int = 3, **options: Any) -> nn.Module:
    """Build a network.

    Parameters
    ----------
    name : str
        One of `MODELS`, or ``"module:callable"`` for a network of your own or of another
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
    elif name in MODELS:
        sizes = {"num_classes": num_classes, "in_channels": in_channels}
        builder = MODELS[name]
    else:
        raise ParameterError(
            f"build_model found no model {name!r}. Hint: use one of {', '.join(MODELS)}, or "
            "'module:callable'."
        )
    return call_builder(builder, {**sizes, **options}, name=name, what="model")


def last_linear(model: nn.Module, what: str) -> nn.Linear:
    """Return the last linear layer of a network, which `what` needs."""
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise ParameterError(f"{what} needs a network with a linear layer. Got none.")
    return linear[-1]


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
    seen: list[Tensor] = []
    last = last_linear(model, "features_of")
    handle = last.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        model(images)
    finally:
        handle.remove()
    return seen[-1]
