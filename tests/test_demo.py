"""The demo runs to its end and leaves what it says it leaves."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from expertload.lab.runs.recipe_files import load_recipe

pytestmark = pytest.mark.processes

PATH = Path(__file__).resolve().parents[1] / "examples" / "demo.py"


@pytest.fixture
def demo(tmp_path, monkeypatch):
    """The demo with fewer epochs and seeds, writing elsewhere."""
    spec = importlib.util.spec_from_file_location("demo", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    short = ["training.epochs=4", "training.milestones=[]"]
    monkeypatch.setattr(module, "load_recipe", lambda path: load_recipe(path, settings=short))
    monkeypatch.setattr(module, "SEEDS", (0, 1))
    monkeypatch.setattr(module, "OUTPUT", tmp_path / "out")
    return module


@pytest.mark.filterwarnings("ignore:TemperatureScaling")
def test_the_demo_ends_with_a_sentence_and_a_path(demo, tmp_path, capsys):
    demo.main()
    said = capsys.readouterr().out
    assert "ce+aucoc" in said
    assert "what chance allows" in said
    picture, report = tmp_path / "out" / "coc.png", tmp_path / "out" / "report.html"
    assert str(picture) in said
    assert said.strip().endswith(str(report))
    assert picture.stat().st_size > 10_000
    assert report.read_text().count("ce+aucoc") > 1
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 4
