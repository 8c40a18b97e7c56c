"""The table itself: it merges, rounds, travels, and bounds what rounding costs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import expertload as el
from expertload import Cases, certify, exceptions
from expertload.evaluation import evaluate
from expertload.exceptions import WeightError
from expertload.io import FrameTally, tally_frame
from expertload.tally import accuracy_bounds, area_bounds, load_bounds
from tests.io.backends import make_frame
from tests.strategies import examples

ENGINES = ["polars-lazy", "pyarrow", "duckdb", "pandas"]
SLACK = 1e-9


@st.composite
def cases(draw, min_size=1):
    """(confidence, correct, weight) with ties, saturation, and values that rounding moves."""
    n = draw(st.integers(min_size, 30))
    value = st.one_of(
        st.integers(0, 8).map(lambda k: k / 8), st.floats(0, 1, width=32), st.just(1.0)
    )
    confidence = draw(st.lists(value, min_size=n, max_size=n))
    grade = draw(st.sampled_from([[0.0, 1.0], [0.0, 0.25, 0.5, 1.0]]))
    correct = draw(st.lists(st.sampled_from(grade), min_size=n, max_size=n))
    weight = draw(st.lists(st.sampled_from([1.0, 2.0, 0.5]), min_size=n, max_size=n))
    return confidence, correct, weight


def exact_table(confidence, correct, weight):
    columns = [np.asarray(a, float) for a in (confidence, weight, correct)]
    confidence, weight, correct = columns
    return FrameTally.from_rows((confidence, weight, correct * weight, confidence), None)


def frame_columns(confidence, correct, weight):
    return {"confidence": confidence, "correct": correct, "weight": weight}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ENGINES)
@examples(40)
@given(case=cases())
def test_engines_agree_with_numpy(backend, case):
    confidence, correct, weight = case
    table = tally_frame(make_frame(backend, frame_columns(*case)), weight="weight")
    wanted = el.aucoc_score(Cases.from_correctness(correct, confidence, sample_weight=weight))
    assert table.aucoc() == pytest.approx(wanted, rel=0, abs=1e-12)
    curve = el.coc_curve(Cases.from_correctness(correct, confidence, sample_weight=weight))
    np.testing.assert_allclose(table.curve().accuracy, curve.accuracy, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(table.curve().thresholds, curve.thresholds)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ENGINES)
@examples(40)
@given(case=cases(), bits=st.integers(0, 20))
def test_engines_round_as_numpy_does(backend, case, bits):
    table = tally_frame(make_frame(backend, frame_columns(*case)), weight="weight", bits=bits)
    wanted = exact_table(*case).rounded(bits)
    for name in ("confidence", "weight", "correct", "top"):
        np.testing.assert_allclose(getattr(table, name), getattr(wanted, name), rtol=0, atol=1e-12)


@given(case=cases(), bits=st.integers(0, 8))
def test_points_of_a_rounded_curve_are_points_of_the_exact_one(case, bits):
    exact, rounded = exact_table(*case), exact_table(*case).rounded(bits)
    for load, accuracy, threshold in zip(*rounded.curve(), strict=True):
        accepted = exact.confidence >= threshold
        weight, correct = exact.weight[accepted].sum(), exact.correct[accepted].sum()
        assert load == pytest.approx(1 - weight / exact.n_cases, abs=1e-12)
        assert accuracy == pytest.approx(correct / weight, abs=1e-12)


@given(case=cases(), bits=st.integers(0, 8), target=st.floats(0, 1), load=st.floats(0, 1))
def test_bounds_hold_the_exact_numbers(case, bits, target, load):
    exact, rounded = exact_table(*case), exact_table(*case).rounded(bits)
    for (low, high), mine, wanted in [
        (rounded.aucoc_bounds(), rounded.aucoc(), exact.aucoc()),
        (
            rounded.load_bounds(target),
            rounded.load_at_accuracy(target),
            exact.load_at_accuracy(target),
        ),
        (
            rounded.accuracy_bounds(load),
            rounded.accuracy_at_load(load),
            exact.accuracy_at_load(load),
        ),
    ]:
        assert low - SLACK <= wanted <= high + SLACK
        assert low - SLACK <= mine <= high + SLACK
    assert abs(rounded.aucoc() - exact.aucoc()) <= rounded.error_bound + SLACK
    assert rounded.load_at_accuracy(target) >= exact.load_at_accuracy(target) - SLACK


@given(case=cases(), bits=st.integers(0, 8))
def test_area_bounds_are_within_the_rule_of_thumb(case, bits):
    rounded = exact_table(*case).rounded(bits)
    share = rounded.weight / rounded.n_cases
    largest, top = share.max(), share[-1]
    low, high = rounded.aucoc_bounds()
    assert high - low <= largest * (1 - math.log(largest) - math.log(top) / 2) + SLACK


def test_bounds_are_reached():
    """Two orders of one cell, the correct ones last and first: nothing tighter is true."""
    confidence = np.array([0.51, 0.52, 0.53, 0.54])
    best = exact_table(confidence, [0, 0, 1, 1], np.ones(4))
    worst = exact_table(confidence, [1, 1, 0, 0], np.ones(4))
    low, high = best.rounded(2).aucoc_bounds()
    assert (low, high) == pytest.approx((worst.aucoc(), best.aucoc()), abs=1e-12)
    assert best.rounded(2).load_bounds(1.0) == pytest.approx((best.load_at_accuracy(1.0), 1.0))
    four_of_five = exact_table(np.linspace(0.51, 0.55, 5), [0, 1, 1, 1, 1], np.ones(5))
    four_of_five = replace(four_of_five, is_counted=True)
    low, _ = four_of_five.rounded(2).load_bounds(0.85)  # whole cases: not 4 / 0.85 of them
    assert low == pytest.approx(four_of_five.load_at_accuracy(0.85)) == pytest.approx(0.2)
    low, high = best.rounded(2).accuracy_bounds(0.5)
    assert (low, high) == pytest.approx((worst.accuracy_at_load(0.5), best.accuracy_at_load(0.5)))


def test_cells_of_equal_confidences_add_no_error():
    table = exact_table([1.0] * 6 + [0.5] * 4, [1, 1, 1, 0, 1, 1, 0, 1, 0, 0], np.ones(10))
    assert table.rounded(3).error_bound == 0
    assert table.rounded(3).aucoc_bounds() == pytest.approx((table.aucoc(), table.aucoc()))


@pytest.mark.parametrize("right", [0, 1])
def test_bounds_of_a_top_cell_that_may_be_delegated_whole(right):
    table = exact_table([0.6, 0.7], [right, right], np.ones(2)).rounded(0)
    assert table.accuracy_bounds(1.0) == (right, right)
    assert table.aucoc_bounds() == pytest.approx((right, right))


def test_error_halves_with_each_bit():
    rng = np.random.default_rng(0)
    confidence = rng.beta(4, 1, 50_000)
    exact = exact_table(confidence, rng.random(50_000) < confidence, np.ones(50_000))
    bounds = [exact.rounded(bits).error_bound for bits in (6, 8, 10)]
    assert bounds[0] > 3 * bounds[1] > 9 * bounds[2] > 0


# --------------------------------------------------------------------------- merging


def same(a, b, **tolerance):
    for name in ("confidence", "weight", "correct", "top"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), **tolerance)
    return True


@pytest.mark.slow
@given(parts=st.lists(cases(), min_size=3, max_size=3), bits=st.none() | st.integers(0, 6))
def test_merging_is_associative_commutative_and_equals_the_whole(parts, bits):
    tables = [exact_table(*part) for part in parts]
    if bits is not None:
        tables = [table.rounded(bits) for table in tables]
    a, b, c = tables
    assert same((a + b) + c, a + (b + c), rtol=1e-14)
    assert same(a + b, b + a, rtol=1e-14)
    whole = exact_table(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    assert same(a.merge(b, c), whole if bits is None else whole.rounded(bits), rtol=1e-14)


@given(case=cases(), fine=st.integers(4, 8), coarse=st.integers(0, 4))
def test_rounding_in_steps_is_rounding_at_once(case, fine, coarse):
    table = exact_table(*case)
    assert same(table.rounded(fine).rounded(coarse), table.rounded(coarse), rtol=1e-14)


def test_tables_of_unlike_rounding_are_not_merged():
    table = exact_table([0.3, 0.7], [0, 1], [1, 1])
    with pytest.raises(exceptions.ParameterError, match="exact, 4 bits.*rounded"):
        table + table.rounded(4)
    assert (table.rounded(4) + table.rounded(6).rounded(4)).n_cases == 4
    with pytest.raises(exceptions.ParameterError, match="from 0 to 4"):
        table.rounded(4).rounded(5)
    with pytest.raises(TypeError):
        table + 1


def test_weights_that_are_not_counts_have_no_thresholds_convention():
    table = exact_table([0.3, 0.7], [0, 1], [0.5, 1])
    with pytest.raises(exceptions.WeightError, match="whole numbers"):
        table.aucoc(convention="thresholds")


def test_readings_check_their_options():
    table = exact_table([0.3, 0.7], [0, 1], [1, 1])
    for reading in (table.load_at_accuracy, table.load_bounds):
        with pytest.raises(exceptions.ParameterError, match="0.95"):
            reading(95)
    for reading in (table.accuracy_at_load, table.accuracy_bounds):
        with pytest.raises(exceptions.ParameterError, match="expert_load"):
            reading(-0.1)
    with pytest.raises(exceptions.ParameterError, match="convention"):
        table.aucoc(convention="other")


def test_rows_serve_every_function_that_takes_cases():
    table = exact_table([0.3, 0.3, 0.7, 0.9], [0, 1, 1, 1], np.ones(4))
    assert table.cases().aucoc() == pytest.approx(table.aucoc())
    assert table.accuracy == 0.75
    assert repr(table.rounded(3)) == "FrameTally(3 rows, 4 cases, rounded to 2**-3)"


def test_bounds_functions_take_a_plain_tally():
    table = exact_table([0.3, 0.7], [0, 1], [1, 1])
    tied = np.array([True, True])
    assert area_bounds(table.tally, tied)[0] == pytest.approx(table.aucoc())
    assert load_bounds(table.tally, tied, 1.0) == (0.5, 0.5)
    assert accuracy_bounds(table.tally, tied, 0.5) == (1.0, 1.0)


# ------------------------------------------------------------------------- tables in place of cases


def predicted(n=3000):
    rng = np.random.default_rng(0)
    p = rng.beta(0.4, 0.4, size=n).round(2)
    return {"p_no": 1 - p, "p_yes": p, "label": np.where(rng.random(n) < p, "yes", "no")}


@pytest.mark.parametrize("bits", [None, 6])
def test_a_table_is_certified_and_evaluated_as_its_cases(bits, tmp_path):
    columns = predicted()
    proba = np.column_stack([columns["p_no"], columns["p_yes"]])
    table = tally_frame(pl.DataFrame(columns), probabilities="p_*", bits=bits)
    halves = [{k: v[i::2] for k, v in columns.items()} for i in range(2)]
    parts = [tally_frame(pl.DataFrame(h), probabilities="p_*", bits=bits) for h in halves]
    (parts[0] + parts[1]).save(tmp_path / "both.npz")
    cases = Cases.from_predictions(columns["label"], proba)
    if bits is not None:  # rounded down, as the table is
        cases = replace(cases, confidence=np.floor(cases.confidence * 2**bits) / 2**bits)
    point = certify(cases, target_accuracy=0.9)
    assert point.is_certified
    for own in (table, FrameTally.load(tmp_path / "both.npz")):
        found = certify(own, target_accuracy=0.9)
        assert found == point
        assert (found.origin.ranked_by, found.origin.labels) == ("top_probability", ("no", "yes"))
    ours, theirs = evaluate(table), evaluate(cases)
    assert ours.certification == theirs.certification
    assert (ours.loads, ours.accuracy, ours.groups) == (theirs.loads, theirs.accuracy, ())
    np.testing.assert_allclose(ours.aucoc.estimate, theirs.aucoc.estimate, rtol=1e-12)
    np.testing.assert_allclose(ours.aucoc.low, theirs.aucoc.low, rtol=1e-9)


def test_grades_and_weights_are_not_counted_as_cases():
    frame = pl.DataFrame({"confidence": [0.5] * 80, "correct": [0.5, 0.5] * 40, "w": [2.0] * 80})
    with pytest.raises(WeightError):
        certify(tally_frame(frame), target_accuracy=0.4)
    whole = frame.with_columns(correct=pl.lit(1))
    assert certify(tally_frame(whole), target_accuracy=0.9).is_certified
    with pytest.raises(WeightError):
        certify(tally_frame(whole, weight="w"), target_accuracy=0.9)
