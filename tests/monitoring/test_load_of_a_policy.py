"""A load monitor made from a policy that was certified, saved and loaded."""

from __future__ import annotations

import numpy as np
import pytest

from expertload import Cases
from expertload.exceptions import ParameterError
from expertload.monitoring import LoadMonitor
from expertload.operating_point import certify, certify_groups, load_operating_point


def test_a_saved_policy_holds_what_a_load_monitor_needs(tmp_path):
    rng = np.random.default_rng(0)
    confidence = rng.random(2000)
    correct = rng.random(2000) < 0.6 + 0.4 * confidence
    policy = certify(Cases.from_correctness(correct, confidence), target_accuracy=0.9)
    policy.save(tmp_path / "policy.json")
    monitor = LoadMonitor.from_policy(load_operating_point(tmp_path / "policy.json"))
    monitor.update(rng.random(400))
    assert not monitor.warns
    monitor.update(rng.random(400) ** 4)  # confidences have fallen
    assert monitor.warns
    assert monitor.confidence_evidence is not None  # the policy has quantiles


def test_a_policy_for_groups_is_told_which_cases_were_accepted():
    rng = np.random.default_rng(0)
    confidence, site = rng.random(3000), rng.integers(0, 2, 3000)
    correct = rng.random(3000) < 0.7 + 0.3 * confidence - 0.1 * site
    cases = Cases.from_correctness(correct, confidence, groups=site)
    policy = certify_groups(cases, target_accuracy=0.85)
    monitor = LoadMonitor.from_policy(policy)
    assert monitor.expected_load == policy.expert_load
    new, where = rng.random(600), rng.integers(0, 2, 600)
    monitor.update(new, accepted=policy.accepts(new, groups=where))
    assert not monitor.warns
    assert monitor.n_seen == 600
    moved = np.ones(600, dtype=int)  # all new cases are from the harder site
    monitor.update(new, accepted=policy.accepts(new, groups=moved))
    assert monitor.load_change == "higher"
    assert not monitor.confidence_changed
    with pytest.raises(ParameterError, match="'accepted'"):
        monitor.update(new)


def patients(rng, n=200, size=5):
    """Draw cases of patients, whose images are much alike: correctness, confidence, patient."""
    patient = np.repeat(np.arange(n), size)
    confidence = np.clip(rng.random(n)[patient] + 0.02 * rng.standard_normal(n * size), 0, 1)
    return rng.random(n * size) < 0.9 + 0.1 * confidence, confidence, patient


@pytest.mark.parametrize("promise", ["all_cases", "one_case_each"])
def test_a_policy_for_clusters_is_refused(promise):
    correct, confidence, patient = patients(np.random.default_rng(0))
    cases = Cases.from_correctness(correct, confidence, clusters=patient, groups=patient % 2)
    options = {"target_accuracy": 0.85, "cluster_promise": promise}
    for policy in (certify(cases, **options), certify_groups(cases, **options)):
        with pytest.raises(ParameterError, match=r"'policy' must .*independent"):
            LoadMonitor.from_policy(policy)


@pytest.mark.simulation
def test_a_policy_for_clusters_would_be_warned_of_nearly_always():
    """Why it is refused: the same cases, taken for independent, seem to have changed."""
    rng, warned = np.random.default_rng(0), 0
    for _ in range(60):
        policy = certify(Cases.from_correctness(*patients(rng)[:2]), target_accuracy=0.85)
        warned += LoadMonitor.from_policy(policy).update(patients(rng)[1]).warns
    assert warned > 0.5 * 60  # at most 0.05 of them, if cases were independent
