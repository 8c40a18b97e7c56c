"""Audits as data frames hold them: missing in many ways, times in many forms."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from expertload.exceptions import DataTypeError, ShapeError
from expertload.monitoring import AccuracyMonitor, LoadMonitor, evidence_path

MISSING_TIMES = {
    "in a list": [pd.Timestamp("2026-01-01"), pd.NaT],
    "with a zone": pd.Series(pd.to_datetime(["2026-01-01", None], utc=True)),
    "without a zone": pd.Series(pd.to_datetime(["2026-01-01", None])),
    "of numpy": np.array(["2026-01-01", "NaT"], dtype="datetime64[s]"),
    "not of this era": ["2026-01-01", "0001-01-01T00:00+14:00"],
    "a number beyond floats": [1, 10**400],
}


@pytest.mark.parametrize("moments", MISSING_TIMES.values(), ids=MISSING_TIMES)
def test_a_time_that_is_none_is_refused_and_nothing_is_counted(moments):
    monitor = AccuracyMonitor(target_accuracy=0.9)
    with pytest.raises(DataTypeError, match="'decided_at' parameter"):
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


def test_one_number_is_no_path():
    with pytest.raises(ShapeError, match="must have 1 dimension or more"):
        evidence_path(1, target_accuracy=0.9)


def test_the_share_delegated_is_counted_as_decisions_are_made():
    """In double precision: single precision holds 0.7 a little below itself."""
    monitor = LoadMonitor(threshold=0.7, expected_load=0.5, n_cases=100)
    assert monitor.update(np.float32([0.7, 0.7, 0.9, 0.9])).load == 0.5
