"""A word of warning where the paper's kernel no longer sees the confident half of a batch.

A kernel in probabilities is not folded back at 1. Of a case whose confidence is near 1, up to half
of the kernel lies beyond 1 and counts for nothing, so the area of a perfect batch falls below one.
That area is the sum of dA/dv over the batch: how much of the curve is seen. Where it stays low,
the gradient pushes down the confidence of cases that are right (docs/reproduction.md, "Why").
"""

from __future__ import annotations

import warnings

from expertload.losses.kde.area import Area
from expertload.losses.kde.array_namespace import on_host
from expertload.losses.options import AreaOptions

__all__ = ["SaturationWatch"]

# The share of the curve below which a batch counts as saturated.
LEAST_SEEN = 0.75
# In a row: a single batch may be odd, a training that has got there stays there.
PATIENCE = 100
ADVICE = (
    "AUCOCLoss no longer sees much of its curve: confidences are so close to 1 that the paper's "
    "kernel loses part of them, and training with it lowers the confidence of right answers. Hint: "
    "pass smoothing='log_odds', which has no such end."
)


class SaturationWatch:
    """Warns once, after `PATIENCE` saturated batches in a row."""

    def __init__(self, options: AreaOptions) -> None:
        plain = options.boundary == "none" and options.smoothing == "probability"
        # Gathered batches are left out: a process sees the gradient of its own samples only.
        self.watches = plain and options.estimator == "kde" and not options.sync_distributed
        self.in_a_row = 0

    def see(self, area: Area) -> None:
        """Look at the area of one batch."""
        if not self.watches or not on_host(area.by_value):  # looking would make a device wait
            return
        self.in_a_row = self.in_a_row + 1 if area.by_value.sum() < LEAST_SEEN else 0
        if self.in_a_row == PATIENCE:
            self.watches = False
            warnings.warn(ADVICE, stacklevel=2)
