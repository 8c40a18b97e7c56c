"""Converts shares to pixels: the frame of a chart, its ticks, and lines as SVG paths."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from expertload._typing import ArrayLike, FloatArray


def label_of(share: float) -> str:
    """Return the label of a tick in percent."""
    return f"{round(100 * share, 6):g}\N{NARROW NO-BREAK SPACE}%"


@dataclass(frozen=True)
class Tick:
    """The position and label of a tick."""

    position: float
    label: str
    is_minor: bool = False


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A rectangle of pixels, and the rectangle of values that it shows."""

    width: int
    height: int
    left: float
    right: float
    top: float
    bottom: float
    x_range: tuple[float, float] = (0.0, 1.0)
    y_range: tuple[float, float] = (0.0, 1.0)

    def x(self, value: ArrayLike) -> FloatArray:
        """Return pixels from the left."""
        return self.left + _share(value, *self.x_range) * (self.right - self.left)

    def y(self, value: ArrayLike) -> FloatArray:
        """Return pixels from the top."""
        return self.bottom - _share(value, *self.y_range) * (self.bottom - self.top)

    def path(self, x: FloatArray, y: FloatArray) -> str:
        """Return a line through the points, in tenths of a pixel."""
        return "M" + _steps(self.x(x), self.y(y))

    def area(self, x: FloatArray, low: FloatArray, high: FloatArray) -> str:
        """Return the outline of the area between two lines."""
        there = np.concatenate([x, x[::-1]])
        return self.path(there, np.concatenate([high, low[::-1]])) + "Z"

    def x_ticks(self, n: int = 5, label: Callable[[float], str] = label_of) -> list[Tick]:
        """Return round values along the x-axis; small screens leave out every other one."""
        values = round_ticks(*self.x_range, n)
        return [Tick(float(self.x(v)), label(v), i % 2 == 1) for i, v in enumerate(values)]

    def y_ticks(self, n: int = 5, label: Callable[[float], str] = label_of) -> list[Tick]:
        """Return round values along the y-axis."""
        return [Tick(float(self.y(v)), label(v)) for v in round_ticks(*self.y_range, n)]


def _share(value: ArrayLike, low: float, high: float) -> FloatArray:
    """Return how far values are from low to high; halved first, because the range may overflow."""
    halves = np.asarray(value, dtype=np.float64) / 2
    return np.asarray((halves - low / 2) / (high / 2 - low / 2))


def _steps(x: FloatArray, y: FloatArray) -> str:
    """Return an absolute start and relative steps: shorter, and exact, as all are whole tenths."""
    points = np.rint(np.stack([x, y], axis=1) * 10).astype(np.int64)
    moved = np.append(True, (np.diff(points, axis=0) != 0).any(axis=1))
    points = points[moved]
    steps = np.diff(points, axis=0, prepend=np.zeros((1, 2), np.int64))
    first, *rest = [f"{_tenths(a)} {_tenths(b)}" for a, b in steps.tolist()]
    return first + ("l" + " ".join(rest) if rest else "")


def _tenths(value: int) -> str:
    return f"{value / 10:g}"


def round_ticks(low: float, high: float, n: int) -> list[float]:
    """Return about n round values between two ends.

    Examples
    --------
    >>> round_ticks(0.7, 1.0, 5)
    [0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0]
    """
    rough = 2 * ((high / 2 - low / 2) / n)
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(m * magnitude for m in (1, 2, 5, 10) if m * magnitude >= rough * 0.8)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]
