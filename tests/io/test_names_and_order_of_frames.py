"""What a frame or a series says of itself is believed, or refused; it is never passed over."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

from expertload import Cases, aucoc_score, certify, coc_curve
from expertload._check import EXACT_ONLY, as_array, as_floats
from expertload.calibrators import ConfidenceScore, TemperatureScaling
from expertload.evaluation import (
    choose_confidence,
    evaluate,
)
from expertload.exceptions import (
    DataTypeError,
    ExpertLoadError,
    LabelError,
    NonFiniteError,
    ShapeError,
    WeightError,
)
from expertload.io import tally_frame, tally_groups
from expertload.metrics import brier_loss
from expertload.monitoring import AccuracyMonitor
from expertload.operating_point import (
    certify_groups,
    certify_mean_cost,
    choose,
)
from expertload.significance import (
    aucoc_interval,
    aucoc_paired_test,
    bootstrap_interval,
    compare_models,
    permutation_test,
)

RNG = np.random.default_rng(0)
N = 200
NUMBERS = RNG.integers(0, 2, N)
DOG = 1 / (1 + np.exp(-RNG.normal(2.5 * (NUMBERS - 0.5))))
BOTH = np.column_stack([1 - DOG, DOG])
LABELS = np.array(["cat", "dog"])[NUMBERS]
RIGHT = aucoc_score(LABELS, BOTH, labels=["cat", "dog"])
POLICY = choose(Cases.from_predictions(LABELS, BOTH, labels=["cat", "dog"]), target_accuracy=0.9)
SHUFFLED = RNG.permutation(N)


def reversed_frame(names):
    return pd.DataFrame(BOTH[:, ::-1], columns=names)


STRANGE_NAMES = {
    "two levels": pd.MultiIndex.from_tuples([("p", "dog"), ("p", "cat")]),
    "bytes": [b"dog", b"cat"],
    "none": [None, "cat"],
    "fractions": [1.5, 0.5],
    "intervals": pd.IntervalIndex.from_breaks([0, 1, 2]),
    "dates": pd.to_datetime(["2026-01-01", "2025-01-01"]),
}


@pytest.mark.parametrize("names", STRANGE_NAMES.values(), ids=STRANGE_NAMES)
def test_columns_of_strange_names_are_not_taken_by_position(names):
    frame = reversed_frame(names)
    with pytest.raises(LabelError, match="names no column"):
        aucoc_score(LABELS, frame)
    with pytest.raises(LabelError, match="policy has the classes cat, dog"):
        POLICY.decide(frame)


def test_names_that_are_floats_are_classes():
    assert aucoc_score(NUMBERS, reversed_frame([1.0, 0.0])) == RIGHT
    assert aucoc_score(NUMBERS, pd.DataFrame(BOTH, columns=[0.0, 1.0])) == RIGHT


@pytest.mark.parametrize(
    "series",
    [
        pd.Series(1 - DOG, name="cat"),
        pd.Series(1 - DOG, name="p_cat"),
        pl.Series("p_cat", 1 - DOG),
        pd.Series(DOG, name="p_dog"),
        pd.Series(DOG, name="score"),
        pd.Series(DOG),
        pl.Series(DOG),
        DOG,
    ],
    ids=["cat", "p_cat", "p_cat in Polars", "p_dog", "score", "none", "none in Polars", "array"],
)
def test_a_series_is_of_the_class_it_is_named_after(series):
    assert aucoc_score(LABELS, series) == pytest.approx(RIGHT, abs=1e-12)
    loss = bootstrap_interval(
        Cases.from_predictions(LABELS, series), metric=brier_loss, n_resamples=5
    ).estimate
    assert loss == pytest.approx(brier_loss(NUMBERS, BOTH), abs=1e-12)
    decided, expected = POLICY.decide(series), POLICY.decide(BOTH)
    assert decided.labels.tolist() == expected.labels.tolist()
    assert decided.accepted.tolist() == expected.accepted.tolist()


@pytest.mark.parametrize("name", ["p_eel", "1"])
def test_a_series_of_another_class_is_refused(name):
    series = pd.Series(DOG, name=name)
    for call in (lambda: aucoc_score(LABELS, series), lambda: POLICY.decide(series)):
        with pytest.raises(LabelError, match="must be named after one of the classes cat, dog"):
            call()


def test_a_column_of_a_numbered_frame_is_of_its_number():
    for frame in (pd.DataFrame(BOTH), pl.DataFrame(BOTH)):
        for name in list(frame.columns):
            assert aucoc_score(NUMBERS, frame[name]) == pytest.approx(RIGHT, abs=1e-12)


def test_repeated_names_are_called_so():
    frame = pd.DataFrame(np.column_stack([BOTH[:, 0], DOG / 2, DOG / 2]))
    with pytest.raises(LabelError, match="more than one column of dog"):
        aucoc_score(LABELS, frame.set_axis(["cat", "dog", "dog"], axis=1))


# ------------------------------------------------------------------ the order of rows


SERIES, FRAME = pd.Series(LABELS), pd.DataFrame(BOTH, columns=["cat", "dog"])
CORRECT = pd.Series(BOTH.argmax(axis=1) == NUMBERS)
CONFIDENCE = pd.Series(BOTH.max(axis=1))
OTHER = CONFIDENCE.iloc[SHUFFLED]
TWO_LEVELS = pd.MultiIndex.from_product([range(N // 2), ["a", "b"]])
SITES = pd.Series(["a", "b"] * (N // 2)).iloc[SHUFFLED]
IN_OTHER_ORDER = {
    "labels": lambda: aucoc_score(SERIES.iloc[SHUFFLED], FRAME),
    "probabilities": lambda: coc_curve(SERIES, FRAME.iloc[SHUFFLED]),
    "confidence": lambda: aucoc_interval(Cases.from_predictions(SERIES, FRAME, confidence=OTHER)),
    "weights": lambda: brier_loss(SERIES, FRAME, sample_weight=OTHER),
    "correctness": lambda: evaluate(Cases.from_correctness(CORRECT, OTHER)),
    "groups": lambda: evaluate(Cases.from_predictions(SERIES, FRAME, groups=SITES)),
    "clusters": lambda: certify(SERIES, FRAME, clusters=SITES, target_accuracy=0.8),
    "groups to certify": lambda: certify_groups(
        Cases.from_predictions(SERIES, FRAME, groups=SITES), target_accuracy=0.8
    ),
    "calibration": lambda: TemperatureScaling().fit(FRAME, SERIES.iloc[SHUFFLED]),
    "learned scores": lambda: ConfidenceScore("temperature").fit(FRAME, SERIES.iloc[SHUFFLED]),
    "clusters to choose by": lambda: choose_confidence(
        Cases.from_predictions(SERIES, FRAME, clusters=SITES)
    ),
    "costs": lambda: certify_mean_cost(
        Cases.from_predictions(SERIES, FRAME), error_costs=OTHER, max_mean_cost=0.1
    ),
    "costs of correctness": lambda: certify_mean_cost(
        Cases.from_correctness(CORRECT, CONFIDENCE), error_costs=OTHER, max_mean_cost=0.1
    ),
    "keys of audits": lambda: AccuracyMonitor(target_accuracy=0.9).update(CORRECT, key=SITES),
    "inclusion of audits": lambda: AccuracyMonitor(target_accuracy=0.9).update(
        CORRECT, inclusion_probability=OTHER
    ),
    # labels without an index say nothing about the order of the others
    "confidence beside probabilities": lambda: aucoc_score(LABELS, FRAME, confidence=OTHER),
    "weights beside probabilities": lambda: aucoc_score(LABELS, FRAME, sample_weight=OTHER),
    "clusters beside probabilities": lambda: certify(
        LABELS, FRAME, clusters=SITES, target_accuracy=0.8
    ),
    "groups beside probabilities": lambda: certify_groups(
        Cases.from_predictions(LABELS, FRAME, groups=SITES), target_accuracy=0.8
    ),
    "groups beside a confidence": lambda: evaluate(
        Cases.from_predictions(LABELS, BOTH, groups=SITES, confidence=CONFIDENCE)
    ),
    "groups beside correctness": lambda: evaluate(
        Cases.from_correctness(CORRECT.to_numpy(), CONFIDENCE, groups=SITES)
    ),
    "groups to decide": lambda: certify_groups(
        Cases.from_predictions(LABELS, BOTH, groups=SITES, confidence=CONFIDENCE.to_numpy()),
        target_accuracy=0.6,
    ).decide(BOTH, groups=SITES, confidence=CONFIDENCE),
    # two models are compared case by case
    "two models": lambda: aucoc_paired_test(
        Cases.from_predictions(LABELS, FRAME), Cases.from_predictions(LABELS, FRAME.iloc[SHUFFLED])
    ),
    "two models, one ranked": lambda: aucoc_paired_test(
        Cases.from_predictions(LABELS, FRAME),
        Cases.from_predictions(LABELS, BOTH, confidence=OTHER),
    ),
    "two models to permute": lambda: permutation_test(
        Cases.from_predictions(LABELS, FRAME), Cases.from_predictions(LABELS, FRAME.iloc[SHUFFLED])
    ),
    "models by name": lambda: compare_models(
        {
            "a": Cases.from_predictions(LABELS, FRAME),
            "b": Cases.from_predictions(LABELS, FRAME.iloc[SHUFFLED]),
        }
    ),
    "correctness of two": lambda: aucoc_paired_test(
        Cases.from_correctness(CORRECT, CONFIDENCE),
        Cases.from_correctness(CORRECT.iloc[SHUFFLED], OTHER),
    ),
    "correctness of two to permute": lambda: permutation_test(
        Cases.from_correctness(CORRECT, CONFIDENCE),
        Cases.from_correctness(CORRECT.iloc[SHUFFLED], OTHER),
    ),
    "correctness of models by name": lambda: compare_models(
        {
            "a": Cases.from_correctness(CORRECT, CONFIDENCE),
            "b": Cases.from_correctness(CORRECT.to_numpy(), OTHER),
        }
    ),
    "an index of its own between them": lambda: aucoc_interval(
        Cases.from_predictions(SERIES.set_axis(np.arange(N) + 7), FRAME, confidence=OTHER)
    ),
}


@pytest.mark.parametrize("call", IN_OTHER_ORDER.values(), ids=IN_OTHER_ORDER)
def test_the_same_index_in_another_order_is_refused(call):
    with pytest.raises(ShapeError, match=r"the same index, in the same order.*\.loc\[.*to_numpy"):
        call()


def test_rows_belong_together_by_position_where_an_index_does_not_say_otherwise():
    for y_true, y_proba in (
        (SERIES.iloc[SHUFFLED], FRAME.iloc[SHUFFLED]),
        (SERIES.set_axis(np.arange(N) + 7), FRAME),  # another index altogether
        (SERIES.set_axis(["x"] * N), FRAME.set_axis(["x"] * N)),  # which identifies nothing
        (SERIES.set_axis(SHUFFLED), BOTH),
        (SERIES.set_axis(SHUFFLED).tolist(), FRAME),
        (SERIES.set_axis(TWO_LEVELS), FRAME),
        (SERIES, FRAME.set_axis(TWO_LEVELS)),
    ):
        assert aucoc_score(y_true, y_proba, labels=["cat", "dog"]) == pytest.approx(
            RIGHT, abs=1e-12
        )


# ------------------------------------------------------------------ values


def test_masks_inside_lists_are_seen():
    rows = [np.ma.array(row, mask=[False, i == 3]) for i, row in enumerate(BOTH)]
    with pytest.raises(NonFiniteError, match="1 masked value.*row 3, column 1"):
        aucoc_score(NUMBERS, rows)


@pytest.mark.parametrize("kind", [np.int64, np.uint64, object])
def test_whole_numbers_that_floats_cannot_tell_apart_are_refused(kind):
    confidence = np.array([2**62 + i for i in range(N)], dtype=kind)
    words = re.escape(EXACT_ONLY)
    with pytest.raises(DataTypeError, match=words):
        aucoc_score(NUMBERS, BOTH, confidence=confidence)
    with pytest.raises(DataTypeError, match=words):
        tally_frame(pl.DataFrame({"confidence": confidence.astype(np.int64), "correct": NUMBERS}))
    with pytest.raises(DataTypeError, match=words):
        as_floats(-confidence.astype(object), "confidence")
    exact = np.array([2**53, -(2**53)], dtype=object)
    assert as_floats(exact, "confidence").tolist() == [2.0**53, -(2.0**53)]


@pytest.mark.parametrize("value", [{"dog": [0.1]}, {0.1, 0.2}, pl.LazyFrame({"dog": [0.1]})])
def test_what_is_no_array_is_named(value):
    with pytest.raises(ExpertLoadError, match=type(value).__name__):
        as_array(value, "y_proba")


def test_frames_of_two_levels_are_refused_by_tally_frame():
    frame = pd.DataFrame({"label": LABELS, "p_cat": BOTH[:, 0], "p_dog": BOTH[:, 1]})
    levels = pd.MultiIndex.from_tuples([("a", name) for name in frame.columns])
    with pytest.raises(ExpertLoadError, match="name"):
        tally_frame(frame.set_axis(levels, axis=1), probabilities="p_*")


@pytest.mark.parametrize("weight", [1e308, 1e-320])
def test_weights_at_the_ends_of_the_range_are_refused_by_frames(weight):
    frame = pd.DataFrame({"confidence": DOG, "correct": NUMBERS, "w": weight, "site": LABELS})
    with pytest.raises(WeightError, match=r"zero or between 2\*\*-400 and 2\*\*400"):
        tally_frame(frame, weight="w")
    with pytest.raises(WeightError, match=r"zero or between 2\*\*-400 and 2\*\*400"):
        tally_groups(frame, by="site", weight="w")
