"""A fixed grid of confidences, so that a metric's memory does not grow with the data.

Cases are counted per cell. The cells are narrow where it matters most, near confidence 1, where
modern classifiers put most cases and where cases weigh most in the area: the logarithm of
``1 - confidence + SOFTENING`` is cut into equal parts. Cell edges are thresholds: what is known at
an edge is known exactly, and only what happens inside a cell is lost.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["cell_of", "lower_edges"]

SOFTENING = 1e-4


def lower_edges(n_cells: int) -> Tensor:
    """Lower edges of the cells, the first 0; a case belongs to the last edge it reaches.

    They are rounded to single precision, so that comparing a confidence with an edge comes out
    the same in any precision.
    """
    steps = torch.arange(n_cells, dtype=torch.float64) / n_cells
    shrinking = (1 + SOFTENING) * (SOFTENING / (1 + SOFTENING)) ** steps
    return (1 + SOFTENING - shrinking).clamp_min(0).to(torch.float32)


def cell_of(confidence: Tensor, edges: Tensor) -> Tensor:
    """Number of the cell that each confidence is in."""
    return torch.bucketize(confidence, edges.to(confidence), right=True) - 1
