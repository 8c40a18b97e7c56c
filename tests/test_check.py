"""Bad input: always a named exception with a sentence, never a traceback of numpy or a NaN."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import expertload as el
from expertload import Cases, metrics
from expertload import exceptions as ex
from expertload._check import require_extra

P2 = [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4]]
P3 = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]


@pytest.mark.parametrize(
    ("y_true", "y_proba", "error", "match"),
    [
        ([0, 1, 1], [[2.0, -1.0]] * 3, ex.ProbabilityError, "apply a softmax"),
        ([0, 1, 1], [[90.0, 10.0]] * 3, ex.ProbabilityError, "divide by 100"),
        ([0, 1, 1], [[500.0, 10.0]] * 3, ex.ProbabilityError, "softmax"),
        ([0, 1, 1], [[0.5, 0.2]] * 3, ex.ProbabilityError, "sum of 0.7 in row 0"),
        ([0, 1, 1], [[np.nan, 0.2]] * 3, ex.NonFiniteError, "3 NaN or infinite.*row 0, column 0"),
        ([0, 1, 1], [0.2, np.inf, 0.1], ex.NonFiniteError, "row 1"),
        ([0, 1, 5], P3, ex.LabelError, "column numbers from 0 to 2, .* labels from 0 to 5"),
        ([1, 2, 3], P3, ex.LabelError, "labels=.*classes_"),
        ([-1, 1, 1], P2, ex.LabelError, "from -1 to 1"),
        (["a", "b", "a"], P3, ex.LabelError, "2 distinct names for 3 columns"),
        ([0.5, 1.0, 0.0], P2, ex.LabelError, "fractions such as 0.5.*exchanged"),
        ([0, np.nan, 1], P2, ex.LabelError, "NaN"),
        (np.array(["a", None, "b"], dtype=object), P2, ex.LabelError, "missing values"),
        ([[1, 0], [0, 1], [0, 1]], P2, ex.ShapeError, "argmax"),
        (np.array([1, 2, 3], dtype="datetime64[D]"), P3, ex.LabelError, "integers or strings"),
        ([0, 1], P2, ex.ShapeError, "y_true: 2, y_proba: 3"),
        ([], [], ex.EmptyInputError, "at least one case"),
        ([], P2, ex.EmptyInputError, "at least one case"),
        ([0, 1, 1], np.zeros((3, 2, 2)), ex.ShapeError, "1 or 2 dimension"),
        ([0, 1, 1], [[0.5, 0.5], [1.0]], ex.ShapeError, "unequal length"),
        ([0, 1, 1], [["a", "b"]] * 3, ex.DataTypeError, "real numbers"),
        ([0, 1, 1], np.array([[1 + 1j, 0]] * 3), ex.DataTypeError, "real numbers"),
    ],
)
def test_bad_predictions(y_true, y_proba, error, match):
    with pytest.raises(error, match=match) as caught:
        el.aucoc_score(y_true, y_proba)
    assert isinstance(caught.value, el.exceptions.ExpertLoadError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("labels", "y_true", "match"),
    [
        (["a", "b"], ["a", "b", "c"], "must name the 3 columns"),
        (["a", "b", "b"], ["a", "b", "b"], "distinct"),
        (["a", "b", "c"], ["a", "b", "z"], "names no column: z"),
        (["a", "b", "c"], [0, 1, 2], "names no column: 0"),
        ([0, 1, 2], ["a", "b", "c"], "names no column: a"),
        ([[0, 1, 2]], [0, 1, 2], "must name the 3 columns"),
    ],
)
def test_bad_labels(labels, y_true, match):
    with pytest.raises(ex.LabelError, match=match):
        el.aucoc_score(y_true, P3, labels=labels)


@pytest.mark.parametrize(
    ("correct", "confidence", "error", "match"),
    [
        ([1, 2], [0.1, 0.2], ex.CorrectnessError, "from 1 to 2.*pass 0.02 for 2 %"),
        ([-1, 1], [0.1, 0.2], ex.CorrectnessError, "grade"),
        ([1, 0], [0.1, np.nan], ex.NonFiniteError, "'confidence'"),
        ([np.nan, 0], [0.1, 0.2], ex.NonFiniteError, "'correct'"),
        ([True, False], [0.1], ex.ShapeError, "correct: 2, confidence: 1"),
        (np.ones((2, 2), dtype=bool), [0.1, 0.2], ex.ShapeError, "'correct'"),
        (np.ones(0, dtype=bool), [], ex.EmptyInputError, "'correct'"),
        ([1, 0], [[0.1], [0.2]], ex.ShapeError, "'confidence'"),
    ],
)
def test_bad_correctness(correct, confidence, error, match):
    with pytest.raises(error, match=match):
        el.aucoc_score(Cases.from_correctness(correct, confidence))


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (97, r"must be in \[0, 1\]. Got 97 instead. Hint: pass 0.97 for 97 %."),
        (-0.1, "Got -0.1"),
        (float("nan"), "Got nan"),
        ("0.9", "must be a number"),
        (True, "must be a number"),
        (None, "must be a number"),
    ],
)
def test_bad_target(value, match):
    with pytest.raises(ex.ParameterError, match=match):
        el.load_at_accuracy([0, 1, 1], P2, target_accuracy=value)
    with pytest.raises(ex.ParameterError, match=match):
        el.accuracy_at_load(Cases.from_correctness([0, 1], [0.1, 0.2]), expert_load=value)


def test_bad_convention():
    with pytest.raises(ex.ParameterError, match="'exact', 'thresholds', 'authors'. Got 'best'"):
        el.aucoc_score([0, 1, 1], P2, convention="best")


def test_confidence_must_fit():
    with pytest.raises(ex.ShapeError, match="y_proba: 3, confidence: 2"):
        el.aucoc_score([0, 1, 1], P2, confidence=[0.1, 0.2])


def test_string_labels_in_sorted_order_as_scikit_learn_has_them():
    assert el.aucoc_score(["cat", "dog", "ant"], [P3[1], P3[2], P3[0]]) == 1.0


def test_labels_name_columns_in_any_order_and_may_exceed_those_seen():
    names = ["dog", "ant", "cat"]
    y_true = ["dog", "ant", "ant"]
    assert el.aucoc_score(y_true, P3, labels=names) == el.aucoc_score([0, 1, 1], P3)
    assert el.aucoc_score([7, 3, 3], P3, labels=[7, 3, 5]) == el.aucoc_score([0, 1, 1], P3)
    assert el.aucoc_score([-1, 1, 1], P2, labels=[-1, 1]) == el.aucoc_score([0, 1, 1], P2)


@pytest.mark.parametrize(
    "y_true",
    [
        np.array([0, 1, 1], dtype=np.uint8),
        np.array([0.0, 1.0, 1.0]),
        np.array([False, True, True]),
        np.array([0, 1, 1], dtype=object),
        np.array([[0], [1], [1]]),
        np.array([0.0, 1, True], dtype=object),
    ],
    ids=lambda a: f"{a.dtype}{a.shape}",
)
def test_kinds_of_labels(y_true):
    assert el.aucoc_score(y_true, P2) == el.aucoc_score([0, 1, 1], P2)


def test_object_strings_from_a_frame():
    y_true = np.array(["no", "yes", "yes"], dtype=object)
    assert el.aucoc_score(y_true, P2) == el.aucoc_score([0, 1, 1], P2)


@given(st.lists(st.integers(0, 8), min_size=1, max_size=12), st.data())
def test_binary_in_one_column_or_two(eighths, data):
    positive = np.array(eighths) / 8
    y_true = np.array(
        data.draw(st.lists(st.integers(0, 1), min_size=len(eighths), max_size=len(eighths)))
    )
    two = np.column_stack([1 - positive, positive])
    for metric in (el.aucoc_score, metrics.brier_loss, metrics.expected_calibration_error):
        expected = metric(y_true, two, labels=[0, 1])
        assert metric(y_true, positive, labels=[0, 1]) == expected
        assert metric(y_true, positive[:, None], labels=[0, 1]) == expected
        assert metric(np.where(y_true, "yes", "no"), positive, labels=["no", "yes"]) == expected


def test_rounded_and_half_precision_rows_pass():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(10), 50)
    y_true = rng.integers(0, 10, 50)
    el.aucoc_score(y_true, proba.round(4))
    el.aucoc_score(y_true, proba.astype(np.float16))
    with pytest.raises(ex.ProbabilityError, match="divide each row by its sum"):
        el.aucoc_score(y_true, proba * 0.99)


def test_numbers_in_object_arrays():
    assert el.aucoc_score([0, 1, 1], np.array(P2, dtype=object)) == el.aucoc_score([0, 1, 1], P2)


def test_missing_extra_names_the_command():
    with pytest.raises(ex.MissingExtraError, match=r"pip install 'expertload\[plot\]'"):
        require_extra("no_such_module.at_all", "plot", "Plotting")


@given(st.binary(max_size=30), st.lists(st.floats(), max_size=5), st.lists(st.text(), max_size=5))
def test_rubbish_never_escapes_the_tree(raw, floats, texts):
    for y_true, y_proba in ((floats, floats), (texts, floats), (list(raw), floats), (texts, texts)):
        try:
            value = el.aucoc_score(y_true, y_proba)
        except ex.ExpertLoadError:
            continue
        assert 0 <= value <= 1


def test_missing_numbers_of_a_frame_are_named():
    pd = pytest.importorskip("pandas")
    proba = pd.DataFrame({"a": [0.1, None], "b": [0.9, 0.8]}, dtype="Float64")
    with pytest.raises(
        ex.DataTypeError, match=r"real numbers\. Got values of NAType, float .*remove"
    ):
        el.aucoc_score(["a", "b"], proba)
