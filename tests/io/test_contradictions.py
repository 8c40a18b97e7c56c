"""A file that contradicts how it is read is refused: nobody knows which of both is right."""

from __future__ import annotations

import csv
import io
import re

import numpy as np
import pandas as pd
import pytest

from expertload.exceptions import FileFormatError, LabelError
from expertload.io import ColumnNames, FileOptions, decide_file, read_predictions

RNG = np.random.default_rng(3)
N = 100
ILL = np.round(1 / (1 + np.exp(-RNG.normal(0, 2, N))), 3)
Y = (RNG.random(N) < 0.1) ^ (ILL > 0.5)
ANSWER = (ILL > 0.5).astype(int)
ACCURACY = float((ANSWER == Y).mean())


@pytest.fixture(params=["csv", "parquet", "npz"])
def save(request, tmp_path):
    def write(**columns):
        path = tmp_path / f"x.{request.param}"
        if request.param == "npz":
            np.savez(path, **columns)
        else:
            getattr(pd.DataFrame(columns), f"to_{request.param}")(path, index=False)
        return path

    return write


def accuracy(path, **names):
    return read_predictions(path, names=ColumnNames(**names)).evaluate().accuracy.estimate


# ------------------------------------------------------------------ predictions beside them


@pytest.mark.parametrize("column", ["y_pred", "Prediction"])
@pytest.mark.parametrize("names", [("p_0", "p_1"), ("probability",)])
def test_predictions_that_agree_are_welcome(save, column, names):
    shares = dict(zip(reversed(names), (ILL, 1 - ILL), strict=False))
    path = save(y_true=Y.astype(int), **shares, **{column: ANSWER})
    assert accuracy(path) == pytest.approx(ACCURACY)


def test_the_probability_of_the_prediction_is_not_that_of_the_second_class(save):
    """As many programs write it: the class that was predicted, and how sure of it they are."""
    path = save(y_true=Y.astype(int), y_pred=ANSWER, probability=np.maximum(ILL, 1 - ILL))
    first = int(np.flatnonzero(ANSWER == 0)[0])
    says = rf"'y_pred' .* row {first + 1} \(0, not 1\), and in {(ANSWER == 0).sum()} row"
    with pytest.raises(FileFormatError, match=f"{says}.*--prediction none.*--prediction y_pred"):
        read_predictions(path)
    named = accuracy(path, prediction="y_pred", confidence="probability")
    assert named == pytest.approx(ACCURACY)
    assert accuracy(path, prediction="none") == pytest.approx(Y.mean())


def test_columns_under_the_names_of_other_classes_are_noticed(save):
    path = save(y_true=Y.astype(int), y_pred=ANSWER, p_0=ILL, p_1=1 - ILL)
    with pytest.raises(FileFormatError, match="does not name the most probable class"):
        read_predictions(path)


def test_ties_and_names_of_no_class_contradict_nothing(save):
    half = np.full(4, 0.5)
    path = save(label=["a", "b", "a", "b"], p_a=half, p_b=half, y_pred=["a", "b", "b", "unsure"])
    assert accuracy(path) == 0.5
    path = save(label=["a", "b"], p_a=[0.9, 0.1], p_b=[0.1, 0.9], y_pred=[17, 4])
    assert accuracy(path) == 1


