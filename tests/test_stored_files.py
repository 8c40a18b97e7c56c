"""Stored policies, monitors and calibrators: what was changed by hand is refused in a sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest

from expertload import Cases
from expertload.calibrators import TemperatureScaling, load_calibrator
from expertload.exceptions import FileFormatError
from expertload.monitoring import AccuracyMonitor
from expertload.operating_point import (
    certify,
    certify_groups,
    load_operating_point,
)

SURE = ([1] * 100, range(100))
KINDS = {
    "policy": (
        certify(Cases.from_correctness(*SURE), target_accuracy=0.9),
        load_operating_point,
        '"threshold": ',
    ),
    "groups": (
        certify_groups(Cases.from_correctness(*SURE, groups=[0] * 100), target_accuracy=0.9),
        load_operating_point,
        '"n_accepted": ',
    ),
    "monitor": (
        AccuracyMonitor(target_accuracy=0.9).update([1, 0], key=["a", "b"]),
        AccuracyMonitor.load,
        '"target_accuracy": ',
    ),
    "calibrator": (
        TemperatureScaling().fit(np.eye(3)[[0, 1, 2, 0]], [0, 1, 2, 1]),
        load_calibrator,
        '"temperature_": ',
    ),
}


@pytest.fixture(params=KINDS)
def stored(request, tmp_path):
    """The text of a file, where it is, how it is read, and an entry of it."""
    made, load, entry = KINDS[request.param]
    path = tmp_path / "stored.json"
    made.save(path)
    return path.read_text(), path, load, entry


def test_an_entry_that_is_given_twice_is_refused(stored):
    """The first is what people see; the last, which is unchanged, is what Python takes."""
    text, path, load, entry = stored
    assert entry in text
    path.write_text(text.replace(entry, f"{entry}0.5, {entry}", 1))
    with pytest.raises(FileFormatError, match=f"{json.loads(entry[:-2])!r} is given twice"):
        load(path)


@pytest.mark.parametrize("number", ["1e999", "-1e999", f"1{'0' * 400}", "NaN", "Infinity"])
def test_numbers_that_no_float_can_hold_are_refused(stored, number):
    text, path, load, entry = stored
    before, after = text.split(entry, 1)
    path.write_text(f"{before}{entry}{number}, {entry}{after}")
    with pytest.raises(FileFormatError, match="is not a number"):
        load(path)


def test_a_file_cut_anywhere_is_refused(stored):
    text, path, load, _ = stored
    for end in range(0, len(text.rstrip()), 13):
        path.write_text(text[:end])
        with pytest.raises(FileFormatError):
            load(path)
