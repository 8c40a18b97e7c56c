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
A = sum_n v_n dA/dv_n and J is never needed. And every sum over k or n is a kernel sum,
of which two rounds suffice: loads and E at the thresholds, then everything else
at the samples.

Any increasing function of confidence has the same curve, so confidences may also be smoothed in
log odds. These have no ends: the same formulas hold with 0 and 1 replaced by the two infinities.

A kernel sum is a matrix product of a vector with one of

    above_ij = Phi((q_j - x_i) / h)              the smoothed share of source j above threshold i
    near_ij  = exp(-((q_j - x_i) / h)^2 / 2)     how near the two are

or with their transposes. A `KernelSums` is built once per batch and applied once in each direction:
pair by pair (`DenseSums`), or in time proportional to the number of points, through a few nodes
(`LowRankSums`) or on a fine grid (`GridSums`). `choose_sums` selects one of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from scipy.fft import next_fast_len
from scipy.special import sici
from torch import Tensor

from expertload._check import check_minimum, check_option, incompatible_options_error

METHODS = ("auto", "exact", "fast")

# Pairs in one block: 2 MB of doubles, which stays in the cache of one core.
PAIRS_PER_BLOCK = 2**18

NODE_SPACING = 0.55  # in widths
# Nodes reach this far beyond the outermost points: erfc(3.5) is 7e-7, of the outermost source.
NODE_MARGIN = 3.5
NODE_NEAR_SCALE = NODE_SPACING * math.sqrt(2 / math.pi)
NODE_ABOVE_SCALE = NODE_SPACING**2 / math.pi

CELLS_PER_WIDTH = 256
# The Gaussian is 6e-13 at 7.5 widths; beyond, the grid holds nothing, so the FFT may wrap around.
GRID_PADDING = int(7.5 * CELLS_PER_WIDTH)
GRID_ABOVE_SCALE = 1 / (CELLS_PER_WIDTH * math.sqrt(2 * math.pi))

# The sizes, measured on two cores, at which one way becomes faster than the other.
LARGEST_NODE_MATRIX = 2**17
MOST_NODES = 512
PAIRS_PER_GRID_CELL = 4


class Points(NamedTuple):
    """The positions of the kernels, the thresholds, and the width.

    The thresholds are those given and the two `ends`, in this order. `sources` is `thresholds`
    itself if they are the same points. All points lie within `span` widths.
    """

    sources: Tensor
    thresholds: Tensor
    ends: Tensor
    width: float
    span: float


class Sums(NamedTuple):
    """The sums of two rows of values: `above` of the first row, `near` of both."""

    above: Tensor
    near: Tensor


def choose_sums(points: Points, method: str) -> KernelSums:
    """Return the kernel sums for a method.

    ``exact`` is pair by pair. ``fast`` goes through nodes while their matrix is small, and through
    the grid beyond. ``auto`` does the same, except if a narrow kernel would need a grid that costs
    more than all pairs of a small batch.
    """
    if method == "exact":
        return DenseSums(points)
    nodes = node_count(points.span)
    if nodes <= MOST_NODES and nodes * len(points.sources) <= LARGEST_NODE_MATRIX:
        return LowRankSums(points)
    pairs = len(points.sources) * len(points.thresholds)
    if method == "auto" and pairs < PAIRS_PER_GRID_CELL * grid_size(points.span):
        return DenseSums(points)
    return GridSums(points)


# ------------------------------------------------------------------ pair by pair


class DenseSums:
    """Exact kernel sums over all pairs, a block of rows at a time so that memory stays bounded.

    This follows the formulas directly, and is the reference for the fast methods. It takes O(n^2)
    time, so it finishes at any size, slowly.
    """

    in_order = False

    def __init__(self, points: Points) -> None:
        self.sources = points.sources / points.width
        self.thresholds = torch.cat((points.thresholds, points.ends)) / points.width

    def to_thresholds(self, values: Tensor) -> Sums:
        """Sum values (2, sources) at every threshold: ``above @ v`` and ``near @ v``."""
        return _pair_sums(self.sources, self.thresholds, values, sign=1)

    def to_sources(self, values: Tensor) -> Sums:
        """Sum values (2, thresholds) at every source: ``above.T @ v`` and ``near.T @ v``.

        A source is above a threshold when that is below the source.
        """
        return _pair_sums(self.thresholds, self.sources, values, sign=-1)


