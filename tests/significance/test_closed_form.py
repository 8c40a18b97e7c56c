from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from scipy import stats
from scipy.integrate import quad
from tests.strategies import correctness_cases, predictions

import expertload as el
from expertload import Cases
from expertload import significance as sig
from expertload.exceptions import InsufficientDataError, ParameterError, ShapeError
from expertload.significance.interval import influence_of_cases, linearise, linearise_cases


class Population(NamedTuple):
    """Cases whose confidence has a known distribution, and who is right at each confidence."""

    confidence: Any  # of scipy.stats
    accuracy: Callable[[np.ndarray], np.ndarray]

    def draw(self, rng, n):
        confidence = self.confidence.rvs(size=n, random_state=rng)
        return rng.random(n) < self.accuracy(confidence), confidence

    def area(self):
        """The area under the whole population's curve, E[accuracy * -ln(1 - F)], by quadrature.

        With 1 - F = exp(-t) the logarithm is t. Confidences in steps are spread over their step.
        """

        def height(t):
            return self.accuracy(self.confidence.isf(np.exp(-t))) * t * np.exp(-t)

        return quad(height, 0, 40, limit=2000, epsabs=1e-7)[0]


POPULATIONS = {
    "calibrated": Population(stats.beta(4, 1.2), lambda r: r),
    "overconfident": Population(stats.beta(8, 1), lambda r: 0.5 + 0.45 * r**3),
    "in ten steps": Population(stats.randint(1, 11), lambda r: 0.3 + 0.065 * r),
    "uninformative": Population(stats.uniform(), lambda r: 0.7 + 0 * r),
}
ALMOST_PERFECT = Population(stats.uniform(), lambda r: 0.9 + 0.1 * r**0.3)


def calibrated(rng, n):
    return POPULATIONS["calibrated"].draw(rng, n)


# ------------------------------------------------------------------ the influence function


def influence(correct, confidence, weight=None):
    return influence_of_cases(Cases(correct, confidence, weight))


@given(correctness_cases(min_size=2))
def test_influence_is_the_derivative(cases):
    """Mix in a little more of one case and see how fast the area moves."""
    correct, confidence = cases
    n, step = len(correct), 1e-6
    value, moves = influence(correct, confidence)
    assert value == pytest.approx(
        el.aucoc_score(Cases.from_correctness(correct, confidence)), abs=1e-12
    )
    for i in range(n):
        weight = np.full(n, (1 - step) / n)
        weight[i] += step
        moved = el.aucoc_score(Cases.from_correctness(correct, confidence, sample_weight=weight))
        assert moves[i] == pytest.approx((moved - value) / step, abs=2e-3)


@given(correctness_cases(min_size=2))
def test_influence_has_mean_zero(cases):
    _, moves = influence(*cases)
    assert moves.mean() == pytest.approx(0, abs=1e-12)


@given(correctness_cases(min_size=2, graded=False))
def test_the_tally_tells_as_much_as_the_cases(cases):
    """Right-or-wrong cases that count alike: added up by row, or each by itself."""
    correct, confidence = cases[0] == 1, cases[1]
    counted = Cases(correct, confidence, None)
    by_row = linearise_cases(counted)
    by_case = linearise(*influence(correct, confidence), None)
    assert by_row == pytest.approx(by_case, rel=1e-9, abs=1e-12)


def test_standard_error_is_close_to_the_jackknife():
    rng = np.random.default_rng(0)
    correct, confidence = calibrated(rng, 300)
    everyone = np.arange(300)
    without = [
        el.aucoc_score(Cases.from_correctness(correct[everyone != i], confidence[everyone != i]))
        for i in everyone
    ]
    jackknife = np.sqrt(299 * np.var(without))
    ours = sig.aucoc_interval(Cases.from_correctness(correct, confidence)).standard_error
    assert ours == pytest.approx(jackknife, rel=0.03)


@given(correctness_cases(min_size=2))
def test_cases_of_weight_zero_do_not_count(cases):
    correct, confidence = cases
    extended = np.append(correct, 1.0), np.append(confidence, 2.0)
    weight = np.append(np.ones(len(correct)), 0.0)
    plain = sig.aucoc_interval(Cases.from_correctness(correct, confidence))
    weighted = sig.aucoc_interval(Cases.from_correctness(*extended, sample_weight=weight))
    assert weighted.estimate == pytest.approx(plain.estimate, abs=1e-12)
    assert weighted.standard_error == pytest.approx(plain.standard_error, abs=1e-12)


