"""Calibration errors: does a confidence of 80 % mean right in 80 % of cases?

Sort the cases by confidence and let D(u) be the summed difference between correctness and
confidence over the lowest share u of all cases. Every error here is a reading of D: the
Kolmogorov-Smirnov error is its largest absolute value, and the expected calibration error over
bins of equal mass is its total movement between the marks 1/B, 2/B, ..., 1. A case, or a group of
equal confidences, that straddles a mark is shared between the two bins in proportion, so the
order of rows never matters and every bin holds exactly the same mass.

Bins of equal width are the half-open intervals (0, 1/B], (1/B, 2/B], ...; an exact 0 belongs to
the first of them and an exact 1 to the last.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np

from expertload._check import check_count, check_option, check_unit_interval
from expertload._typing import ArrayLike, FloatArray
from expertload.cases import Cases, as_cases
from expertload.tally import Tally, cumulative_from_bottom

Strategy = Literal["mass", "width"]


class ReliabilityCurve(NamedTuple):
    """A reliability diagram's points: one per bin that holds cases, confidences ascending.

    Attributes
    ----------
    confidence : ndarray of shape (n_points,)
        Mean confidence in the bin.
    accuracy : ndarray of shape (n_points,)
        Mean correctness in the bin.
    share : ndarray of shape (n_points,)
        Share of all cases in the bin; sums to one.
    """

    confidence: FloatArray
    accuracy: FloatArray
    share: FloatArray

    @property
    def expected_error(self) -> float:
        """The mean gap between confidence and accuracy, weighted by the shares."""
        return float(self.share @ np.abs(self.accuracy - self.confidence))


def reliability_curve(
    y_true: ArrayLike | Cases,
    y_proba: ArrayLike | None = None,
    *,
    n_bins: int = 15,
    strategy: Strategy = "mass",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> ReliabilityCurve:
    """Compute mean confidence and accuracy of the top label, bin by bin.

    Parameters
    ----------
    y_true, y_proba, sample_weight, labels
        As in `expertload.coc_curve`. `Cases` made from correctness need a confidence in [0, 1].
    n_bins : int, default=15
        Number of bins.
    strategy : {"mass", "width"}, default="mass"
        Bins that hold equal shares of the cases, or that span equal ranges of confidence.

    Returns
    -------
    ReliabilityCurve
        The named tuple ``(confidence, accuracy, share)``.

    Examples
    --------
    >>> from expertload.metrics import reliability_curve
    >>> curve = reliability_curve([0, 1, 1, 1], [0.2, 0.4, 0.7, 0.9], n_bins=2)
    >>> curve.confidence
    array([0.65, 0.85])
    >>> curve.accuracy
    array([0.5, 1. ])
    """
    cases = as_cases(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    return _binned(_probability_tally(cases), n_bins, strategy)


def expected_calibration_error(
    y_true: ArrayLike | Cases,
    y_proba: ArrayLike | None = None,
    *,
    n_bins: int = 15,
    strategy: Strategy = "mass",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    """Compute the expected calibration error (ECE) of the top label; lower is better.

    Parameters
    ----------
    y_true, y_proba, sample_weight, labels
        As in `expertload.coc_curve`.
    n_bins, strategy
        As in `reliability_curve`; 15 bins of equal mass are the paper's.

    Returns
    -------
    float
        Mean absolute gap between confidence and accuracy over the bins, weighted by their share.

    Examples
    --------
    >>> from expertload.metrics import expected_calibration_error
    >>> ece = expected_calibration_error([0, 1, 1, 1], [0.2, 0.4, 0.7, 0.9], n_bins=2)
    >>> print(f"{ece:.3f}")
    0.150
    """
    cases = as_cases(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    return reliability_curve(cases, n_bins=n_bins, strategy=strategy).expected_error


def maximum_calibration_error(
    y_true: ArrayLike | Cases,
    y_proba: ArrayLike | None = None,
    *,
    n_bins: int = 15,
    strategy: Strategy = "mass",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    """Compute the maximum calibration error (MCE) of the top label; lower is better.

    Parameters
    ----------
    y_true, y_proba, n_bins, strategy, sample_weight, labels
        As in `expected_calibration_error`.

    Returns
    -------
    float
        The largest absolute gap between confidence and accuracy in any bin.

    Examples
    --------
    >>> from expertload.metrics import maximum_calibration_error
    >>> mce = maximum_calibration_error([0, 1, 1, 1], [0.2, 0.4, 0.7, 0.9], n_bins=2)
    >>> print(f"{mce:.3f}")
    0.150
    """
    cases = as_cases(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    bins = reliability_curve(cases, n_bins=n_bins, strategy=strategy)
    return float(np.abs(bins.accuracy - bins.confidence).max())


def classwise_calibration_error(
    y_true: ArrayLike | Cases,
    y_proba: ArrayLike | None = None,
    *,
    n_bins: int = 15,
    strategy: Strategy = "mass",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    """Compute the class-wise expected calibration error (cwECE); lower is better.

    Parameters
    ----------
    y_true, y_proba, n_bins, strategy, sample_weight, labels
        As in `expected_calibration_error`.

    Returns
    -------
    float
        Mean over all columns of the calibration error of that column's probability, whether or
        not its class occurs in `y_true`.

    Examples
    --------
    >>> from expertload.metrics import classwise_calibration_error
    >>> y_proba = [[0.7, 0.2, 0.1], [0.5, 0.3, 0.2]]
    >>> print(f"{classwise_calibration_error([0, 1], y_proba, n_bins=1):.3f}")
    0.167
    """
    cases = as_cases(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    target, proba, weight = cases.predictions
    tables = (Tally.add_up(target == k, proba[:, k], weight) for k in range(proba.shape[1]))
    errors = [_binned(table, n_bins, strategy).expected_error for table in tables]
    return float(np.mean(errors))


def kolmogorov_smirnov_error(
    y_true: ArrayLike | Cases,
    y_proba: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    """Compute the Kolmogorov-Smirnov (KS) calibration error of the top label; lower is better.

    Parameters
    ----------
    y_true, y_proba, sample_weight, labels
        As in `expertload.coc_curve`.

    Returns
    -------
    float
        The largest absolute difference between cumulated correctness and cumulated confidence,
        cases sorted by confidence. Needs no bins.

    References
    ----------
    Gupta et al., "Calibration of neural networks using splines", ICLR 2021.

    Examples
    --------
    >>> from expertload.metrics import kolmogorov_smirnov_error
    >>> print(f"{kolmogorov_smirnov_error([0, 1, 1, 1], [0.2, 0.4, 0.7, 0.9]):.3f}")
    0.150
    """
    cases = as_cases(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    table = _probability_tally(cases)
    drift = np.multiply(table.confidence, table.weight, dtype=np.float64)
    np.subtract(table.correct, drift, out=drift)
    np.cumsum(drift, out=drift)
    return float(max(drift.max(), -drift.min()) / table.total)


# ------------------------------------------------------------------ the cumulated difference


def _probability_tally(cases: Cases) -> Tally:
    """Return the tally by the largest probability, or by a confidence that is one."""
    cases = cases.by_probability
    if cases.proba is None:
        check_unit_interval(cases.confidence, "confidence")
    return cases.tally


def _binned(table: Tally, n_bins: int, strategy: str) -> ReliabilityCurve:
    """Return the mean confidence and correctness of a tally, bin by bin."""
    check_count(n_bins, "n_bins")
    check_option(strategy, get_args(Strategy), "strategy")
    confidence_sum = np.multiply(table.confidence, table.weight, dtype=np.float64)
    in_bins = _equal_mass_sums if strategy == "mass" else _equal_width_sums
    sums = in_bins(table, [table.correct, confidence_sum], n_bins)
    weight, correct, summed = (values[sums[0] > 0] for values in sums)
    return ReliabilityCurve(summed / weight, correct / weight, weight / weight.sum())


def _equal_mass_sums(table: Tally, columns: list[FloatArray], n_bins: int) -> list[FloatArray]:
    """Return the weight of each bin, and the sums of columns in it."""
    upto = cumulative_from_bottom(table.weight)
    marks = np.linspace(0, upto[-1], n_bins + 1)
    # Linear between the rows' ends: a row that straddles a mark is shared in proportion.
    at_marks = (np.interp(marks, upto, cumulative_from_bottom(values)) for values in columns)
    return [np.diff(marks), *map(np.diff, at_marks)]


def _equal_width_sums(table: Tally, columns: list[FloatArray], n_bins: int) -> list[FloatArray]:
    inner_edges = np.linspace(0, 1, n_bins + 1)[1:-1]
    index = np.searchsorted(inner_edges, table.confidence, side="left")
    sums = (np.bincount(index, values, n_bins) for values in (table.weight, *columns))
    return [values.astype(np.float64, copy=False) for values in sums]
