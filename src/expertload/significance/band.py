"""An interval around every point of the curve, for the band in a plot."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from expertload._cases import Cases, check_cases, check_correctness_cases
from expertload._typing import ArrayLike, FloatArray
from expertload._validation import check_fraction, check_same_order
from expertload.significance.effective import effective_sizes_along_curve
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
    clusters: ArrayLike | None = None,
) -> COCBand:
    """Compute a pointwise confidence band around the COC curve.

    Parameters
    ----------
    y_true, y_proba, confidence, sample_weight, labels
        As in `expertload.coc_curve`.
    confidence_level : float, default=0.95
        The level of each interval.
    clusters : array-like of shape (n_cases,), optional
        The cluster of each case, as in `aucoc_interval`.

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
    >>> from expertload.significance import coc_band
    >>> band = coc_band([0, 1, 1, 0], [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]])
    >>> band.low.round(2), band.high.round(2)
    (array([0.3 , 0.44, 0.34, 0.21]), array([0.95, 1.  , 1.  , 1.  ]))
    """
    check_same_order(y_true=y_true, y_proba=y_proba, clusters=clusters)
    cases = check_cases(y_true, y_proba, confidence, sample_weight, labels)
    cases = cases.in_clusters(clusters)
    level = check_fraction(confidence_level, "confidence_level", inclusive=False)
    table = Tally.from_cases(cases)
    return band_of_curve(table.curve(), table, cases, level)


def coc_band_from_correctness(
    correct: ArrayLike,
    confidence: ArrayLike,
    *,
    confidence_level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
) -> COCBand:
    """Compute a pointwise confidence band from correctness and confidence.

    Parameters
    ----------
    correct, confidence, sample_weight
        As in `expertload.coc_curve_from_correctness`.
    confidence_level : float, default=0.95
        The level of each interval.
    clusters : array-like of shape (n_cases,), optional
        The cluster of each case, as in `aucoc_interval`.

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
    check_same_order(correct=correct, confidence=confidence, clusters=clusters)
    cases = check_correctness_cases(correct, confidence, sample_weight)
    cases = cases.in_clusters(clusters)
    level = check_fraction(confidence_level, "confidence_level", inclusive=False)
    table = Tally.from_cases(cases)
    return band_of_curve(table.curve(), table, cases, level)


def band_of_curve(curve: COCCurve, table: Tally, cases: Cases, level: float) -> COCBand:
    """Return the band around a curve, of cases that are tallied already."""
    n = effective_sizes_along_curve(table, cases)
    low, high = wilson(curve.accuracy, n, level)
    return COCBand(curve.expert_load, low, high, curve.thresholds)


def wilson(rate: FloatArray, n: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Wilson's score interval for a rate observed in n cases."""
    z = ndtri((1 + level) / 2)
    centre = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z / (1 + z**2 / n) * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2))
    return np.maximum(centre - reach, 0.0), np.minimum(centre + reach, 1.0)
