"""An interval around every point of the curve, for the band in a plot."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from expertload._check import check_fraction
from expertload._typing import FloatArray
from expertload.cases import Cases, check_are_cases
from expertload.significance.interval import effective_sizes_along_curve


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
    level = check_fraction(confidence_level, "confidence_level", inclusive=False)
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
