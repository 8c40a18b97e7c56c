from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import rankdata

import expertload as el
from expertload import Cases, metrics
from expertload import significance as sig
from expertload.exceptions import ParameterError, ShapeError, WeightError


def two_models(n=200, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    good = rng.beta(2, 2, n)
    y_true = (rng.random(n) < good).astype(int)
    return y_true, good, np.clip(good + rng.normal(0, noise, n), 0, 1)


def cases_of(y_true, *models):
    return [Cases.from_predictions(y_true, each) for each in models]


def exact_p_value(y_true, a, b, metric):
    """Try every way of exchanging the two models' predictions."""
    observed = abs(metric(y_true, a) - metric(y_true, b))
    extreme = [
        abs(metric(y_true, np.where(s, b, a)) - metric(y_true, np.where(s, a, b)))
        >= observed - 1e-12
        for s in product([False, True], repeat=len(y_true))
    ]
    return np.mean(extreme)


@pytest.mark.slow
@pytest.mark.parametrize("metric", [el.aucoc_score, metrics.brier_loss])
def test_many_rounds_approach_the_exact_p_value(metric):
    case = two_models(9, seed=4)
    exact = exact_p_value(*case, metric)
    result = sig.permutation_test(*cases_of(*case), metric=metric, n_rounds=4000, random_state=0)
    assert 0.02 < exact < 0.98
    assert result.p_value == pytest.approx(exact, abs=3 * np.sqrt(exact * (1 - exact) / 4000))


def test_fast_and_general_roads_agree_exactly():
    cases = cases_of(*two_models())
    fast = sig.permutation_test(*cases, n_rounds=200, random_state=0)
    general = sig.permutation_test(
        *cases, metric=lambda cases: cases.aucoc(), n_rounds=200, random_state=0
    )
    assert fast.p_value == general.p_value
    assert fast.difference == pytest.approx(general.difference, abs=1e-12)


def test_more_classes():
    rng = np.random.default_rng(0)
    a, b = rng.dirichlet(np.ones(4), 50), rng.dirichlet(np.ones(4), 50)
    y_true = rng.integers(0, 4, 50)
    result = sig.permutation_test(
        *cases_of(y_true, a, b),
        metric=metrics.log_loss,
        n_rounds=20,
        random_state=0,
    )
    assert result.difference == pytest.approx(
        metrics.log_loss(y_true, a) - metrics.log_loss(y_true, b)
    )


def test_from_correctness_is_the_same_road():
    y_true, a, b = two_models()
    sides = [Cases.from_correctness((p > 0.5) == y_true, np.maximum(p, 1 - p)) for p in (a, b)]
    assert sig.permutation_test(*sides, n_rounds=100, random_state=0) == sig.permutation_test(
        *cases_of(y_true, a, b),
        n_rounds=100,
        random_state=0,
    )


def correctness_and_confidence(y_true, *models):
    return [side for p in models for side in ((p > 0.5) == y_true, np.maximum(p, 1 - p))]


@pytest.mark.slow
def test_many_rounds_of_ranks_approach_the_exact_p_value():
    y_true, a, b = two_models(9, seed=4)
    correct_a, confidence_a, correct_b, confidence_b = correctness_and_confidence(y_true, a, b)
    first = np.column_stack([correct_a, rankdata(confidence_a)])
    second = np.column_stack([correct_b, rankdata(confidence_b)])

    def area(_, rows):
        return el.aucoc_score(Cases.from_correctness(rows[:, 0], rows[:, 1]))

    swaps = [np.array(s)[:, None] for s in product([False, True], repeat=9)]
    differences = [
        area(None, np.where(s, second, first)) - area(None, np.where(s, first, second))
        for s in swaps
    ]
    exact = np.mean(np.abs(differences) >= abs(differences[0]) - 1e-12)
    result = sig.permutation_test(
        *cases_of(y_true, a, b),
        n_rounds=4000,
        random_state=0,
        exchange="ranks",
    )
    assert 0.02 < exact < 0.98
    assert result.p_value == pytest.approx(exact, abs=3 * np.sqrt(exact * (1 - exact) / 4000))


def test_ranks_know_nothing_of_the_scale_of_confidences():
    y_true, a, b = two_models()
    c, r, d, s = correctness_and_confidence(y_true, a, b)
    first, second, sharper = (Cases.from_correctness(*each) for each in ((c, r), (d, s), (d, s**9)))
    options = {"n_rounds": 200, "random_state": 0}
    by_rank = sig.permutation_test(first, second, **options, exchange="ranks")
    again = sig.permutation_test(first, sharper, **options, exchange="ranks")
    assert by_rank == again
    as_they_are = sig.permutation_test(first, second, **options)
    scaled = sig.permutation_test(first, sharper, **options)
    assert as_they_are.p_value != scaled.p_value


def test_identical_models_and_clear_differences():
    y_true, good, _ = two_models()
    assert sig.permutation_test(*cases_of(y_true, good, good), n_rounds=50).p_value == 1.0
    worse = sig.permutation_test(
        *cases_of(y_true, good, 1 - good),
        n_rounds=99,
        random_state=0,
    )
    assert worse.p_value == pytest.approx(1 / 100)
    assert "99 rounds" in str(worse)


@pytest.mark.simulation
@pytest.mark.parametrize("exchange", ["predictions", "ranks"])
def test_keeps_its_level(exchange):
    """Under exchangeable models the p-value is at most alpha in at most a share alpha of cases."""
    rng = np.random.default_rng(6)
    rounds, p_values = 400, []
    for _ in range(rounds):
        difficulty = rng.random(100)
        y_true = (rng.random(100) < 0.5).astype(int)
        shift = np.where(rng.random((2, 100)) < 0.5 + 0.5 * difficulty, 0.4, -0.4) * difficulty
        a, b = 0.5 + np.where(y_true, shift, -shift)
        result = sig.permutation_test(
            *cases_of(y_true, a, b),
            n_rounds=99,
            random_state=rng,
            exchange=exchange,
        )
        p_values.append(result.p_value)
    for level in (0.05, 0.2):
        error = np.sqrt(level * (1 - level) / rounds)
        assert abs((np.array(p_values) <= level).mean() - level) < 3 * error


@pytest.mark.simulation
def test_ranks_keep_their_level_between_models_of_different_scale():
    """Equal AUCOC, but the second is far less confident."""
    rng = np.random.default_rng(7)
    rounds, p_values = 400, []
    for _ in range(rounds):
        confidence = rng.random((2, 100))
        correct = rng.random((2, 100)) < 0.5 + 0.5 * confidence
        p_values.append(
            sig.permutation_test(
                Cases.from_correctness(correct[0], confidence[0]),
                Cases.from_correctness(correct[1], confidence[1] ** 9),
                n_rounds=99,
                random_state=rng,
                exchange="ranks",
            ).p_value
        )
    for level in (0.05, 0.2):
        error = np.sqrt(level * (1 - level) / rounds)
        assert abs((np.array(p_values) <= level).mean() - level) < 3 * error


def test_bad_rounds_and_exchanges_are_refused():
    y_true, a, b = two_models(20)
    with pytest.raises(ParameterError, match="'n_rounds'"):
        sig.permutation_test(*cases_of(y_true, a, b), n_rounds=0)
    with pytest.raises(ParameterError, match="'exchange'"):
        sig.permutation_test(*cases_of(y_true, a, b), exchange="labels")
    with pytest.raises(ParameterError, match="exclude each other"):
        sig.permutation_test(
            *cases_of(y_true, a, b),
            exchange="ranks",
            metric=metrics.brier_loss,
        )
    three = Cases.from_predictions(y_true, np.column_stack([1 - b, b, 0 * b]))
    with pytest.raises(ShapeError, match="same classes"):
        sig.permutation_test(*cases_of(y_true, a), three, metric=metrics.brier_loss)
    with pytest.raises(WeightError, match="'sample_weight' must be None"):
        sig.permutation_test(
            *[Cases.from_predictions(y_true, each, sample_weight=np.ones(20)) for each in (a, b)]
        )
    with pytest.raises(ShapeError):
        sig.permutation_test(
            Cases.from_correctness([1, 0], [0.1, 0.2]), Cases.from_correctness([1], [0.1])
        )