def test_a_missing_prediction_contradicts_nothing(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("label,p_None,p_b,y_pred\nNone,0.1,0.9,\nb,0.1,0.9,b\n")
    assert accuracy(path) == 0.5


# ------------------------------------------------------------------ classes that no name tells


@pytest.mark.parametrize("names", [(0, 1), ("ill", "well")])
def test_a_single_column_of_the_other_class_is_noticed(save, names):
    labels = np.array(names)[Y.astype(int)]
    column = "p_benign" if names == (0, 1) else "benign"
    path = save(label=labels, **{column: 1 - ILL})
    named = {} if names == (0, 1) else {"probabilities": column}
    area = (ILL[Y][:, None] < ILL[~Y]).mean() + (ILL[Y][:, None] == ILL[~Y]).mean() / 2
    says = rf"{column} of .* read as the probability of {names[1]}, .* ROC curve is {area:.2f}\)"
    with pytest.raises(FileFormatError, match=says):
        read_predictions(path, names=ColumnNames(**named))
    assert accuracy(path, classes=f"{names[0]}", **named) == pytest.approx(ACCURACY)
    assert accuracy(path, classes=f"{names[1]}", **named) == pytest.approx(1 - ACCURACY)


def test_a_matrix_in_another_order_is_noticed(tmp_path):
    path = tmp_path / "x.npz"
    labels = np.array(["well", "ill"])[Y.astype(int)]
    np.savez(path, labels=labels, probabilities=np.column_stack([1 - ILL, ILL]))
    with pytest.raises(FileFormatError, match=r"p_0, p_1 .* the probability of ill and well"):
        read_predictions(path)
    assert accuracy(path, classes="well,ill") == pytest.approx(ACCURACY)
    assert accuracy(path, classes="ill,well") == pytest.approx(1 - ACCURACY)


def test_chance_and_names_are_no_reason_to_refuse(save):
    path = save(label=Y.astype(int)[:20], p_benign=1 - ILL[:20])
    assert accuracy(path) < 0.5
    path = save(label=Y.astype(int), p_ill=np.sqrt(np.sqrt(ILL)))  # too often above one half
    assert accuracy(path) < ACCURACY
    path = save(label=np.ones(N, dtype=int) - (ILL > 2), probability=1 - ILL)
    with pytest.raises(LabelError):  # the labels are of one class
        read_predictions(path)
    path = save(label=Y.astype(int), p_1=1 - ILL)
    assert accuracy(path) == pytest.approx(1 - ACCURACY)


# ------------------------------------------------------------------ cases of the training


@pytest.mark.parametrize("column", ["split", "Subset"])
def test_cases_of_the_training_are_not_counted_among_others(save, column):
    parts = np.where(np.arange(N) < 60, "train", "test")
    columns = {"label": Y.astype(int), "p_1": ILL, column: parts}
    path = save(**columns)
    says = f"'{column}' of .* some cases are of 'train' and others of 'test'.*--query"
    with pytest.raises(FileFormatError, match=says):
        read_predictions(path)
    if path.suffix != ".npz":
        query = FileOptions(query=f"SELECT * FROM file WHERE {column} = 'test'")
        assert read_predictions(path, options=query).n_cases == 40
    assert read_predictions(save(**(columns | {column: ["test"] * N}))).n_cases == N
    mixed = np.where(np.arange(N) < 60, "val", "test")
    assert read_predictions(save(**(columns | {column: mixed}))).n_cases == N


def test_the_query_of_that_hint_can_be_copied(tmp_path):
    path = tmp_path / "x.csv"
    parts = np.where(np.arange(N) < 60, "train", "dev's")
    pd.DataFrame({"label": Y.astype(int), "p_1": ILL, "split": parts}).to_csv(path)
    with pytest.raises(FileFormatError) as refused:
        read_predictions(path)
    (query,) = re.findall('--query "([^"]*)"', str(refused.value))
    assert read_predictions(path, options=FileOptions(query=query)).n_cases == 40


def test_arrays_of_other_lengths_contradict_nothing(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, label=Y.astype(int), p_1=ILL, y_pred=[1], split=["train", "test"])
    assert read_predictions(path).n_cases == N


# ------------------------------------------------------------------ the classes of a matrix


THREE = np.array(["owl", "cat", "dog"])
SCORES = RNG.dirichlet(np.full(3, 0.3), N)
PLACE = np.where(RNG.random(N) < 0.9, SCORES.argmax(axis=1), RNG.integers(0, 3, N))
RIGHT = float((SCORES.argmax(axis=1) == PLACE).mean())


@pytest.mark.parametrize("name", ["classes", "classes_", "class_names"])
def test_a_list_of_classes_tells_the_columns_of_a_matrix(tmp_path, name):
    """Sorted, the columns would be cat, dog and owl."""
    path = tmp_path / "x.npz"
    np.savez(path, label=THREE[PLACE], probabilities=SCORES, **{name: THREE})
    found = read_predictions(path)
    assert found.evaluate().accuracy.estimate == pytest.approx(RIGHT)
    assert "p_0, p_1, p_2 (of owl, cat, dog)" in str(found.columns)
    policy = found.evaluate(target_accuracy=0.5).operating_point
    for order in ([0, 1, 2], [2, 0, 1]):
        np.savez(path, probabilities=SCORES[:, order], **{name: THREE[order]})
        stream = io.StringIO()
        decide_file(policy, path, out=stream)
        answers = [row["label"] for row in csv.DictReader(io.StringIO(stream.getvalue()))]
        assert answers == THREE[SCORES.argmax(axis=1)].tolist()
    np.savez(path, probabilities=SCORES, **{name: ["owl", "cat", "eel"]})
    with pytest.raises(FileFormatError, match="lists the classes owl, cat, eel"):
        decide_file(policy, path, out=io.StringIO())


def test_places_in_a_list_of_classes_stay_places(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, label=PLACE, probabilities=SCORES, classes=THREE)
    assert accuracy(path) == pytest.approx(RIGHT)
    np.savez(path, label=PLACE * 2 + 3, probabilities=SCORES, classes_=[3, 5, 7])
    assert accuracy(path) == pytest.approx(RIGHT)
    np.savez(path, label=THREE[PLACE], probabilities=SCORES, classes=THREE, class_names=THREE[::-1])
    with pytest.raises(FileFormatError, match="lists the classes of 3 columns in more than one"):
        read_predictions(path)


# ------------------------------------------------------------------ logits that are none


def test_probabilities_are_not_read_as_logits(save):
    path = save(label=Y.astype(int), logit_0=1 - ILL, logit_1=ILL)
    says = (
        "look like probabilities: all .*, and sum to one in every row.*--probabilities 'logit_[*]'"
    )
    with pytest.raises(FileFormatError, match=says):
        read_predictions(path)
    found = read_predictions(path, names=ColumnNames(probabilities="logit_*"))
    np.testing.assert_array_equal(found.cases.proba[:, 1], ILL)
    softened = read_predictions(path, names=ColumnNames(logits="logit_*")).cases.proba[:, 1]
    np.testing.assert_allclose(softened, 1 / (1 + np.exp(1 - 2 * ILL)))
    path = save(label=Y.astype(int), logit_1=ILL)
    with pytest.raises(
        FileFormatError, match=r"look like probabilities: all are in \[0, 1\]\. Hint"
    ):
        read_predictions(path)
    path = save(label=Y.astype(int), logit_0=1 - ILL, logit_1=np.r_[ILL[:-1], 0.99])
    assert read_predictions(path).columns.is_logits


def test_two_labels_that_differ_in_letters_alone_are_not_two_classes(save):
    path = save(label=np.where(Y, "dog", "Dog"), p_dog=ILL)
    with pytest.raises(LabelError, match="needs two classes. Got the labels Dog, dog"):
        read_predictions(path)
