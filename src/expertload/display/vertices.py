"""Chooses the points of a line: enough to show its true shape, and no more.

Between two thresholds a random part of the cases at the lower one is accepted. The correct mass
accepted, accuracy times accepted share, then falls in a straight line with the load, so accuracy
itself moves on a hyperbola; beyond the last threshold it is constant. Intervals follow the same
rule: they are linear in the same quantities, and so always contain the curve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from expertload._typing import FloatArray, IntArray
from expertload._validation import check_same_length, check_unit_interval, message
from expertload.exceptions import ParameterError

__all__ = ["along_curve", "mean_curve", "visible"]

# Steps in the logarithm of the accepted share: a chord then misses the hyperbola by at most
# STEP**2 / 4, a quarter of a thousandth of the axis.
STEP = 1 / 32
# No figure is much wider than this many pixels; four vertices per pixel show everything visible.
COLUMNS = 1024


def along_curve(
    expert_load: FloatArray, *values: FloatArray, columns: int = COLUMNS
) -> tuple[FloatArray, ...]:
    """Return loads from 0 to 1 and, at each, the values that randomised thresholds reach."""
    accepted = np.exp(-np.arange(0, -math.log(1 - expert_load[-1]), STEP))
    loads = np.unique(np.concatenate([expert_load, 1 - accepted]))
    drawn = [_randomised(expert_load, value, loads) for value in values]
    keep = visible(loads, drawn[0], columns)
    return (
        np.append(loads[keep], 1.0),
        *(np.append(d[keep], v[-1]) for d, v in zip(drawn, values, strict=True)),
    )


def mean_curve(
    curves: Sequence[tuple[FloatArray, FloatArray]],
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return loads, the mean accuracy of several curves there, and their standard deviation.

    The loads include every threshold of every curve, so that no corner is cut.
    """
    last = max(load[-1] for load, _ in curves)
    accepted = np.exp(-np.arange(0, -math.log(1 - last), STEP))
    loads = np.unique(np.concatenate([load for load, _ in curves] + [1 - accepted]))
    values = np.stack([_held(load, accuracy, loads) for load, accuracy in curves])
    spread = values.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros(len(loads))
    ends = (1.0, values[:, -1].mean(), spread[-1])
    columns = (loads, values.mean(axis=0), spread)
    loads, mean, spread = (np.append(c, e) for c, e in zip(columns, ends, strict=True))
    return loads, mean, spread


def _held(expert_load: FloatArray, value: FloatArray, at: FloatArray) -> FloatArray:
    """Like `_randomised`; beyond the last threshold the value is constant."""
    inside = np.minimum(at, expert_load[-1])
    return _randomised(expert_load, value, inside)


def _randomised(expert_load: FloatArray, value: FloatArray, at: FloatArray) -> FloatArray:
    mass: FloatArray = np.interp(at, expert_load, value * (1 - expert_load))
    return mass / (1 - at)


def visible(x: FloatArray, y: FloatArray, columns: int = COLUMNS) -> IntArray:
    """Return which points of a line to draw, `x` ascending in [0, 1].

    In every column of pixels, the first, last, lowest and highest points determine the picture; all
    others would be drawn over them.
    """
    if len(x) <= 4 * columns:
        return np.arange(len(x))
    starts = np.unique(np.searchsorted(x, np.arange(columns) / columns))
    starts = starts[starts < len(x)]
    ends = np.append(starts[1:], len(x))
    spans = list(zip(starts, ends, strict=True))
    lowest = [a + y[a:b].argmin() for a, b in spans]
    highest = [a + y[a:b].argmax() for a, b in spans]
    return np.unique(np.concatenate([starts, ends - 1, lowest, highest])).astype(np.int64)


def check_curve_points(expert_load: FloatArray, accuracy: FloatArray) -> None:
    """Raise unless loads and accuracies can be those of a curve, as `coc_curve` returns them."""
    check_same_length(expert_load=expert_load, accuracy=accuracy)
    check_unit_interval(accuracy, "accuracy")
    ascending = expert_load[0] == 0 and (np.diff(expert_load) > 0).all() and expert_load[-1] < 1
    if not ascending:
        raise ParameterError(
            message(
                "expert_load",
                "must rise from 0 and stay below 1",
                f"values from {expert_load[0]:g} to {expert_load[-1]:g}",
                "pass the result of coc_curve",
            )
        )
