"""Evidence over time, drawn."""

from __future__ import annotations

import numpy as np
from matplotlib import pyplot

from expertload.display import EvidenceDisplay
from expertload.monitoring import AccuracyMonitor


def monitor(accuracy, n=400, **columns):
    correct = np.random.default_rng(0).random(n) < accuracy
    return AccuracyMonitor(target_accuracy=0.95).update(correct, **columns)


def test_the_alarm_is_marked_where_the_monitor_says():
    watched = monitor(0.8, decided_at=np.datetime64("2026-01-01") + np.arange(400))
    drawn = EvidenceDisplay.from_monitor(watched)
    assert drawn.refuted_at == watched.refuted_at
    assert drawn.alarm_.get_xdata()[0] == watched.refuted_at
    texts = [text.get_text() for text in drawn.ax_.texts]
    assert any(text.startswith(f"refuted by audit {watched.refuted_at}, 2026-") for text in texts)


def test_a_kept_promise_has_no_alarm():
    drawn = EvidenceDisplay.from_monitor(monitor(0.99))
    assert drawn.alarm_ is None
    assert len(drawn.line_.get_xdata()) == len(drawn.bound_line_.get_xdata()) == 400
    assert drawn.ax_.get_ylim()[1] > 20


def test_one_axes_shows_the_evidence_alone():
    figure, ax = pyplot.subplots()
    drawn = EvidenceDisplay.from_monitor(monitor(0.99), ax=ax)
    assert drawn.figure_ is figure
    assert drawn.bound_line_ is None
    assert "Audited" in ax.get_xlabel()


def test_evidence_far_beyond_the_alarm_does_not_flatten_the_rest():
    drawn = EvidenceDisplay.from_monitor(monitor(0.2, n=2000))
    assert drawn.ax_.get_ylim()[1] <= 20 * 100 * 5
