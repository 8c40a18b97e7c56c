"""The whole ladder, killed over and over: it ends as one that was never killed, to the bit."""

from __future__ import annotations

import csv
import json
import re
from functools import partial

import pytest
from tests.lab.ladder.test_lower_load import SMALL, Here
from tests.lab.training.kill_driver import drive_in_a_process

from expertload.lab import lower_load
from expertload.lab.runs.folder import RunFolder

pytestmark = [pytest.mark.processes, pytest.mark.slow]

# The clock: when a policy was made, which its checksum covers, and when a page was.
CLOCK = re.compile(r'"(?:created|sha256)": "[^"]*"|<time.*?</time>')


def climb(out):
    lower_load("digits", out=out, epochs=2, settings=SMALL, target_accuracy=0.8, launcher=Here())


def contents(out):
    """Everything that the ladder leaves, less the clock and the place."""
    with (out / "ladder.csv").open(newline="") as stream:
        lines = [{**line, "seconds": ""} for line in csv.DictReader(stream)]
    facts = json.loads((out / "ladder.json").read_text())
    (model,) = out.glob("*/ensemble-of-2-*")
    return {
        "table": lines,
        "policy": CLOCK.sub("", (out / "policy.json").read_text()),
        "report": CLOCK.sub("", (out / "report.html").read_text()),
        "picture": (out / "coc.png").read_bytes(),
        "promise": facts["promise"],
        "model": (model.name, RunFolder(model).read_json("ensemble.json")["members"]),
        "answers": [
            array.tobytes()
            for split in ("validation", "test")
            for array in RunFolder(model).read_logits(split)
        ],
        "runs": sorted(path.name for path in out.glob("*/*") if path.is_dir()),
    }


def test_a_killed_ladder_ends_as_an_uninterrupted_one(tmp_path):
    whole, killed = tmp_path / "whole" / "out", tmp_path / "killed" / "out"
    assert drive_in_a_process(partial(climb, whole), "never") == 0
    assert drive_in_a_process(partial(climb, killed), "writing") >= 5
    found = contents(killed)
    for part, expected in contents(whole).items():
        assert found[part] == expected, part
