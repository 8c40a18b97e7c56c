"""Names that help texts list and registries implement; cheap to import."""

from __future__ import annotations

from typing import Literal

__all__ = ["CALIBRATOR_NAMES", "METHODS", "Method"]

Method = Literal["spending", "fixed_sequence", "bonferroni", "sgr"]

# Each way to test thresholds in a sentence, the default first; documents quote these.
METHODS: dict[Method, str] = {
    "spending": "thresholds tested from strict to loose, one pass with restarts (the default)",
    "fixed_sequence": "thresholds tested from strict to loose until one fails, from several starts",
    "bonferroni": "a few thresholds tested separately, each at a share of the level",
    "sgr": "bisection over the ranks (Geifman and El-Yaniv 2017); needs accuracy to rise with "
    "confidence",
}
# The keys of `expertload.calibrators.CALIBRATORS`.
CALIBRATOR_NAMES = (
    "temperature",
    "platt",
    "vector_scaling",
    "matrix_scaling",
    "histogram",
    "isotonic",
    "spline",
    "kcal",
)
