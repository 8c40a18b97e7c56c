"""One body of tests over every engine: the same numbers as numpy, and the same words."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import expertload as el
from expertload import Cases, exceptions
from expertload.io import tally_frame, tally_groups
from tests.io.backends import HANDS_OVER, IN_PROCESS

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # pyspark and dask about pandas
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # the sockets of pyspark
]

TIGHT = {"rel": 0, "abs": 1e-12}


@pytest.fixture
def cases():
    rng = np.random.default_rng(7)
    n = 400
    confidence = np.round(rng.beta(4, 1, n), 2)  # many ties
    return {
        "confidence": confidence.tolist(),
        "correct": (rng.random(n) < confidence).tolist(),
        "grade": rng.choice([0.0, 0.25, 0.5, 1.0], n).tolist(),
        "weight": rng.integers(0, 4, n).tolist(),
        "site": rng.choice(["Bern", "Chur", "Zug"], n).tolist(),
    }


def assert_same(table, correct, confidence, weight=None):
    curve = el.coc_curve(Cases.from_correctness(correct, confidence, sample_weight=weight))
    for ours, wanted in zip(table.curve(), curve, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-12)
    cases = Cases.from_correctness(correct, confidence, sample_weight=weight)
    for convention in ("exact", "thresholds", "authors"):
        wanted = el.aucoc_score(cases, convention=convention)
        assert table.aucoc(convention=convention) == pytest.approx(wanted, **TIGHT)
    for target in (0.5, 0.8, 0.9, 0.99):
        wanted = el.load_at_accuracy(cases, target_accuracy=target)
        assert table.load_at_accuracy(target) == pytest.approx(wanted, **TIGHT)
    for load in (0.0, 0.3, 0.9, 1.0):
        wanted = el.accuracy_at_load(cases, expert_load=load)
        assert table.accuracy_at_load(load) == pytest.approx(wanted, **TIGHT)
    assert table.error_bound == 0


@pytest.mark.slow
def test_correctness_equals_numpy(frame_of, cases):
    assert_same(tally_frame(frame_of(cases)), cases["correct"], cases["confidence"])


def test_grades_and_weights_equal_numpy(frame_of, cases):
    table = tally_frame(frame_of(cases), correct="grade", weight="weight")
    assert_same(table, cases["grade"], cases["confidence"], cases["weight"])


def test_groups_equal_numpy_and_add_up(frame_of, cases):
    frame = frame_of(cases)
    sites = tally_groups(frame, by="site")
    assert list(sites) == ["Bern", "Chur", "Zug"]
    site, correct = np.array(cases["site"]), np.array(cases["correct"])
    for name, table in sites.items():
        assert_same(table, correct[site == name], np.array(cases["confidence"])[site == name])
    merged = sites["Bern"].merge(sites["Chur"], sites["Zug"])
    assert_same(merged, correct, cases["confidence"])


def test_rounded_table_is_the_exact_one_rounded(frame_of, cases):
    table = tally_frame(frame_of(cases), bits=4)
    wanted = tally_frame(frame_of(cases)).rounded(4)
    for name in ("confidence", "weight", "correct", "top"):
        np.testing.assert_array_equal(getattr(table, name), getattr(wanted, name))
    assert table.bits == 4
    assert len(table.confidence) <= 17


@pytest.fixture
def predictions():
    rng = np.random.default_rng(3)
    y_proba = np.round(rng.dirichlet([1, 1, 1], 300) * 16) / 16
    y_proba[:, 2] = 1 - y_proba[:, 0] - y_proba[:, 1]
    y_proba[:2] = [[0.5, 0.5, 0.0], [0.25, 0.375, 0.375]]  # ties: the first column wins
    y_true = rng.integers(0, 3, 300)
    y_true[:2] = [1, 1]
    return y_true, y_proba[:, [0, 1, 2]]


@pytest.mark.slow
def test_text_labels_and_probabilities_equal_numpy(frame_of, predictions):
    y_true, y_proba = predictions
    names = np.array(["cat", "dog", "eel"])
    frame = frame_of(
        {"label": names[y_true].tolist()}
        | {f"p_{name}": y_proba[:, i].tolist() for i, name in enumerate(names)}
    )
    table = tally_frame(frame, probabilities="p_*")
    correct = y_proba.argmax(axis=1) == y_true
    assert_same(table, correct, y_proba.max(axis=1))
    assert table.aucoc() == pytest.approx(el.aucoc_score(y_true, y_proba), **TIGHT)


@pytest.mark.slow
def test_numbered_labels_and_an_own_confidence_equal_numpy(frame_of, predictions):
    y_true, y_proba = predictions
    entropy = (-(y_proba**2).sum(axis=1)).tolist()
    columns = {f"p{i}": y_proba[:, i].tolist() for i in range(3)}
    frame = frame_of({"y": y_true.tolist(), "negative_gini": entropy, **columns})
    table = tally_frame(frame, label="y", probabilities="p*", confidence="negative_gini")
    wanted = el.aucoc_score(y_true, y_proba, confidence=entropy)
    assert table.aucoc() == pytest.approx(wanted, **TIGHT)


@pytest.mark.slow
def test_one_column_is_the_second_class(frame_of, predictions):
    y_true, y_proba = predictions
    frame = frame_of({"label": (y_true > 0).tolist(), "p": y_proba[:, 0].tolist()})
    table = tally_frame(frame, probabilities="p")
    wanted = el.aucoc_score((y_true > 0).astype(int), y_proba[:, 0])
    assert table.aucoc() == pytest.approx(wanted, **TIGHT)


NAN, INF = float("nan"), float("inf")
GOOD = {"confidence": [0.5, 0.6, 0.7], "correct": [1.0, 0.0, 1.0], "weight": [1.0, 2.0, 3.0]}


@pytest.mark.parametrize(
    ("broken", "error", "words"),
    [
        ({"confidence": [0.5, None, 0.7]}, exceptions.NonFiniteError, "'confidence'.*1 row"),
        ({"confidence": [NAN, INF, 0.7]}, exceptions.NonFiniteError, "'confidence'.*2 row"),
        ({"correct": [True, None, False]}, exceptions.NonFiniteError, "'correct'.*1 row"),
        ({"correct": [1.0, NAN, 0.0]}, exceptions.NonFiniteError, "'correct'.*1 row"),
        ({"correct": [97.0, 55.0, 1.0]}, exceptions.CorrectnessError, "2 row.*from 55 to 97"),
        ({"weight": [1.0, -2.0, 1.0]}, exceptions.WeightError, "1 row.*from -2 to -2"),
        ({"weight": [1.0, INF, None]}, exceptions.NonFiniteError, "'weight'.*2 row"),
        ({"weight": [0.0, 0.0, 0.0]}, exceptions.WeightError, "all zero"),
    ],
)
@pytest.mark.parametrize("backend", IN_PROCESS)
def test_broken_rows_are_named(frame_of, backend, broken, error, words):
    if backend in ("pandas", "dask") and None in broken.get("correct", []):
        error, words = exceptions.DataTypeError, "'correct'.*Hint: cast"  # a column of objects
    with pytest.raises(error, match=words):
        tally_frame(frame_of(GOOD | broken), weight="weight")


@pytest.mark.parametrize("backend", IN_PROCESS)
def test_broken_rows_of_the_plainest_frame_are_named(frame_of):
    frame = frame_of({"confidence": [0.5, None, NAN], "correct": [True, False, True]})
    with pytest.raises(exceptions.NonFiniteError, match="'confidence'.*2 row"):
        tally_frame(frame)


PROBABLE = {"label": ["a", "b"], "p_a": [0.75, 0.25], "p_b": [0.25, 0.75]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "error", "words"),
    [
        ({"p_a": [None, 0.25]}, exceptions.NonFiniteError, "'probabilities'.*1 row"),
        ({"p_a": [3.0, 0.25]}, exceptions.ProbabilityError, "from 0.25 to 3.*softmax"),
        ({"p_a": [0.5, 0.25]}, exceptions.ProbabilityError, "sum to one.*from 0.75 to 0.75"),
        ({"label": ["a", "c"]}, exceptions.LabelError, "names no column: c"),
        ({"label": ["a", None]}, exceptions.LabelError, "name a class.*1 row"),
    ],
)
@pytest.mark.parametrize("backend", IN_PROCESS)
def test_broken_predictions_are_named(frame_of, broken, error, words):
    with pytest.raises(error, match=words):
        tally_frame(frame_of(PROBABLE | broken), probabilities="p_*")


@pytest.mark.parametrize("backend", ["spark"])  # one query of its kind: a cluster takes its time
def test_broken_predictions_are_named_by_a_cluster(frame_of):
    broken = PROBABLE | {"p_a": [float("nan"), 0.25], "label": ["a", "c"]}
    with pytest.raises(exceptions.LabelError, match="names no column: c"):
        tally_frame(frame_of(broken), probabilities="p_*")


@pytest.mark.parametrize("backend", IN_PROCESS)
def test_empty_frame_is_refused(frame_of):
    pa = pytest.importorskip("pyarrow")
    empty = {"confidence": pa.array([], pa.float64()), "correct": pa.array([], pa.bool_())}
    with pytest.raises(exceptions.EmptyInputError, match="at least one row"):
        tally_frame(frame_of(empty))


@pytest.mark.parametrize("backend", list(HANDS_OVER))  # eager frames are in this process already
def test_only_the_table_leaves_the_engine(frame_of, backend, monkeypatch):
    n = 20_000
    frame = frame_of({"confidence": [(i % 8) / 8 for i in range(n)], "correct": [True] * n})
    module, owner, method = HANDS_OVER[backend]
    owner = (
        importlib.import_module(module)
        if owner is None
        else getattr(importlib.import_module(module), owner)
    )
    original, sizes = getattr(owner, method), []

    def watched(*args, **kwargs):
        result = original(*args, **kwargs)
        sizes.append(len(result["key"]) if isinstance(result, dict) else len(result))
        return result

    monkeypatch.setattr(owner, method, watched)
    assert tally_frame(frame).n_cases == n
    assert sizes == [8]


@pytest.mark.parametrize("backend", ["spark"])
def test_the_cluster_has_two_executors(frame_of, spark):
    tally_frame(frame_of(GOOD))  # executors sign in while there is work
    status = spark.sparkContext._jsc.sc().getExecutorMemoryStatus()
    assert status.size() == 3  # and the driver
