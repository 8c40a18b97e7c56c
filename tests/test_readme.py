"""Every block of Python in the README and the docs runs and prints what it says."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import sys
from types import ModuleType

import pytest

from expertload.operating_point import from_json
from tests.pages import PAGES, ROOT, examples, fences, page_id
from tests.standins import stand_ins

README = PAGES[0].read_text()
LANGUAGES = {"", "sh", "python", "text", "toml", "json", "nginx"}
# Directives of the first page; what it includes runs as a part of README.md.
LANGUAGES |= {"{toctree}", "{container} doors", "{include} ../README.md"}


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_code_on_the_page_runs(page, tmp_path, monkeypatch):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    noted: dict[str, dict[str, object]] = {}
    for name, module in stand_ins(noted).items():
        monkeypatch.setitem(sys.modules, name, module)
    namespace: dict[str, object] = {"__name__": "readme"}
    for code, expected in examples(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page.name, "exec"), namespace)
        if expected:
            assert printed.getvalue().split() == expected.split()
    plt.close("all")
    if page.name == "tools.md":
        assert set(noted) == {"mlflow", "wandb"}
    for logged in noted.values():
        assert 0 < logged["expert_load"] < 1
        assert from_json(logged["policy.json"]).expert_load == logged["expert_load"]
        assert {"aucoc", "promise"} < set(logged)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_no_block_is_in_a_language_that_nobody_runs(page):
    """Cells run when the site is built; the other languages are run here or are no programs."""
    assert {language for language, _ in fences(page)} <= LANGUAGES | {"{code-cell} python"}


@pytest.mark.parametrize("page", [p for p in PAGES if "{code-cell}" in p.read_text()], ids=page_id)
def test_pages_with_cells_say_that_they_run(page):
    """Without this line, Sphinx shows the cells and runs nothing."""
    assert page.read_text().startswith("---\nfile_format: mystnb\n")


def test_the_readme_has_code():
    assert examples(PAGES[0])


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_to_files_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_first_screen_names_the_two_commands():
    first_screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:60])
    assert "make demo" in first_screen
    assert "make test" in first_screen


def test_the_readme_fits_on_a_screen_or_two():
    assert len(README.splitlines()) <= 70


def rows_of_the_table():
    lines = [line for line in README.splitlines() if line.startswith("| ") and "](" in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("row", rows_of_the_table(), ids=lambda row: row[0])
def test_the_figures_of_the_readme_stand_on_the_pages_that_show_them(row):
    page = ROOT / re.search(r"\]\(([^)#]+)", row[-1])[1]
    shown = " ".join(page.read_text().split())
    figures = re.findall(r"\d(?:[\d,.]*\d)?(?: %)?|\w+ hundred times", " ".join(row[:-1]))
    assert figures
    for figure in figures:
        assert re.search(rf"(?<!\d){re.escape(figure)}(?!\d)", shown), f"{figure} on {page.name}"


def test_the_readme_of_the_wheel_needs_no_repository(monkeypatch):
    """Hatchling is there only while a package is built, so a stand-in takes its place."""
    parts = ["hatchling", "metadata", "plugin", "interface"]
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules[name].MetadataHookInterface = object
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    text = hook.standing_alone(README + "[site](https://example.org) [`code`](src/x.py)")
    assert re.findall(r"!?\[[^\]]*\]\([^)]*\)", text) == ["[site](https://example.org)"]
    assert "`code`" in text
    assert [line for line in text.splitlines() if line.startswith("#")] == ["# expertload"]