@given(correctness_cases(min_size=2))
def test_scaling_weights_changes_nothing(cases):
    n = len(cases[0])
    plain = sig.aucoc_interval(Cases.from_correctness(*cases))
    scaled = sig.aucoc_interval(Cases.from_correctness(*cases, sample_weight=np.full(n, 7.3)))
    for name in ("estimate", "standard_error", "low", "high"):
        assert getattr(scaled, name) == pytest.approx(getattr(plain, name), abs=1e-9)


# ------------------------------------------------------------------ the promises, simulated


def test_the_areas_of_the_populations_are_those_of_many_cases():
    for population in (*POPULATIONS.values(), ALMOST_PERFECT):
        cases = population.draw(np.random.default_rng(20), 200_000)
        found = sig.aucoc_interval(Cases.from_correctness(*cases))
        assert abs(found.estimate - population.area()) < 4 * found.standard_error
    assert POPULATIONS["uninformative"].area() == pytest.approx(0.7, abs=1e-6)


def coverage(population, n, rounds=2000):
    """How often the 95 % interval holds the truth, and the standard error of that share."""
    rng = np.random.default_rng(20)
    truth = population.area()
    samples = (population.draw(rng, n) for _ in range(rounds))
    intervals = (sig.aucoc_interval(Cases.from_correctness(*sample)) for sample in samples)
    hits = sum(interval.low <= truth <= interval.high for interval in intervals)
    return hits / rounds, np.sqrt(0.95 * 0.05 / rounds)


@pytest.mark.simulation
@pytest.mark.parametrize("n", [200, 2000])
@pytest.mark.parametrize("name", POPULATIONS)
def test_interval_covers_as_often_as_it_says(name, n):
    share, error = coverage(POPULATIONS[name], n)
    assert abs(share - 0.95) < 3 * error


@pytest.mark.simulation
def test_interval_of_an_almost_perfect_model_covers_as_often_as_it_says():
    share, error = coverage(ALMOST_PERFECT, 2000)
    assert abs(share - 0.95) < 3 * error


@pytest.mark.simulation
def test_interval_of_a_small_sample_of_an_almost_perfect_model_errs_on_the_safe_side():
    """At n = 200 one sample in seven shows no error at all, and its interval must be wide."""
    share, error = coverage(ALMOST_PERFECT, 200)
    assert share > 0.95 - 3 * error
    assert share < 0.98


def two_equal_models(rng, n):
    """Two noisy views of the same cases: different predictions, equal worth."""
    difficulty = rng.random(n)
    views = []
    for _ in range(2):
        confidence = np.clip(difficulty + rng.normal(0, 0.15, n), 0.01, 0.99)
        views.append(Cases.from_correctness(rng.random(n) < 0.4 + 0.6 * difficulty, confidence))
    return views


@pytest.mark.simulation
@pytest.mark.parametrize("n", [200, 2000])
def test_paired_test_keeps_its_level(n):
    rng = np.random.default_rng(5)
    rounds = 1500
    p_values = np.array(
        [sig.aucoc_paired_test(*two_equal_models(rng, n)).p_value for _ in range(rounds)]
    )
    for level in (0.01, 0.05, 0.2):
        monte_carlo_error = np.sqrt(level * (1 - level) / rounds)
        assert abs((p_values <= level).mean() - level) < 3 * monte_carlo_error


# ------------------------------------------------------------------ ends and corners


def test_perfect_answers_leave_the_error_rate_in_doubt():
    """With 100 of 100 right, 3.6 % of errors are still credible, at the top in the worst case."""
    interval = sig.aucoc_interval(Cases.from_correctness(np.ones(100), np.arange(100)))
    rate = 1 - stats.binomtest(100, 100).proportion_ci(0.95).low
    assert (interval.estimate, interval.high) == (1.0, 1.0)
    assert interval.low == pytest.approx(1 - rate + rate * np.log(rate))
    mirrored = sig.aucoc_interval(Cases.from_correctness(np.zeros(100), np.arange(100)))
    assert (mirrored.estimate, mirrored.low) == (0.0, 0.0)
    assert mirrored.high == pytest.approx(1 - interval.low)


