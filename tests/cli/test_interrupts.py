"""Ctrl-C while a command runs: one line, exit code 130, no traceback.

Real processes get a real SIGINT. They send it to themselves at the moment when a module begins to
be imported, so that every moment is met exactly and no test waits.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import expertload

SOURCES = Path(expertload.__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCES)}
INTERRUPTED = """
import os, signal, sys
moment = sys.argv.pop(1)

def interrupt(event, arguments):
    if event == "import" and arguments[0] == moment:
        os.kill(os.getpid(), signal.SIGINT)

from expertload.cli import main
sys.addaudithook(interrupt)
main()
"""
DURING = "Stopped; run the same command again to continue.\n"


def interrupted_at(moment, *arguments, code=INTERRUPTED):
    return subprocess.run(
        [sys.executable, "-c", code, moment, *map(str, arguments)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def predictions(tmp_path_factory):
    p = np.random.default_rng(0).dirichlet([0.3, 0.3], size=50)
    rows = [f"{a.argmax()},{float(a[0])},{float(a[1])}" for a in p]
    path = tmp_path_factory.mktemp("interrupts") / "predictions.csv"
    path.write_text("\n".join(["y_true,p_0,p_1", *rows]))
    return path


@pytest.mark.processes
@pytest.mark.parametrize(
    "moment",
    [
        "numpy",
        "numpy._core._multiarray_umath",
        "scipy.special._ufuncs",
        "_duckdb",
        "pyarrow.lib",
        "expertload.io.source",
        "expertload.evaluation",
        "expertload.cli.evaluation_text",
    ],
)
def test_while_the_command_runs(moment, predictions):
    done = interrupted_at(moment, "evaluate", predictions)
    assert (done.returncode, done.stderr) == (130, DURING)


def test_the_lazy_names_are_the_ones_type_checkers_see():
    tree = ast.parse(Path(expertload.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: node.module.removeprefix("expertload").removeprefix(".")
        for node in block.body
        for alias in node.names
    }
    assert set(seen) == {*expertload.__all__, "DelegatingClassifier"}
    for name, home in seen.items():
        assert expertload._HOMES.get(name, "") == home
    assert {*seen, "curve", "tally"} <= set(dir(expertload))


def test_a_star_brings_all_names():
    names: dict[str, object] = {}
    exec("from expertload import *", names)
    assert set(expertload.__all__) <= set(names)


def test_a_misspelt_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'expertload' has no attribute 'aucoc_scor'"):
        expertload.aucoc_scor  # noqa: B018
