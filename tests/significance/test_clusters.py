"""Cases in clusters: intervals and tests that hold if a patient's cases resemble each other."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import correctness_cases

import expertload as el
from expertload import Cases
from expertload import significance as sig
from expertload.evaluation import evaluate
from expertload.exceptions import DataTypeError, InsufficientDataError, ShapeError
from expertload.metrics import brier_loss
from expertload.significance.interval import (
    effective_size_of_rate,
    effective_sizes_along_curve,
    influence_of_cases,
)


def patients(rng, n_patients, size, correlation, accuracy=0.8):
    """Draw cases whose errors are shared by a patient, and whose confidence means something."""
    confidence = rng.random((n_patients, size))
    right = accuracy * (0.6 + 0.5 * confidence)
    own, shared = rng.random((n_patients, size)), rng.random((n_patients, 1))
    is_shared = rng.random((n_patients, size)) < np.sqrt(correlation)
    correct = np.where(is_shared, shared, own) < right
    return correct.ravel(), confidence.ravel(), np.repeat(np.arange(n_patients), size)


@st.composite
def clustered(draw, *, graded=True, min_size=2):
    correct, confidence = draw(correctness_cases(graded=graded, min_size=min_size))
    n = len(correct)
    cluster = draw(st.lists(st.integers(0, max(1, n // 2)), min_size=n, max_size=n))
    return np.asarray(correct), np.asarray(confidence), np.array([0, 1, *cluster[2:]])


# ------------------------------------------------------------------ against plain loops


@given(clustered(), st.booleans())
def test_the_standard_error_is_that_of_sums_over_clusters(drawn, is_weighted):
    correct, confidence, cluster = drawn
    weight = np.linspace(0.5, 2, len(correct)) if is_weighted else None
    found = sig.aucoc_interval(
        Cases.from_correctness(correct, confidence, clusters=cluster, sample_weight=weight)
    )
    _, influence = influence_of_cases(Cases(correct, confidence, weight))
    w = np.ones(len(correct)) if weight is None else weight
    names = np.unique(cluster)
    sums = [sum(w[i] * influence[i] for i in np.flatnonzero(cluster == c)) for c in names]
    sizes = [w[cluster == c].sum() for c in names]
    n = sum(sizes) ** 2 / sum(s**2 for s in sizes)
    variance = sum(s**2 for s in sums) / w.sum() ** 2
    expected = np.sqrt(variance * n / max(n - 1, 1e-300))
    assert found.standard_error == pytest.approx(expected, rel=1e-9, abs=1e-12)


def size_by_loops(correct, weight, cluster):
    """Return how many independent cases tell as much about a rate, one cluster at a time."""
    correct, weight = np.asarray(correct, float), np.asarray(weight, float)
    rate = (weight * correct).sum() / weight.sum()
    most = weight.sum() ** 2 / (weight**2).sum()
    names = np.unique(cluster)
    fewest = weight.sum() ** 2 / sum(weight[cluster == c].sum() ** 2 for c in names)
    alone = sum((w * (c - rate)) ** 2 for w, c in zip(weight, correct, strict=True))
    together = sum(((weight * (correct - rate))[cluster == c]).sum() ** 2 for c in names)
    found = fewest
    if alone > 1e-12 * (weight**2).sum():
        found = most if together == 0 else min(max(most * alone / together, fewest), most)
    return max(1, found * max(fewest - 3, 0) / max(fewest - 1, 1))


@given(clustered(), st.booleans())
def test_sizes_along_the_curve_are_those_of_the_accepted_cases(drawn, is_weighted):
    correct, confidence, cluster = drawn
    if len(np.unique(cluster)) == len(cluster):
        cluster[-1] = cluster[0]
    weight = np.linspace(0.5, 2, len(correct)) if is_weighted else None
    cases = Cases(correct, confidence, weight, cluster)
    found = effective_sizes_along_curve(cases)
    w = np.ones(len(correct)) if weight is None else weight
    for threshold, size in zip(cases.tally.confidence, found, strict=True):
        kept = confidence >= threshold
        expected = size_by_loops(correct[kept], w[kept] / w.max(), cluster[kept])
        assert size == pytest.approx(expected, rel=1e-6)
    assert effective_size_of_rate(cases) == pytest.approx(found[0], rel=1e-6)


@given(correctness_cases(min_size=2))
def test_clusters_of_one_case_change_nothing(cases):
    names = [f"patient {i}" for i in range(len(cases[0]))]
    plain, single = (
        sig.aucoc_interval(Cases.from_correctness(*cases, clusters=clusters))
        for clusters in (None, names)
    )
    assert single.low == pytest.approx(plain.low, abs=1e-12)
    assert single.high == pytest.approx(plain.high, abs=1e-12)
    bands = [sig.coc_band(Cases.from_correctness(*cases, clusters=each)) for each in (None, names)]
    np.testing.assert_allclose(bands[1].low, bands[0].low, atol=1e-12)


@given(correctness_cases(graded=False, min_size=3))
def test_copies_of_cases_tell_nothing_new(cases):
    """Five equal images of a patient are worth one."""
    correct, confidence = (np.asarray(each) for each in cases)
    once = sig.aucoc_interval(Cases.from_correctness(correct, confidence))
    copied = sig.aucoc_interval(
        Cases.from_correctness(
            np.repeat(correct, 5),
            np.repeat(confidence, 5),
            clusters=np.repeat(np.arange(len(correct)), 5),
        )
    )
    assert copied.standard_error == pytest.approx(once.standard_error, rel=1e-9, abs=1e-12)
    assert (copied.low, copied.high) == pytest.approx((once.low, once.high), abs=1e-9)


@pytest.mark.parametrize(("tiny", "clusters"), [(2.0**-550, "abcc"), (2.0**-538, "aabc")])
def test_thresholds_with_next_to_no_weight_have_an_interval(tiny, clusters):
    """Squares of such weights vanish; those of their sum may not."""
    band = sig.coc_band(
        Cases.from_correctness(
            [1, 0, 1, 1],
            [0.1, 0.2, 0.3, 0.4],
            sample_weight=[1.0, 1.0, tiny, tiny],
            clusters=list(clusters),
        )
    )
    assert np.isfinite(band.low).all()
    assert np.isfinite(band.high).all()


# ------------------------------------------------------------------ promises, by simulation


@pytest.mark.simulation
@pytest.mark.parametrize(("n_patients", "correlation"), [(30, 0.6), (150, 0.3)])
def test_intervals_hold_the_truth_and_those_of_independent_cases_do_not(n_patients, correlation):
    rng = np.random.default_rng(5)
    many = patients(rng, 100_000, 5, 0.0)
    area, accuracy = el.aucoc_score(Cases.from_correctness(*many[:2])), many[0].mean()
    held = {"area": 0, "area, independent": 0, "accuracy": 0}
    rounds = 300
    for _ in range(rounds):
        correct, confidence, cluster = patients(rng, n_patients, 5, correlation)
        for name, clusters in (("area", cluster), ("area, independent", None)):
            found = sig.aucoc_interval(
                Cases.from_correctness(correct, confidence, clusters=clusters)
            )
            held[name] += found.low <= area <= found.high
        band = sig.coc_band(Cases.from_correctness(correct, confidence, clusters=cluster))
        held["accuracy"] += band.low[0] <= accuracy <= band.high[0]
    # 0.95 less three standard errors of 300 rounds
    assert held["area"] / rounds >= 0.912
    assert held["accuracy"] / rounds >= 0.912
    assert held["area, independent"] / rounds < 0.912


@pytest.mark.simulation
def test_paired_tests_keep_their_level():
    """Two models that are alike, with errors that a patient's cases share."""
    rng = np.random.default_rng(6)
    hits = {"closed form": 0, "permutation": 0, "independent": 0}
    rounds = 300
    for _ in range(rounds):
        a, b = patients(rng, 40, 8, 0.7), patients(rng, 40, 8, 0.7)
        plain = [Cases.from_correctness(*each[:2]) for each in (a, b)]
        models = [Cases.from_correctness(*each[:2], clusters=a[2]) for each in (a, b)]
        hits["closed form"] += sig.aucoc_paired_test(*models).p_value < 0.05
        hits["independent"] += sig.aucoc_paired_test(*plain).p_value < 0.05
        permuted = sig.permutation_test(*models, n_rounds=99, random_state=rng)
        hits["permutation"] += permuted.p_value <= 0.05
    assert hits["closed form"] / rounds <= 0.088  # 0.05 and three standard errors
    assert hits["permutation"] / rounds <= 0.088
    assert hits["independent"] / rounds > 0.15


