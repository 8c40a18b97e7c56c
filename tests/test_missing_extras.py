"""What is not installed is named with the command that installs it, wherever it is missed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import expertload
from expertload._check import needs_extra
from expertload.exceptions import MissingExtraError

SOURCE = str(Path(expertload.__file__).parents[1])


def import_without(missing: str, module: str) -> str:
    """The last line of what importing a module says where another is not installed."""
    return said_without(missing, f"import {module}").splitlines()[-1]


def said_without(missing: str, statement: str) -> str:
    code = f"import sys; sys.modules[{missing!r}] = None; {statement}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": SOURCE},
    )
    return done.stderr.strip()


@pytest.mark.processes
@pytest.mark.parametrize(
    ("module", "missing", "extra"),
    [
        ("expertload.losses", "torch", "torch"),
        ("expertload.losses.aucoc", "torch", "torch"),
        ("expertload.torch_metrics", "torch", "torch"),
        ("expertload.torch_metrics", "torchmetrics", "torch"),
        ("expertload.sklearn", "sklearn", "sklearn"),
        ("expertload.io", "duckdb", "frames"),
        ("expertload.io", "narwhals", "frames"),
        ("expertload.lab.models", "torch", "lab"),
    ],
)
def test_importing_a_part_names_its_extra(module, missing, extra):
    said = import_without(missing, module)
    assert "MissingExtraError" in said
    assert f"needs {missing}, which is not installed" in said
    assert f"pip install 'expertload[{extra}]'" in said


@pytest.mark.processes
@pytest.mark.parametrize(("name", "missing"), [("train", "torch"), ("RunFolder", "pydantic")])
def test_a_function_of_the_lab_names_its_extra(name, missing):
    said = said_without(missing, f"from expertload.lab import {name}")
    assert f"needs {missing}, which is not installed" in said
    assert "pip install 'expertload[lab]'" in said


@pytest.mark.processes
def test_a_star_asks_for_nothing_that_may_be_missing():
    assert said_without("sklearn", "from expertload import *; aucoc_score, certify, display") == ""
    by_name = "from expertload import DelegatingClassifier"
    assert "pip install 'expertload[sklearn]'" in said_without("sklearn", by_name)
    assert said_without("nothing", f"{by_name}; DelegatingClassifier.fit") == ""
    assert "DelegatingClassifier" in dir(expertload)


def test_a_module_of_our_own_that_is_missing_is_no_missing_extra():
    with pytest.raises(ModuleNotFoundError), needs_extra("torch", "this"):
        raise ModuleNotFoundError(name="expertload.gone")
    with pytest.raises(MissingExtraError), needs_extra("torch", "this"):
        raise ModuleNotFoundError(name="torch.nn")
