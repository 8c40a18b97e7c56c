"""How much each case moves AUCOC: the influence function, and what follows from it.

AUCOC is an L-statistic: a weighted mean of correctness with weights that depend on ranks. Let a
small share e of the data be replaced by copies of case i, which lies in row g of the tally. The
derivative of the area with respect to e at zero is ::

    IF_i = (c_i - c_g) * dQ_g / p_g                        its own correctness
         + sum_{h >= g} q_h (c_h - c_{h+1})                it moves all rows above it down in rank
         - sum_h F_h q_h (c_h - c_{h+1})                   the mean of the line above

with c_g the mean correctness of row g, p_g its share of the weight, F_h the share of weight up to
and including row h, dQ_g the weight of row g in the area, and q_h = -ln(1 - F_h) the slope of Q.
The last row has no row above it, so both sums end one row before.

The values have mean zero, and the area's sampling error is that of their mean. Their tails are
heavy (the topmost errors weigh most), so a few cases can carry the variance; the quantiles used
are those of Student's t with as many degrees of freedom as match the variance of the variance.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit  # Student's t; scipy.stats is slow to import

from expertload._area import delegated_mass
from expertload._cases import Cases
from expertload._typing import FloatArray
from expertload.tally import Tally, cumulative_from_top

__all__ = ["Linearised", "aucoc_influence", "linearise"]


class Linearised(NamedTuple):
    """A statistic that behaves like a mean: its value, standard error and degrees of freedom."""

    value: float
    standard_error: float
    degrees_of_freedom: float

    def quantile(self, confidence_level: float) -> float:
        """How many standard errors a two-sided interval reaches to each side."""
        return float(stdtrit(self.degrees_of_freedom, (1 + confidence_level) / 2))

    def p_value(self) -> float:
        """Two-sided p-value of the hypothesis that the statistic's true value is zero."""
        if self.standard_error == 0:
            return 1.0 if self.value == 0 else 0.0
        ratio = abs(self.value) / self.standard_error
        return float(2 * stdtr(self.degrees_of_freedom, -ratio))


def aucoc_influence(cases: Cases) -> tuple[float, FloatArray]:
    """Return the exact AUCOC and the influence of each case on it."""
    table = Tally.from_cases(cases)
    row = np.searchsorted(table.confidence, cases.confidence)
    row = np.minimum(row, len(table.confidence) - 1)  # cases of weight zero may lie above all rows
    grade, remaining = table.grade, table.remaining
    mass = np.diff(delegated_mass(remaining, table.total, "exact"))
    steps = (grade[:-1] - grade[1:]) * -np.log(remaining[1:-1])
    own = (cases.correct - grade[row]) * (mass * table.total / table.weight)[row]
    shift = np.append(cumulative_from_top(steps), 0.0)[row]
    return float(grade @ mass), own + shift - (1 - remaining[1:-1]) @ steps


def linearise(value: float, influence: FloatArray, weight: FloatArray | None) -> Linearised:
    """Turn influences into a standard error, with the degrees of freedom that it deserves."""
    n = len(influence)
    share = np.full(n, 1 / n) if weight is None else weight / weight.sum()
    effective_n = 1 / float(share @ share)
    squares = (share * influence) ** 2
    variance = float(squares.sum()) * effective_n / max(effective_n - 1, 1e-300)
    return Linearised(value, math.sqrt(variance), _degrees_of_freedom(squares, effective_n))


def _degrees_of_freedom(squares: FloatArray, effective_n: float) -> float:
    """Satterthwaite's match of a chi-squared to the sum of the squares given."""
    total = float(squares.sum())
    largest = max(effective_n - 1, 1.0)
    if total == 0:
        return largest
    squares = squares / total  # scale first: squares of squares of tiny values underflow
    spread = float(squares @ squares) - 1 / len(squares)
    return min(largest, max(1.0, 2 / spread)) if spread > 0 else largest
