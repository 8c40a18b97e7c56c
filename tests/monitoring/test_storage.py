"""A monitor on disk: the same after reading, refused when changed, whole after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.monitoring.test_monitor import contents, monitor
from tests.strategies import examples

from expertload import Cases
from expertload._store import digest
from expertload.exceptions import FileFormatError, ParameterError, RepeatedCaseError
from expertload.monitoring import AccuracyMonitor
from expertload.operating_point import certify


def again(watched, folder):
    path = folder / "monitor.json"
    watched.save(path)
    return AccuracyMonitor.load(path)


@pytest.mark.parametrize("with_keys", [True, False])
@pytest.mark.parametrize("moments", [None, [1, 2.5, 3], ["2026-01-01", "2026-01-02", "2026-02-01"]])
@pytest.mark.parametrize("rates", [None, 0.5, [0.2, 0.3, 0.4]])
@pytest.mark.parametrize("order", ["decision", "arrival"])
def test_what_was_saved_is_read(tmp_path, with_keys, moments, rates, order):
    options = {"least_inclusion_probability": 0.1} if isinstance(rates, list) else {}
    watched = monitor(order=order, blocks=24, confidence_level=0.9, **options)
    assert contents(again(watched, tmp_path)) == contents(watched)
    watched.update(
        [0, 1, None],
        key=["a", "b", 3] if with_keys else None,
        decided_at=moments,
        inclusion_probability=rates,
    )
    read = again(watched, tmp_path)
    assert contents(read) == contents(watched)
    assert read.history().decided_at == watched.history().decided_at
    if with_keys:
        with pytest.raises(RepeatedCaseError):
            read.update([1], key=["a"])
        assert read.update([0], key=[3]).n_errors == 2


def test_a_merged_monitor_can_be_saved(tmp_path):
    north = monitor().update([1, 0], decided_at=[1, 4], key=["a", "b"])
    south = monitor().update([1, None], decided_at=[2, 3], key=["c", "d"])
    merged = north.merge(south)
    assert contents(again(merged, tmp_path)) == contents(merged)


def test_monitors_of_two_policies_do_not_merge(tmp_path):
    def watched(n):
        made = certify(Cases.from_correctness([1] * n, range(n)), target_accuracy=0.95)
        return AccuracyMonitor.from_policy(made).update([1], decided_at=[n], key=[n])

    one, other = watched(200), watched(201)
    assert again(one, tmp_path).policy_digest == one.policy_digest != other.policy_digest
    with pytest.raises(ParameterError, match="must have the same policy. Got monitors of 2"):
        one.merge(other)
    named_by_nobody = AccuracyMonitor(target_accuracy=0.95).update([1], decided_at=[1], key=[1])
    assert named_by_nobody.merge(one).policy_digest == one.policy_digest
    assert one.merge(AccuracyMonitor(target_accuracy=0.95)).policy_digest == one.policy_digest


@examples(30)
@given(st.data())
def test_a_changed_byte_is_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("monitor") / "monitor.json"
    monitor().update([0, 1, None], key=["a", "b", "c"], decided_at=[1, 2, 3]).save(path)
    text = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] = data.draw(st.sampled_from(b'019ax,]}" '))
    path.write_bytes(bytes(text))
    try:
        read = AccuracyMonitor.load(path)
    except FileFormatError:
        return
    assert read.labels == {"a": 0.0, "b": 1.0, "c": None}  # white space alone was changed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(kind="policy"), "its 'kind' must be"),
        (lambda d: d.update(schema_version=9), "upgrade expertload"),
        (lambda d: d.update(schema_version="1"), "must be a whole number"),
        (lambda d: d["promise"].update(target_accuracy=2), "cannot be counted"),
        (lambda d: d["audits"].update(correct=None), "must be a list"),
        (lambda d: d["audits"].update(correct=[1]), "one value per case"),
        (lambda d: d["audits"].update(correct=[1, 5]), "cannot be counted"),
        (lambda d: d["audits"].update(key=["a", "a"]), "given twice"),
        (lambda d: d["audits"].pop("key"), "cannot be counted"),
        (lambda d: d["promise"].update(pace=1), "cannot be counted"),
        (lambda d: d.update(audits=[]), "must be an object"),
    ],
)
def test_what_makes_no_sense_is_refused_even_with_its_digest(tmp_path, change, words):
    path = tmp_path / "monitor.json"
    monitor().update([0, 1], key=["a", "b"]).save(path)
    document = json.loads(path.read_text())
    change(document)
    document["sha256"] = digest(document)
    path.write_text(json.dumps(document))
    with pytest.raises(FileFormatError, match=words):
        AccuracyMonitor.load(path)


def test_what_is_cut_short_is_refused(tmp_path):
    path = tmp_path / "monitor.json"
    monitor().update([0, 1]).save(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FileFormatError, match="not valid JSON"):
        AccuracyMonitor.load(path)
    path.write_text("[1]")
    with pytest.raises(FileFormatError, match="must be an object"):
        AccuracyMonitor.load(path)


COUNT_FOR_EVER = """
import sys
from expertload.monitoring import AccuracyMonitor
watched = AccuracyMonitor(target_accuracy=0.95)
for number in range(1_000_000):
    watched.update([number % 2], key=[number], decided_at=[number]).save(sys.argv[1])
"""


@pytest.mark.processes
def test_a_kill_leaves_a_whole_file(tmp_path):
    path = tmp_path / "monitor.json"
    command = [sys.executable, "-c", COUNT_FOR_EVER, str(path)]
    for _ in range(2):
        process = subprocess.Popen(command, env=os.environ)
        deadline = time.monotonic() + 60
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.15)
        process.send_signal(signal.SIGKILL)
        process.wait()
        read = AccuracyMonitor.load(path)
        assert read.n_audits > 0
        assert list(read.labels) == list(range(read.n_audits))
        path.unlink()