# ------------------------------------------------------------------ other ways in


def test_a_resample_is_of_whole_clusters():
    """Three equal images of each patient vary as the patients do, draw by draw."""
    correct, confidence, _ = patients(np.random.default_rng(0), 300, 1, 0)
    confidence.sort()  # then both count the same draws
    once = sig.bootstrap_interval(Cases.from_correctness(correct, confidence), random_state=0)
    copied = sig.bootstrap_interval(
        Cases.from_correctness(
            np.repeat(correct, 3),
            np.repeat(confidence, 3),
            clusters=np.repeat([f"{i:03}" for i in range(300)], 3),
        ),
        random_state=0,
    )
    assert copied.standard_error == pytest.approx(once.standard_error)
    assert (copied.low, copied.high) == pytest.approx((once.low, once.high))


def test_any_metric_is_resampled_by_cluster():
    rng = np.random.default_rng(0)
    proba = rng.random(200)
    y = rng.random(200) < proba
    own = sig.bootstrap_interval(
        Cases.from_predictions(y, proba), metric=brier_loss, n_resamples=500, random_state=0
    )
    copies = sig.bootstrap_interval(
        Cases.from_predictions(
            np.repeat(y, 5), np.repeat(proba, 5), clusters=np.repeat(np.arange(200), 5)
        ),
        metric=brier_loss,
        n_resamples=500,
        random_state=0,
    )
    assert copies.standard_error == pytest.approx(own.standard_error, rel=0.1)


