"""Kernel sums through a fine uniform grid: deposit, convolve by FFT, interpolate back.

Kernels are smooth on the scale of their width h, so a grid of `NODES_PER_WIDTH` nodes a width
stands for the points: each value is shared between its two neighbouring nodes, the nodes are
convolved with the Gaussian, and results are read off by linear interpolation. Each of the two
interpolations errs by at most 1 / (8 * NODES_PER_WIDTH^2) = 2e-6 of the kernel's height. ``above``
is the running sum of ``near`` over nodes, as the trapezoidal rule integrates it.

Time is O(n + m log m) for m nodes. With a bandwidth proportional to the standard deviation, m
grows at most like n^0.7 (see ``bandwidth.largest_span``), so outliers cannot make it run away.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from scipy.fft import next_fast_len
from torch import Tensor

from expertload.losses._kde.kernel_sums import Points, Sums
from expertload.losses._kde.ordering import sort_values

__all__ = ["GridSums"]

NODES_PER_WIDTH = 256
# The Gaussian is 6e-13 there; beyond it the grid holds nothing, so the FFT may wrap around.
MARGIN = 7.5
PADDING = int(MARGIN * NODES_PER_WIDTH)
ABOVE_SCALE = 1 / (NODES_PER_WIDTH * math.sqrt(2 * math.pi))


class _Cells(NamedTuple):
    """The grid cell of each point, and how far into the cell it lies, in [0, 1)."""

    number: Tensor
    offset: Tensor


class GridSums:
    """Kernel sums whose cost is proportional to the number of points."""

    in_order = True

    def __init__(self, points: Points, span: float) -> None:
        sources, thresholds, ends, width = points
        scale = NODES_PER_WIDTH / width
        # The upper end lies on a node, so that images beyond it are deposited symmetrically.
        node = math.ceil(span * NODES_PER_WIDTH) + PADDING
        self.size = next_fast_len(node + 2 * PADDING + 2, real=True)
        self.sources = _cells(sources, ends[1], scale, node)
        thresholds = torch.cat((sort_values(thresholds), ends))
        self.thresholds = _cells(thresholds, ends[1], scale, node)
        self.response = _gaussian_response(self.size, ends)

    def to_thresholds(self, values: Tensor) -> Sums:
        """Sum over sources, at the sorted thresholds."""
        near = self._convolve(_deposit(values, self.sources, self.size))
        above = near[0].sum() - near[0].cumsum(0).sub_(near[0], alpha=0.5)
        return _read_all(above.mul_(ABOVE_SCALE), near, self.thresholds)

    def to_sources(self, values: Tensor) -> Sums:
        """Sum over the sorted thresholds: a source is above those that are below it."""
        near = self._convolve(_deposit(values, self.thresholds, self.size))
        above = near[0].cumsum(0).sub_(near[0], alpha=0.5)
        return _read_all(above.mul_(ABOVE_SCALE), near, self.sources)

    def _convolve(self, at_nodes: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(at_nodes).mul_(self.response)
        near: Tensor = torch.fft.irfft(spectrum, n=self.size)
        return near


def _cells(points: Tensor, origin: Tensor, scale: float | Tensor, node: int) -> _Cells:
    position = (points - origin).mul_(scale).add_(node)
    number = position.long()
    return _Cells(number, position.sub_(number))


def _gaussian_response(size: int, like: Tensor) -> Tensor:
    """Return the Fourier transform of the sampled Gaussian, in closed form."""
    frequency = torch.arange(size // 2 + 1, dtype=like.dtype, device=like.device)
    exponent = -0.5 * (2 * math.pi * NODES_PER_WIDTH / size) ** 2
    return frequency.square_().mul_(exponent).exp_().mul_(1 / ABOVE_SCALE)


def _deposit(values: Tensor, cells: _Cells, size: int) -> Tensor:
    nodes = values.new_zeros(len(values), size + 1)
    for row, value in zip(nodes, values, strict=True):
        right = value * cells.offset
        row[:-1].index_add_(0, cells.number, value - right)
        row[1:].index_add_(0, cells.number, right)
    return nodes[:, :-1]


def _read_all(above: Tensor, near: Tensor, cells: _Cells) -> Sums:
    return Sums(_read(above, cells), torch.stack([_read(row, cells) for row in near]))


def _read(nodes: Tensor, cells: _Cells) -> Tensor:
    left = nodes.index_select(0, cells.number)
    return left.addcmul_(cells.offset, nodes.diff().index_select(0, cells.number))
