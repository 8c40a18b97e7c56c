"""Tests the library without torch, servers and browsers, in an environment of its own.

    python tools/core_tests.py              # any system, with what constraints.txt pins
    python tools/core_tests.py --lowest     # the oldest versions that pyproject.toml allows

The environment is `.venv-core` or `.venv-lowest`. Needs only Python.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = ("frames", "plot", "report", "sklearn")
TOOLS = ("hypothesis", "pandas", "polars", "pytest", "pytest-xdist", "pytest-rerunfailures")
FOLDERS = (
    *("calibrators", "display", "evaluation", "io", "metrics"),
    *("monitoring", "operating_point", "report", "significance"),
)
QUICK = "not (slow or simulation or processes or training or browser or spark or postgres)"


def main() -> None:
    """Make the environment, install the package with its extras, and run the tests."""
    lowest = "--lowest" in sys.argv[1:]
    place = ROOT / (".venv-lowest" if lowest else ".venv-core")
    venv.create(place, with_pip=True)
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    pins = place / "constraints.txt"
    pins.write_text(lowest_versions() if lowest else (ROOT / "constraints.txt").read_text())
    wanted = [f"{ROOT}[{','.join(EXTRAS)}]", *TOOLS]
    run(python, "-m", "pip", "install", "--quiet", "-c", pins, *wanted)
    tests = [ROOT / "tests" / folder for folder in FOLDERS]
    run(python, "-m", "pytest", "-q", "-n", "auto", "-m", QUICK, "-W", "default", *tests)


def lowest_versions() -> str:
    """Return the lower bound of every requirement in pyproject.toml, as a pin."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    required = [*project["dependencies"], *(line for extra in EXTRAS for line in extras[extra])]
    bounds = (re.match(r"([A-Za-z0-9_.-]+)>=([\d.]+)", line) for line in required)
    return "".join(f"{found[1]}=={found[2]}\n" for found in bounds if found)


def run(*command: str | Path) -> None:
    """Run a command; end with its code if it fails."""
    done = subprocess.run([str(word) for word in command], cwd=ROOT, check=False)
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
