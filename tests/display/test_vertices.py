"""The line drawn is the curve that randomised thresholds reach, however few or many its points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expertload import Cases, aucoc_score, coc_curve
from expertload.display._draw import COLUMNS, STEP, along_curve, visible
from expertload.significance import coc_band

CASES = st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=1, max_size=40)


def randomised_accuracy(correct, confidence, load):
    """Delegate the least confident first, and of the group in which the load falls a part."""
    share = load * len(correct)
    right = accepted = 0.0
    for level in np.unique(confidence):
        group = correct[confidence == level]
        kept = max(0.0, len(group) - max(0.0, share))
        share -= len(group)
        right += kept * group.mean()
        accepted += kept
    return right / accepted


@given(CASES)
def test_every_vertex_is_what_accepting_a_random_part_gives(cases):
    correct, confidence = (np.array(column, dtype=float) for column in zip(*cases, strict=True))
    curve = coc_curve(Cases.from_correctness(correct, confidence))
    loads, accuracy = along_curve(curve.expert_load, curve.accuracy)
    expected = [randomised_accuracy(correct, confidence, load) for load in loads[:-1]]
    np.testing.assert_allclose(accuracy[:-1], expected, atol=1e-9)
    assert loads[0] == 0
    assert loads[-1] == 1
    assert accuracy[-1] == curve.accuracy[-1]


@given(CASES)
def test_area_under_the_line_as_drawn_is_aucoc(cases):
    correct, confidence = (np.array(column, dtype=float) for column in zip(*cases, strict=True))
    curve = coc_curve(Cases.from_correctness(correct, confidence))
    loads, accuracy = along_curve(curve.expert_load, curve.accuracy)
    area = aucoc_score(Cases.from_correctness(correct, confidence))
    assert np.trapezoid(accuracy, loads) == pytest.approx(area, abs=2e-4)


@given(CASES)
def test_band_holds_the_line_everywhere(cases):
    correct, confidence = (np.array(column, dtype=float) for column in zip(*cases, strict=True))
    curve = coc_curve(Cases.from_correctness(correct, confidence))
    band = coc_band(Cases.from_correctness(correct, confidence))
    _, accuracy, low, high = along_curve(curve.expert_load, curve.accuracy, band.low, band.high)
    assert (low <= accuracy + 1e-9).all()
    assert (accuracy <= high + 1e-9).all()


def test_the_points_of_the_curve_are_vertices():
    rng = np.random.default_rng(0)
    curve = coc_curve(Cases.from_correctness(rng.random(300) < 0.8, rng.random(300)))
    loads, accuracy = along_curve(curve.expert_load, curve.accuracy)
    at = np.searchsorted(loads, curve.expert_load)
    np.testing.assert_array_equal(loads[at], curve.expert_load)
    np.testing.assert_allclose(accuracy[at], curve.accuracy, atol=1e-12)


def test_a_steep_hyperbola_is_smooth():
    # One confident error above ten thousand tied right answers: the fall is all in the last pixel.
    curve = coc_curve(Cases.from_correctness([1] * 10_000 + [0], [0.5] * 10_000 + [0.9]))
    loads, accuracy = along_curve(curve.expert_load, curve.accuracy)
    middle = (loads[:-2] + loads[1:-1]) / 2
    on_chord = (accuracy[:-2] + accuracy[1:-1]) / 2
    on_curve = 1 - (1 / 10_001) / (1 - middle)
    assert np.abs(on_chord - on_curve).max() < STEP**2 / 4


def test_many_points_are_thinned_without_losing_extremes():
    rng = np.random.default_rng(1)
    x, y = np.sort(rng.random(200_000)), rng.random(200_000)
    keep = visible(x, y)
    assert len(keep) <= 4 * COLUMNS
    assert (np.diff(keep) > 0).all()
    column, drawn = (x * COLUMNS).astype(int), (x[keep] * COLUMNS).astype(int)
    for k in (0, 1, 500, COLUMNS - 1):
        everything, kept = y[column == k], y[keep][drawn == k]
        assert (kept.min(), kept.max()) == (everything.min(), everything.max())
        assert (kept[0], kept[-1]) == (everything[0], everything[-1])


def test_points_in_few_columns_are_thinned_too():
    x = np.sort(np.concatenate([np.zeros(5000), np.ones(5000)]))
    assert list(x[visible(x, np.arange(10_000.0))]) == [0, 0, 1, 1]


def test_few_points_are_all_kept():
    assert list(visible(np.array([0, 0.5, 1.0]), np.array([0, 1.0, 0]))) == [0, 1, 2]
