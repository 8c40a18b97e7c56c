"""The kernel sums of the smoothed area: two kinds, in two directions.

With sources q_j, thresholds x_i and a Gaussian kernel of width h, everything in the paper's
formulas is a matrix product of a vector with one of

    above_ij = Phi((q_j - x_i) / h)              the smoothed share of source j above threshold i
    near_ij  = exp(-((q_j - x_i) / h)^2 / 2)     how near the two are

or with their transposes. A `KernelSums` is built once per batch and applied once in each direction.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from expertload.losses.kde.array_namespace import Array

__all__ = ["KernelSums", "Points", "Sums"]


class Points(NamedTuple):
    """The positions of the kernels, the thresholds, and the width.

    The thresholds are those given and the two `ends`, in this order. `sources` is `thresholds`
    itself if they are the same points. `width` is a plain number on the CPU and a tensor on an
    accelerator, so that there is no wait for it.
    """

    sources: Array
    thresholds: Array
    ends: Array
    width: float | Array


class Sums(NamedTuple):
    """`above` of the first row of values, `near` of both."""

    above: Array
    near: Array


class KernelSums(Protocol):
    """Sums of two rows of values over kernels."""

    @property
    def in_order(self) -> bool:
        """Whether thresholds (without the ends) are taken in ascending order."""

    def to_thresholds(self, values: Array) -> Sums:
        """Sum `values` (2, sources) at every threshold: ``above @ v`` and ``near @ v``."""

    def to_sources(self, values: Array) -> Sums:
        """Sum `values` (2, thresholds) at every source: ``above.T @ v`` and ``near.T @ v``."""
