"""AUCOC with its standard error and interval, in closed form: no resampling, O(n log n).

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
alone (`influence_of_rows`): for unweighted cases that are right or wrong, the
variance follows from the tally alone.

The values have mean zero, and the area's sampling error is that of their mean. Their tails are
heavy (the topmost errors weigh most), so a few cases can carry the variance; the quantiles used
are those of Student's t with as many degrees of freedom as match the variance of the variance.

Weights that differ make cases count for less: Kish's number of cases is the squared sum of the
weights over the sum of their squares. Cases of one cluster, for example of one patient, resemble
each other. How much follows from the cases: let D_g be the sum over a cluster of w (c - a), with w
the weight, c the correctness and a the accuracy. Independent cases would give the accuracy a
variance of sum w^2 (c - a)^2, clusters give it sum D_g^2, both over the squared sum of the weights.
Their ratio is the design effect, by which the number of cases is divided. If the cases of a cluster
were all the same, Kish's number of clusters would be left, so the quotient is kept between that and
the number of cases. Clusters of one case each are independent cases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import (  # Student's t; scipy.stats is slow to import
    betaincinv,
    expit,
    logit,
    ndtri,
    stdtr,
    stdtrit,
    xlogy,
)

from expertload._check import check_level
from expertload._typing import FloatArray, IntArray
from expertload.cases import Cases, check_are_cases
from expertload.exceptions import InsufficientDataError
from expertload.tally import Tally, delegated_mass

# Squares of differences below this share of the weight are rounding: all cases are equally right.
NO_SPREAD = 1e-12


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A number with its standard error and confidence interval.

    Attributes
    ----------
    estimate : float
        The number on the data given.
    low, high : float
        Ends of the confidence interval.
    confidence_level : float
        The share of samples whose interval holds the true value.
    standard_error : float
        Standard deviation of the estimate over samples of cases.
    """

    estimate: float
    low: float
    high: float
    confidence_level: float
    standard_error: float

    def __str__(self) -> str:
        return (
            f"{self.estimate:.4f} ({100 * self.confidence_level:g} % interval "
            f"{self.low:.4f} to {self.high:.4f})"
        )


def aucoc_interval(cases: Cases, *, confidence_level: float = 0.95) -> Interval:
    """Compute AUCOC with its standard error and confidence interval.

    Parameters
    ----------
    cases : Cases
        The cases. Their weights are sampling weights: how much each case counts, not how often it
        was seen; doubling all of them changes nothing. Cases of one cluster need not be
        independent: clusters are.
    confidence_level : float, default=0.95
        The share of samples of cases whose interval holds the true value.

    Returns
    -------
    Interval
        ``estimate``, ``standard_error``, ``low``, ``high``, ``confidence_level``.

    Notes
    -----
    The interval is symmetric in the log-odds of the area, so it stays inside [0, 1]. Where all
    answers are right (or all wrong) there is no spread to estimate it from; the bound is then that
    of the error rate (Clopper-Pearson), with its errors placed where they hurt most.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.significance import aucoc_interval
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(2, 2, size=500)
    >>> y_true = rng.random(500) < y_proba
    >>> print(aucoc_interval(Cases.from_predictions(y_true, y_proba)))
    0.8058 (95 % interval 0.7624 to 0.8430)
    """
    level = check_level(confidence_level)
    check_are_cases(cases)
    check_several(cases)
    estimate = linearise_cases(cases)
    low, high = _bounds(cases, estimate, level)
    return replace(estimate.interval(level), low=low, high=high)


def _bounds(cases: Cases, estimate: Linearised, level: float) -> tuple[float, float]:
    # With an area of 0 or 1 all cases are wrong or right, except some of almost no weight.
    if estimate.value >= 1:
        worst = _one_sided_rate(cases, level)
        return 1 - worst + float(xlogy(worst, worst)), 1.0
    if estimate.value <= 0:
        best = _one_sided_rate(cases, level)
        return 0.0, best - float(xlogy(best, best))
    reach = estimate.quantile(level) * estimate.standard_error
    # Differentiate the log-odds at the estimate, which lies strictly inside (0, 1) here.
    centre, reach = logit(estimate.value), reach / (estimate.value * (1 - estimate.value))
    return float(expit(centre - reach)), float(expit(centre + reach))


