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

from scipy.fft import next_fast_len

from expertload.losses.kde.array_namespace import (
    Array,
    as_index,
    deposit,
    integers_below,
    namespace,
    new_zeros,
    sorted_values,
)
from expertload.losses.kde.kernel_sums import Points, Sums

__all__ = ["GridSums", "grid_size"]

NODES_PER_WIDTH = 256
# The Gaussian is 6e-13 there; beyond it the grid holds nothing, so the FFT may wrap around.
MARGIN = 7.5
PADDING = int(MARGIN * NODES_PER_WIDTH)
ABOVE_SCALE = 1 / (NODES_PER_WIDTH * math.sqrt(2 * math.pi))


def grid_size(span: float) -> int:
    """Return the number of nodes for points within `span` widths."""
    return int(next_fast_len(math.ceil(span * NODES_PER_WIDTH) + 3 * PADDING + 2, real=True))


class _Cells(NamedTuple):
    """The grid cell of each point, and its position in the cell, in [0, 1)."""

    number: Array
    offset: Array


class GridSums:
    """Kernel sums whose cost is proportional to the number of points."""

    in_order = True

    def __init__(self, points: Points, span: float) -> None:
        sources, thresholds, ends, width = points
        scale = NODES_PER_WIDTH / width
        # The upper end lies on a node, so that images beyond it are deposited symmetrically.
        self.size = grid_size(span)
        node = self.size - 2 * PADDING - 2
        self.sources = _cells(sources, ends[1], scale, node)
        thresholds = namespace(ends).concatenate((sorted_values(thresholds), ends))
        self.thresholds = _cells(thresholds, ends[1], scale, node)
        self.response = _gaussian_response(self.size, ends)

    def to_thresholds(self, values: Array) -> Sums:
        """Sum over sources, at the sorted thresholds."""
        near = self._convolve(_deposit_all(values, self.sources, self.size))
        below = _running_sum(near[0])
        return _read_all(below[-1] - below, near, self.thresholds)

    def to_sources(self, values: Array) -> Sums:
        """Sum over the sorted thresholds: a source is above those that are below it."""
        near = self._convolve(_deposit_all(values, self.thresholds, self.size))
        return _read_all(_running_sum(near[0]), near, self.sources)

    def _convolve(self, at_nodes: Array) -> Array:
        xp = namespace(at_nodes)
        spectrum = xp.fft.rfft(at_nodes)
        spectrum *= self.response
        return xp.fft.irfft(spectrum, self.size)


def _cells(points: Array, origin: Array, scale: float | Array, node: int) -> _Cells:
    position = points - origin
    position *= scale
    position += node
    number = as_index(position)
    position -= number
    return _Cells(number, position)


def _gaussian_response(size: int, like: Array) -> Array:
    """Return the Fourier transform of the sampled Gaussian, in closed form."""
    exponent = integers_below(size // 2 + 1, like)
    exponent *= exponent
    exponent *= -0.5 * (2 * math.pi * NODES_PER_WIDTH / size) ** 2
    return namespace(like).exp(exponent) / ABOVE_SCALE


def _running_sum(near: Array) -> Array:
    """Integrate from the left, by the trapezoidal rule."""
    total = namespace(near).cumsum(near, 0)
    total -= 0.5 * near
    total *= ABOVE_SCALE
    return total


def _deposit_all(values: Array, cells: _Cells, size: int) -> Array:
    nodes = new_zeros(values, len(values), size)
    for row, value in zip(nodes, values, strict=True):
        right = value * cells.offset
        moved = deposit(cells.number, right, size)
        row += deposit(cells.number, value, size)
        row -= moved
        row[1:] += moved[:-1]
    return nodes


def _read_all(above: Array, near: Array, cells: _Cells) -> Sums:
    xp = namespace(above)
    return Sums(_read(above, cells), xp.stack([_read(row, cells) for row in near]))


def _read(nodes: Array, cells: _Cells) -> Array:
    value = namespace(nodes).diff(nodes)[cells.number]
    value *= cells.offset
    value += nodes[cells.number]
    return value
