"""Confidences from logits: what to rank cases by.

Every function takes logits of shape (n_cases, n_classes) and returns one confidence per case.
Higher means keep automatic. Pass the result as ``confidence=`` to the curve, or its negative as
``outlier_score`` to the outlier metrics. All are exact for logits of any size: nothing overflows.
"""

from expertload.scores.energy import energy_confidence
from expertload.scores.entropy import entropy_confidence
from expertload.scores.gini import gini_confidence
from expertload.scores.margin import margin_confidence
from expertload.scores.max_logit import max_logit_confidence
from expertload.scores.max_logit_norm import max_logit_norm_confidence
from expertload.scores.max_softmax import max_softmax_confidence
from expertload.scores.tempered_softmax import tempered_softmax_confidence

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
