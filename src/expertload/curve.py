"""The confidence operating characteristic (COC) curve, its area, and readings from it.

A classifier accepts the cases whose confidence reaches a threshold and delegates the others to
experts. Moving the threshold traces a curve: on the x-axis the *expert load*, the share of cases
delegated; on the y-axis the accuracy among those decided automatically. A better model reaches a
given accuracy with a lower load, so the area under the curve (AUCOC) is larger.

Each function takes labels and probabilities, or one `expertload.Cases` in place of both. Cases are
also made from the correctness and the confidence of each case, for anything that has those two (a
segmentation with its Dice score, a detector, a language model's graded answers).
"""

from __future__ import annotations

from expertload._typing import ArrayLike
from expertload.cases import Cases, as_cases
from expertload.tally import COCCurve, Convention

__all__ = ["COCCurve", "accuracy_at_load", "aucoc_score", "coc_curve", "load_at_accuracy"]


def coc_curve(
    y_true: ArrayLike | Cases,
    y_proba: ArrayLike | None = None,
    *,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> COCCurve:
    """Compute the COC curve of a classifier.

    Parameters
    ----------
    y_true : array-like of shape (n_cases,), or Cases
        True labels, matched to the columns of a frame by name if they name them. Otherwise
        integers are column numbers of `y_proba`, and strings are matched to columns in sorted
        order if every class occurs. `labels` names the columns in all other cases. One
        `expertload.Cases` stands for this and everything below.
    y_proba : array-like of shape (n_cases, n_classes) or (n_cases,)
        Predicted probabilities, never logits. One column is the probability of the second class.
    confidence : array-like of shape (n_cases,), optional
        The confidence that ranks cases, higher meaning keep automatic: any finite numbers, such as
        those of `expertload.scores`. By default, the largest probability of each case.
    sample_weight : array-like of shape (n_cases,), optional
        How much each case counts.
    labels : array-like of shape (n_classes,), optional
        The label that each column of `y_proba` stands for.

    Returns
    -------
    COCCurve
        The named tuple ``(expert_load, accuracy, thresholds)``.

    Examples
    --------
    >>> from expertload import coc_curve
    >>> y_true = [0, 1, 1, 0]
    >>> y_proba = [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]]
    >>> curve = coc_curve(y_true, y_proba)
    >>> curve.expert_load
    array([0.  , 0.25, 0.5 , 0.75])
    >>> curve.accuracy
    array([0.75, 1.  , 1.  , 1.  ])
    >>> curve.thresholds
    array([0.6, 0.7, 0.8, 0.9])

    Of graded answers, the y-axis is the mean grade:

    >>> from expertload import Cases
    >>> coc_curve(Cases.from_correctness([0.5, 1, 1], [0.5, 0.5, 0.7])).accuracy.round(3)
    array([0.833, 1.   ])
    """
    return as_cases(y_true, y_proba, confidence, sample_weight, labels).curve()


def aucoc_score(
    y_true: ArrayLike | Cases,
    y_proba: ArrayLike | None = None,
    *,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    convention: Convention = "exact",
) -> float:
    """Compute the area under the COC curve; higher is better.

    Parameters
    ----------
    y_true, y_proba, confidence, sample_weight, labels
        As in `coc_curve`.
    convention : {"exact", "thresholds", "authors"}, default="exact"
        Which area. They differ by O(log n / n).

        - ``"exact"``: accuracy averaged over all loads in [0, 1], thresholds being randomised
          within a group of equal confidences.
        - ``"thresholds"``: the mean of the accuracies at the n sample-wise thresholds, which is
          one minus the AURC of the literature. Weights must be whole numbers.
        - ``"authors"``: the trapezoid over the points of the curve, as in the paper's code, for
          comparison with published numbers. A perfect classifier scores 1 - 1/n there.

    Returns
    -------
    float
        1.0 for a perfect classifier, 0.0 for an always-wrong one (``"exact"``, ``"thresholds"``).

    Notes
    -----
    Takes O(n log n) time. For right-or-wrong cases without weights only two vectorised sorts are
    needed: ten million cases take a fraction of a second.

    Examples
    --------
    >>> from expertload import aucoc_score
    >>> y_true = [0, 1, 1, 0]
    >>> y_proba = [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]]
    >>> print(f"{aucoc_score(y_true, y_proba):.4f}")
    0.9658

    Two models that are equally often right, and a toss-up to every calibration error, differ in
    whether they are right where they are confident:

    >>> from expertload import Cases
    >>> confidence = [0.45, 0.55, 0.65, 0.70, 0.75]
    >>> print(f"{aucoc_score(Cases.from_correctness([0, 1, 0, 1, 1], confidence)):.3f}")
    0.839
    >>> print(f"{aucoc_score(Cases.from_correctness([1, 0, 1, 1, 0], confidence)):.3f}")
    0.406
    """
    return as_cases(y_true, y_proba, confidence, sample_weight, labels).aucoc(convention)


def load_at_accuracy(
    y_true: ArrayLike | Cases,
    y_proba: ArrayLike | None = None,
    *,
    target_accuracy: float,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    """Compute the smallest expert load at which the accuracy reaches a target; lower is better.

    Parameters
    ----------
    y_true, y_proba, confidence, sample_weight, labels
        As in `coc_curve`.
    target_accuracy : float
        The accuracy wanted among the accepted cases, in [0, 1].

    Returns
    -------
    float
        The load, 1.0 (everything is delegated) where no threshold reaches the target.

    Examples
    --------
    >>> from expertload import load_at_accuracy
    >>> y_true = [0, 1, 1, 0]
    >>> y_proba = [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]]
    >>> load_at_accuracy(y_true, y_proba, target_accuracy=0.95)
    0.25
    """
    cases = as_cases(y_true, y_proba, confidence, sample_weight, labels)
    return cases.load_at_accuracy(target_accuracy)


def accuracy_at_load(
    y_true: ArrayLike | Cases,
    y_proba: ArrayLike | None = None,
    *,
    expert_load: float,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    """Compute the accuracy at an expert load; higher is better.

    Parameters
    ----------
    y_true, y_proba, confidence, sample_weight, labels
        As in `coc_curve`.
    expert_load : float
        The share of cases that experts can take, in [0, 1].

    Returns
    -------
    float
        The accuracy at the strictest threshold that delegates no more than `expert_load`.

    Examples
    --------
    >>> from expertload import accuracy_at_load
    >>> y_true = [0, 1, 1, 0]
    >>> y_proba = [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]]
    >>> accuracy_at_load(y_true, y_proba, expert_load=0.2)
    0.75
    """
    cases = as_cases(y_true, y_proba, confidence, sample_weight, labels)
    return cases.accuracy_at_load(expert_load)
