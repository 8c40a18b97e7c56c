"""The journeys of docs/architecture.md: the modules that it names exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "architecture.md"
JOURNEYS = re.findall(r"^\| (`[^|]+`) \| (\d+) \|(.*)\|$", PAGE.read_text(), re.MULTILINE)


def test_there_are_journeys():
    assert JOURNEYS


@pytest.mark.slow
@pytest.mark.parametrize(("call", "number", "listed"), JOURNEYS)
def test_the_modules_of_a_journey_exist(call, number, listed):
    modules = re.findall(r"`([\w.]+)`", listed)
    assert len(modules) == int(number), call
    for name in modules:
        try:
            importlib.import_module(f"expertload.{name}")
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("expertload"):
                raise
            pytest.skip(f"{error.name} is not installed")
