"""Exact kernel sums: every pair of points, a block of rows at a time so that memory stays bounded.

This follows the formulas directly, and is the reference for the fast methods. It takes O(n^2) time
and at most a few blocks of memory, so it finishes at any size, slowly.
"""

from __future__ import annotations

from expertload.losses.kde.array_namespace import Array, erfc, namespace
from expertload.losses.kde.kernel_sums import Points, Sums

__all__ = ["DenseSums"]

# Pairs in one block: 2 MB of doubles, which stays in the cache of one core.
PAIRS_PER_BLOCK = 2**18
ROOT_HALF = 0.5**0.5


class DenseSums:
    """Kernel sums over all pairs of sources and thresholds."""

    in_order = False

    def __init__(self, points: Points) -> None:
        xp = namespace(points.ends)
        self.sources = points.sources / points.width
        self.thresholds = xp.concatenate((points.thresholds, points.ends)) / points.width

    def to_thresholds(self, values: Array) -> Sums:
        """Sum over sources."""
        return _pair_sums(self.sources, self.thresholds, values, sign=1)

    def to_sources(self, values: Array) -> Sums:
        """Sum over thresholds; a source is above a threshold when that is below the source."""
        return _pair_sums(self.thresholds, self.sources, values, sign=-1)


def _pair_sums(here: Array, there: Array, values: Array, *, sign: int) -> Sums:
    rows = max(1, PAIRS_PER_BLOCK // len(here))
    starts = range(0, len(there), rows)
    blocks = [_block(here, there[start : start + rows], values, sign) for start in starts]
    above, near = zip(*blocks, strict=True)
    xp = namespace(values)
    return Sums(xp.concatenate(above), xp.concatenate(near, 1))


def _block(here: Array, there: Array, values: Array, sign: int) -> tuple[Array, Array]:
    distance = here - there[:, None]
    near = distance * distance
    near *= -0.5
    near = values @ namespace(near).exp(near).T
    distance *= -sign * ROOT_HALF
    return (erfc(distance) @ values[0]) * 0.5, near
