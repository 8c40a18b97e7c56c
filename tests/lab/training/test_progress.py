"""What is told while training."""

from __future__ import annotations

import io

from rich.console import Console
from tests.lab.conftest import tiny

from expertload.lab.training.progress import Reporter

RECORD = {"epoch": 1, "train_loss": 1.5, "aucoc": 0.9, "accuracy": 0.8, "ece": 0.1, "seconds": 2.0}
RESULTS = {"test": {"aucoc": 0.95, "accuracy": 0.85}, "best_epoch": 1}


def told(*, first_epoch=0):
    text = io.StringIO()
    console = Console(file=text, width=120, color_system=None)
    reporter = Reporter(console)
    reporter.start(tiny("ce+aucoc"), first_epoch=first_epoch)
    reporter.epoch({**RECORD, "epoch": first_epoch + 1}, n_epochs=2, best_epoch=first_epoch + 1)
    reporter.done(RESULTS)
    return text.getvalue()


def test_a_log_has_a_line_an_epoch():
    lines = told().splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("ce+aucoc on digits with small-cnn, seed 0")
    assert lines[1].split() == (
        [
            "epoch",
            "1/2",
            "loss",
            "1.5000",
            "AUCOC",
            "0.9000",
            "accuracy",
            "0.8000",
            "ECE",
            "0.1000",
            "2.0",
            "s",
            "*",
        ]
    )
    assert "AUCOC 0.9500" in lines[2]


def test_names_are_printed_as_they_are(tmp_path):
    text = io.StringIO()
    folder = tmp_path / "runs [old] :fog:"
    reporter = Reporter(Console(file=text, width=200, color_system=None), folder=folder)
    config = tiny("ce")
    data = config.data.model_copy(update={"name": "folder:scans [old] [/red] :fog:"})
    named = config.model_copy(update={"data": data})
    reporter.start(named, first_epoch=0)
    reporter.done(RESULTS)
    assert "on folder:scans [old] [/red] :fog: with small-cnn" in text.getvalue()
    assert f"folder: {folder}" in text.getvalue()


def test_resumed_runs_say_so():
    assert "resumed at epoch 2" in told(first_epoch=1)
