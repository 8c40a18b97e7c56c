"""Warns if the paper's kernel loses much of the confident half of a batch.

A kernel in probabilities is not folded back at 1. Of a case whose confidence is near 1, up to half
of the kernel lies beyond 1 and counts for nothing, so the area of a perfect batch falls below one.
That area is the sum of dA/dv over the batch: the visible share of the curve. While it is low, the
gradient pushes down the confidence of cases that are right (docs/reproduction.md, "Why").
"""

from __future__ import annotations

import warnings

from expertload.losses.kde.area import Area
from expertload.losses.kde.array_namespace import on_host
from expertload.losses.options import AreaOptions

__all__ = ["SaturationWatch"]

# The share of the curve below which a batch counts as saturated.
LEAST_SEEN = 0.75
# Batches in a row: a single batch may be an exception, but saturated training stays saturated.
PATIENCE = 100
ADVICE = (
    "AUCOCLoss loses a large part of its curve: confidences are so close to 1 that much of the "
    "paper's kernel lies beyond 1, and training with it lowers the confidence of right answers. "
    "Hint: pass smoothing='log_odds', which has no such limit."
)


class SaturationWatch:
    """Warns once, after `PATIENCE` saturated batches in a row."""

    def __init__(self, options: AreaOptions) -> None:
        plain = options.boundary == "none" and options.smoothing == "probability"
        # Gathered batches are skipped, because a process has only the gradient of its own samples.
        self.watches = plain and options.estimator == "kde" and not options.sync_distributed
        self.in_a_row = 0

    def see(self, area: Area) -> None:
        """Check the area of one batch."""
        if not self.watches or not on_host(area.by_value):  # a device would have to wait
            return
        self.in_a_row = self.in_a_row + 1 if area.by_value.sum() < LEAST_SEEN else 0
        if self.in_a_row == PATIENCE:
            self.watches = False
            warnings.warn(ADVICE, stacklevel=2)
