"""The README's figure can be drawn again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

ROOT = Path(__file__).resolve().parents[1]


def test_two_classifiers(tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "two_classifiers.py")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "go to an expert instead" in done.stdout
    assert (tmp_path / "two_classifiers.png").stat().st_size > 10_000
