"""Audits as data frames hold them: missing in many ways, times in many forms."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from expertload.exceptions import DataTypeError
from expertload.monitoring import AccuracyMonitor, LoadMonitor

MISSING_TIMES = {
    "in a list": [pd.Timestamp("2026-01-01"), pd.NaT],
    "with a zone": pd.Series(pd.to_datetime(["2026-01-01", None], utc=True)),
    "without a zone": pd.Series(pd.to_datetime(["2026-01-01", None])),
    "of numpy": np.array(["2026-01-01", "NaT"], dtype="datetime64[s]"),
    "not of this era": ["2026-01-01", "0001-01-01T00:00+14:00"],
}


@pytest.mark.parametrize("moments", MISSING_TIMES.values(), ids=MISSING_TIMES)
def test_a_time_that_is_none_is_refused_and_nothing_is_counted(moments):
    monitor = AccuracyMonitor(target_accuracy=0.9)
    with pytest.raises(DataTypeError, match="'decided_at'"):
        monitor.update([1, 0], decided_at=moments)
    assert monitor.n_audits == 0


@pytest.mark.parametrize("kind", ["boolean", "bool[pyarrow]", "object"])
def test_an_open_review_may_be_missing_in_any_way(kind):
    answers = pd.Series([True, pd.NA, False], dtype=kind)
    monitor = AccuracyMonitor(target_accuracy=0.9).update(answers)
    assert (monitor.n_audits, monitor.n_open, monitor.n_errors) == (3, 1, 1)


def test_a_moment_that_is_a_number_is_said_with_all_digits():
    monitor = AccuracyMonitor(target_accuracy=0.9)
    monitor.update([0] * 4, decided_at=[1767225600, 1767225601.5, 1767225602, 1767225603])
    assert monitor.history().decided_at[:2] == ("1767225600", "1767225601.5")
    assert monitor.to_dict()["refuted_by_decision_at"] in monitor.history().decided_at


def test_the_share_delegated_is_counted_as_decisions_are_made():
    """In double precision: single precision holds 0.7 a little below itself."""
    monitor = LoadMonitor(threshold=0.7, expected_load=0.5, n_cases=100)
    assert monitor.update(np.float32([0.7, 0.7, 0.9, 0.9])).load == 0.5


# ------------------------------------------------------------------ cases of one day

DAYS = np.repeat(np.arange(40), 50)


def sorted_within_days(correct, *, errors_first):
    days = np.sort(correct.reshape(40, 50), axis=1)
    return (days if errors_first else days[:, ::-1]).ravel()


@pytest.mark.simulation
@pytest.mark.parametrize("keyed", ["by chance", "in order", None])
@pytest.mark.parametrize("errors_first", [True, False])
def test_days_whose_cases_are_sorted_by_their_answers_raise_no_alarm(keyed, errors_first):
    """In the order of the file, nine of ten kept promises would be called refuted."""
    rng, refuted, rounds = np.random.default_rng(0), 0, 200
    for _ in range(rounds):
        correct = sorted_within_days(rng.random(2000) < 0.95, errors_first=errors_first)
        monitor = AccuracyMonitor(target_accuracy=0.95)
        numbers = rng.permutation(2000) if keyed == "by chance" else range(2000)
        key = [f"case {i}" for i in numbers] if keyed else None
        refuted += monitor.update(correct, decided_at=DAYS, key=key).state == "refuted"
    assert refuted <= binom.ppf(0.999, rounds, 0.05)


def test_cases_of_one_day_are_mixed_alike_every_time(tmp_path):
    correct = sorted_within_days(np.random.default_rng(1).random(2000) < 0.9, errors_first=True)
    key = np.random.default_rng(2).permutation(2000)
    for keys in (None, key):
        part = None if keys is None else keys[:1000]
        early = AccuracyMonitor(target_accuracy=0.9)
        early.update(correct[:1000], decided_at=DAYS[:1000], key=part)
        late = AccuracyMonitor(target_accuracy=0.9).update(correct, decided_at=DAYS, key=keys)
        np.testing.assert_array_equal(early.history().evidence, late.history().evidence[:1000])
        late.save(tmp_path / "late.json")
        again = AccuracyMonitor.load(tmp_path / "late.json")
        np.testing.assert_array_equal(again.history().evidence, late.history().evidence)
        in_other_order = np.random.default_rng(3).permutation(2000)
        if keys is not None:
            other = AccuracyMonitor(target_accuracy=0.9).update(
                correct[in_other_order], decided_at=DAYS[in_other_order], key=keys[in_other_order]
            )
            np.testing.assert_array_equal(other.history().evidence, late.history().evidence)


def test_moments_that_differ_say_the_order():
    correct = np.random.default_rng(1).random(300) < 0.9
    plain = AccuracyMonitor(target_accuracy=0.9).update(correct)
    timed = AccuracyMonitor(target_accuracy=0.9).update(correct, decided_at=np.arange(300))
    arrived = AccuracyMonitor(target_accuracy=0.9, order="arrival")
    arrived.update(correct, decided_at=np.zeros(300))
    for other in (timed, arrived):
        np.testing.assert_array_equal(other.history().evidence, plain.history().evidence)
