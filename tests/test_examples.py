"""The examples run as they are, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("script", "writes", "says"),
    [
        ("two_classifiers.py", ["two_classifiers.png"], "go to an expert instead"),
        ("demo.py", ["demo-output/coc.png", "demo-output/report.html"], "What the test images"),
    ],
)
def test_example_runs(script, writes, says, tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert says in done.stdout
    for name in writes:
        assert (tmp_path / name).stat().st_size > 1000
