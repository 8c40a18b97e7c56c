"""The influence of each case on AUCOC, and the standard errors that follow from it.

AUCOC is an L-statistic: a weighted mean of correctness with weights that depend on ranks. Let a
small share e of the data be replaced by copies of case i, which lies in row g of the tally. The
derivative of the area with respect to e at zero is ::

    IF_i = (c_i - c_g) * dQ_g / p_g                        its own correctness
         + sum_{h >= g} q_h (c_h - c_{h+1})                it moves all rows above it down in rank
         - sum_h F_h q_h (c_h - c_{h+1})                   the mean of the line above

with c_g the mean correctness of row g, p_g its share of the weight, F_h the share of weight up to
and including row h, dQ_g the weight of row g in the area, and q_h = -ln(1 - F_h) the slope of Q.
The last row has no row above it, so both sums end one row before.

So the influence is linear in the correctness of the case, and both coefficients depend on its row
alone (`RowInfluence`): of cases that are right or wrong and count alike, the tally tells the
variance, and no case is looked at again.

The values have mean zero, and the area's sampling error is that of their mean. Their tails are
heavy (the topmost errors weigh most), so a few cases can carry the variance; the quantiles used
are those of Student's t with as many degrees of freedom as match the variance of the variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit  # Student's t; scipy.stats is slow to import

from expertload._area import delegated_mass
from expertload._blocks import blocks, differences
from expertload._cases import Cases
from expertload._typing import FloatArray, IntArray
from expertload.significance.effective import effective_size, per_cluster
from expertload.tally import Tally

__all__ = [
    "Linearised",
    "RowInfluence",
    "influence_of_cases",
    "linearise",
    "linearise_cases",
]


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


class RowInfluence(NamedTuple):
    """The exact AUCOC of a tally, and the influence of a case in each row on it.

    It is ``wrong`` for a case that is wrong, ``wrong + gain`` for one that is right, and between
    the two in proportion to its grade.
    """

    area: float
    wrong: FloatArray
    gain: FloatArray

    @classmethod
    def from_tally(cls, table: Tally) -> RowInfluence:
        """Return the influence of each row by the formula at the top of this module."""
        grade, remaining = table.grade, table.remaining
        mass = delegated_mass(remaining, table.total, "exact")
        gain = differences(mass)  # first the mass of each row
        area = float(grade @ gain)
        inside = remaining[1:-1]
        wrong = np.zeros(len(grade))
        steps = wrong[:-1]
        np.log(inside, out=steps)
        for rows in blocks(len(steps)):
            steps[rows] *= grade[rows.start + 1 : rows.stop + 1] - grade[rows]
        mean = float(steps.sum() - inside @ steps)
        np.cumsum(steps[::-1], out=steps[::-1])  # cumulated from the highest confidence
        wrong -= mean
        gain *= table.total
        gain /= table.weight
        grade *= gain
        wrong -= grade
        return cls(area, wrong, gain)


def influence_of_cases(cases: Cases, table: Tally) -> tuple[float, FloatArray]:
    """Return the exact AUCOC and the influence of each case on it."""
    area, wrong, gain = RowInfluence.from_tally(table)
    row = np.searchsorted(table.confidence, cases.confidence)
    row = np.minimum(row, len(table.confidence) - 1)  # cases of weight zero may lie above all rows
    return area, wrong[row] + cases.correct * gain[row]


def linearise_cases(cases: Cases, table: Tally) -> Linearised:
    """Return the exact AUCOC of cases with its standard error."""
    if not cases.is_counted or cases.cluster is not None:
        return linearise(*influence_of_cases(cases, table), cases.weight, cases.cluster)
    area, wrong, gain = RowInfluence.from_tally(table)
    total = table.total
    right = gain
    right += wrong
    parts = [(wrong, table.errors), (right, table.correct)]
    for part, _ in parts:
        part /= total
        part *= part
    return _linearise(area, parts, total)


def linearise(
    value: float,
    influence: FloatArray,
    weight: FloatArray | None = None,
    cluster: IntArray | None = None,
) -> Linearised:
    """Turn the influence of each case into a standard error.

    Clusters are independent of each other, their cases are not: what the cases of a cluster add to
    the statistic is summed before it is squared.
    """
    n = len(influence)
    part = influence / n if weight is None else (weight / weight.sum()) * influence
    present = slice(None) if weight is None else weight > 0
    if cluster is not None:
        part, present = per_cluster(part, cluster), np.unique(cluster[present])
    part = part[present]
    return _linearise(value, [(part**2, np.ones(len(part)))], effective_size(n, weight, cluster))


def _linearise(
    value: float, squares: Sequence[tuple[FloatArray, FloatArray]], effective_n: float
) -> Linearised:
    """Return the standard error of a sum, from the squares of its parts and how often each occurs.

    The degrees of freedom are Satterthwaite's match of a chi-squared to the sum of the squares,
    which are used up.
    """
    total = sum(float(count @ square) for square, count in squares)
    n = sum(float(count.sum()) for _, count in squares)
    error = math.sqrt(total * effective_n / max(effective_n - 1, 1e-300))
    largest = max(effective_n - 1, 1.0)
    if total == 0:
        return Linearised(value, error, largest)
    fourth = 0.0
    for square, count in squares:
        square /= total  # first: squares of squares of tiny values underflow
        fourth += float(count @ np.square(square, out=square))
    spread = fourth - 1 / n
    return Linearised(value, error, min(largest, max(1.0, 2 / spread)) if spread > 0 else largest)
