"""Evidence and bounds against plain loops, and what must always hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import monitoring as reference
from tests.strategies import examples

from expertload import monitoring
from expertload.exceptions import CorrectnessError, ParameterError, ProbabilityError
from expertload.monitoring.bets import MOST, accuracy_bets, growth_rates, restart_share, share_bets

targets = st.sampled_from([0.3, 0.6, 0.86, 0.9, 0.95, 0.999])
grades = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1))


@st.composite
def streams(draw, most=180):
    n = draw(st.integers(1, most))
    correct = draw(st.lists(grades, min_size=n, max_size=n))
    weights = draw(st.lists(st.floats(0.01, 1), min_size=n, max_size=n))
    return correct, weights


@examples(20)
@given(streams(), targets, st.sampled_from([None, 1, 2, 24]))
def test_evidence_is_that_of_the_plain_loop(stream, target, blocks):
    correct, weights = stream
    path = monitoring.evidence_path(correct, target_accuracy=target, weight=weights, blocks=blocks)
    slow = reference.evidence(correct, target, weights=weights, blocks=blocks)
    np.testing.assert_allclose(path, slow, rtol=1e-9)


@examples(20)
@given(streams(most=60), st.sampled_from([0.8, 0.95, 0.99]))
def test_the_bound_is_that_of_the_plain_loop(stream, level):
    correct, weights = stream
    wrong = sum(w * (1 - c) for w, c in zip(weights, correct, strict=True))
    bound = monitoring.accuracy_lower_bound([wrong], [sum(weights)], confidence_level=level)
    slow = reference.lower_bound(correct, level, weights=weights, steps=200)
    assert slow - 1e-9 <= bound[0] <= slow + 1 / 200


@examples(20)
@given(streams(most=60), targets)
def test_confirming_is_the_bound_reaching_the_target(stream, target):
    correct, weights = stream
    sums = [sum(w * (1 - c) for w, c in zip(weights, correct, strict=True))], [sum(weights)]
    evidence = monitoring.confirming_evidence(*sums, target_accuracy=target)[0]
    assert evidence == pytest.approx(reference.confirming(correct, 1 - target, weights=weights))
    bound = monitoring.accuracy_lower_bound(*sums, confidence_level=0.95)[0]
    if abs(evidence - 20) > 1e-6:
        assert (bound >= target) == (evidence >= 20)


@examples(20)
@given(streams(), st.integers(0, 180), targets)
def test_going_on_from_a_capital_is_one_long_run(stream, cut, target):
    errors, weights = 1 - np.array(stream[0]), np.array(stream[1])
    bets = accuracy_bets(target)
    whole, path = monitoring.advance(
        monitoring.start(bets), errors, weights, bets=bets, blocks=None
    )
    half, first = monitoring.advance(
        monitoring.start(bets), errors[:cut], weights[:cut], bets=bets, blocks=None
    )
    again, second = monitoring.advance(half, errors[cut:], weights[cut:], bets=bets, blocks=None)
    np.testing.assert_allclose(np.concatenate([first, second]), path, rtol=1e-12)
    np.testing.assert_allclose(again.stakes, whole.stakes, rtol=1e-12)
    assert again.n_audits == whole.n_audits == len(errors)


@pytest.mark.parametrize("target", [0.05, 0.5, 0.86, 0.9, 0.95, 0.9999])
def test_every_bet_is_fair_and_never_loses_all(target):
    bets = accuracy_bets(target)
    right, wrong = (1 + (x - bets.error_rate) * bets.stakes for x in (0.0, 1.0))
    np.testing.assert_allclose(target * right + (1 - target) * wrong, 1)
    assert (right >= 1 / 3 - 1e-12).all()


def test_the_bets_are_those_of_the_design():
    rate = 0.1
    bets = accuracy_bets(1 - rate)
    wanted = [(m - 1) / (1 - rate) for m in reference.MULTIPLES]  # (q - r) / (r (1 - r))
    np.testing.assert_allclose(bets.stakes, wanted)
    np.testing.assert_allclose(bets.parts.sum(), 1)


def test_shares_of_any_size_can_be_bet_on():
    shares = np.array([0.001, 0.3, 0.7, 0.999])
    bets = share_bets(shares)
    right, wrong = (1 + (x - bets.error_rate) * bets.stakes for x in (0.0, 1.0))
    np.testing.assert_allclose(shares[:, None] * wrong + (1 - shares[:, None]) * right, 1)
    assert (right > 0).all()


@pytest.mark.parametrize("blocks", [None, 1, 2, 24])
def test_the_money_is_spent_once(blocks):
    spent = np.cumsum([restart_share(block, blocks) for block in range(5000)])
    assert spent[-1] <= 1 + 1e-12
    assert spent[-1] > 0.999


def test_evidence_stays_finite():
    path = monitoring.evidence_path(np.zeros(20_000), target_accuracy=0.95)
    assert np.isfinite(path).all()
    assert path[-1] >= MOST


def test_confirming_takes_eighty_two_faultless_reviews():
    bounds = monitoring.accuracy_lower_bound([0, 0], [81, 82])
    assert bounds[0] < 0.95 <= bounds[1]


def test_a_fall_too_small_does_not_grow():
    assert growth_rates(accuracy_bets(0.95), 0.10).max() > 0
    assert growth_rates(accuracy_bets(0.95), 0.051).max() < 0


def test_bad_input_is_named():
    with pytest.raises(CorrectnessError, match="must be 1 for right, 0 for wrong"):
        monitoring.evidence_path([1, 2], target_accuracy=0.9)
    with pytest.raises(CorrectnessError, match="nan"):
        monitoring.evidence_path([1, np.nan], target_accuracy=0.9)
    with pytest.raises(ProbabilityError, match="must be in \\(0, 1\\]"):
        monitoring.evidence_path([1, 1], target_accuracy=0.9, weight=[1, 1.5])
    with pytest.raises(ParameterError, match="pass 0.95 for 95 %"):
        monitoring.evidence_path([1, 1], target_accuracy=95)
    with pytest.raises(ParameterError, match="'blocks'"):
        monitoring.evidence_path([1, 1], target_accuracy=0.9, blocks=0)
    with pytest.raises(ParameterError, match="from 0 to the number of audits"):
        monitoring.accuracy_lower_bound([3], [2])
