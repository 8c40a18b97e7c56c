"""Computes the numbers that a COC display shows, from cases."""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from expertload._cases import Cases
from expertload._typing import FloatArray
from expertload.curve import aucoc_score_from_correctness, coc_curve_from_correctness
from expertload.significance import (
    COCBand,
    Interval,
    aucoc_interval_from_correctness,
    coc_band_from_correctness,
)

__all__ = ["Measured", "measure"]


class Measured(TypedDict):
    """The numbers that `COCDisplay` is made of."""

    expert_load: FloatArray
    accuracy: FloatArray
    aucoc: Interval | float
    band: COCBand


def measure(cases: Cases, confidence_level: float) -> Measured:
    """Compute the curve, its area and its band."""
    correct, confidence, weight = cases
    curve = coc_curve_from_correctness(correct, confidence, sample_weight=weight)
    band = coc_band_from_correctness(
        correct, confidence, confidence_level=confidence_level, sample_weight=weight
    )
    return Measured(
        expert_load=curve.expert_load,
        accuracy=curve.accuracy,
        aucoc=_area(cases, confidence_level),
        band=band,
    )


def _area(cases: Cases, confidence_level: float) -> Interval | float:
    correct, confidence, weight = cases
    n_present = len(correct) if weight is None else np.count_nonzero(weight)
    if n_present < 2:  # one case has an area but no interval; its plot must not fail
        return aucoc_score_from_correctness(correct, confidence, sample_weight=weight)
    return aucoc_interval_from_correctness(
        correct, confidence, confidence_level=confidence_level, sample_weight=weight
    )
