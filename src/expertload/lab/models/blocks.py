"""Building blocks of residual networks."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

__all__ = ["BasicBlock", "Bottleneck", "GlobalPool", "PaddedShortcut", "conv3x3", "initialise"]


def conv3x3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    """Return a 3 x 3 convolution that keeps the size, or divides it by the stride."""
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)


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
        shortcut = PaddedShortcut if padded else _projection
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


def initialise(network: nn.Module) -> None:
    """Draw convolutions as He et al. do, by the number of outputs; batch norms scale by one."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
