"""What a release is made of: listed, and fetched only as it was checked."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest
from tools.sbom import bill

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit(workflow):
    """A tag can be moved to other code; a commit cannot."""
    used = re.findall(r"uses: *(.*)", workflow.read_text())
    assert used
    for action in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[0-9.]+", action), action


def test_ci_lists_the_packages_and_looks_for_vulnerabilities():
    ci = (ROOT / ".github/workflows/ci.yml").read_text()
    assert re.search(r"\n  audit:.*run: make audit\n.*path: sbom.json", ci, re.DOTALL)
    makefile = (ROOT / "Makefile").read_text()
    assert "tools/sbom.py sbom.json" in makefile
    assert "pip-audit --requirement constraints.txt" in makefile


def test_the_list_names_every_package_once_with_its_version():
    made = bill()
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.5")
    listed = {each["name"]: each for each in made["components"]}
    assert listed["numpy"]["purl"] == f"pkg:pypi/numpy@{version('numpy')}"
    addresses = [each["purl"] for each in made["components"]]
    assert addresses == sorted(set(addresses))
