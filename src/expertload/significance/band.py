"""An interval around every point of the curve, for the band in a plot."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from expertload._cases import Cases, check_cases, check_correctness_cases
from expertload._typing import ArrayLike, FloatArray
from expertload._validation import check_fraction
from expertload.tally import COCCurve, Tally

__all__ = ["COCBand", "coc_band", "coc_band_from_correctness"]


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


def coc_band(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    confidence_level: float = 0.95,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> COCBand:
    """Compute a pointwise confidence band around the COC curve.

    Parameters
    ----------
    y_true, y_proba, confidence, sample_weight, labels
        As in `expertload.coc_curve`.
    confidence_level : float, default=0.95
        The level of each interval.

    Returns
    -------
    COCBand
        The named tuple ``(expert_load, low, high, thresholds)``.

    Notes
    -----
    Each interval is Wilson's, for the accuracy among the cases accepted at one threshold that was
    fixed beforehand. The band is not simultaneous, and a threshold picked from the curve because
    it looks good has no such guarantee.

    Examples
    --------
    >>> from expertload.significance import coc_band
    >>> band = coc_band([0, 1, 1, 0], [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]])
    >>> band.low.round(2), band.high.round(2)
    (array([0.3 , 0.44, 0.34, 0.21]), array([0.95, 1.  , 1.  , 1.  ]))
    """
    caller = "coc_band"
    cases = check_cases(y_true, y_proba, confidence, sample_weight, labels, caller)
    level = check_fraction(confidence_level, "confidence_level", caller, inclusive=False)
    table = Tally.from_cases(cases)
    return band_of_curve(table.curve(), table, cases, level)


def coc_band_from_correctness(
    correct: ArrayLike,
    confidence: ArrayLike,
    *,
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
) -> COCBand:
    """Compute a pointwise confidence band from correctness and confidence.

    Parameters
    ----------
    correct, confidence, sample_weight
        As in `expertload.coc_curve_from_correctness`.
    confidence_level : float, default=0.95
        The level of each interval.

    Returns
    -------
    COCBand
        The named tuple ``(expert_load, low, high, thresholds)``.

    Examples
    --------
    >>> from expertload.significance import coc_band_from_correctness
    >>> coc_band_from_correctness([0, 1, 1, 1], [0.6, 0.7, 0.8, 0.9]).low.round(2)
    array([0.3 , 0.44, 0.34, 0.21])
    """
    caller = "coc_band_from_correctness"
    cases = check_correctness_cases(correct, confidence, sample_weight, caller)
    level = check_fraction(confidence_level, "confidence_level", caller, inclusive=False)
    table = Tally.from_cases(cases)
    return band_of_curve(table.curve(), table, cases, level)


def band_of_curve(curve: COCCurve, table: Tally, cases: Cases, level: float) -> COCBand:
    """Return the band around a curve, of cases that are tallied already."""
    n = table.accepted if cases.weight is None else _effective_sizes(table, cases)
    low, high = wilson(curve.accuracy, n, level)
    return COCBand(curve.expert_load, low, high, curve.thresholds)


def _effective_sizes(table: Tally, cases: Cases) -> FloatArray:
    """Return Kish's effective number of cases accepted at each threshold.

    The root of a sum of squares is taken as a length, by `hypot`, in which the squares of very
    small weights do not vanish.
    """
    weight = np.ones(len(cases.correct)) if cases.weight is None else cases.weight
    present = np.flatnonzero(weight > 0)
    row = np.searchsorted(table.confidence, cases.confidence[present])
    order = np.argsort(row, kind="stable")
    start = np.searchsorted(row[order], np.arange(len(table.confidence)))
    rows = np.hypot.reduceat(weight[present][order], start)
    length: FloatArray = np.hypot.accumulate(rows[::-1])[::-1]
    return (table.accepted / length) ** 2


def wilson(rate: FloatArray, n: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Wilson's score interval for a rate observed in n cases."""
    z = ndtri((1 + level) / 2)
    centre = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z / (1 + z**2 / n) * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2))
    return np.maximum(centre - reach, 0.0), np.minimum(centre + reach, 1.0)
