"""The common form of all networks: a feature extractor with a linear layer on top."""

from __future__ import annotations

from torch import Tensor, nn

__all__ = ["Classifier"]


class Classifier(nn.Module):
    """A network with a linear last layer, which gives access to the features before it.

    Parameters
    ----------
    body : Module
        Maps images (n, channels, height, width) to features (n, width).
    width : int
        The number of features.
    num_classes : int
    """

    def __init__(self, body: nn.Module, width: int, num_classes: int) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Linear(width, num_classes)

    def features(self, images: Tensor) -> Tensor:
        """Return the input of the last layer, (n, width); KCal calibrates on it."""
        features: Tensor = self.body(images)
        return features

    def forward(self, images: Tensor) -> Tensor:
        """Return logits, (n, num_classes)."""
        logits: Tensor = self.head(self.features(images))
        return logits
