"""The rooms of the lab: what opens which, and what each is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.lab.conftest import environment
from tests.lab.synthetic_runs import make_config, write_run

import expertload.lab
from expertload.lab.runs.recipe import RunConfig
from expertload.lab.sweeps.sweep import Sweep

WITHOUT_HEAVY = """
import sys
from expertload.cli.app import app
try:
    app(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
slow = ("torch", "lightning", "matplotlib", "scipy.stats")
heavy = [name for name in slow if name in sys.modules]
assert not heavy, heavy
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    for loss in ("ce", "ce+aucoc"):
        for seed in (0, 1):
            write_run(place, make_config(loss, seed=seed))
    return place


@pytest.mark.processes
@pytest.mark.parametrize(
    "words",
    [
        ["lab", "table", "RUNS", "--ensembles"],
        ["lab", "table", "RUNS", "--kind", "calibration"],
        ["lab", "compare", "ce+aucoc", "ce", "--runs", "RUNS", "--rounds", "20"],
        ["lab", "data", "list"],
    ],
    ids=lambda words: " ".join(words[1:3]),
)
def test_reading_results_loads_nothing_heavy(words, runs):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_HEAVY, *(str(runs) if w == "RUNS" else w for w in words)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_what_people_call_is_in_the_lab():
    for name in expertload.lab.__all__:
        assert getattr(expertload.lab, name).__module__.startswith("expertload.lab.")
    with pytest.raises(AttributeError, match="no attribute 'teach'"):
        _ = expertload.lab.teach


def test_a_sweep_computes_the_name_of_each_run_once(recipe, tmp_path, monkeypatch):
    computed = []
    original = RunConfig.fingerprint.func

    def counting(self):
        computed.append(self)
        return original(self)

    monkeypatch.setattr(RunConfig.fingerprint, "func", counting)
    sweep = Sweep(recipe, tmp_path, losses=["ce", "ce+aucoc"], seeds=[0, 1, 2])
    for _ in range(20):
        waiting = sweep.waiting()
        list(sweep.planned())
    assert len(waiting) == 6  # three seeds of cross-entropy, three candidates to tune
    assert len(computed) == 6
