"""The smoothed area under the COC curve, and its gradient as the paper defines it.

For confidences r_n with graded correctness v_n, kernel width h and thresholds x_k = r_k in
ascending order (the paper's r_0,k), the paper's appendix has

    tau_k = mean_n [Phi((x_k - r_n) / h) - Phi((0 - r_n) / h)]             expert load
    J_k   = mean_n v_n [Phi((1 - r_n) / h) - Phi((x_k - r_n) / h)]         correct and accepted
    A     = sum_k w_k J_k / (1 - tau_k)                                    area

with the weights of the trapezoidal rule, w_k = (tau_{k+1} - tau_{k-1}) / 2, the load before the
first threshold being 0 and that after the last one its own. Write a_k = w_k / (1 - tau_k) and
E_k = (sum_n v_n G_kn) / (sum_n G_kn), G the Gaussian without its factor. As a load is a point on
the x-axis, tau_k does not move when r_n does: the threshold x_k moves along instead, by
-(d tau_k / d r_n) / p(x_k). With h constant too, and c = 1 / (n h sqrt(2 pi)),

    dA/dv_n = 1/n sum_k a_k [Phi((r_n - x_k) / h) - Phi((r_n - 1) / h)]
    dA/dr_n = c sum_k a_k { v_n [G(x_k - r_n) - G(1 - r_n)] - E_k [G(x_k - r_n) - G(0 - r_n)] }

Three observations make this short and cheap. The ends 0 and 1 appear as thresholds do, so they are
two more of them, with a = -sum_k a_k at 1 and a E = -sum_k a_k E_k at 0. A is linear in v, so
A = sum_n v_n dA/dv_n and J is never needed. And each sum over k or n is a kernel sum, of which two
rounds suffice: loads and E at the thresholds, then everything else at the samples.

Any increasing function of confidence has the same curve, so confidences may also be smoothed in
log odds. These have no ends: the same formulas hold with 0 and 1 replaced by the two infinities.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from expertload.losses.kde.array_namespace import (
    Array,
    at_least,
    at_most,
    in_rows,
    namespace,
    new_zeros,
)
from expertload.losses.kde.kernel_sums import KernelSums, Points

__all__ = ["PROBABILITIES", "REACH", "REAL_LINE", "Area", "Samples", "smoothed_area", "tied_area"]

# Where confidences can lie: between two ends, or anywhere.
PROBABILITIES = (0.0, 1.0)
REAL_LINE = (-math.inf, math.inf)

# Widths beyond which a kernel is nothing, or all: Phi(-7) is 1e-12.
REACH = 7.0


class Samples(NamedTuple):
    """One batch: confidence, graded correctness, and weight (1, or 0 where a sample is ignored).

    Ignored samples have value 0 and repeat the largest confidence of the others. A weight may also
    be the number of samples of that confidence, with `value` their sum. `total` is that of weights.
    """

    confidence: Array
    value: Array
    weight: Array | None
    total: float | Array


class Area(NamedTuple):
    """The area, and its gradient by the value and by the confidence of each sample."""

    area: Array
    by_value: Array
    by_confidence: Array


def smoothed_area(
    samples: Samples,
    width: float | Array,
    make_sums: Callable[[Points], KernelSums],
    *,
    reflect: bool = False,
    domain: tuple[float, float] = PROBABILITIES,
) -> Area:
    """Area under the smoothed COC curve; `reflect` folds back what leaks beyond 0 and 1.

    With reflection each sample has two images, at -r and 2 - r, which are sources like any other
    and pass their gradient on to r with the opposite sign. The mass above the highest threshold
    may then be nothing; 1 - tau is kept at the 1/(2n) below which it never falls otherwise, as
    half of the sample's own kernel lies above it.
    """
    r, value, weight, total = samples
    reach = REACH * width
    # Ends that no sample feels move to where they are just not felt: the points then span less.
    low, high = at_least(r.min() - reach, domain[0]), at_most(r.max() + reach, domain[1])
    ends = in_rows(low, high)
    if not reflect:
        return _area(samples, make_sums(Points(r, r, ends, width)), width)
    images = (r, at_least(-r, low - reach), at_most(2 - r, high + reach))
    sources = namespace(r).concatenate(images)
    tripled = Samples(
        sources,
        _repeat_three_times(value),
        None if weight is None else _repeat_three_times(weight),
        total,
    )
    area = _area(tripled, make_sums(Points(sources, r, ends, width)), width)
    original, below, beyond = area.by_confidence.reshape(3, -1)
    return Area(area.area, area.by_value.reshape(3, -1).sum(0), original - below - beyond)


def tied_area(samples: Samples) -> Area:
    """Area where no confidence differs from another: the curve is flat, at the mean value."""
    xp = namespace(samples.value)
    weight = xp.ones_like(samples.value) if samples.weight is None else samples.weight
    by_value = weight / samples.total
    return Area(samples.value @ by_value, by_value, xp.zeros_like(by_value))


def _area(sources: Samples, sums: KernelSums, width: float | Array) -> Area:
    _, value, weight, total = sources
    xp = namespace(value)
    ones = xp.ones_like(value) if weight is None else weight
    above, (mass, value_mass) = sums.to_thresholds(in_rows(ones, value))

    accepted = above[:-2] - above[-2]  # the last two thresholds are the ends
    accepted /= total
    accepted += 1  # 1 - tau
    spread = new_zeros(above, 2, len(above))  # a and a E
    a, expected = spread[0, :-2], spread[1, :-2]
    a += trapezoid_weights(accepted, sums.in_order)
    a /= at_least(accepted, 0.5 / total)
    expected += value_mass[:-2]
    expected /= mass[:-2]
    expected *= a
    spread[0, -1], spread[1, -2] = -a.sum(), -expected.sum()

    above, (near, expected_near) = sums.to_sources(spread)
    above /= total
    near *= value
    near -= expected_near if weight is None else expected_near * weight
    near /= total * width * math.sqrt(2 * math.pi)
    if weight is not None:
        above, near = xp.where(weight > 0, above, 0.0), xp.where(weight > 0, near, 0.0)
    return Area(value @ above, above, near)


def _repeat_three_times(array: Array) -> Array:
    return namespace(array).concatenate((array, array, array))


def trapezoid_weights(accepted: Array, in_order: bool) -> Array:
    """Weights of the trapezoidal rule over tau = 1 - accepted, which falls as thresholds rise."""
    if in_order:
        return _half_gaps(accepted)
    xp = namespace(accepted)
    order = xp.argsort(-accepted)
    weights = xp.empty_like(accepted)
    weights[order] = _half_gaps(accepted[order])
    return weights


def _half_gaps(falling: Array) -> Array:
    padded = namespace(falling).concatenate((1 + 0 * falling[:1], falling, falling[-1:]))
    gaps = padded[:-2] - padded[2:]
    gaps *= 0.5
    return gaps
