"""An interval around every point of the curve, for the band in a plot."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from expertload._cases import Cases, check_cases, check_correctness_cases
from expertload._typing import ArrayLike, FloatArray
from expertload._validation import check_fraction
from expertload.tally import Tally, cumulative_from_top

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
    return _band(cases, check_fraction(confidence_level, "confidence_level", caller))


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
    return _band(cases, check_fraction(confidence_level, "confidence_level", caller))


def _band(cases: Cases, level: float) -> COCBand:
    table = Tally.from_cases(cases)
    curve = table.curve()
    accepted = table.accepted
    n = accepted if cases.weight is None else accepted**2 / _squared_weight(cases, curve.thresholds)
    low, high = wilson(curve.accuracy, n, level)
    return COCBand(curve.expert_load, low, high, curve.thresholds)


def _squared_weight(cases: Cases, thresholds: FloatArray) -> FloatArray:
    """The sum of squared weights accepted at each threshold: Kish's effective sample size."""
    weight = np.zeros(0) if cases.weight is None else cases.weight
    present = weight > 0
    row = np.searchsorted(thresholds, cases.confidence[present])
    squares = np.bincount(row, weights=weight[present] ** 2, minlength=len(thresholds))
    return cumulative_from_top(squares.astype(np.float64, copy=False))


def wilson(rate: FloatArray, n: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Wilson's score interval for a rate observed in n cases."""
    z = ndtri((1 + level) / 2)
    centre = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z / (1 + z**2 / n) * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2))
    return np.maximum(centre - reach, 0.0), np.minimum(centre + reach, 1.0)