def _one_sided_rate(cases: Cases, level: float) -> float:
    """Return an upper bound on the rate of something that did not happen in any of the cases."""
    effective_n = effective_size(len(cases.correct), cases.weight, cases.clusters)
    return -math.expm1(math.log((1 - level) / 2) / effective_n)


# ------------------------------------------------------------------ along the curve


class COCBand(NamedTuple):
    """Pointwise intervals for the accuracy along a COC curve.

    Attributes
    ----------
    expert_load, thresholds : ndarray of shape (n_points,)
        As in `expertload.COCCurve`.
    low, high : ndarray of shape (n_points,)
        Ends of the interval for the accuracy at that threshold.
    """

    expert_load: FloatArray
    low: FloatArray
    high: FloatArray
    thresholds: FloatArray


def coc_band(cases: Cases, *, confidence_level: float = 0.95) -> COCBand:
    """Compute a pointwise confidence band around the COC curve.

    Parameters
    ----------
    cases : Cases
        The cases, with their weights and clusters.
    confidence_level : float, default=0.95
        The level of each interval.

    Returns
    -------
    COCBand
        The named tuple ``(expert_load, low, high, thresholds)``.

    Notes
    -----
    Each interval is Wilson's, for the accuracy among the cases accepted at one threshold that was
    fixed beforehand. Weighted or clustered cases count as the number of independent ones that tell
    as much. The band is not simultaneous, and a threshold picked from the curve because
    it looks good has no such guarantee.

    Examples
    --------
    >>> from expertload import Cases
    >>> from expertload.significance import coc_band
    >>> band = coc_band(Cases.from_correctness([0, 1, 1, 1], [0.6, 0.7, 0.8, 0.9]))
    >>> band.low.round(2), band.high.round(2)
    (array([0.3 , 0.44, 0.34, 0.21]), array([0.95, 1.  , 1.  , 1.  ]))
    """
    level = check_level(confidence_level)
    check_are_cases(cases)
    curve = cases.curve()
    low, high = wilson(curve.accuracy, effective_sizes_along_curve(cases), level)
    return COCBand(curve.expert_load, low, high, curve.thresholds)


def wilson(rate: FloatArray, n: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Wilson's score interval for a rate observed in n cases."""
    z = ndtri((1 + level) / 2)
    centre = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z / (1 + z**2 / n) * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2))
    return np.maximum(centre - reach, 0.0), np.minimum(centre + reach, 1.0)


def rate_interval(rate: float, n: float, level: float, error: float | None = None) -> Interval:
    """Return Wilson's interval; by default with the standard error of n right-or-wrong cases."""
    low, high = wilson(np.array(rate), np.array(n), level)
    return Interval(
        estimate=rate,
        low=float(low),
        high=float(high),
        confidence_level=level,
        standard_error=math.sqrt(max(rate * (1 - rate), 0.0) / n) if error is None else error,
    )


def clopper_pearson(k: int, n: int, outside: float) -> tuple[float, float]:
    """Interval for a rate observed in k of n cases, which misses it with this probability."""
    low = float(betaincinv(k, n - k + 1, outside / 2)) if k else 0.0
    high = float(betaincinv(k + 1, n - k, 1 - outside / 2)) if k < n else 1.0
    return low, high


# ------------------------------------------------------------------ the influence of each case


class Linearised(NamedTuple):
    """A statistic that behaves like a mean: its value, standard error and degrees of freedom."""

    value: float
    standard_error: float
    degrees_of_freedom: float

    def quantile(self, confidence_level: float) -> float:
        """How many standard errors a two-sided interval reaches to each side."""
        return float(stdtrit(self.degrees_of_freedom, (1 + confidence_level) / 2))

    def interval(self, confidence_level: float) -> Interval:
        """Return the two-sided interval around the value."""
        reach = self.quantile(confidence_level) * self.standard_error
        return Interval(
            estimate=self.value,
            low=self.value - reach,
            high=self.value + reach,
            confidence_level=confidence_level,
            standard_error=self.standard_error,
        )

    def p_value(self) -> float:
        """Two-sided p-value of the hypothesis that the statistic's true value is zero."""
        if self.standard_error == 0:
            return 1.0 if self.value == 0 else 0.0
        ratio = abs(self.value) / self.standard_error
        return float(2 * stdtr(self.degrees_of_freedom, -ratio))


