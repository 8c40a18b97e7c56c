"""Wide residual networks: fewer layers, more channels.

References
----------
Zagoruyko and Komodakis, "Wide residual networks", BMVC 2016.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from expertload.exceptions import ParameterError
from expertload.lab.models.blocks import GlobalPool, conv3x3, initialise
from expertload.lab.models.classifier import Classifier

__all__ = ["wide_resnet28_10"]


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
) -> Classifier:
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
    layers: list[nn.Module] = [conv3x3(in_channels, 16)]
    channels = 16
    for stage, width in enumerate((16 * widen, 32 * widen, 64 * widen)):
        for position in range(blocks):
            layers.append(_WideBlock(channels, width, 2 if stage and not position else 1))
            channels = width
    layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True), GlobalPool()]
    network = Classifier(nn.Sequential(*layers), channels, num_classes)
    initialise(network)
    return network
