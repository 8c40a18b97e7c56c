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
A = sum_n v_n dA/dv_n and J is never needed. And every sum over k or n is a kernel sum
(``kernel_sums``), of which two rounds suffice: loads and E at the thresholds, then everything else
at the samples.

Any increasing function of confidence has the same curve, so confidences may also be smoothed in
log odds. These have no ends: the same formulas hold with 0 and 1 replaced by the two infinities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from expertload._check import check_minimum, check_option, incompatible_options_error
from expertload.losses.kernel_sums import METHODS, KernelSums, Points, choose_sums

# The factor of the number of samples in Scott's rule and in Silverman's.
BANDWIDTH_RULES = {"scott": 1.0, "silverman": 0.75}
# A smaller width would not smooth anything, and the grid would become larger than the batch.
NARROWEST = 1e-4
NARROWEST_IN_LOG_ODDS = 1e-2
# Log odds beyond this are cut off: exp(-88) is the smallest number of single precision. It bounds
# the grid, and a class that has no rival, whose log odds are infinite, counts like a certain one.
LARGEST_LOG_ODDS = 88.0
# Widths beyond which a kernel is nothing, or all: Phi(-7) is 1e-12.
REACH = 7.0


class Area(NamedTuple):
    """The area, and its gradient by the value and by the confidence of each sample."""

    area: Tensor
    by_value: Tensor
    by_confidence: Tensor


@dataclass(frozen=True)
class Kernel:
    """How confidences are smoothed; the options are those of `AUCOCLoss`."""

    bandwidth: str | float = "scott"
    boundary: str = "none"
    method: str = "auto"
    smoothing: str = "probability"

    def __post_init__(self) -> None:
        check_option(self.boundary, ("none", "reflect"), "boundary")
        check_option(self.method, METHODS, "method")
        check_option(self.smoothing, ("probability", "log_odds"), "smoothing")
        if isinstance(self.bandwidth, str):
            check_option(self.bandwidth, (*BANDWIDTH_RULES, "a number"), "bandwidth")
        else:
            narrowest = NARROWEST_IN_LOG_ODDS if self.in_log_odds else NARROWEST
            check_minimum(self.bandwidth, narrowest, "bandwidth", "'scott' adapts to the batch")
        if self.in_log_odds and self.boundary == "reflect":
            raise incompatible_options_error(
                "smoothing='log_odds' and boundary='reflect'",
                "log odds have no ends to reflect at; pass smoothing='probability' too",
            )

    @property
    def in_log_odds(self) -> bool:
        """Whether confidences are smoothed in log odds."""
        return self.smoothing == "log_odds"

    def area(self, confidence: Tensor, value: Tensor, resolution: float) -> Area:
        """Return the area under the smoothed COC curve of a batch.

        `resolution` is the spacing of floating point numbers near one in the precision the
        confidences were computed in. Confidences that do not differ by more than a few of those are
        equal: their curve is flat, at the mean value.
        """
        width = self.width(confidence, resolution)
        if width is None:
            by_value = torch.full_like(value, 1 / max(len(value), 1))
            return Area(value @ by_value, by_value, torch.zeros_like(by_value))
        return self.smoothed_area(confidence, value, width)

    def width(self, confidence: Tensor, resolution: float) -> float | None:
        """Return the width of the kernel for a batch; None if all confidences are equal.

        Both rules are those of ``scipy.stats.gaussian_kde`` in one dimension: the standard
        deviation times n^(-1/5) (Scott), or (3 n / 4)^(-1/5) (Silverman).
        """
        n = max(len(confidence), 1)
        deviation = confidence - confidence.sum() / n
        spread = math.sqrt(deviation @ deviation / max(n - 1, 1))
        if not spread > 4 * resolution:  # NaN counts as equal, and is passed on by the mean
            return None
        if isinstance(self.bandwidth, str):
            return spread * math.pow(BANDWIDTH_RULES[self.bandwidth] * n, -0.2)
        return float(self.bandwidth)

    def smoothed_area(self, r: Tensor, value: Tensor, width: float) -> Area:
        """Apply the formulas above with a given width; reflection folds back what leaks out.

        With reflection each sample has two images, at -r and 2 - r, which are sources like any
        other and pass their gradient on to r with the opposite sign.
        """
        reach = REACH * width
        low, high = float(r.min()) - reach, float(r.max()) + reach
        if not self.in_log_odds:
            # Ends that no sample feels move to where they are just not felt: points then span less.
            low, high = max(low, 0.0), min(high, 1.0)
        ends = r.new_tensor((low, high))
        span = (high - low) / width
        if self.boundary == "none":
            sums = choose_sums(Points(r, r, ends, width, span), self.method)
            return _area(value, sums, len(r), width)
        sources = torch.cat((r, (-r).clamp(min=low - reach), (2 - r).clamp(max=high + reach)))
        points = Points(sources, r, ends, width, span + 2 * REACH)
        tripled = _area(value.repeat(3), choose_sums(points, self.method), len(r), width)
        original, below, beyond = tripled.by_confidence.view(3, -1)
        by_value = tripled.by_value.view(3, -1).sum(0)
        return Area(tripled.area, by_value, original - below - beyond)


def _area(value: Tensor, sums: KernelSums, n: int, width: float) -> Area:
    """Return the area and its gradient by every source, of which n are samples, the rest images."""
    above, (mass, value_mass) = sums.to_thresholds(torch.stack((torch.ones_like(value), value)))
    # The last two thresholds are the ends.
    accepted = (above[:-2] - above[-2]).div_(n).add_(1)  # 1 - tau
    # Half of a sample's own kernel lies above it, so without reflection 1 - tau is at least this.
    a = _trapezoid_weights(accepted, sums.in_order).div_(accepted.clamp(min=0.5 / n))
    expected = (value_mass[:-2] / mass[:-2]).mul_(a)
    none = a.new_zeros(1)
    spread = torch.stack(
        (
            torch.cat((a, none, -a.sum(0, keepdim=True))),
            torch.cat((expected, -expected.sum(0, keepdim=True), none)),
        )
    )
    above, (near, expected_near) = sums.to_sources(spread)
    by_value = above / n
    by_confidence = (near * value).sub_(expected_near).div_(n * width * math.sqrt(2 * math.pi))
    return Area(value @ by_value, by_value, by_confidence)


def _trapezoid_weights(accepted: Tensor, in_order: bool) -> Tensor:
    """Weights of the trapezoidal rule over tau = 1 - accepted, which falls as thresholds rise."""
    if in_order:
        return _half_gaps(accepted)
    falling, order = accepted.sort(descending=True)
    return torch.empty_like(accepted).scatter_(0, order, _half_gaps(falling))


def _half_gaps(falling: Tensor) -> Tensor:
    padded = torch.cat((falling.new_ones(1), falling, falling[-1:]))
    return (padded[:-2] - padded[2:]).mul_(0.5)
