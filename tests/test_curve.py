from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import expertload as el
from expertload import Cases
from expertload.exceptions import MissingExtraError, ParameterError, WeightError
from tests.reference import coc
from tests.strategies import correctness_cases, predictions, whole_weights


@given(correctness_cases(unit=False))
def test_curve_equals_the_oracle(cases):
    curve = el.coc_curve(Cases.from_correctness(*cases))
    for ours, theirs in zip(curve, coc.curve(*cases), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


@given(correctness_cases(max_size=10))
def test_exact_area_equals_quadrature(cases):
    assert el.aucoc_score(Cases.from_correctness(*cases)) == pytest.approx(
        coc.exact_area(*cases), abs=1e-8
    )


@given(correctness_cases(max_size=8), st.data())
def test_weighted_area_equals_quadrature(cases, data):
    weight = data.draw(
        st.lists(st.floats(0.1, 3), min_size=len(cases[0]), max_size=len(cases[0])).map(np.array)
    )
    ours = el.aucoc_score(Cases.from_correctness(*cases, sample_weight=weight))
    assert ours == pytest.approx(coc.exact_area(*cases, weight), abs=1e-8)


@given(correctness_cases())
def test_thresholds_area_equals_the_oracle(cases):
    ours = el.aucoc_score(Cases.from_correctness(*cases), convention="thresholds")
    assert ours == pytest.approx(coc.thresholds_area(*cases), abs=1e-12)


@given(correctness_cases())
def test_authors_area_equals_the_oracle(cases):
    ours = el.aucoc_score(Cases.from_correctness(*cases), convention="authors")
    assert ours == pytest.approx(coc.authors_area(*cases), abs=1e-12)


@given(correctness_cases(), st.floats(0, 1))
def test_readings_equal_the_oracle(cases, level):
    assert el.load_at_accuracy(
        Cases.from_correctness(*cases), target_accuracy=level
    ) == pytest.approx(coc.load_at_accuracy(*cases, level), abs=1e-12)
    assert el.accuracy_at_load(Cases.from_correctness(*cases), expert_load=level) == pytest.approx(
        coc.accuracy_at_load(*cases, level), abs=1e-12
    )


@given(predictions())
def test_predictions_reduce_to_correctness_and_top_probability(case):
    y_true, y_proba = case
    correct, confidence = y_proba.argmax(axis=1) == y_true, y_proba.max(axis=1)
    assert el.aucoc_score(y_true, y_proba) == el.aucoc_score(
        Cases.from_correctness(correct, confidence)
    )
    for a, b in zip(
        el.coc_curve(y_true, y_proba),
        el.coc_curve(Cases.from_correctness(correct, confidence)),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
    assert el.load_at_accuracy(y_true, y_proba, target_accuracy=0.8) == el.load_at_accuracy(
        Cases.from_correctness(correct, confidence), target_accuracy=0.8
    )
    assert el.accuracy_at_load(y_true, y_proba, expert_load=0.3) == el.accuracy_at_load(
        Cases.from_correctness(correct, confidence), expert_load=0.3
    )


@given(correctness_cases(), st.data())
def test_counting_and_adding_up_agree(cases, data):
    """Right-or-wrong cases take a faster road than weighted ones; both lead to the same place."""
    correct, confidence = cases
    ones = np.ones(len(correct))
    for convention in ("exact", "thresholds", "authors"):
        fast = el.aucoc_score(Cases.from_correctness(correct, confidence), convention=convention)
        general = el.aucoc_score(
            Cases.from_correctness(correct, confidence, sample_weight=ones), convention=convention
        )
        assert fast == pytest.approx(general, abs=1e-12)


def test_many_cases_most_of_them_tied():
    rng = np.random.default_rng(0)
    n = 200_000
    confidence = np.where(rng.random(n) < 0.5, 0.5, rng.random(n)).astype(np.float32)
    correct = rng.random(n) < 0.5
    fast = el.aucoc_score(Cases.from_correctness(correct, confidence))
    general = el.aucoc_score(Cases.from_correctness(correct, confidence, sample_weight=np.ones(n)))
    assert fast == pytest.approx(general, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 7, 1000])
@pytest.mark.parametrize("convention", ["exact", "thresholds"])
def test_perfect_is_one_and_always_wrong_is_zero_at_any_n(n, convention):
    confidence = np.linspace(0.3, 0.9, n)
    assert Cases.from_correctness(np.ones(n), confidence).aucoc(convention) == 1.0
    assert Cases.from_correctness(np.zeros(n), confidence).aucoc(convention) == 0.0


@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_perfect_in_the_authors_convention_misses_one_nth(n):
    area = el.aucoc_score(Cases.from_correctness(np.ones(n), np.arange(n)), convention="authors")
    assert area == pytest.approx(1 - 1 / n)


def test_conventions_differ_by_log_n_over_n():
    rng = np.random.default_rng(3)
    for n in (100, 1000, 10_000):
        confidence = rng.random(n)
        correct = rng.random(n) < confidence
        exact, thresholds, authors = (
            el.aucoc_score(Cases.from_correctness(correct, confidence), convention=c)
            for c in ("exact", "thresholds", "authors")
        )
        assert abs(exact - thresholds) < 2 * np.log(n) / n
        assert abs(exact - authors) < 2 * np.log(n) / n
        assert exact != thresholds != authors


@given(correctness_cases(min_size=2), st.data())
def test_merged_shards_equal_the_whole(cases, data):
    """Two shards' tallies, put together as weighted cases, give the curve and area of all."""
    correct, confidence = cases
    cut = data.draw(st.integers(1, len(correct) - 1))
    shards = [
        Cases.from_correctness(correct[part], confidence[part]).tally
        for part in (slice(cut), slice(cut, None))
    ]
    merged = {
        "correct": np.concatenate([shard.grade for shard in shards]),
        "confidence": np.concatenate([shard.confidence for shard in shards]),
        "sample_weight": np.concatenate([shard.weight for shard in shards]),
    }
    whole = el.coc_curve(Cases.from_correctness(correct, confidence))
    for a, b in zip(whole, Cases.from_correctness(**merged).curve(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-14)
    area = el.aucoc_score(Cases.from_correctness(correct, confidence))
    assert Cases.from_correctness(**merged).aucoc() == pytest.approx(area, abs=1e-14)


def test_permuting_ties_changes_nothing():
    """All-equal confidences with a fifth of errors: 0.521 or 0.022 elsewhere, by row order."""
    correct = np.array([0] * 20 + [1] * 80)
    confidence = np.full(100, 0.7)
    for ordered in (correct, correct[::-1], np.random.default_rng(0).permutation(correct)):
        for convention in ("exact", "thresholds"):
            area = el.aucoc_score(
                Cases.from_correctness(ordered, confidence), convention=convention
            )
            assert area == pytest.approx(0.8, abs=1e-12)
        assert len(el.coc_curve(Cases.from_correctness(ordered, confidence)).accuracy) == 1


def test_load_is_zero_for_a_perfect_model_and_one_where_nothing_reaches():
    """An argmax over an all-False mask would say 0 in the second case."""
    args = np.array([0.9, 0.8, 0.7]), 0.95
    assert (
        el.load_at_accuracy(Cases.from_correctness([1, 1, 1], args[0]), target_accuracy=args[1])
        == 0.0
    )
    assert (
        el.load_at_accuracy(Cases.from_correctness([0, 0, 0], args[0]), target_accuracy=args[1])
        == 1.0
    )
    assert (
        el.load_at_accuracy(Cases.from_correctness([0, 0, 0], args[0]), target_accuracy=0.0) == 0.0
    )


def test_targets_on_the_dot_are_reached():
    for wrong, n in ((1, 20), (3, 10), (1, 3), (7, 100)):
        correct = np.r_[np.zeros(wrong), np.ones(n - wrong)]
        target = 1 - wrong / n
        confidence = np.full(n, 0.5)
        assert (
            el.load_at_accuracy(Cases.from_correctness(correct, confidence), target_accuracy=target)
            == 0
        )
        weight = np.full(n, 0.1)
        assert (
            el.load_at_accuracy(
                Cases.from_correctness(correct, confidence, sample_weight=weight),
                target_accuracy=target,
            )
            == 0
        )


def test_accuracy_at_full_load_is_that_of_the_most_confident():
    assert el.accuracy_at_load(Cases.from_correctness([1, 0], [0.2, 0.9]), expert_load=1.0) == 0.0


@given(correctness_cases(), st.data())
def test_zero_weight_is_absence(cases, data):
    correct, confidence = cases
    weight = data.draw(whole_weights(len(correct)))
    kept = weight > 0
    with_zeros = el.coc_curve(Cases.from_correctness(correct, confidence, sample_weight=weight))
    without = el.coc_curve(
        Cases.from_correctness(correct[kept], confidence[kept], sample_weight=weight[kept])
    )
    for a, b in zip(with_zeros, without, strict=True):
        np.testing.assert_array_equal(a, b)


def test_thresholds_convention_refuses_fractional_weights():
    with pytest.raises(WeightError, match="whole numbers"):
        el.aucoc_score(
            Cases.from_correctness([1, 0], [0.5, 0.6], sample_weight=[0.5, 1]),
            convention="thresholds",
        )


@given(predictions(min_size=2))
def test_own_confidence_ranks_by_itself(case):
    y_true, y_proba = case
    ranks = np.arange(len(y_true))
    correct = y_proba.argmax(axis=1) == y_true
    assert el.aucoc_score(y_true, y_proba, confidence=ranks) == el.aucoc_score(
        Cases.from_correctness(correct, ranks)
    )


@given(correctness_cases())
def test_area_depends_on_the_order_of_confidences_alone(cases):
    correct, confidence = cases
    assert el.aucoc_score(
        Cases.from_correctness(correct, np.exp(3 * confidence) - 7)
    ) == pytest.approx(el.aucoc_score(Cases.from_correctness(correct, confidence)), abs=1e-14)


def test_golden_areas_of_the_authors_code(golden):
    for i in golden.ids:
        logits = golden[f"{i}/logits"]
        proba = np.exp(logits - logits.max(axis=1, keepdims=True))
        proba /= proba.sum(axis=1, keepdims=True)
        area = el.aucoc_score(golden[f"{i}/labels"], proba, convention="authors")
        assert area == pytest.approx(float(golden[f"{i}/aucoc"]), abs=1e-10)
        accuracy = el.accuracy_at_load(golden[f"{i}/labels"], proba, expert_load=0.0)
        assert accuracy == pytest.approx(float(golden[f"{i}/accuracy"]), abs=1e-12)


def test_committed_values():
    """A small set of values computed once by the oracles, kept to catch silent changes."""
    recorded = json.loads((Path(__file__).parent / "data" / "committed_values.json").read_text())
    for case in recorded:
        correct, confidence = case["correct"], case["confidence"]
        for convention in ("exact", "thresholds", "authors"):
            area = el.aucoc_score(
                Cases.from_correctness(correct, confidence), convention=convention
            )
            assert area == pytest.approx(case[convention], abs=1e-9)


@given(correctness_cases(graded=False), st.sampled_from([np.float32, np.float64]), st.booleans())
def test_a_tally_is_what_counting_by_hand_gives(cases, dtype, shifted):
    """Also of minus zero, which is zero, and of confidences below it, which are sorted apart."""
    correct, confidence = cases[0] == 1, cases[1].astype(dtype)
    confidence = confidence - dtype(0.5) if shifted else np.where(confidence == 0, -0.0, confidence)
    confidence = confidence.astype(dtype)
    table = Cases(correct, confidence, None).tally
    assert table.confidence.dtype == dtype
    by_hand = {}
    for is_right, at in zip(correct.tolist(), confidence.tolist(), strict=True):
        weight, right = by_hand.get(at, (0, 0))
        by_hand[at] = weight + 1, right + is_right
    rows = zip(
        table.confidence.tolist(), table.weight.tolist(), table.correct.tolist(), strict=True
    )
    assert {at: (weight, right) for at, weight, right in rows} == by_hand
    assert (np.diff(table.confidence) > 0).all()


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_the_curve_as_a_frame(backend):
    curve = el.coc_curve(Cases.from_correctness([0, 1, 1, 1], [0.6, 0.7, 0.8, 0.9]))
    frame = curve.to_frame(backend)
    assert type(frame).__module__.partition(".")[0] == backend
    for name, values in curve._asdict().items():
        np.testing.assert_array_equal(np.asarray(frame[name]), values)


def test_a_frame_needs_its_library(monkeypatch):
    curve = el.coc_curve(Cases.from_correctness([0, 1], [0.6, 0.7]))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match="pip install pandas"):
        curve.to_frame()
    with pytest.raises(ParameterError, match="backend"):
        curve.to_frame("excel")
