"""Choosing a confidence: what is chosen, what it is said to save, and what may be promised."""

from __future__ import annotations

import numpy as np
import pytest

from expertload import Cases, load_at_accuracy
from expertload.calibrators import CONFIDENCE_SCORES, ConfidenceScore
from expertload.evaluation import choose_confidence, split_cases
from expertload.exceptions import InsufficientDataError, ParameterError
from expertload.operating_point import certify

PLAIN = ["margin", "entropy", "gini", "max_logit_norm"]
CLASSES = range(8)


def two_kinds(n=600, seed=0):
    """One of two classes is right less often at the same probability."""
    rng = np.random.default_rng(seed)
    top, predicted = rng.uniform(0.5, 1.0, size=n), rng.integers(0, 2, size=n)
    right = rng.random(n) < np.where(predicted == 0, 0.5 + 0.5 * top, 0.6 * top)
    return np.where(right, predicted, 1 - predicted), np.where(predicted == 1, top, 1 - top)


def nothing_to_find(rng, n, accuracy=0.88):
    """Whether the model is right has nothing to do with its probabilities."""
    proba = rng.dirichlet(np.full(len(CLASSES), 0.6), size=n)
    predicted, right = proba.argmax(axis=1), rng.random(n) < accuracy
    return np.where(right, predicted, (predicted + 1) % len(CLASSES)), proba, right


def quick(y_true, y_proba, clusters=None, **options):
    options = {"target_accuracy": 0.9, "n_folds": 3, "n_resamples": 50, **options}
    cases = Cases.from_predictions(y_true, y_proba, clusters=clusters)
    return choose_confidence(cases, **options)


@pytest.mark.slow
def test_the_score_that_knows_classes_is_chosen_and_saves():
    y_true, y_proba = two_kinds()
    choice = quick(y_true, y_proba)
    assert choice.score.name == "correctness"
    assert choice.chosen_without == ("correctness",) * 3
    assert choice.load_saved.low > 0.1
    assert choice.n_cases == 600
    refitted = ConfidenceScore("correctness").fit(y_proba, y_true)
    assert choice.score == refitted
    fresh_true, fresh_proba = two_kinds(20_000, seed=1)
    confidence = choice.score.confidence(fresh_proba)
    loads = [
        load_at_accuracy(fresh_true, fresh_proba, target_accuracy=0.9, confidence=c)
        for c in (None, confidence)
    ]
    assert choice.load_saved.low < loads[0] - loads[1] < choice.load_saved.high


def test_loads_without_anything_to_learn_are_those_of_the_curve():
    rng = np.random.default_rng(3)
    proba = rng.dirichlet(np.full(5, 0.4), size=400)
    y_true = (proba.cumsum(axis=1) > rng.random((400, 1))).argmax(axis=1)
    choice = quick(y_true, proba, scores=PLAIN, target_accuracy=0.8)
    assert list(choice.loads) == ["max_probability", *PLAIN]
    for name, load in choice.loads.items():
        confidence = ConfidenceScore(name).confidence(proba)
        expected = load_at_accuracy(y_true, proba, target_accuracy=0.8, confidence=confidence)
        assert load == expected, name


def test_the_same_score_saves_nothing_at_all():
    choice = quick(*two_kinds(), scores=["max_probability"])
    assert choice.score.name == "max_probability"
    saved = choice.load_saved
    assert (saved.estimate, saved.low, saved.high) == (0, 0, 0)
    assert "No score has a lower load at 90 %" in str(choice)


def test_a_draw_goes_to_the_maximum_probability():
    """Of two classes, all plain scores rank alike."""
    choice = quick(*two_kinds(), scores=["gini", "entropy", "margin"])
    assert choice.score.name == "max_probability"


@pytest.mark.slow
def test_the_seed_decides():
    y_true, y_proba = two_kinds(200)
    first, same, other = (quick(y_true, y_proba, random_state=seed) for seed in (0, 0, 1))
    assert first == same
    assert first.load_saved != other.load_saved


@pytest.mark.slow
def test_classes_may_have_names():
    y_true, y_proba = two_kinds()
    named = quick(np.array(["no", "yes"])[y_true], y_proba, scores=["correctness"])
    assert named.loads == quick(y_true, y_proba, scores=["correctness"]).loads


@pytest.mark.slow
def test_the_sentence_says_what_is_saved_and_how_surely():
    choice = quick(*two_kinds())
    said = 100 * choice.load_saved.estimate
    assert f"saves {said:.1f} points of load at 90 % accuracy" in str(choice)
    assert "chance" not in str(choice)
    small = quick(*two_kinds(120), n_folds=5)
    assert ("may be chance" in str(small)) == (small.load_saved.low <= 0)