def influence_of_rows(table: Tally) -> tuple[float, FloatArray, FloatArray]:
    """Return the exact AUCOC of a tally, and the influence of a case in each row on it.

    The first array is the influence of a case that is wrong, by the formula at the top of this
    module. The second is what a right case has more; a grade between has a part of it.
    """
    grade, remaining = table.grade, table.remaining
    gain = np.diff(delegated_mass(remaining, table.total, "exact"))  # first the mass of a row
    area = float(grade @ gain)
    inside = remaining[1:-1]
    wrong = np.zeros(len(grade))
    steps = wrong[:-1]
    np.log(inside, out=steps)  # in place: a temporary array of millions of rows is slow
    steps *= np.diff(grade)
    mean = float(steps.sum() - inside @ steps)
    np.cumsum(steps[::-1], out=steps[::-1])  # cumulated from the highest confidence
    wrong -= mean
    gain *= table.total
    gain /= table.weight
    grade *= gain
    wrong -= grade
    return area, wrong, gain


def influence_of_cases(cases: Cases) -> tuple[float, FloatArray]:
    """Return the exact AUCOC and the influence of each case on it."""
    table = cases.tally
    area, wrong, gain = influence_of_rows(table)
    row = table.row_of(cases.confidence)
    return area, wrong[row] + cases.correct * gain[row]


def linearise_cases(cases: Cases) -> Linearised:
    """Return the exact AUCOC of cases with its standard error."""
    if not cases.is_counted or cases.clusters is not None:
        return linearise(*influence_of_cases(cases), cases.weight, cases.clusters)
    table = cases.tally
    area, wrong, gain = influence_of_rows(table)
    total = table.total
    squares = [((wrong / total) ** 2, table.errors), (((gain + wrong) / total) ** 2, table.correct)]
    return _linearise(area, squares, total)


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

    The degrees of freedom are Satterthwaite's match of a chi-squared to the sum of the squares.
    """
    total = sum(float(count @ square) for square, count in squares)
    n = sum(float(count.sum()) for _, count in squares)
    error = math.sqrt(total * effective_n / max(effective_n - 1, 1e-300))
    largest = max(effective_n - 1, 1.0)
    if total == 0:
        return Linearised(value, error, largest)
    # Divided first: squares of squares of tiny values underflow.
    fourth = sum(float(count @ (square / total) ** 2) for square, count in squares)
    spread = fourth - 1 / n
    return Linearised(value, error, min(largest, max(1.0, 2 / spread)) if spread > 0 else largest)


# ------------------------------------------------------------------ effective numbers of cases


def effective_size(
    n: int, weight: FloatArray | None = None, cluster: IntArray | None = None
) -> float:
    """Return Kish's effective number of cases; of clusters, if there are any."""
    if weight is None and cluster is None:
        return float(n)
    relative = _relative(n, weight)
    part = relative if cluster is None else per_cluster(relative, cluster)
    return float(part.sum() ** 2 / (part @ part))


def effective_size_of_rate(cases: Cases) -> float:
    """Return how many independent cases would tell as much about the accuracy as these do."""
    n = len(cases.correct)
    most = effective_size(n, cases.weight)
    if cases.clusters is None or _are_single(cases.clusters):
        return most
    weight = _relative(n, cases.weight)
    correct = cases.correct.astype(np.float64)
    gap = weight * (correct - np.average(correct, weights=weight))
    together = per_cluster(gap, cases.clusters)
    fewest = effective_size(n, weight, cases.clusters)
    return float(_divided(fewest, most, gap @ gap, together @ together, weight @ weight))


