"""A lower bound of the accuracy that is valid at all times together.

Let S be the (weighted) errors among audits of (weighted) number T, and m an error rate. For a
negative ``tilt`` l, the product of ``exp(l x) / (1 - m + m exp(l))`` over the cases is a fair game
if each is wrong with probability m; a mixture over several tilts is one too,

    K(m) = sum_j part_j * exp(l_j S - T log(1 - m + m exp(l_j))),

and by Ville's inequality it ever reaches 1 / alpha with a probability of at most alpha. K grows
with m, so all rates with K(m) >= 1 / alpha are refuted, and the smallest of them bounds the error.

Two steps make it hold more widely. The logarithm is concave in m, so under drift the bound is one
for the average rate over the audits so far. And for a weight w <= 1 a factor to the power of w is
at most its linear interpolation between 1 and itself (Bernoulli), so weighted sums do for S and T
where cases are audited with different probabilities.
"""

from __future__ import annotations

import numpy as np

from expertload._typing import ArrayLike, FloatArray
from expertload._validation import check_fraction
from expertload.monitoring.inputs import as_audit_sums

__all__ = ["accuracy_lower_bound", "confirming_evidence"]

TILTS = -np.array([0.125, 0.25, 0.5, 1.0, 2.0, 4.0])
PARTS = np.array([0.05, 0.15, 0.20, 0.25, 0.25, 0.10])
MOST_LOG = 460.0  # logarithms beyond this no longer change any verdict
HALVINGS = 50


def confirming_evidence(
    errors: ArrayLike, audits: ArrayLike, *, target_accuracy: float
) -> FloatArray:
    """Return the evidence that the average accuracy is above the target.

    Parameters
    ----------
    errors, audits : array-like of the same shape
        The number of errors and the number of audits so far; weighted sums of both if cases are
        audited with different probabilities. Open reviews count as errors.
    target_accuracy : float
        The accuracy to confirm, in (0, 1).

    Returns
    -------
    ndarray
        While the average accuracy is at most the target, it ever reaches 1 / alpha with a
        probability of at most alpha.

    Examples
    --------
    >>> from expertload.monitoring import confirming_evidence
    >>> confirming_evidence([0, 0], [81, 82], target_accuracy=0.95).round(2).tolist()
    [19.68, 20.53]
    """
    target = check_fraction(target_accuracy, "target_accuracy", inclusive=False)
    wrong, total = as_audit_sums(errors, audits)
    evidence: FloatArray = np.exp(_log_evidence(wrong, total, np.asarray(1 - target)))
    return evidence


def accuracy_lower_bound(
    errors: ArrayLike, audits: ArrayLike, *, confidence_level: float = 0.95
) -> FloatArray:
    """Return a lower bound of the average accuracy, valid at any time.

    Parameters
    ----------
    errors, audits : array-like of the same shape
        As in `confirming_evidence`.
    confidence_level : float, default=0.95
        The probability that the bound holds after every audit, without limit.

    Returns
    -------
    ndarray
        The bounds; 0 if there are no audits yet.

    Examples
    --------
    >>> from expertload.monitoring import accuracy_lower_bound
    >>> accuracy_lower_bound([0, 0, 4], [0, 100, 200]).round(3).tolist()
    [0.0, 0.959, 0.939]
    """
    level = check_fraction(confidence_level, "confidence_level", inclusive=False)
    wrong, total = as_audit_sums(errors, audits)
    needed = -np.log1p(-level)
    low, high = np.zeros(wrong.shape), np.ones(wrong.shape)
    for _ in range(HALVINGS):  # the smallest refuted error rate, kept at or below `high`
        middle = (low + high) / 2
        refuted = _log_evidence(wrong, total, middle) >= needed
        low, high = np.where(refuted, low, middle), np.where(refuted, middle, high)
    bound: FloatArray = 1 - high
    return bound


def _log_evidence(errors: FloatArray, audits: FloatArray, error_rate: FloatArray) -> FloatArray:
    each = (-1, *(1,) * max(errors.ndim, error_rate.ndim))  # first axis: the last would be slower
    tilts = TILTS.reshape(each)
    exponents = tilts * errors - audits * np.log1p(error_rate * np.expm1(tilts))
    largest = exponents.max(axis=0)
    exponents -= largest
    np.exp(exponents, out=exponents)
    exponents *= PARTS.reshape(each)
    total: FloatArray = np.minimum(largest + np.log(exponents.sum(axis=0)), MOST_LOG)
    return total
