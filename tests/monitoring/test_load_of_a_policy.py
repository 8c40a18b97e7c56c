"""A load monitor made from a policy that was certified, saved and loaded."""

from __future__ import annotations

import numpy as np

from expertload import Cases
from expertload.monitoring import LoadMonitor
from expertload.operating_point import certify, load_operating_point


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
