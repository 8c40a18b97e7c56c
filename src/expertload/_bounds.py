"""Bounds for the error of a rounded table, computed from the table itself.

A rounded table has one row per cell of confidences, ``[k, k + 1) * 2**-bits``. Its rows are true
points of the exact curve, because accepting from the lower edge of a cell on accepts the cell
whole. What is lost is the order of the cases inside a cell, and with it the curve's points in
between. Each number is bounded by the worst and the best order that the row allows: all its
correct weight first, or all of it last. Nothing is assumed about the data, and an order that
reaches the bound exists, so without more columns nothing tighter is true. A cell whose cases all
lie on its lower edge, such as the many at confidence 1, has no order to lose and adds no error.

For the area this also gives a rule of thumb before any data are seen. With M the largest share of
cases in one cell and m the share in the top cell, no order moves it by more than
``M * (1 + ln(1/M) + ln(1/m) / 2)``: halving the cells about halves the error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from expertload._area import delegated_mass
from expertload._typing import BoolArray, FloatArray
from expertload.tally import COMPARISON_SLACK, Tally

__all__ = ["Bounds", "accuracy_bounds", "area_bounds", "load_bounds"]


class Bounds(NamedTuple):
    """The smallest and the largest value that the exact number can have."""

    low: float
    high: float


def area_bounds(table: Tally, tied: BoolArray) -> Bounds:
    """Bound the exact area: in each cell, the correct weight is delegated first, or last."""
    share = table.correct / table.total
    start, stop = table.remaining[:-1], table.remaining[1:]
    mass_start, mass_stop = _mass(start), _mass(stop)
    known = table.grade * (mass_stop - mass_start)
    low = np.where(tied, known, _mass(np.maximum(start - share, 0)) - mass_start)
    high = np.where(tied, known, mass_stop - _mass(np.minimum(stop + share, 1)))
    return Bounds(float(low.sum()), float(high.sum()))


def load_bounds(
    table: Tally, tied: BoolArray, target: float, *, is_counted: bool = False
) -> Bounds:
    """Bound the exact load at a target: the curve inside some cell may reach it sooner.

    Say x of a cell's weight is accepted, the correct part of it first. Then the accuracy falls
    from x = correct on, so the target is reached up to the x where all correct weight accepted,
    divided by the target, is all weight accepted; if that x is below `correct`, nowhere. Of cases
    that are counted, not weighted, only a whole number can be accepted.
    """
    high = table.load_at_accuracy(target)
    if high == 0:  # a target of zero would mean division by zero
        return Bounds(0.0, 0.0)
    above = table.accepted - table.weight
    accepted = table.accepted_correct / (target - COMPARISON_SLACK)
    accepted = np.floor(accepted) if is_counted else accepted
    reached = ~tied & (accepted >= above + table.correct)
    best = np.minimum(accepted, above + table.weight)[reached].max(initial=0.0)
    return Bounds(min(high, float(1 - best / table.total)), high)


def accuracy_bounds(table: Tally, tied: BoolArray, load: float) -> Bounds:
    """Bound the exact accuracy at a load: the load is used up somewhere inside one cell.

    Of that cell, a weight x is still accepted, no less than the load asks for. With the correct
    part accepted first the accuracy is best where x is that part; with the wrong part accepted
    first it is worst where x is that part.
    """
    curve = table.curve()
    cell = curve.row_at_load(load)
    if tied[cell]:
        return Bounds(float(curve.accuracy[cell]), float(curve.accuracy[cell]))
    weight, right = float(table.weight[cell]), float(table.correct[cell])
    above, right_above = (float(a[cell + 1 :].sum()) for a in (table.weight, table.correct))
    needed = min(max((1 - load - COMPARISON_SLACK) * table.total - above, 0.0), weight)
    best, worst = max(right, needed), max(weight - right, needed)
    high = (right_above + right) / (above + best) if above + best else 0.0
    low = (right_above + right - weight + worst) / (above + worst) if above + worst else 1.0
    return Bounds(low, high)


def _mass(remaining: FloatArray) -> FloatArray:
    return delegated_mass(remaining, 1.0, "exact")
