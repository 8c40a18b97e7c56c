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
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from expertload._check import (
    check_count,
    check_fraction,
    check_option,
    check_same_order,
    insufficient,
    random_generator,
)
from expertload._format import promised
from expertload._label_arrays import independent_units
from expertload._typing import AnyArray, ArrayLike, BoolArray, FloatArray, IntArray
from expertload.calibrators import CONFIDENCE_SCORES, CalibrationWarning, ConfidenceScore
from expertload.cases import Cases, check_named_predictions
from expertload.significance import Interval
from expertload.significance.resample import percentile_interval

__all__ = ["ConfidenceChoice", "choose_confidence", "split_cases"]

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
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    target_accuracy: float = 0.95,
    scores: Sequence[str] = CONFIDENCE_SCORES,
    labels: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    n_folds: int = 5,
    n_resamples: int = 1000,
    confidence_level: float = 0.95,
    random_state: int = 0,
) -> ConfidenceChoice:
    """Choose the score that ranks cases, and measure the load it saves on other cases.

    Parameters
    ----------
    y_true, y_proba, labels
        As in `expertload.coc_curve`. The model must not be trained on these cases, and nothing may
        be certified on them.
    target_accuracy : float, default=0.95
        The accuracy of automatic decisions at which loads are compared.
    scores : sequence of str
        The scores to choose among, see `expertload.calibrators.ConfidenceScore`. The maximum
        probability is always one of them, and wins a tie.
    clusters : array-like of shape (n_cases,), optional
        The cluster of each case, for example its patient. Folds never split a cluster.
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
    >>> from expertload.evaluation import choose_confidence
    >>> rng = np.random.default_rng(0)
    >>> top = rng.uniform(0.5, 1.0, size=1000)
    >>> predicted = rng.integers(0, 2, size=1000)
    >>> right = rng.random(1000) < np.where(predicted == 0, 0.5 + 0.5 * top, 0.6 * top)
    >>> y_true = np.where(right, predicted, 1 - predicted)
    >>> y_proba = np.where(predicted == 1, top, 1 - top)
    >>> choice = choose_confidence(y_true, y_proba, target_accuracy=0.9, n_folds=3)
    >>> print(choice.score.name, choice.load_saved)
    correctness 0.3150 (95 % interval 0.2140 to 0.4570)
    """
    target = check_fraction(target_accuracy, "target_accuracy")
    level = check_fraction(confidence_level, "confidence_level", inclusive=False)
    folds = check_count(n_folds, "n_folds", minimum=2)
    rounds = check_count(n_resamples, "n_resamples", minimum=2)
    names = [check_option(name, CONFIDENCE_SCORES, "scores") for name in scores]
    names = list(dict.fromkeys([PLAIN, *names]))
    cases = _read(y_true, y_proba, labels, clusters, folds)
    rng = random_generator(random_state)
    with warnings.catch_warnings():
        # A temperature at the limit of its range gives a poor score; the folds will show it.
        warnings.simplefilter("ignore", CalibrationWarning)
        loads = _loads(cases, names, folds, target, rng)
        score = ConfidenceScore(_lowest(loads)).fit(cases.proba, cases.target)
        outer, chosen = _nested(cases, names, folds, target, rng)
    saved = _saved(cases, outer, target, rounds, level, rng)
    return ConfidenceChoice(
        score=score,
        loads=loads,
        load_saved=saved,
        chosen_without=chosen,
        target_accuracy=target,
        n_cases=len(cases.target),
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
    unit = independent_units(number, clusters)
    order = random_generator(random_state).permutation(unit.max() + 1)
    share_of_units = min(fraction, MOST_CHOOSING / number)
    is_choosing = np.isin(unit, order[: round(share_of_units * len(order))])
    return np.flatnonzero(is_choosing), np.flatnonzero(~is_choosing)


# ------------------------------------------------------------------ cases


class _LabelledCases(NamedTuple):
    """Labels, probabilities, correctness, and the unit (cluster) of each case."""

    target: IntArray
    proba: FloatArray
    right: BoolArray
    unit: IntArray

    def take(self, rows: AnyArray) -> _LabelledCases:
        return _LabelledCases(
            self.target[rows], self.proba[rows], self.right[rows], self.unit[rows]
        )


def _read(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    labels: ArrayLike | None,
    clusters: ArrayLike | None,
    n_folds: int,
) -> _LabelledCases:
    check_same_order(y_true=y_true, y_proba=y_proba, clusters=clusters)
    predictions, _ = check_named_predictions(y_true, y_proba, None, labels)
    target, proba = predictions.target, np.ascontiguousarray(predictions.proba, dtype=np.float64)
    unit = independent_units(len(target), clusters)
    needed = LEAST_CASES_A_FOLD * n_folds
    if unit.max() + 1 < needed:
        what = "cases" if clusters is None else "clusters"
        raise insufficient(
            f"at least {needed} {what}", str(unit.max() + 1), "pass more, or fewer folds"
        )
    return _LabelledCases(target, proba, proba.argmax(axis=1) == target, unit)


def _folds(cases: _LabelledCases, n_folds: int, rng: np.random.Generator) -> list[BoolArray]:
    """Return a mask for each fold; cases of one unit are always in the same fold."""
    known, place = np.unique(cases.unit, return_inverse=True)
    fold = rng.permutation(np.arange(len(known)) % n_folds)[place]
    return [fold == k for k in range(n_folds)]


# ------------------------------------------------------------------ choosing


def _loads(
    cases: _LabelledCases,
    names: Sequence[str],
    n_folds: int,
    target: float,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Return the load of each score; no score is fitted on the cases that it ranks."""
    folds = _folds(cases, n_folds, rng)
    return {name: _load(cases.right, _out_of_fold(name, cases, folds), target) for name in names}


def _out_of_fold(name: str, cases: _LabelledCases, folds: Sequence[BoolArray]) -> FloatArray:
    if not ConfidenceScore(name).is_learned:
        return ConfidenceScore(name).confidence(cases.proba)
    confidence = np.empty(len(cases.target))
    for held in folds:
        rest = cases.take(~held)
        score = ConfidenceScore(name).fit(rest.proba, rest.target)
        confidence[held] = score.confidence(cases.proba[held])
    return confidence


def _lowest(loads: Mapping[str, float]) -> str:
    """Return the score with the lowest load; the first one if several are equal."""
    return min(loads, key=loads.__getitem__)


def _load(right: BoolArray, confidence: FloatArray, target: float) -> float:
    return Cases.from_correctness(right, confidence).load_at_accuracy(target)


# ------------------------------------------------------------------ measuring


class _Ranked(NamedTuple):
    """The rank of each case within its outer fold, from 0 to 1, for both confidences.

    Folds may have chosen scores with different scales; ranks are comparable, confidences are not.
    """

    chosen: FloatArray
    plain: FloatArray


def _nested(
    cases: _LabelledCases,
    names: Sequence[str],
    n_folds: int,
    target: float,
    rng: np.random.Generator,
) -> tuple[_Ranked, tuple[str, ...]]:
    """Choose and fit without each fold in turn, and rank the cases of that fold."""
    ranked = _Ranked(np.empty(len(cases.target)), np.empty(len(cases.target)))
    chosen = []
    for held in _folds(cases, n_folds, rng):
        rest = cases.take(~held)
        name = _lowest(_loads(rest, names, n_folds, target, rng))
        score = ConfidenceScore(name).fit(rest.proba, rest.target)
        ranked.chosen[held] = _places(score.confidence(cases.proba[held]))
        ranked.plain[held] = _places(ConfidenceScore(PLAIN).confidence(cases.proba[held]))
        chosen.append(name)
    return ranked, tuple(chosen)


def _places(confidence: FloatArray) -> FloatArray:
    from scipy.stats import rankdata  # takes half a second to import, and few uses need it

    places: FloatArray = (rankdata(confidence) - 0.5) / len(confidence)
    return places


def _saved(
    cases: _LabelledCases,
    ranked: _Ranked,
    target: float,
    n_resamples: int,
    level: float,
    rng: np.random.Generator,
) -> Interval:
    """Return the load saved, with a bootstrap interval over cases or clusters."""

    def saved(weight: AnyArray | None) -> float:
        plain, chosen = (
            Cases.from_correctness(cases.right, places, sample_weight=weight).load_at_accuracy(
                target
            )
            for places in (ranked.plain, ranked.chosen)
        )
        return plain - chosen

    n_units = int(cases.unit.max()) + 1
    values = np.array(
        [
            saved(np.bincount(rng.integers(0, n_units, n_units), minlength=n_units)[cases.unit])
            for _ in range(n_resamples)
        ]
    )
    return percentile_interval(saved(None), values, level)
