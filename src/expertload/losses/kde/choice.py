"""Chooses how to compute kernel sums: pair by pair, through a few nodes, or on a fine grid.

``exact`` is pair by pair. ``fast`` goes through nodes while their matrix is small, and through the
grid beyond. ``auto`` does the same, except if a narrow kernel would need a grid that costs more
than all pairs of a small batch.
"""

from __future__ import annotations

import math

from expertload.losses.kde.area import REACH
from expertload.losses.kde.array_namespace import on_host
from expertload.losses.kde.bandwidth import largest_span
from expertload.losses.kde.dense import DenseSums
from expertload.losses.kde.grid import GridSums, grid_size
from expertload.losses.kde.kernel_sums import KernelSums, Points
from expertload.losses.kde.lowrank import LowRankSums, nodes_for

__all__ = ["METHODS", "choose_sums"]

METHODS = ("auto", "exact", "fast")

# The sizes, measured on two cores, at which one way becomes faster than the other.
LARGEST_NODE_MATRIX = 2**17
MOST_NODES = 512
PAIRS_PER_GRID_NODE = 4


def choose_sums(
    points: Points, bandwidth: str | float, method: str, *, in_log_odds: bool = False
) -> KernelSums:
    """Return the kernel sums for `method`."""
    span = _span(points, bandwidth, in_log_odds=in_log_odds)
    # Pair by pair, NaN confidences are passed on; no number of nodes would fit them.
    if method == "exact" or not math.isfinite(span):
        return DenseSums(points)
    nodes = nodes_for(span)
    if nodes <= MOST_NODES and nodes * len(points.sources) <= LARGEST_NODE_MATRIX:
        return LowRankSums(points, span)
    pairs = len(points.sources) * len(points.thresholds)
    if method == "auto" and pairs < PAIRS_PER_GRID_NODE * grid_size(span):
        return DenseSums(points)
    return GridSums(points, span)


def _span(points: Points, bandwidth: str | float, *, in_log_odds: bool) -> float:
    """Return the range of all points in widths: exact on the CPU, a bound on other devices."""
    images = 0.0 if points.sources is points.thresholds else 2 * REACH
    if on_host(points.ends):
        low, high = points.ends.tolist()
        return float((high - low) / points.width) + images
    bound = largest_span(len(points.thresholds), bandwidth, in_log_odds=in_log_odds)
    return bound + 2 * REACH + images
