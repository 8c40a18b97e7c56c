"""The journeys of docs/architecture.md: the modules between a call and its number, as traced."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from expertload.cli.app import app

pytestmark = pytest.mark.slow
PAGE = Path(__file__).resolve().parents[1] / "docs" / "architecture.md"


def passed_modules(frame, home):
    """Return our modules on a stack, outermost first, each once, and the one at its end."""
    names = [home]
    while frame is not None:
        names.append(frame.f_globals.get("__name__", ""))
        frame = frame.f_back
    ours = [name for name in reversed(names) if name.startswith("expertload.")]
    return [name.removeprefix("expertload.") for name in dict.fromkeys(ours)]


@pytest.fixture
def trace(monkeypatch):
    """Return the modules on the stack, outermost first, when a function is reached."""

    def trace(name, journey, instead=None):
        home, _, path = name.partition(":")
        owner = importlib.import_module(home)
        *classes, last = path.split(".")
        for each in classes:
            owner = getattr(owner, each)
        original, modules = getattr(owner, last), []

        def arrive(*arguments, **options):
            if not modules:
                modules.extend(passed_modules(sys._getframe(1), home))
            return (instead or original)(*arguments, **options)

        with monkeypatch.context() as patch:
            holders = [owner] if classes else list(sys.modules.values())
            for holder in holders:
                if getattr(holder, last, None) is original:
                    patch.setattr(holder, last, arrive)
            journey()
        return modules

    return trace


def on_the_page(call):
    row = re.search(rf"^\| `{re.escape(call)}` \| (\d+) \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    modules = re.findall(r"`([\w.]+)`", row[2])
    assert len(modules) == int(row[1])
    return modules


@pytest.fixture
def cases():
    rng = np.random.default_rng(0)
    y_proba = rng.beta(0.4, 0.4, 500)
    return (rng.random(500) < y_proba).astype(int), y_proba


def test_evaluate(trace, cases, tmp_path):
    rows = [f"{label},{1 - p},{p}" for label, p in zip(*cases, strict=True)]
    (tmp_path / "cases.csv").write_text("\n".join(["y_true,p_0,p_1", *rows]))

    def journey():
        CliRunner().invoke(app, ["evaluate", str(tmp_path / "cases.csv")])

    import expertload.significance.interval  # noqa: F401 - commands import late

    found = trace("expertload.tally:delegated_mass", journey)
    assert found == on_the_page("expertload evaluate predictions.csv")


def test_certify(trace, cases):
    from expertload import certify

    found = trace(
        "expertload.operating_point.spending:descend",
        lambda: certify(*cases, target_accuracy=0.9),
    )
    assert found == on_the_page("certify(y_true, y_proba, target_accuracy=0.95)")


def test_aucoc_loss(trace):
    torch = pytest.importorskip("torch")
    from expertload.losses import aucoc_loss

    logits, target = torch.randn(64, 3), torch.arange(64) % 3
    found = trace("expertload.losses.kde:Kernel.area", lambda: aucoc_loss(logits, target))
    assert found == on_the_page("aucoc_loss(logits, target)")


RECIPE = """
data.name = "digits"
model.name = "tiny-cnn"
training = { epochs = 1, batch_size = 64, learning_rate = 0.05 }
losses.ce = {}
"""


def stop(*_):
    raise KeyboardInterrupt


@pytest.mark.training
@pytest.mark.filterwarnings("ignore:TemperatureScaling")
def test_a_sweep(trace, tmp_path, monkeypatch):
    """To the process that trains, and there to the predictions by which an epoch is selected."""
    from expertload.lab.runs.folder import RunFolder
    from expertload.lab.runs.recipe_files import load_recipe
    from expertload.lab.sweeps import worker

    (tmp_path / "small.toml").write_text(RECIPE)
    recipe = load_recipe(tmp_path / "small.toml")
    words = ["lab", "sweep", str(tmp_path / "small.toml"), "--seeds", "0"]
    to_a_process = trace(
        "expertload.lab.sweeps.launch:ProcessLauncher.start",
        lambda: CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out")]),
        instead=stop,
    )
    RunFolder(tmp_path / "run").create(recipe.run(recipe.candidates("ce")[0], 0))
    monkeypatch.setattr(worker, "_end_with_parent", lambda: None)
    monkeypatch.setattr(sys, "argv", ["worker", str(tmp_path / "run"), json.dumps({})])
    to_the_number = trace("expertload.lab.training.loop:predict", worker.main)
    assert [*to_a_process, *to_the_number] == on_the_page("expertload lab sweep dermamnist-cpu")


def test_a_case_is_posted():
    pytest.importorskip("fastapi")
    for name in on_the_page("POST /api/cases"):
        importlib.import_module(f"expertload.{name}")
