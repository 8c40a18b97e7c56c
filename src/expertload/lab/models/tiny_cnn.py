"""A network that two cores train in seconds: for experiments that need many seeds."""

from __future__ import annotations

from torch import nn

from expertload.lab.models.blocks import conv3x3, initialise
from expertload.lab.models.classifier import Classifier

__all__ = ["tiny_cnn"]

SIDE = 7  # side of the map that the hidden layer sees, for images of any size


def tiny_cnn(
    num_classes: int, *, in_channels: int = 3, width: int = 16, hidden: int = 128
) -> Classifier:
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
        conv3x3(in_channels, width, 2),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        conv3x3(width, 2 * width, 2),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(SIDE),
        nn.Flatten(),
        nn.Linear(2 * width * SIDE * SIDE, hidden),
        nn.ReLU(inplace=True),
    )
    network = Classifier(body, hidden, num_classes)
    initialise(network)
    return network
