"""Every block of Python in the README and the docs runs and prints what it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page):
    """(code, what it prints) of each fenced block; output is a `text` block that follows."""
    pattern = r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?"
    return re.findall(pattern, page.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_code_on_the_page_runs(page, tmp_path, monkeypatch):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "readme"}
    for code, expected in blocks(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page.name, "exec"), namespace)
        if expected:
            assert printed.getvalue().split() == expected.split()
    plt.close("all")


def test_the_readme_has_code():
    assert blocks(PAGES[0])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_to_files_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_first_screen_names_the_two_commands():
    first_screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:60])
    assert "make demo" in first_screen
    assert "make test" in first_screen