@given(correctness_cases(min_size=2))
def test_interval_holds_the_estimate_and_stays_inside(cases):
    interval = sig.aucoc_interval(Cases.from_correctness(*cases))
    assert 0 <= interval.low <= interval.estimate + 1e-12
    assert interval.estimate <= interval.high + 1e-12 <= 1 + 2e-12


def test_higher_level_is_wider():
    cases = calibrated(np.random.default_rng(0), 200)
    narrow, wide = (
        sig.aucoc_interval(Cases.from_correctness(*cases), confidence_level=level)
        for level in (0.5, 0.99)
    )
    assert wide.low < narrow.low < narrow.high < wide.high


@given(predictions(min_size=2))
def test_predictions_and_correctness_agree(case):
    y_true, y_proba = case
    cases = y_proba.argmax(axis=1) == y_true, y_proba.max(axis=1)
    assert sig.aucoc_interval(Cases.from_predictions(y_true, y_proba)) == sig.aucoc_interval(
        Cases.from_correctness(*cases)
    )
    swapped = y_proba[:, ::-1]
    other = swapped.argmax(axis=1) == y_true, swapped.max(axis=1)
    assert sig.aucoc_paired_test(
        Cases.from_predictions(y_true, y_proba), Cases.from_predictions(y_true, swapped)
    ) == sig.aucoc_paired_test(Cases.from_correctness(*cases), Cases.from_correctness(*other))


def test_a_model_does_not_differ_from_itself():
    cases = calibrated(np.random.default_rng(0), 50)
    result = sig.aucoc_paired_test(Cases.from_correctness(*cases), Cases.from_correctness(*cases))
    assert (result.difference, result.p_value, result.low, result.high) == (0.0, 1.0, 0.0, 0.0)


def test_certain_difference():
    """Right everywhere against wrong everywhere: no spread, and no doubt."""
    confidence = np.arange(10)
    result = sig.aucoc_paired_test(
        Cases.from_correctness(np.ones(10), confidence),
        Cases.from_correctness(np.zeros(10), confidence),
    )
    assert (result.difference, result.p_value) == (1.0, 0.0)


@given(correctness_cases(min_size=2))
def test_exchanging_the_models_changes_the_sign(cases):
    correct, confidence = cases
    other = correct[::-1], confidence
    one = sig.aucoc_paired_test(Cases.from_correctness(*cases), Cases.from_correctness(*other))
    two = sig.aucoc_paired_test(Cases.from_correctness(*other), Cases.from_correctness(*cases))
    assert one.difference == pytest.approx(-two.difference, abs=1e-12)
    assert one.p_value == pytest.approx(two.p_value, abs=1e-9)


def test_tiny_influences_do_not_underflow():
    estimate = linearise(0.5, np.array([1e-120, -1e-120, 2e-120]), None)
    assert estimate.standard_error > 0
    assert estimate.degrees_of_freedom >= 1


def test_too_few_cases_and_bad_levels_are_refused():
    with pytest.raises(InsufficientDataError, match="At least 2 cases are needed. Got 1"):
        sig.aucoc_interval(Cases.from_correctness([1], [0.5]))
    with pytest.raises(InsufficientDataError, match="2 cases"):
        sig.aucoc_interval(Cases.from_correctness([1, 0], [0.5, 0.6], sample_weight=[0, 2]))
    with pytest.raises(ParameterError, match="'confidence_level'"):
        sig.aucoc_interval(Cases.from_correctness([1, 0], [0.5, 0.6]), confidence_level=95)
    with pytest.raises(ShapeError, match="2 cases of one and 3"):
        sig.aucoc_paired_test(
            Cases.from_correctness([1, 0], [0.5, 0.6]),
            Cases.from_correctness([1, 0, 1], [0.5, 0.6, 0.7]),
        )


def test_sentences():
    cases = calibrated(np.random.default_rng(0), 50)
    assert "95 % interval" in str(sig.aucoc_interval(Cases.from_correctness(*cases)))
    assert "p = 1" in str(
        sig.aucoc_paired_test(Cases.from_correctness(*cases), Cases.from_correctness(*cases))
    )
