"""The width of the kernel: Scott's rule, Silverman's, or a number.

Both rules are the standard deviation of the confidences times a power of their number n,

    scott        std * n^(-1/5)
    silverman    std * (3 n / 4)^(-1/5)

as in ``scipy.stats.gaussian_kde`` for one dimension. A batch whose confidences do not differ
beyond rounding has no width; it is `tied` and the loss decides what that means.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from expertload.losses.kde.area import Samples
from expertload.losses.kde.array_namespace import Array, namespace, on_host

__all__ = [
    "LARGEST_LOG_ODDS",
    "NARROWEST",
    "NARROWEST_IN_LOG_ODDS",
    "RULES",
    "Width",
    "kernel_width",
    "largest_span",
]

RULES = {"scott": 1.0, "silverman": 0.75}

# A smaller width would not smooth anything, and the grid would become larger than the batch.
NARROWEST = 1e-4
NARROWEST_IN_LOG_ODDS = 1e-2
# Log odds beyond this are cut off: exp(-88) is the smallest number of single precision. It bounds
# the grid, and a class that has no rival, whose log odds are infinite, counts like a certain one.
LARGEST_LOG_ODDS = 88.0


class Width(NamedTuple):
    """The width h, and whether the batch is tied: numbers on the CPU, tensors elsewhere."""

    value: float | Array
    tied: bool | Array


def kernel_width(samples: Samples, bandwidth: str | float, resolution: float) -> Width:
    """Return the width of the kernel for these samples.

    `resolution` is the spacing of floating point numbers near one in the precision the confidences
    were computed in: a smaller standard deviation than a few of those is rounding error.
    """
    spread = _standard_deviation(samples)
    # Negated, so that NaN counts as tied and passes on through the mean.
    tied = ~(spread > 4 * resolution)
    if not isinstance(bandwidth, str):
        return Width(float(bandwidth), bool(tied) if on_host(spread) else tied)
    value = spread * (RULES[bandwidth] * samples.total) ** -0.2
    if on_host(spread):
        return Width(float(value), bool(tied))
    return Width(namespace(value).where(tied, 1.0, value), tied)


def _standard_deviation(samples: Samples) -> Array:
    confidence, _, weight, total = samples
    if weight is None:
        deviation = confidence - confidence.sum() / total
        return (deviation @ deviation / max(total - 1, 1)) ** 0.5
    deviation = confidence - (confidence @ weight) / total
    return (weight @ (deviation * deviation) / (total - 1 + (total == 1))) ** 0.5


def largest_span(n: int, bandwidth: str | float, *, in_log_odds: bool = False) -> float:
    """Return an upper bound of (range of confidences) / width, without reading them.

    Of n numbers with a given range, those with two at the ends and the rest in the middle have
    the smallest standard deviation, range / sqrt(2 (n - 1)). No range of probabilities exceeds
    one; that of log odds is taken as the largest there can be.
    """
    if not isinstance(bandwidth, str):
        return (2 * LARGEST_LOG_ODDS if in_log_odds else 1) / bandwidth
    return math.sqrt(2 * n) * math.pow(RULES[bandwidth] * n, 0.2)
