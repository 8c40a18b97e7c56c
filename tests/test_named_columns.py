"""Frames of probabilities: columns named after the classes count by name, in any order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import expertload as el
from expertload import Cases
from expertload import exceptions as ex
from expertload import operating_point as op
from expertload.evaluation import evaluate
from expertload.metrics import brier_loss
from expertload.significance import bootstrap_interval, permutation_test

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

RNG = np.random.default_rng(0)
PROBA = RNG.dirichlet(np.ones(3), 40)
TRUE = np.where(RNG.random(40) < 0.7, PROBA.argmax(axis=1), RNG.integers(0, 3, 40))
WANTED = el.aucoc_score(TRUE, PROBA)
NAMES = [("a", "b", "c"), ("10", "9", "8"), ("yes", "no", "perhaps"), (7, 3, 5), (2, 0, 4)]


def frame_of(engine, names, order, prefix=""):
    columns = {
        f"{prefix}{names[i]}" if prefix or engine == "polars" else names[i]: PROBA[:, i]
        for i in order
    }
    return pl.DataFrame(columns) if engine == "polars" else pd.DataFrame(columns)


@given(
    names=st.sampled_from(NAMES),
    order=st.permutations(range(3)),
    engine=st.sampled_from(["pandas", "polars"]),
    prefix=st.sampled_from(["", "p_", "proba_"]),
)
def test_any_order_of_columns_gives_the_same_numbers(names, order, engine, prefix):
    frame = frame_of(engine, names, order, prefix)
    y = np.array(names)[TRUE]
    assert el.aucoc_score(y, frame) == pytest.approx(WANTED, abs=1e-12)
    some = TRUE < 2  # not every class occurs
    part = frame.filter(some) if engine == "polars" else frame[some]
    wanted = el.aucoc_score(TRUE[some], PROBA[some])
    assert el.aucoc_score(y[some], part) == pytest.approx(wanted, abs=1e-12)
    point = op.choose(Cases.from_predictions(y, frame), target_accuracy=0.9)
    assert set(point.origin.labels) == set(names)
    other = frame_of(engine, names, order[::-1], prefix)
    for new in (frame, other):
        decisions = point.decide(new)
        assert decisions.labels.tolist() == np.array(names)[PROBA.argmax(axis=1)].tolist()
        assert decisions.accepted.sum() == point.n_accepted


def test_everything_that_takes_predictions_reads_the_names():
    y = np.array(["a", "b", "c"])[TRUE]
    frame = frame_of("pandas", NAMES[0], [2, 0, 1])
    assert brier_loss(y, frame) == pytest.approx(brier_loss(TRUE, PROBA))
    found, wanted = (
        evaluate(Cases.from_predictions(y, frame)),
        evaluate(Cases.from_predictions(TRUE, PROBA)),
    )
    assert found.accuracy == wanted.accuracy
    assert found.calibration.brier_loss == pytest.approx(wanted.calibration.brier_loss)
    options = {"metric": brier_loss, "random_state": 0}
    interval = bootstrap_interval(Cases.from_predictions(y, frame), n_resamples=5, **options)
    assert interval.estimate == pytest.approx(brier_loss(TRUE, PROBA))
    models = [Cases.from_predictions(y, each) for each in (frame, frame[list(NAMES[0])])]
    assert permutation_test(*models, n_rounds=5, **options).difference == 0


@pytest.mark.parametrize("names", [(0, 2, 3), (7, 9, 10), ("c", "a", "b")])
def test_resampled_metrics_know_the_classes_that_do_not_occur(names):
    """The column of class 2 is the second: its number is a name, and no place."""
    some = TRUE < 2
    y, part = np.array(names)[TRUE[some]], PROBA[some]
    frame, even = pd.DataFrame(part, columns=names), np.full_like(part, 1 / 3)
    wanted = brier_loss(y, frame)
    options = {"metric": brier_loss, "random_state": 0}
    assert (
        bootstrap_interval(Cases.from_predictions(y, frame), n_resamples=2, **options).estimate
        == wanted
    )
    models = [
        Cases.from_predictions(y, each) for each in (frame, pd.DataFrame(even, columns=names))
    ]
    found = permutation_test(*models, n_rounds=2, **options)
    assert found.difference == pytest.approx(wanted - 2 / 3)


def test_labels_overrule_names_in_permutations_too():
    y, even = np.array(["a", "b", "c"])[TRUE], np.full_like(PROBA, 1 / 3)
    frame = pd.DataFrame(PROBA[:, ::-1], columns=["c", "b", "a"])
    options = {"metric": brier_loss, "n_rounds": 2, "random_state": 0}
    models = [Cases.from_predictions(y, each, labels=["c", "b", "a"]) for each in (frame, even)]
    found = permutation_test(*models, **options)
    assert found.difference == pytest.approx(brier_loss(TRUE, PROBA) - 2 / 3)


@pytest.mark.parametrize("engine", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("prefix", ["", "p_"])
@pytest.mark.parametrize("pair", [("ill", "well"), ("False", "True"), ("0", "1")])
def test_one_column_is_of_the_class_it_names(engine, prefix, pair):
    p = PROBA[:, 0]
    y = np.random.default_rng(1).random(40) < p
    wanted = el.aucoc_score(y, p)
    kinds = {"False": y, "0": y.astype(int)}
    labels = kinds.get(pair[0], np.array(pair)[y.astype(int)])
    for name, share in zip(pair, (1 - p, p), strict=True):
        frame = engine({prefix + name: share})
        assert el.aucoc_score(labels, frame) == pytest.approx(wanted, abs=1e-12)
        point = op.choose(
            Cases.from_predictions(labels, np.column_stack([1 - p, p])), target_accuracy=0.8
        )
        assert point.decide(frame).labels.tolist() == point.decide(p).labels.tolist()
        if prefix == "":
            frame = bootstrap_interval(
                Cases.from_predictions(labels, frame),
                metric=brier_loss,
                n_resamples=2,
                random_state=0,
            )
            assert frame.estimate == pytest.approx(brier_loss(y, p))


def test_names_that_are_no_labels_are_refused_unless_labels_say_which_they_are():
    frame = pd.DataFrame(PROBA, columns=["x", "y", "z"])
    letters = np.array(["a", "b", "c"])
    for y in (TRUE, letters[TRUE]):
        with pytest.raises(ex.LabelError, match="names no column: .* x, y, z. .* labels="):
            el.aucoc_score(y, frame)
    assert el.aucoc_score(TRUE, frame, labels=[0, 1, 2]) == WANTED
    assert el.aucoc_score(letters[TRUE], frame, labels=letters) == WANTED


def test_what_a_frame_calls_its_columns_by_itself_is_no_name():
    for frame in (pd.DataFrame(PROBA), pl.DataFrame(PROBA)):
        assert el.aucoc_score(TRUE, frame) == WANTED
        assert el.aucoc_score(np.array(["a", "b", "c"])[TRUE], frame) == WANTED
        with pytest.raises(ex.LabelError, match="and 0 must occur"):
            el.aucoc_score(np.maximum(TRUE, 1), frame)
    p = PROBA[:, 0]
    y = (p > 0.4).astype(int)
    assert el.aucoc_score(y, pd.DataFrame(p)) == el.aucoc_score(y, p)  # which pandas calls 0
    assert el.aucoc_score(y, pd.DataFrame({"score": p})) == el.aucoc_score(y, p)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["a", "b", "c"], ["a", "b", "x"]),
        ([0, 1, 2], [1, 2, 3]),
        ([0, 1, 2], ["p_0", "p_1", "p_other"]),
    ],
)
def test_names_of_some_labels_are_refused(labels, names):
    frame = pd.DataFrame(PROBA, columns=names)
    with pytest.raises(ex.LabelError, match="names no column"):
        el.aucoc_score(np.array(labels)[TRUE], frame)
    point = op.choose(Cases.from_predictions(labels, np.eye(3)), target_accuracy=1)
    with pytest.raises(ex.LabelError, match="policy has the classes .* columns of the frame"):
        point.decide(frame)


def test_labels_overrule_names():
    frame = pd.DataFrame(PROBA, columns=["c", "b", "a"])
    y = np.array(["a", "b", "c"])[TRUE]
    assert el.aucoc_score(y, frame, labels=["a", "b", "c"]) == WANTED


def test_numbers_that_may_be_names_or_places_are_refused():
    point = op.choose(
        Cases.from_predictions([2, 0, 1], np.eye(3), labels=[2, 0, 1]), target_accuracy=1
    )
    with pytest.raises(ex.LabelError, match="has the classes 2, 0, 1, but .* are 0, 1, 2"):
        point.decide(pd.DataFrame(PROBA))
    assert point.decide(pd.DataFrame(PROBA, columns=[1, 2, 0])).labels.shape == (40,)


def test_decisions_refuse_columns_that_are_more():
    point = op.choose(Cases.from_predictions(["a", "b"], [0.1, 0.9]), target_accuracy=1)
    with pytest.raises(ex.LabelError, match="has the classes a, b, .* are a, b, c"):
        point.decide(pd.DataFrame({"a": [0.1], "b": [0.9], "c": [0.0]}))


def test_a_column_in_single_precision_is_as_good_as_in_double():
    p = np.float32([1e-9, 1e-12, 0.9])  # one minus the first two is 1 in single precision
    assert el.aucoc_score([1, 0, 1], p) == el.aucoc_score([1, 0, 1], p.astype(np.float64))
    for seed in (8, 9):
        rng = np.random.default_rng(seed)
        p = rng.beta(0.2, 0.2, 3000).astype(np.float32)
        point = op.certify(rng.random(3000) < p, p, target_accuracy=0.95)
        for kind in (np.float32, np.float64):
            assert point.decide(p.astype(kind)).accepted.sum() == point.n_accepted
