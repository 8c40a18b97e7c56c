from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import correctness_cases

import expertload as el
from expertload import Cases, metrics
from expertload import significance as sig
from expertload.exceptions import NonFiniteError, ParameterError, ShapeError
from expertload.significance.resample import resampled_areas


class Scripted:
    """A generator whose draws are known: stands in for numpy's."""

    def __init__(self, picks):
        self.picks = picks

    def integers(self, *_, **__):
        return self.picks


@given(correctness_cases(), st.data())
def test_a_resample_is_what_it_says(cases, data):
    """The table of ranks gives the area of the very cases that were drawn."""
    correct, confidence = cases
    n = len(correct)
    picks = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n)))
    (fast,) = resampled_areas(Cases(correct, confidence, None), 1, Scripted(picks))
    drawn = np.argsort(confidence, kind="stable")[picks]
    assert fast == pytest.approx(
        el.aucoc_score(Cases.from_correctness(correct[drawn], confidence[drawn])), abs=1e-12
    )


def model(n=400, seed=0):
    rng = np.random.default_rng(seed)
    y_proba = rng.beta(2, 2, n)
    return rng.random(n) < y_proba, y_proba


@pytest.mark.slow
def test_fast_and_general_roads_agree_within_chance():
    fast = sig.bootstrap_interval(
        Cases.from_predictions(*model()), n_resamples=4000, random_state=1
    )
    general = sig.bootstrap_interval(
        Cases.from_predictions(*model()),
        metric=lambda cases: cases.aucoc(),
        n_resamples=1000,
        random_state=2,
    )
    closed = sig.aucoc_interval(Cases.from_predictions(*model()))
    assert fast.estimate == general.estimate == pytest.approx(closed.estimate)
    assert fast.standard_error == pytest.approx(general.standard_error, rel=0.1)
    assert fast.standard_error == pytest.approx(closed.standard_error, rel=0.1)
    assert fast.low == pytest.approx(closed.low, abs=0.01)
    assert fast.high == pytest.approx(closed.high, abs=0.01)


def test_seeds_repeat_and_differ():
    one, same, other = (
        sig.bootstrap_interval(Cases.from_predictions(*model()), n_resamples=50, random_state=s)
        for s in (3, 3, 4)
    )
    assert one == same != other
    generator = np.random.default_rng(3)
    assert (
        sig.bootstrap_interval(
            Cases.from_predictions(*model()), n_resamples=50, random_state=generator
        )
        == one
    )


def test_any_metric_with_options():
    metric = partial(metrics.expected_calibration_error, n_bins=5)
    interval = sig.bootstrap_interval(
        Cases.from_predictions(*model()), metric=metric, n_resamples=100, random_state=0
    )
    assert interval.estimate == metric(*model())
    assert 0 < interval.low < interval.high


def test_from_correctness_is_the_same_road():
    y_true, y_proba = model()
    correct, confidence = (y_proba > 0.5) == y_true, np.maximum(y_proba, 1 - y_proba)
    assert sig.bootstrap_interval(
        Cases.from_correctness(correct, confidence), n_resamples=50, random_state=0
    ) == sig.bootstrap_interval(
        Cases.from_predictions(y_true, y_proba), n_resamples=50, random_state=0
    )


def test_percentiles_of_a_known_distribution():
    """The mean of 0/1 outcomes: the bootstrap's spread is the binomial one."""
    y_true = np.arange(1000) % 2
    interval = sig.bootstrap_interval(
        Cases.from_predictions(y_true, y_true),
        metric=lambda cases: cases.target.mean(),
        n_resamples=4000,
        random_state=0,
    )
    reach = 1.96 * np.sqrt(0.25 / 1000)
    assert interval.low == pytest.approx(0.5 - reach, abs=0.003)
    assert interval.high == pytest.approx(0.5 + reach, abs=0.003)


def test_bad_options_and_metrics_are_refused():
    y_true, y_proba = model(20)
    with pytest.raises(ParameterError, match="'n_resamples'"):
        sig.bootstrap_interval(Cases.from_predictions(y_true, y_proba), n_resamples=1)
    with pytest.raises(ParameterError, match="random_state"):
        sig.bootstrap_interval(Cases.from_predictions(y_true, y_proba), random_state="seed")
    with pytest.raises(NonFiniteError, match="resamples may lack a class"):
        sig.bootstrap_interval(Cases.from_predictions(y_true, y_proba), metric=lambda *_: np.nan)
    with pytest.raises(ShapeError):
        sig.bootstrap_interval(
            Cases.from_predictions(y_true[1:], y_proba), metric=metrics.brier_loss
        )
