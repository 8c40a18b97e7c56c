"""Computes the numbers that a COC display shows, from cases."""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from expertload._cases import Cases
from expertload._typing import FloatArray
from expertload._validation import check_fraction
from expertload.significance import COCBand, Interval, aucoc_interval, coc_band

__all__ = ["Measured", "measure"]


class Measured(TypedDict):
    """The numbers that `COCDisplay` is made of."""

    expert_load: FloatArray
    accuracy: FloatArray
    aucoc: Interval | float
    band: COCBand


def measure(cases: Cases, confidence_level: float) -> Measured:
    """Compute the curve, its area and its band."""
    level = check_fraction(confidence_level, "confidence_level", inclusive=False)
    curve = cases.curve()
    return Measured(
        expert_load=curve.expert_load,
        accuracy=curve.accuracy,
        aucoc=_area(cases, level),
        band=coc_band(cases, confidence_level=level),
    )


def _area(cases: Cases, level: float) -> Interval | float:
    n_present = len(cases.correct) if cases.weight is None else np.count_nonzero(cases.weight)
    if n_present < 2:  # one case has an area but no interval; its plot must not fail
        return cases.tally.area()
    return aucoc_interval(cases, confidence_level=level)