@pytest.mark.slow
def test_folds_keep_clusters_together(monkeypatch):
    seen = []
    real = Cases.take

    def take(cases, rows):
        seen.append((set(cases.unit[rows]), set(cases.unit[~rows])))
        return real(cases, rows)

    monkeypatch.setattr(Cases, "take", take)
    y_true, y_proba = two_kinds()
    patients = np.arange(600) // 4
    choice = quick(y_true, y_proba, clusters=patients, scores=["correctness"])
    assert len(seen) > 10
    assert not any(fitted & held for fitted, held in seen)
    alone = quick(y_true, y_proba, scores=["correctness"])
    assert choice.load_saved != alone.load_saved


@pytest.mark.parametrize("clusters", [None, np.repeat(np.arange(100), 5)])
def test_a_split_parts_cases_once(clusters):
    choosing, certifying = split_cases(500, share=0.4, clusters=clusters, random_state=3)
    assert len(choosing) == 200
    assert sorted([*choosing, *certifying]) == list(range(500))
    if clusters is not None:
        assert not set(clusters[choosing]) & set(clusters[certifying])
    again = split_cases(500, share=0.4, clusters=clusters, random_state=3)
    assert np.array_equal(again[0], choosing)
    other = split_cases(500, share=0.4, clusters=clusters, random_state=4)
    assert not np.array_equal(other[0], choosing)


def test_of_very_many_cases_few_choose():
    choosing, certifying = split_cases(100_000)
    assert (len(choosing), len(certifying)) == (10_000, 90_000)


def test_too_few_cases_are_a_sentence():
    y_true, y_proba = two_kinds(19)
    with pytest.raises(InsufficientDataError, match="at least 20 cases. Got 19"):
        choose_confidence(Cases.from_predictions(y_true, y_proba))
    y_true, y_proba = two_kinds(100)
    with pytest.raises(InsufficientDataError, match="at least 20 clusters. Got 4"):
        choose_confidence(Cases.from_predictions(y_true, y_proba, clusters=np.arange(100) % 4))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"scores": ["energy"]}, ParameterError),
        ({"target_accuracy": 90}, ParameterError),
        ({"n_folds": 1}, ParameterError),
        ({"n_resamples": 1}, ParameterError),
    ],
)
def test_nonsense_is_refused(options, error):
    with pytest.raises(error, match=next(iter(options))):
        quick(*two_kinds(), **options)


# ------------------------------------------------------------------ honesty, simulated


@pytest.mark.simulation
def test_what_is_saved_is_not_flattered():
    """Where there is nothing to find, nested folds find nothing; the cases that chose do."""
    honest, flattered = [], []
    for seed in range(60):
        y_true, proba, _ = nothing_to_find(np.random.default_rng(seed), 200)
        choice = choose_confidence(
            Cases.from_predictions(*(y_true, proba), labels=CLASSES),
            scores=PLAIN,
            target_accuracy=0.9,
            n_resamples=2,
        )
        honest.append(choice.load_saved.estimate)
        flattered.append(choice.loads["max_probability"] - choice.loads[choice.score.name])
    error = np.std(honest, ddof=1) / np.sqrt(len(honest))
    assert abs(np.mean(honest)) < 3 * error
    assert np.mean(flattered) > 5 * error


def is_certified(right, confidence):
    return certify(
        Cases.from_correctness(right, confidence), target_accuracy=0.9, confidence_level=0.9
    ).is_certified


@pytest.mark.simulation
def test_the_promise_holds_where_other_cases_chose_and_breaks_where_the_same_did():
    """The model is right in 88 % of cases at every threshold, so any certificate of 90 % is false.

    A tenth of all certificates may be. Choosing on other cases keeps that; trying every score on
    the cases to be certified, and keeping one that passes, does not.
    """
    rounds, split, same = 150, 0, 0
    for seed in range(rounds):
        y_true, proba, right = nothing_to_find(np.random.default_rng(seed), 500)
        choosing, certifying = split_cases(500, random_state=seed)
        choice = choose_confidence(
            Cases.from_predictions(y_true[choosing], proba[choosing], labels=CLASSES),
            scores=PLAIN,
            target_accuracy=0.9,
            n_resamples=2,
        )
        split += is_certified(right[certifying], choice.score.confidence(proba[certifying]))
        fitted = (ConfidenceScore(n).fit(proba, y_true, labels=CLASSES) for n in CONFIDENCE_SCORES)
        same += any(is_certified(right, score.confidence(proba)) for score in fitted)
    chance = 3 * np.sqrt(0.1 * 0.9 / rounds)
    assert split / rounds < 0.1 + chance
    assert same / rounds > 0.1 + chance


def test_a_load_is_read_off_places_as_off_confidences():
    """Places within one fold rank as its confidences do."""
    from expertload.evaluation.choose_confidence import _places

    rng = np.random.default_rng(0)
    right, confidence = rng.random(80) < 0.7, rng.integers(0, 9, 80) / 9
    for target in (0.6, 0.75, 0.9):
        loads = {
            load_at_accuracy(Cases.from_correctness(right, each), target_accuracy=target)
            for each in (confidence, _places(confidence))
        }
        assert len(loads) == 1