def test_a_coin_decides_for_a_whole_cluster():
    """With two clusters there are four exchanges, so no p-value is below a half."""
    rng = np.random.default_rng(0)
    right, wrong = np.ones(100, bool), np.zeros(100, bool)
    confidence = rng.random(100)
    clusters = np.repeat(["a", "b"], 50)
    found = sig.permutation_test(
        Cases.from_correctness(right, confidence, clusters=clusters),
        Cases.from_correctness(wrong, confidence, clusters=clusters),
        random_state=0,
    )
    assert found.p_value > 0.4
    y = np.arange(100) % 2
    proba = np.where(y, 0.9, 0.1)
    other = sig.permutation_test(
        Cases.from_predictions(y, proba, clusters=clusters),
        Cases.from_predictions(y, 1 - proba, clusters=clusters),
        metric=brier_loss,
        random_state=0,
    )
    assert other.p_value > 0.4


def test_predictions_and_correctness_agree():
    rng = np.random.default_rng(0)
    proba = rng.random(60)
    y, clusters = rng.random(60) < proba, np.arange(60) // 3
    correct, confidence = (proba > 0.5) == y, np.maximum(proba, 1 - proba)
    assert sig.aucoc_interval(
        Cases.from_predictions(y, proba, clusters=clusters)
    ) == sig.aucoc_interval(Cases.from_correctness(correct, confidence, clusters=clusters))
    other = rng.random(60)
    cases = (other > 0.5) == y, np.maximum(other, 1 - other)
    models = {
        "a": Cases.from_predictions(y, proba, clusters=clusters),
        "b": Cases.from_predictions(y, other, clusters=clusters),
    }
    test = sig.aucoc_paired_test(*models.values())
    assert test == sig.aucoc_paired_test(
        Cases.from_correctness(correct, confidence, clusters=clusters),
        Cases.from_correctness(*cases, clusters=clusters),
    )
    assert sig.compare_models(models)["a", "b"] == test
    for a, b in zip(
        sig.coc_band(Cases.from_predictions(y, proba, clusters=clusters)),
        sig.coc_band(Cases.from_correctness(correct, confidence, clusters=clusters)),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_an_evaluation_uses_its_clusters_for_every_interval():
    correct, confidence, cluster = patients(np.random.default_rng(0), 100, 5, 0.8)
    site = np.where(cluster % 2, "north", "south")
    plain, found = (
        evaluate(Cases.from_correctness(correct, confidence, groups=site, clusters=clusters))
        for clusters in (None, cluster)
    )
    assert found.aucoc == sig.aucoc_interval(
        Cases.from_correctness(correct, confidence, clusters=cluster)
    )
    band = sig.coc_band(Cases.from_correctness(correct, confidence, clusters=cluster))
    np.testing.assert_array_equal(found.band.low, band.low)
    assert (found.accuracy.low, found.accuracy.high) == (band.low[0], band.high[0])
    for own, other in zip(found.groups, plain.groups, strict=True):
        assert own.accuracy.estimate == pytest.approx(other.accuracy.estimate)
        assert own.accuracy.low < other.accuracy.low
        inside = site == own.name
        assert own.accuracy.low == pytest.approx(
            sig.coc_band(
                Cases.from_correctness(
                    correct[inside], confidence[inside], clusters=cluster[inside]
                )
            ).low[0]
        )


def test_one_cluster_is_not_enough():
    with pytest.raises(InsufficientDataError, match="At least 2 clusters are needed. Got 1"):
        sig.aucoc_interval(Cases.from_correctness([1, 0, 1], [0.1, 0.2, 0.3], clusters=["a"] * 3))
    with pytest.raises(InsufficientDataError, match="At least 2"):
        evaluate(Cases.from_correctness([1, 0, 1], [0.1, 0.2, 0.3], clusters=["a"] * 3))


def test_clusters_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match="must name a cluster for each of 3 cases. Got 2"):
        sig.aucoc_interval(Cases.from_correctness([1, 0, 1], [0.1, 0.2, 0.3], clusters=["a", "b"]))
    with pytest.raises(DataTypeError, match="clusters"):
        sig.coc_band(Cases.from_correctness([1, 0], [0.1, 0.2], clusters=["a", None]))
    labels = pd.Series([1, 0, 1], index=[2, 1, 0])
    clusters = pd.Series(["a", "b", "b"], index=[0, 1, 2])
    with pytest.raises(ShapeError, match="order"):
        sig.aucoc_interval(Cases.from_predictions(labels, [0.2, 0.7, 0.9], clusters=clusters))
