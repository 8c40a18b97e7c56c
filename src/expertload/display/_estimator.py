"""What a fitted classifier says about cases, with the names of its columns."""

from __future__ import annotations

from typing import Any

from expertload._validation import check_classifier

__all__ = ["predictions_of"]


def predictions_of(estimator: Any, X: Any, caller: str) -> tuple[Any, Any]:
    """Return the probabilities of any object with ``predict_proba``, and its ``classes_``."""
    check_classifier(estimator, "predict_proba", caller)
    proba = estimator.predict_proba(X)
    # Asked for only now: an unfitted estimator words its own, better complaint above.
    check_classifier(estimator, "classes_", caller)
    return proba, estimator.classes_