def effective_sizes_along_curve(cases: Cases) -> FloatArray:
    """Return that number for the cases accepted at each threshold of the curve, in O(n log n)."""
    table = cases.tally
    if cases.clusters is None and cases.weight is None:
        return table.accepted
    weight = _relative(len(cases.correct), cases.weight)
    present = np.flatnonzero(weight > 0)
    row = np.searchsorted(table.confidence, cases.confidence[present])
    order = present[np.argsort(row, kind="stable")[::-1]]  # from the highest confidence down
    n_accepted = np.cumsum(np.bincount(row, minlength=len(table.confidence))[::-1])[::-1]
    end = n_accepted - 1
    weight = weight[order]
    total = np.cumsum(weight)[end]
    # `hypot` gives the root of a sum of squares; squares of very small weights would underflow.
    most: FloatArray = (total / np.hypot.accumulate(weight)[end]) ** 2
    if cases.clusters is None or _are_single(cases.clusters):
        return most
    wrong = weight * (1 - cases.correct[order].astype(np.float64))
    rate = np.cumsum(wrong)[end] / total
    alone, scale = _spread(weight, wrong, np.arange(len(weight)), rate, end)
    together, squares = _spread(weight, wrong, cases.clusters[order], rate, end)
    fewest = np.divide(total**2, squares, out=np.ones_like(total), where=squares > 0)
    return _divided(fewest, most, alone, together, scale)


def _spread(
    weight: FloatArray, wrong: FloatArray, cluster: IntArray, rate: FloatArray, end: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return two sums over clusters, for the cases accepted at each row (its last case is `end`).

    The first sums squared differences from the error rate (errors are few, so little cancels), the
    second squared weights. Both grow case by case, from what a cluster had before that case.
    """
    w_before, e_before = _before(weight, cluster), _before(wrong, cluster)
    squares = np.cumsum((2 * w_before + weight) * weight)[end]
    mixed = np.cumsum(e_before * weight + w_before * wrong + weight * wrong)[end]
    errors = np.cumsum((2 * e_before + wrong) * wrong)[end]
    return errors - 2 * rate * mixed + rate**2 * squares, squares


def _before(values: FloatArray, cluster: IntArray) -> FloatArray:
    """Return the sum over the earlier cases of each case's cluster."""
    order = np.argsort(cluster, kind="stable")
    earlier = np.cumsum(values[order]) - values[order]
    starts = np.flatnonzero(np.diff(cluster[order], prepend=-1))
    earlier -= np.repeat(earlier[starts], np.diff(starts, append=len(order)))
    sums = np.empty_like(values)
    sums[order] = earlier
    return sums


def _are_single(cluster: IntArray) -> bool:
    """Whether each case is a cluster of its own."""
    return int(np.bincount(cluster).max()) == 1


def per_cluster(values: FloatArray, cluster: IntArray) -> FloatArray:
    """Return the sum of each cluster."""
    return np.bincount(cluster, weights=values).astype(np.float64, copy=False)


def _divided(
    fewest: float | FloatArray,
    most: float | FloatArray,
    alone: float | FloatArray,
    together: float | FloatArray,
    scale: float | FloatArray,
) -> FloatArray:
    """Divide the number of cases by the design effect; without any spread, clusters are counted."""
    with np.errstate(divide="ignore", invalid="ignore"):
        divided = np.clip(most * np.divide(alone, together), fewest, most)
    divided = np.where(np.asarray(alone) > NO_SPREAD * np.asarray(scale), divided, fewest)
    # The spread is estimated from so many clusters: Student's t varies more than the normal.
    known = np.maximum(np.asarray(fewest) - 3, 0) / np.maximum(np.asarray(fewest) - 1, 1)
    return np.asarray(np.maximum(known * divided, 1.0))


def _relative(n: int, weight: FloatArray | None) -> FloatArray:
    """Return the weight of each case, at most 1, so that squares do not overflow."""
    return np.ones(n) if weight is None else np.asarray(weight / weight.max())


def check_several(cases: Cases) -> None:
    """Raise unless there are two independent cases or clusters, of positive weight."""
    counted = np.ones(len(cases.correct), np.bool_) if cases.weight is None else cases.weight > 0
    what, present = "cases", int(np.count_nonzero(counted))
    if cases.clusters is not None:
        what, present = "clusters", len(np.unique(cases.clusters[counted]))
    if present < 2:
        raise InsufficientDataError(f"At least 2 {what} are needed. Got {present}.")
