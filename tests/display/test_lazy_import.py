"""Pictures are optional: without matplotlib all else works, and a drawing says what to install."""

import subprocess
import sys

import pytest

from expertload.cases import Cases
from expertload.display import COCDisplay, OutlierDisplay, ReliabilityDisplay
from expertload.exceptions import MissingExtraError


@pytest.mark.processes
def test_importing_displays_does_not_import_matplotlib():
    code = "import sys, expertload.display; sys.exit('matplotlib' in sys.modules)"
    path = [entry for entry in sys.path if entry]
    environment = {"PYTHONPATH": ":".join(path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: COCDisplay.from_cases(Cases.from_correctness([0, 1], [0.1, 0.2])),
        lambda: ReliabilityDisplay.from_cases(Cases.from_correctness([0, 1], [0.1, 0.2])),
        lambda: OutlierDisplay.from_scores([0, 1], [0.1, 0.2]),
    ],
)
def test_a_missing_matplotlib_is_named_with_its_command(draw, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtraError, match="matplotlib"):
        draw()
