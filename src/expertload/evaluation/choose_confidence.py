"""Chooses the confidence with the lowest expert load, and measures without bias what that saves.

A score looks better than it is on the cases used to choose or fit it. So nested cross-validation is
used: for each outer fold, a score is chosen and fitted on the other folds, with inner folds, and
then measured on the cases left out. The load saved there is what to expect on new cases.

Nothing is certified here. A threshold must be certified on cases that were not used for the choice;
`split_cases` separates the two.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from expertload._check import (
    check_count,
    check_fraction,
    check_level,
    check_option,
    insufficient,
    message,
    random_generator,
)
from expertload._format import promised
from expertload._label_arrays import number_clusters
from expertload._typing import ArrayLike, BoolArray, FloatArray, IntArray
from expertload.calibrators import CONFIDENCE_SCORES, CalibrationWarning, ConfidenceScore
from expertload.cases import Cases, check_are_cases
from expertload.exceptions import WeightError
from expertload.significance import Interval, load_difference
from expertload.significance.resample import ranks

PLAIN = CONFIDENCE_SCORES[0]
LEAST_CASES_A_FOLD = 4
# More cases would not improve the choice, and are better used for the certificate.
MOST_CHOOSING = 10_000


@dataclass(frozen=True, kw_only=True)
class ConfidenceChoice:
    """The chosen confidence, and the load that it saves.

    Attributes
    ----------
    score : ConfidenceScore
        The chosen score; if it has parameters, they are fitted on all cases.
    loads : dict
        The expert load at the target accuracy for each score, none of them fitted on the cases it
        ranks. The lowest one is optimistic, because it was chosen for being the lowest.
    load_saved : Interval
        How much less is delegated than with the maximum probability, as a share of all cases.
        Measured with scores that were chosen and fitted without the cases they rank.
    chosen_without : tuple of str
        Which score was chosen without each of the outer folds.
    target_accuracy : float
        The accuracy that automatic decisions must reach.
    n_cases : int
        The number of cases used for the choice.
    """

    score: ConfidenceScore
    loads: Mapping[str, float]
    load_saved: Interval
    chosen_without: tuple[str, ...]
    target_accuracy: float
    n_cases: int

    def __str__(self) -> str:
        target, saved = promised(self.target_accuracy), self.load_saved
        if self.score.name == PLAIN:
            return (
                f"No score has a lower load at {target} accuracy than the maximum probability on "
                f"{self.n_cases} cases, so the maximum probability is kept."
            )
        level = promised(saved.confidence_level)
        sure = "" if saved.low > 0 else " The interval contains 0, so this may be chance."
        return (
            f"'{self.score.name}' was chosen on {self.n_cases} cases. Compared with the maximum "
            f"probability, this saves {100 * saved.estimate:.1f} points of load at {target} "
            f"accuracy ({level} interval {100 * saved.low:.1f} to {100 * saved.high:.1f}), "
            f"measured on cases that were not used for the choice.{sure}"
        )


def choose_confidence(
    cases: Cases,
    *,
    target_accuracy: float = 0.95,
    scores: Sequence[str] = CONFIDENCE_SCORES,
    n_folds: int = 5,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    random_state: int = 0,
) -> ConfidenceChoice:
    """Choose the score that ranks cases, and measure the load it saves on other cases.

    Parameters
    ----------
    cases : Cases
        Cases with probabilities and without weights. The model must not be trained on them, and
        nothing may be certified on them. Folds never split a cluster.
    target_accuracy : float, default=0.95
        The accuracy of automatic decisions at which loads are compared.
    scores : sequence of str
        The scores to choose among, see `expertload.calibrators.ConfidenceScore`. The maximum
        probability is always one of them, and wins a tie.
    n_folds : int, default=5
        The number of folds, outer and inner.
    n_resamples : int, default=1000
        The number of bootstrap resamples for the interval.
    confidence_level : float, default=0.95
        The confidence level of the interval.
    random_state : int, default=0
        The seed of folds and resamples.

    Returns
    -------
    ConfidenceChoice
        The fitted score, the loads of all scores, and the load saved, with an interval.

    Examples
    --------
    Two classes are predicted with the same probabilities, and one is right less often:

    >>> import numpy as np
    >>> from expertload import Cases
    >>> from expertload.evaluation import choose_confidence
    >>> rng = np.random.default_rng(0)
    >>> top = rng.uniform(0.5, 1.0, size=1000)
    >>> predicted = rng.integers(0, 2, size=1000)
    >>> right = rng.random(1000) < np.where(predicted == 0, 0.5 + 0.5 * top, 0.6 * top)
    >>> y_true = np.where(right, predicted, 1 - predicted)
    >>> y_proba = np.where(predicted == 1, top, 1 - top)
    >>> cases = Cases.from_predictions(y_true, y_proba)
    >>> choice = choose_confidence(cases, target_accuracy=0.9, n_folds=3)
    >>> print(choice.score.name, choice.load_saved)
    correctness 0.3150 (95 % interval 0.2140 to 0.4570)
    """
    target = check_fraction(target_accuracy, "target_accuracy")
    level = check_level(confidence_level)
    folds = check_count(n_folds, "n_folds", minimum=2)
    rounds = check_count(n_resamples, "n_resamples", minimum=2)
    names = [check_option(name, CONFIDENCE_SCORES, "scores") for name in scores]
    names = list(dict.fromkeys([PLAIN, *names]))
    cases = _with_doubles(cases, folds)
    rng = random_generator(random_state)
    with warnings.catch_warnings():
        # A temperature at the limit of its range gives a poor score; the folds will show it.
        warnings.simplefilter("ignore", CalibrationWarning)
        loads = _loads(cases, names, folds, target, rng)
        score = _fitted(_lowest(loads), cases)
        plain, chosen, chosen_without = _nested(cases, names, folds, target, rng)
    saved = load_difference(
        replace(cases, confidence=plain),
        replace(cases, confidence=chosen),
        target_accuracy=target,
        n_resamples=rounds,
        confidence_level=level,
        random_state=rng,
    )
    return ConfidenceChoice(
        score=score,
        loads=loads,
        load_saved=saved,
        chosen_without=chosen_without,
        target_accuracy=target,
        n_cases=len(cases),
    )


def split_cases(
    n_cases: int, *, share: float = 0.3, clusters: ArrayLike | None = None, random_state: int = 0
) -> tuple[IntArray, IntArray]:
    """Split cases at random: one part to choose a confidence, the other to certify.

    Parameters
    ----------
    n_cases : int
        The number of cases.
    share : float, default=0.3
        The share of cases (or clusters) used to choose; at most 10,000 cases.
    clusters : array-like of shape (n_cases,), optional
        The cluster of each case; clusters are not split.
    random_state : int, default=0
        The seed.

    Returns
    -------
    tuple of ndarray
        The rows for the choice, and the rows for certification, both ascending.

    Examples
    --------
    >>> from expertload.evaluation import split_cases
    >>> choosing, certifying = split_cases(10, share=0.3)
    >>> len(choosing), len(certifying)
    (3, 7)
    """
    fraction = check_fraction(share, "share", inclusive=False)
    number = check_count(n_cases, "n_cases")
    own = number_clusters(clusters, number)
    unit = np.arange(number) if own is None else own
    order = random_generator(random_state).permutation(unit.max() + 1)
    share_of_units = min(fraction, MOST_CHOOSING / number)
    is_choosing = np.isin(unit, order[: round(share_of_units * len(order))])
    return np.flatnonzero(is_choosing), np.flatnonzero(~is_choosing)


# ------------------------------------------------------------------ cases


def _with_doubles(cases: Cases, n_folds: int) -> Cases:
    """Return the cases with probabilities in double precision, which scores are fitted to."""
    check_are_cases(cases)
    proba = np.ascontiguousarray(cases.predictions.proba, dtype=np.float64)
    if cases.weight is not None:
        hint = "leave out sample_weight"
        raise WeightError(message("cases", "must not have weights", "weights", hint))
    needed, n_units = LEAST_CASES_A_FOLD * n_folds, len(np.unique(cases.unit))
    if n_units < needed:
        what = "cases" if cases.clusters is None else "clusters"
        raise insufficient(f"at least {needed} {what}", str(n_units), "pass more, or fewer folds")
    return replace(cases, proba=proba, groups=None)


def _folds(cases: Cases, n_folds: int, rng: np.random.Generator) -> list[BoolArray]:
    """Return a mask for each fold; cases of one cluster are always in the same fold."""
    known, place = np.unique(cases.unit, return_inverse=True)
    fold = rng.permutation(np.arange(len(known)) % n_folds)[place]
    return [fold == k for k in range(n_folds)]


# ------------------------------------------------------------------ choosing


def _loads(
    cases: Cases, names: Sequence[str], n_folds: int, target: float, rng: np.random.Generator
) -> dict[str, float]:
    """Return the load of each score; no score is fitted on the cases that it ranks."""
    folds = _folds(cases, n_folds, rng)
    return {
        name: replace(cases, confidence=_out_of_fold(name, cases, folds)).load_at_accuracy(target)
        for name in names
    }


def _out_of_fold(name: str, cases: Cases, folds: Sequence[BoolArray]) -> FloatArray:
    proba = cases.predictions.proba
    if not ConfidenceScore(name).is_learned:
        return ConfidenceScore(name).confidence(proba)
    confidence = np.empty(len(cases))
    for held in folds:
        confidence[held] = _fitted(name, cases.take(~held)).confidence(proba[held])
    return confidence


def _fitted(name: str, cases: Cases) -> ConfidenceScore:
    target, proba, _ = cases.predictions
    return ConfidenceScore(name).fit(proba, target)


def _lowest(loads: Mapping[str, float]) -> str:
    """Return the score with the lowest load; the first one if several are equal."""
    return min(loads, key=loads.__getitem__)


# ------------------------------------------------------------------ measuring


def _nested(
    cases: Cases, names: Sequence[str], n_folds: int, target: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Choose and fit without each fold in turn, and rank the cases of that fold.

    Returns the ranks by the maximum probability and by the chosen scores, and their names. Folds
    may choose scores with different scales; ranks are comparable, confidences are not.
    """
    plain, chosen, names_chosen = np.empty(len(cases)), np.empty(len(cases)), []
    for held in _folds(cases, n_folds, rng):
        rest = cases.take(~held)
        name = _lowest(_loads(rest, names, n_folds, target, rng))
        proba = cases.predictions.proba[held]
        plain[held] = _places(ConfidenceScore(PLAIN).confidence(proba))
        chosen[held] = _places(_fitted(name, rest).confidence(proba))
        names_chosen.append(name)
    return plain, chosen, tuple(names_chosen)


def _places(confidence: FloatArray) -> FloatArray:
    return ranks(confidence) / len(confidence)
