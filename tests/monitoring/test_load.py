"""Watching load and confidences: warnings that are rarely false, and shifts that are found."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import beta, hypergeom
from tests.reference import monitoring as reference

from expertload import Cases, operating_point
from expertload.exceptions import NonFiniteError, NotCertifiedError, ParameterError, ShapeError
from expertload.monitoring import LoadMonitor
from expertload.monitoring.load import _fisher

LEVELS = np.linspace(0, 1, 101)


def policy_of(confidence, threshold=0.7):
    """What a policy keeps of its calibration cases."""
    return {
        "threshold": threshold,
        "expected_load": float((confidence < threshold).mean()),
        "n_cases": len(confidence),
        "quantiles": np.quantile(confidence, LEVELS, method="inverted_cdf"),
    }


def warnings(draw, new, *, rounds, n, n_calibration, pretend=None):
    """The share of streams that were ever warned of, each with calibration cases of its own."""
    rng, warned = np.random.default_rng(0), 0
    for _ in range(rounds):
        made = policy_of(draw(rng, n_calibration))
        monitor = LoadMonitor(**{**made, "n_cases": pretend or n_calibration})
        warned += monitor.update(new(rng, n)).warns
    return warned / rounds


def uniform(rng, n):
    return rng.random(n)


def tied(rng, n):
    return rng.integers(0, 8, n) / 8


@pytest.mark.simulation
@pytest.mark.parametrize("draw", [uniform, tied])
@pytest.mark.parametrize("n_calibration", [60, 600])
def test_cases_like_before_are_hardly_ever_warned_of(draw, n_calibration):
    rounds = 60
    false = warnings(draw, draw, rounds=rounds, n=3000, n_calibration=n_calibration)
    assert false <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / rounds)


@pytest.mark.simulation
def test_taking_the_calibration_for_exact_breaks_it():
    """The negative control: sixty calibration cases that pretend to be a billion."""
    options = {"rounds": 40, "n": 3000, "n_calibration": 60, "pretend": 10**9}
    assert warnings(uniform, uniform, **options) > 0.5


def share_warned_of(before, now, *, rounds, n=2000):
    """How often a load that has changed from one to the other is warned of in n cases."""
    rng, warned = np.random.default_rng(3), 0
    for _ in range(rounds):
        expected = rng.binomial(2000, before) / 2000
        monitor = LoadMonitor(
            threshold=0.5, expected_load=expected, n_cases=2000, confidence_level=0.99
        )
        warned += monitor.update((rng.random(n) >= now).astype(float)).warns
    return warned / rounds


@pytest.mark.simulation
def test_a_small_change_from_the_start_is_usually_found():
    assert share_warned_of(0.10, 0.15, rounds=200) > 0.75
    assert share_warned_of(0.30, 0.24, rounds=200) > 0.5


@pytest.mark.simulation
@pytest.mark.parametrize("load", [0.02, 0.1, 0.5])
def test_an_unchanged_load_is_hardly_ever_warned_of(load):
    rounds = 300
    false = share_warned_of(load, load, rounds=rounds, n=4000)
    assert false <= 0.01 + 3 * math.sqrt(0.01 * 0.99 / rounds)


@pytest.mark.parametrize(("k", "n", "k_before", "n_before"), [(9, 30, 4, 80), (0, 5, 2, 9)])
def test_the_looks_are_exact_tests(k, n, k_before, n_before):
    exact = hypergeom.sf(k - 1, n + n_before, k + k_before, n)
    assert _fisher(k, n, k_before, n_before) == pytest.approx(exact)


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("new", "change"),
    [
        (lambda rng, n: rng.random(n) * 0.85, "higher"),
        (lambda rng, n: rng.random(n) ** 0.5, "lower"),
    ],
)
def test_a_change_of_load_is_found(new, change):
    rng = np.random.default_rng(1)
    monitor = LoadMonitor(**policy_of(rng.random(2000))).update(rng.random(1000))
    assert not monitor.warns
    monitor.update(new(rng, 1500))
    assert monitor.load_change == change
    assert "Warning: the share delegated is " + change in monitor.summary()


@pytest.mark.simulation
def test_a_shift_that_leaves_the_load_alone_is_found():
    rng = np.random.default_rng(1)
    monitor = LoadMonitor(**policy_of(rng.random(2000)))
    narrow = rng.random(4000)
    monitor.update(np.where(narrow < 0.7, narrow, 0.7 + (narrow - 0.7) / 4))
    assert monitor.load_change is None
    assert monitor.confidence_changed
    assert "the distribution of confidences differs" in str(monitor)


def test_the_load_is_watched_as_the_plain_loop_says():
    rng = np.random.default_rng(0)
    confidence = rng.random(180)
    monitor = LoadMonitor(threshold=0.7, expected_load=0.5, n_cases=200).update(confidence)
    part = 0.05 / 3
    low, high = beta.ppf(part / 2, 100, 101), beta.ppf(1 - part / 2, 101, 100)
    up = reference.share_evidence((confidence < 0.7).astype(float), high)
    down = reference.share_evidence((confidence >= 0.7).astype(float), 1 - low)
    together = [(a + b) / 2 for a, b in zip(up, down, strict=True)]
    assert monitor.load_evidence == pytest.approx(max(together))
    assert monitor.warning_evidence == pytest.approx(60)


def test_batches_do_not_matter():
    rng = np.random.default_rng(0)
    made, confidence = policy_of(rng.random(500)), rng.random(7000)
    whole = LoadMonitor(**made).update(confidence)
    parts = LoadMonitor(**made)
    for part in np.array_split(confidence, 13):
        parts.update(part)
    assert parts.load_evidence == pytest.approx(whole.load_evidence)
    assert parts.confidence_evidence == pytest.approx(whole.confidence_evidence)
    assert (parts.n_seen, parts.load) == (whole.n_seen, whole.load)


@pytest.mark.parametrize("load", [0.0, 1.0])
def test_loads_at_the_ends(load):
    monitor = LoadMonitor(threshold=0.5, expected_load=load, n_cases=300)
    monitor.update(np.full(400, 0.4 if load else 0.6))
    assert not monitor.warns
    monitor.update(np.full(100, 0.6 if load else 0.4))
    assert monitor.load_change == ("lower" if load else "higher")


def test_a_policy_knows_its_load():
    rng = np.random.default_rng(0)
    confidence = rng.random(800)
    made = operating_point.certify(
        Cases.from_correctness(rng.random(800) < confidence**0.2, confidence), target_accuracy=0.9
    )
    monitor = LoadMonitor.from_policy(made)
    assert monitor.expected_load == made.expert_load
    assert not monitor.update(confidence).warns
    assert LoadMonitor.from_policy(made).summary() == "No new cases yet."


def test_a_policy_with_quantiles_has_its_confidences_watched():
    rng = np.random.default_rng(0)
    made = policy_of(rng.random(2000))
    kept = SimpleNamespace(
        threshold=made["threshold"],
        expert_load=made["expected_load"],
        n_cases=2000.0,
        origin=SimpleNamespace(confidence_quantiles=tuple(made["quantiles"])),
    )
    monitor, same = LoadMonitor.from_policy(kept), LoadMonitor(**made)
    confidence = rng.random(300) ** 0.5
    monitor.update(confidence)
    assert monitor.confidence_evidence == same.update(confidence).confidence_evidence
    assert "not watched" not in monitor.summary()


def test_bad_input_is_named():
    made = {"threshold": 0.7, "expected_load": 0.3, "n_cases": 100}
    with pytest.raises(ParameterError, match="expected_load"):
        LoadMonitor(**{**made, "expected_load": 30})
    with pytest.raises(ParameterError, match="ascending"):
        LoadMonitor(**made, quantiles=[3, 2, 1])
    with pytest.raises(ShapeError, match="three or more"):
        LoadMonitor(**made, quantiles=[1])
    monitor = LoadMonitor(**made)
    with pytest.raises(NonFiniteError):
        monitor.update([0.5, math.nan])
    assert monitor.n_seen == 0
    nothing = operating_point.certify(Cases.from_correctness([1, 1], [1, 2]), target_accuracy=0.95)
    with pytest.raises(NotCertifiedError, match="decides something"):
        LoadMonitor.from_policy(nothing)
    groups = operating_point.certify_groups(
        Cases.from_correctness([1, 1], [1, 2], groups=["a", "b"]), target_accuracy=0.9
    )
    with pytest.raises(NotCertifiedError, match="decides something"):
        LoadMonitor.from_policy(groups)
