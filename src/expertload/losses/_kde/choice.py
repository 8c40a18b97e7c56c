"""Which way to take kernel sums: pair by pair, through a few nodes, or through a fine grid.

``exact`` is pair by pair. ``fast`` goes through nodes while their matrix is small and through the
grid beyond. ``auto`` takes pairs for the smallest batches, where nothing is faster.
"""

from __future__ import annotations

import math

from expertload.losses._kde.area import REACH
from expertload.losses._kde.bandwidth import largest_span
from expertload.losses._kde.dense import DenseSums
from expertload.losses._kde.grid import GridSums
from expertload.losses._kde.host import on_host
from expertload.losses._kde.kernel_sums import KernelSums, Points
from expertload.losses._kde.lowrank import LowRankSums, nodes_for

__all__ = ["METHODS", "choose_sums"]

METHODS = ("auto", "exact", "fast")

# Measured on two cores: the sizes at which one way overtakes the other.
FEWEST_FOR_FAST = 24
LARGEST_NODE_MATRIX = 2**18
MOST_NODES = 512


def choose_sums(points: Points, bandwidth: str | float, method: str) -> KernelSums:
    """Return the kernel sums for `method`."""
    n = len(points.thresholds)
    if method == "exact" or (method == "auto" and n < FEWEST_FOR_FAST):
        return DenseSums(points)
    span = _span(points, bandwidth)
    if not math.isfinite(span):  # NaN confidences, which pairs pass on without a grid to fit them
        return DenseSums(points)
    nodes = nodes_for(span)
    if nodes <= MOST_NODES and nodes * n <= LARGEST_NODE_MATRIX:
        return LowRankSums(points, span)
    return GridSums(points, span)


def _span(points: Points, bandwidth: str | float) -> float:
    """Range of all points in widths: looked up on the CPU, bounded where looking means waiting."""
    images = 0.0 if points.sources is points.thresholds else 2 * REACH
    if on_host(points.ends):
        low, high = points.ends.tolist()
        return float((high - low) / points.width) + images
    return largest_span(len(points.thresholds), bandwidth) + 2 * REACH + images
