"""Confidences computed from logits, to rank cases.

Every function takes logits of shape (n_cases, n_classes) and returns one confidence per case.
Higher means keep automatic. Pass the result as ``confidence=`` to the curve, or its negative as
``outlier_score`` to the outlier metrics. All are exact for logits of any size: nothing overflows.
"""

from expertload.scores.logit_scores import (
    energy_confidence,
    max_logit_confidence,
    max_logit_norm_confidence,
)
from expertload.scores.softmax_scores import (
    entropy_confidence,
    gini_confidence,
    margin_confidence,
    max_softmax_confidence,
    tempered_softmax_confidence,
)

__all__ = [
    "energy_confidence",
    "entropy_confidence",
    "gini_confidence",
    "margin_confidence",
    "max_logit_confidence",
    "max_logit_norm_confidence",
    "max_softmax_confidence",
    "tempered_softmax_confidence",
]
