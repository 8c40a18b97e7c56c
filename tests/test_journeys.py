"""The journeys of docs/architecture.md: the modules that it names exist, and how many run."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from expertload import Cases, certify
from expertload.evaluation import evaluate

PAGE = Path(__file__).resolve().parents[1] / "docs" / "architecture.md"
JOURNEYS = re.findall(r"^\| (`[^|]+`) \| ([^|]*`\w+\.[^|]*) \|$", PAGE.read_text(), re.MULTILINE)


def test_there_are_journeys():
    assert len(JOURNEYS) >= 5


@pytest.mark.slow
@pytest.mark.parametrize(("call", "listed"), JOURNEYS)
def test_the_modules_of_a_journey_exist(call, listed):
    for name in re.findall(r"`([\w.]+)`", listed):
        try:
            importlib.import_module(f"expertload.{name}")
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("expertload"):
                raise
            pytest.skip(f"{error.name} is not installed")


@pytest.mark.parametrize("call", [certify, evaluate])
def test_no_more_modules_run_than_the_page_says(call):
    stated = re.search(rf"`{call.__name__}\(cases\)`[^`]*?at most (\d+)", PAGE.read_text())
    assert stated is not None
    rng = np.random.default_rng(0)
    confidence = rng.random(500)
    cases = Cases.from_correctness(rng.random(500) < 0.6 + 0.4 * confidence, confidence)
    assert len(modules_that_run(lambda: call(cases, target_accuracy=0.8))) <= int(stated[1])


def modules_that_run(call):
    """Return the modules of the package in which a function is entered during a call."""
    entered = set()

    def notice(frame, event, _):
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("expertload."):
            entered.add(module)

    before = sys.getprofile()
    sys.setprofile(notice)
    try:
        call()
    finally:
        sys.setprofile(before)
    return entered
