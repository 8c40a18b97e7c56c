"""Frames with named columns: calibrators read the names, and take no class for another."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

from expertload.calibrators import (
    CALIBRATORS,
    ConfidenceScore,
    CorrectnessModel,
    KCal,
    TemperatureScaling,
    load_calibrator,
    make_calibrator,
)
from expertload.exceptions import FileFormatError, LabelError

RNG = np.random.default_rng(0)
N = 300
NUMBERS = RNG.integers(0, 3, N)
LOGITS = RNG.normal(size=(N, 3)) + 2 * np.eye(3)[NUMBERS]
PROBA = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
NAMES = np.array(["cat", "dog", "eel"])
LABELS = NAMES[NUMBERS]
BACKWARDS = [2, 1, 0]
METHODS = [name for name in CALIBRATORS if name != "kcal"]
PREFIX = {"logits": "logit_", "probabilities": "p_"}


def frame_of(values, order, prefix="", engine=pd.DataFrame):
    return engine({f"{prefix}{NAMES[i]}": values[:, i] for i in order})


@pytest.mark.parametrize("engine", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("kind", PREFIX)
@pytest.mark.parametrize("name", METHODS)
def test_columns_are_read_by_name_in_any_order(name, kind, engine):
    values = {"logits": LOGITS, "probabilities": PROBA}[kind]
    wanted = make_calibrator(name, input=kind).fit(values[:, BACKWARDS], 2 - NUMBERS)
    for prefix in ("", PREFIX[kind]):
        frame = frame_of(values, BACKWARDS, prefix, engine)
        found = make_calibrator(name, input=kind).fit(frame, LABELS)
        np.testing.assert_array_equal(
            found.transform(frame), wanted.transform(values[:, BACKWARDS])
        )


@pytest.mark.parametrize("kind", PREFIX)
def test_learned_confidences_read_the_names_too(kind):
    values = {"logits": LOGITS, "probabilities": PROBA}[kind]
    frame, array = frame_of(values, BACKWARDS, PREFIX[kind]), values[:, BACKWARDS]
    model = CorrectnessModel(input=kind)
    np.testing.assert_array_equal(
        model.fit(frame, LABELS).confidence(frame), model.fit(array, 2 - NUMBERS).confidence(array)
    )


@pytest.mark.parametrize("name", ["temperature", "correctness"])
def test_scores_read_the_names_too(name):
    frame, array = frame_of(PROBA, BACKWARDS), PROBA[:, BACKWARDS]
    found = ConfidenceScore(name).fit(frame, LABELS)
    wanted = ConfidenceScore(name).fit(array, 2 - NUMBERS)
    np.testing.assert_array_equal(found.confidence(frame), wanted.confidence(array))
    other = found.confidence(frame_of(PROBA, [0, 1, 2]))
    np.testing.assert_array_equal(other, wanted.confidence(array))
    with pytest.raises(LabelError, match="the columns of fit, eel, dog, cat. Got cat, dog, cow"):
        found.confidence(frame_of(PROBA, [0, 1, 2]).rename(columns={"eel": "cow"}))


def test_names_that_are_no_labels_are_refused_unless_labels_say_which_they_are():
    frame = pd.DataFrame(LOGITS, columns=["x", "y", "z"])
    for y in (NUMBERS, LABELS):
        with pytest.raises(LabelError, match="names no column: .* x, y, z. .* labels="):
            TemperatureScaling().fit(frame, y)
    wanted = TemperatureScaling().fit(LOGITS, NUMBERS).temperature_
    assert TemperatureScaling().fit(frame, LABELS, labels=NAMES).temperature_ == wanted
    assert TemperatureScaling().fit(pd.DataFrame(LOGITS), NUMBERS).temperature_ == wanted


@pytest.mark.parametrize("name", ["cat", "logit_cat"])
def test_a_single_column_is_of_the_class_it_is_named_after(name):
    two = NUMBERS < 2
    odds, labels = LOGITS[two, 1] - LOGITS[two, 0], LABELS[two]
    wanted = TemperatureScaling().fit(odds, labels).temperature_
    series = pd.Series(-odds, name=name)
    assert TemperatureScaling().fit(series, labels).temperature_ == pytest.approx(wanted)
    with pytest.raises(LabelError, match="must be named after one of the classes cat, dog"):
        TemperatureScaling().fit(series.rename("logit_eel"), labels)


@pytest.mark.parametrize("name", CALIBRATORS)
def test_other_columns_than_in_fit_are_refused(name, tmp_path):
    frame = frame_of(LOGITS, [0, 1, 2])
    fitted = make_calibrator(name).fit(frame, LABELS)
    fitted.save(tmp_path / "calibrator.json")
    loaded = load_calibrator(tmp_path / "calibrator.json")
    assert loaded == fitted
    for calibrator in (fitted, loaded):
        np.testing.assert_array_equal(calibrator.transform(frame), calibrator.transform(LOGITS))
        for other in (
            frame.rename(columns={"cat": "cow"}),
            frame.rename(columns={"cat": "Cat"}),
            frame[["cat", "dog"]],
            frame[["cat", "dog", "dog"]],
            frame.assign(fox=0.0),
        ):
            with pytest.raises(LabelError, match=r"the columns of fit, cat, dog, eel. Got .*numpy"):
                calibrator.transform(other)


@pytest.mark.parametrize("engine", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("name", CALIBRATORS)
def test_columns_in_another_order_are_put_in_that_of_fit(name, engine, tmp_path):
    fitted = make_calibrator(name).fit(frame_of(LOGITS, [0, 1, 2], engine=engine), LABELS)
    fitted.save(tmp_path / "calibrator.json")
    for calibrator in (fitted, load_calibrator(tmp_path / "calibrator.json")):
        np.testing.assert_array_equal(
            calibrator.transform(frame_of(LOGITS, BACKWARDS, engine=engine)),
            fitted.transform(LOGITS),
        )


def test_numbers_that_name_columns_are_put_in_order_too():
    """Such as a selection of columns from a frame without names, before or after the fit."""
    numbered = pd.DataFrame(LOGITS)
    fitted = TemperatureScaling().fit(numbered, NUMBERS)
    wanted = fitted.transform(LOGITS)
    np.testing.assert_array_equal(fitted.transform(numbered[BACKWARDS]), wanted)
    backwards = TemperatureScaling().fit(numbered[BACKWARDS], NUMBERS)
    np.testing.assert_allclose(backwards.transform(numbered), wanted[:, BACKWARDS], rtol=1e-6)
    table = pl.DataFrame(LOGITS)
    np.testing.assert_array_equal(fitted.transform(table[:, BACKWARDS]), wanted)


def test_features_have_names_of_their_own():
    features = pd.DataFrame(LOGITS, columns=["width", "height", "depth"])
    found = KCal(bandwidth=1.0).fit(features, NUMBERS)
    wanted = KCal(bandwidth=1.0).fit(LOGITS, NUMBERS).transform(LOGITS)
    np.testing.assert_allclose(found.transform(features), wanted, rtol=1e-12)


def test_edited_names_are_refused(tmp_path):
    path = tmp_path / "calibrator.json"
    TemperatureScaling().fit(frame_of(LOGITS, [0, 1, 2]), LABELS).save(path)
    document = json.loads(path.read_text())
    for names in ("cat", ["cat", 1, "eel"], {"cat": 0}, ["cat"]):
        path.write_text(json.dumps({**document, "column_names": names}))
        with pytest.raises(FileFormatError, match="'column_names' must be a list of 3 names"):
            load_calibrator(path)
