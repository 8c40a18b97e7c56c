"""Careless arguments: certified as meant, or refused in a sentence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from expertload import Cases, aucoc_score
from expertload import operating_point as op
from expertload.evaluation import choose_confidence, evaluate, split_cases
from expertload.exceptions import DataTypeError, LabelError, ParameterError, ShapeError
from expertload.monitoring import AccuracyMonitor

RNG = np.random.default_rng(0)
N = 400
NUMBERS = RNG.integers(0, 2, N)
PROBA = 1 / (1 + np.exp(-RNG.normal(4 * (NUMBERS - 0.5))))
BOTH = np.column_stack([1 - PROBA, PROBA])
NO_TARGETS = {
    "an array of no dimension": np.array(0.9),
    "a series": pd.Series([0.9, 0.95]),
    "a series of Polars": pl.Series([0.9, 0.95]),
    "a list in a list": [[0.9]],
    "an array in two dimensions": np.array([[0.9]]),
    "objects in two dimensions": np.array([[0.9, 0.95]], dtype=object),
    "a complex number": np.complex128(0.9 + 0.5j),
}


@pytest.mark.parametrize("target", NO_TARGETS.values(), ids=NO_TARGETS)
def test_what_is_no_target_is_refused(target):
    for call in (
        lambda: op.certify(NUMBERS, BOTH, target_accuracy=target),
        lambda: op.certify_groups(
            Cases.from_predictions(NUMBERS, BOTH, groups=NUMBERS), target_accuracy=target
        ),
        lambda: evaluate(Cases.from_predictions(NUMBERS, BOTH), target_accuracy=target),
        lambda: AccuracyMonitor(target_accuracy=target),
    ):
        with pytest.raises(ParameterError, match="'target_accuracy'"):
            call()


def test_a_target_whose_complement_would_be_one_is_refused():
    with pytest.raises(ParameterError, match=r"must be in \(0, 1\)"):
        op.certify(NUMBERS, BOTH, target_accuracy=5e-324)
    with pytest.raises(ParameterError, match=r"must be in \(0, 1\)"):
        AccuracyMonitor(target_accuracy=5e-324)


@pytest.mark.parametrize("target", [1 - 1e-9, 1 - 1e-12, 1 - 1e-16])
def test_a_target_next_to_one_takes_more_cases_than_there_are(target):
    assert op.certify(NUMBERS, BOTH, target_accuracy=target).reason == "too_few_cases"


def test_a_single_number_is_not_one_row_per_case():
    with pytest.raises(ShapeError, match="'y_proba'"):
        Cases.from_predictions(NUMBERS, 0.5)


def test_rows_of_fixed_length_are_a_matrix():
    rows = pl.Series(BOTH.tolist(), dtype=pl.Array(pl.Float64, 2))
    assert aucoc_score(NUMBERS, rows) == aucoc_score(NUMBERS, BOTH)


@pytest.mark.parametrize(("kind", "label"), [(np.float16, 4096), (np.float32, 2.0**25)])
def test_labels_that_floats_do_not_tell_apart_are_refused(kind, label):
    with pytest.raises(LabelError, match="where floats skip whole numbers"):
        aucoc_score((NUMBERS * label).astype(kind), BOTH, labels=[0, int(label)])
    small = NUMBERS.astype(kind)
    assert aucoc_score(small, BOTH) == aucoc_score(NUMBERS, BOTH)


# ------------------------------------------------------------------ clusters


@pytest.mark.parametrize("what", ["all_cases", "one_case_each"])
def test_a_patient_spelled_in_two_ways_is_one_cluster(what):
    names = np.array([f"Zoé {i // 4}" for i in range(N)])
    careless = names.copy().astype("<U20")
    careless[::2] = np.char.add(careless[::2], " ")
    careless[1::4] = np.char.replace(careless[1::4], "é", "e\u0301")
    options = {"target_accuracy": 0.7, "cluster_promise": what}
    wanted = op.certify(NUMBERS, BOTH, clusters=names, **options)
    assert op.certify(NUMBERS, BOTH, clusters=careless, **options) == wanted
    assert wanted.is_certified
    assert {*careless[split_cases(N, clusters=careless)[0]]} & {
        *careless[split_cases(N, clusters=careless)[1]]
    } == set()


def test_counts_of_clusters_are_those_of_decisions_in_single_precision():
    """Single precision holds 0.7 a little below itself: such a case is not accepted at 0.7."""
    confidence = np.where(np.arange(N) < 100, 0.7, 0.9).astype(np.float32)
    point = op.certify(
        Cases.from_correctness(np.ones(N), confidence, clusters=np.arange(N)),
        thresholds=[0.7],
        target_accuracy=0.8,
    )
    assert point.threshold == 0.7
    assert point.n_accepted == point.accepts(confidence).sum() == 300


@pytest.mark.parametrize(
    "clusters",
    [[None, *["a"] * (N - 1)], np.where(np.arange(N) < 1, np.nan, 1.0), np.zeros((N, 2), int)],
    ids=["a missing name", "a missing number", "two columns"],
)
def test_clusters_to_split_by_are_names(clusters):
    with pytest.raises((DataTypeError, ShapeError), match="'clusters'"):
        split_cases(N, clusters=clusters)
    with pytest.raises((DataTypeError, ShapeError), match="'clusters'"):
        choose_confidence(Cases.from_predictions(NUMBERS, BOTH, clusters=clusters))


@pytest.mark.parametrize("n_cases", [0, -1, 2.5, "10", None, [1]])
def test_a_number_of_cases_to_split_is_one(n_cases):
    with pytest.raises(ParameterError, match="'n_cases'"):
        split_cases(n_cases)
