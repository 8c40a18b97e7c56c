"""Confidence intervals, bands, and tests between models on the same cases."""

from expertload.significance.compare import Comparison, aucoc_paired_test, compare_models
from expertload.significance.interval import COCBand, Interval, aucoc_interval, coc_band
from expertload.significance.resample import (
    PermutationResult,
    bootstrap_interval,
    load_difference,
    permutation_test,
)

__all__ = [
    "COCBand",
    "Comparison",
    "Interval",
    "PermutationResult",
    "aucoc_interval",
    "aucoc_paired_test",
    "bootstrap_interval",
    "coc_band",
    "compare_models",
    "load_difference",
    "permutation_test",
]
