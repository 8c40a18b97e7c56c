"""A small convolutional network that learns the digits in seconds on any machine."""

from __future__ import annotations

from torch import nn

from expertload.lab.models.blocks import GlobalPool, conv3x3, initialise
from expertload.lab.models.classifier import Classifier

__all__ = ["small_cnn"]


def small_cnn(num_classes: int, *, in_channels: int = 3, width: int = 32) -> Classifier:
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
        layers += [
            conv3x3(channels, outputs, stride),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        ]
        channels = outputs
    network = Classifier(nn.Sequential(*layers, GlobalPool()), channels, num_classes)
    initialise(network)
    return network
