"""The demo runs to its end and leaves what it says it leaves."""

from __future__ import annotations

import csv
import importlib
import importlib.util
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from expertload.lab.ladder.steps import STEPS
from expertload.operating_point import load_operating_point
from tests.lab.ladder.test_lower_load import SMALL, Here

pytestmark = [pytest.mark.processes, pytest.mark.training]

PATH = Path(__file__).resolve().parents[1] / "examples" / "demo.py"
TARGET = 0.8  # what networks that hardly learned can be certified for


@pytest.fixture
def demo(tmp_path, monkeypatch):
    """The demo with small networks and few epochs, training in this process, writing elsewhere."""
    monkeypatch.syspath_prepend(PATH.parent)
    spec = importlib.util.spec_from_file_location("demo", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    quick = partial(module.lower_load, settings=SMALL, launcher=Here())
    monkeypatch.setattr(module, "lower_load", quick)
    monkeypatch.setattr(module, "EPOCHS", 2)
    monkeypatch.setattr(module, "TARGET", TARGET)
    monkeypatch.setattr(module, "OUTPUT", tmp_path / "out")
    return module


@pytest.mark.filterwarnings("ignore:TemperatureScaling")
def test_the_demo_ends_with_what_was_gained_a_promise_and_paths(demo, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / "old.txt").touch()
    demo.main()
    said = capsys.readouterr().out
    in_one_line = " ".join(said.split())
    assert not (out / "old.txt").exists()

    assert all(title in said for title in STEPS.values())
    with (out / "ladder.csv").open(newline="") as stream:
        loads = [float(line["load@80"]) for line in csv.DictReader(stream)]
    assert f"experts read {100 * loads[0]:.3g} % of the images at the bottom" in in_one_line
    assert f"ladder and {100 * loads[-1]:.3g} % at the top." in in_one_line

    policy = load_operating_point(out / "policy.json")
    assert policy.target_accuracy == TARGET
    assert "at least 80 % of its decisions will be right" in in_one_line
    assert "On the other half the policy delegates" in in_one_line

    picture, report = out / "coc.png", out / "report.html"
    assert str(out / "policy.json") in said
    assert str(picture) in said
    assert said.strip().endswith(str(report))
    assert picture.stat().st_size > 10_000
    assert report.read_text().count("top of the ladder") > 1
    assert len(list(out.glob("*/*/best.safetensors"))) == 6
    assert (out / "loop.png").stat().st_size > 10_000


def test_rounds_lower_the_load_and_keep_the_promise(monkeypatch):
    """Over some seeds: the load halves, and decisions are right as often as promised."""
    monkeypatch.syspath_prepend(PATH.parent)
    rounds = importlib.import_module("rounds")
    for seed in range(3):
        played = list(rounds.play(seed))
        assert played[-1].load < played[0].load / 2
        decided = [(1 - one.load) * one.accuracy for one in played if one.load < 1]
        assert sum(decided) / sum(1 - one.load for one in played) > 0.94
        assert all(one.n_labels < later.n_labels for one, later in pairwise(played))
