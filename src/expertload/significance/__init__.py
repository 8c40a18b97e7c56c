"""Confidence intervals, bands, and tests between models on the same cases."""

from expertload.significance.band import COCBand, coc_band, coc_band_from_correctness
from expertload.significance.bootstrap import (
    bootstrap_interval,
    bootstrap_interval_from_correctness,
)
from expertload.significance.closed_form import (
    aucoc_interval,
    aucoc_interval_from_correctness,
    aucoc_paired_test,
    aucoc_paired_test_from_correctness,
)
from expertload.significance.models import compare_models, compare_models_from_correctness
from expertload.significance.permutation import (
    PermutationResult,
    permutation_test,
    permutation_test_from_correctness,
)
from expertload.significance.results import Comparison, Interval

__all__ = [
    "COCBand",
    "Comparison",
    "Interval",
    "PermutationResult",
    "aucoc_interval",
    "aucoc_interval_from_correctness",
    "aucoc_paired_test",
    "aucoc_paired_test_from_correctness",
    "bootstrap_interval",
    "bootstrap_interval_from_correctness",
    "coc_band",
    "coc_band_from_correctness",
    "compare_models",
    "compare_models_from_correctness",
    "permutation_test",
    "permutation_test_from_correctness",
]