def _pair_sums(here: Tensor, there: Tensor, values: Tensor, *, sign: int) -> Sums:
    rows = max(1, PAIRS_PER_BLOCK // len(here))
    above, near = [], []
    for block in torch.split(there, rows):
        distance = here - block[:, None]
        near.append(values @ distance.square().mul_(-0.5).exp_().T)
        share = torch.special.erfc(distance.mul_(-sign * math.sqrt(0.5)))
        above.append((share @ values[0]) * 0.5)
    return Sums(torch.cat(above), torch.cat(near, 1))


# ------------------------------------------------------------------ through a few nodes


class LowRankSums:
    """Kernel sums through a few nodes: a Gaussian is a sum of products of narrower Gaussians.

    The convolution of two Gaussians of variance 1/2 is a Gaussian of variance 1. Written as a sum
    over equally spaced nodes g_m instead of an integral (h = 1, spacing d),

        exp(-(x - q)^2 / 2) = d sqrt(2 / pi) sum_m exp(-(x - g_m)^2) exp(-(g_m - q)^2)

    with a relative error of 2 exp(-pi^2 / (2 d^2)), which is 2e-7 at d = 0.55: the trapezoidal rule
    converges faster than any power for such functions. Between the two factors one can put the
    step function, limited to the frequencies of the nodes, H(t) = 1/2 + Si(pi t / d) / pi, so that

        Phi(q - x) = d^2 / pi sum_lm exp(-(x - g_l)^2) H(g_m - g_l) exp(-(g_m - q)^2)

    So one thin matrix of exponentials, nodes by points, and a small constant one serve all sums.
    The number of nodes is the range of the points in widths over d: some forty for a batch of 512.
    """

    in_order = False

    def __init__(self, points: Points) -> None:
        sources, thresholds, ends, width, span = points
        same = sources is thresholds
        start = (ends[0] if same else sources.min()) - NODE_MARGIN * width
        n_nodes = node_count(span)
        nodes = torch.arange(n_nodes, dtype=ends.dtype, device=ends.device) * NODE_SPACING
        self.thresholds = _bumps(torch.cat((thresholds, ends)), start, width, nodes)
        self.sources = self.thresholds[:, :-2] if same else _bumps(sources, start, width, nodes)
        self.step = _node_step(n_nodes, ends.dtype, ends.device)

    def to_thresholds(self, values: Tensor) -> Sums:
        """Sum over sources."""
        return _through_nodes(values @ self.sources.T, self.step, self.thresholds)

    def to_sources(self, values: Tensor) -> Sums:
        """Sum over thresholds, with the same nodes in the other direction."""
        return _through_nodes(values @ self.thresholds.T, self.step.T, self.sources)


def node_count(span: float) -> int:
    """Return the number of nodes for points within `span` widths, rounded up to repeat often."""
    return 4 * math.ceil((span + 2 * NODE_MARGIN) / NODE_SPACING / 4 + 0.25)


def _bumps(points: Tensor, start: Tensor, width: float, nodes: Tensor) -> Tensor:
    distance = (points - start).div_(width) - nodes[:, None]
    return distance.square_().neg_().exp_()


def _through_nodes(at_nodes: Tensor, step: Tensor, bumps: Tensor) -> Sums:
    above = step @ at_nodes[0]
    sums = torch.cat((above[None], at_nodes.mul_(NODE_NEAR_SCALE))) @ bumps
    return Sums(sums[0], sums[1:])


@lru_cache(maxsize=64)
def _node_step(n_nodes: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the band-limited step between nodes, threshold's node by source's node."""
    index = np.arange(n_nodes)
    sine_integral, _ = sici(np.pi * (index - index[:, None]))
    step = (0.5 + sine_integral / np.pi) * NODE_ABOVE_SCALE
    return torch.from_numpy(step).to(device, dtype)


# ------------------------------------------------------------------ on a fine grid


class _Cells(NamedTuple):
    """The grid cell of each point, and its position in the cell, in [0, 1)."""

    number: Tensor
    offset: Tensor


class GridSums:
    """Kernel sums through a fine uniform grid: deposit, convolve by FFT, interpolate back.

    Kernels are smooth on the scale of their width h, so a grid of `CELLS_PER_WIDTH` nodes a width
    stands for the points: each value is shared between its two neighbouring nodes, the nodes are
    convolved with the Gaussian, and results are read off by linear interpolation. Each of the two
    interpolations errs by at most 1 / (8 * CELLS_PER_WIDTH^2) = 2e-6 of the kernel's height.
    ``above`` is the running sum of ``near`` over nodes, as the trapezoidal rule integrates it.

    Time is O(n + m log m) for m nodes. Of n numbers with a given range, those with two at the ends
    and the rest in the middle have the smallest standard deviation, range / sqrt(2 (n - 1)). So
    with a bandwidth proportional to it, m grows at most like n^0.7, and outliers cannot make it run
    away.
    """

    in_order = True

    def __init__(self, points: Points) -> None:
        sources, thresholds, ends, width, span = points
        self.size = grid_size(span)
        # The upper end lies on a node, so that images beyond it are deposited symmetrically.
        node = self.size - 2 * GRID_PADDING - 2
        scale = CELLS_PER_WIDTH / width
        self.sources = _cells(sources, ends[1], scale, node)
        in_order = torch.cat((_sorted_values(thresholds), ends))
        self.thresholds = _cells(in_order, ends[1], scale, node)
        self.response = _gaussian_response(self.size, ends)

    def to_thresholds(self, values: Tensor) -> Sums:
        """Sum over sources, at the sorted thresholds."""
        near = self._convolve(_deposit(values, self.sources, self.size))
        below = _running_sum(near[0])
        return _read(torch.cat(((below[-1] - below)[None], near)), self.thresholds)

    def to_sources(self, values: Tensor) -> Sums:
        """Sum over the sorted thresholds: a source is above those that are below it."""
        near = self._convolve(_deposit(values, self.thresholds, self.size))
        return _read(torch.cat((_running_sum(near[0])[None], near)), self.sources)

    def _convolve(self, at_nodes: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(at_nodes).mul_(self.response)
        smooth: Tensor = torch.fft.irfft(spectrum, self.size)
        return smooth


def grid_size(span: float) -> int:
    """Return the number of nodes for points within `span` widths."""
    return int(next_fast_len(math.ceil(span * CELLS_PER_WIDTH) + 3 * GRID_PADDING + 2, real=True))


def _sorted_values(values: Tensor) -> Tensor:
    if values.device.type != "cpu":
        return values.sort().values
    return torch.from_numpy(np.sort(values.numpy()))  # several times faster than torch's


def _cells(points: Tensor, origin: Tensor, scale: float, node: int) -> _Cells:
    position = (points - origin).mul_(scale).add_(node)
    number = position.long()
    return _Cells(number, position.sub_(number))


def _gaussian_response(size: int, like: Tensor) -> Tensor:
    """Return the Fourier transform of the sampled Gaussian, in closed form."""
    frequency = torch.arange(size // 2 + 1, dtype=like.dtype, device=like.device)
    slope = -0.5 * (2 * math.pi * CELLS_PER_WIDTH / size) ** 2
    return frequency.square_().mul_(slope).exp_() / GRID_ABOVE_SCALE


def _running_sum(near: Tensor) -> Tensor:
    """Integrate from the left, by the trapezoidal rule."""
    return near.cumsum(0).sub_(near, alpha=0.5).mul_(GRID_ABOVE_SCALE)


def _deposit(values: Tensor, cells: _Cells, size: int) -> Tensor:
    """Share each value between the two nodes beside it, for every row of values."""
    nodes = values.new_zeros(len(values), size)
    for row, value in zip(nodes, values, strict=True):
        moved = torch.zeros_like(row).scatter_add_(0, cells.number, value * cells.offset)
        row.scatter_add_(0, cells.number, value).sub_(moved)
        row[1:] += moved[:-1]
    return nodes


def _read(nodes: Tensor, cells: _Cells) -> Sums:
    """Interpolate rows of nodes at the points; the first row is `above`."""
    rows = [
        row.diff().index_select(0, cells.number).mul_(cells.offset)
        + row.index_select(0, cells.number)
        for row in nodes
    ]
    return Sums(rows[0], torch.stack(rows[1:]))


# `in_order` tells whether thresholds (without the ends) are taken in ascending order.
KernelSums: TypeAlias = DenseSums | LowRankSums | GridSums


# The factor of the number of samples in Scott's rule and in Silverman's.
BANDWIDTH_RULES = {"scott": 1.0, "silverman": 0.75}
# A smaller width would not smooth anything, and the grid would become larger than the batch.
NARROWEST = 1e-4
NARROWEST_IN_LOG_ODDS = 1e-2
# Log odds beyond this are cut off: exp(-88) is the smallest number of single precision. It bounds
# the grid, and a class that has no rival, whose log odds are infinite, counts like a certain one.
LARGEST_LOG_ODDS = 88.0
# At this many widths from a kernel its tail no longer counts: Phi(-7) is 1e-12.
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
                "smoothing='log_odds' and boundary='reflect'", "log odds have no ends to reflect at"
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
        ends = torch.tensor((low, high), dtype=r.dtype).to(r.device)
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
