"""What the site is built with: the logo, links of names and uses, nothing from the network."""

from __future__ import annotations

import importlib
import sys

import pytest
from tools import logo

from tests.pages import ROOT


@pytest.fixture(autouse=True)
def extensions(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_extensions"))
    before = set(sys.modules)
    yield
    for name in (
        "api_pages",
        "command_pages",
        "examples_using",
        "narrow_tables",
        "offline",
        "plain_names",
    ):
        if name not in before:
            sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ["logo.svg", "favicon.svg"])
def test_the_logo_is_what_its_script_draws(name):
    assert (ROOT / "docs" / "_static" / name).read_text() == logo.draw()


@pytest.mark.parametrize(
    ("text", "loads"),
    [
        ('<script src="https://cdn.example.org/a.js"></script>', True),
        ('<img alt="" src="//example.org/a.png">', True),
        ('<link rel="stylesheet" href="https://example.org/a.css">', True),
        ('@import url("https://example.org/a.css");', True),
        ('<script src="_static/a.js"></script><a href="https://example.org">x</a>', False),
    ],
)
def test_what_comes_from_the_network_is_found(text, loads):
    assert bool(importlib.import_module("offline").from_the_network(text)) == loads


@pytest.mark.parametrize(
    ("text", "home"),
    [
        ("certify", "expertload.operating_point.certify"),
        ("expertload.certify", "expertload.operating_point.certify"),
        ("operating_point.certify()", "expertload.operating_point.certify"),
        ("AUCOCLoss", "expertload.losses.AUCOCLoss"),
        ("expertload.scores", "expertload.scores"),
        ("threshold", None),
        ("numpy.mean", None),
    ],
)
def test_names_lead_to_their_one_page(text, home):
    assert importlib.import_module("plain_names").home_of(text, None) == home


PAGE = """
`certified_curve` is named in a sentence alone.

```{code-cell} python
:tags: [hide-input]
from expertload import certify as promise  # choose_from_correctness is a comment
from expertload import operating_point
import numpy as np
```

```{code-cell} python
---
mystnb:
  image:
    alt: A curve
---
import expertload.scores as s
!expertload evaluate predictions.csv
np.mean(operating_point.choose)
s.entropy_confidence
```

```python
import expertload.metrics
expertload.metrics.brier_loss
```
"""
USED = {
    "expertload.operating_point.certify",
    "expertload.operating_point.choose",
    "expertload.scores.entropy_confidence",
    "expertload.metrics.brier_loss",
}


def test_the_uses_on_a_page_are_those_of_its_code(tmp_path):
    (tmp_path / "learn").mkdir()
    for page in ("zebra.md", "learn/second.md"):
        (tmp_path / page).write_text(PAGE)
    homes = importlib.import_module("api_pages").homes()
    modules = importlib.import_module("api_pages").modules()
    found = importlib.import_module("examples_using").examples_by_home(tmp_path, homes)
    assert found.keys() - set(modules) == USED
    assert all(pages == ["learn/second", "zebra"] for pages in found.values())


def test_a_page_of_the_reference_leads_to_the_pages_that_use_the_object():
    api = importlib.import_module("api_pages")
    pages = api.pages({"expertload.operating_point.certify": ["learn/first_steps"]})
    used = ".. rubric:: Examples using this\n\n- :doc:`/learn/first_steps`\n"
    assert pages["expertload.operating_point.certify"].endswith(used)
    assert "Examples using this" not in pages["expertload.operating_point.choose"]


def test_the_tutorials_use_what_people_start_with():
    api = importlib.import_module("api_pages")
    found = importlib.import_module("examples_using").examples_by_home(ROOT / "docs", api.homes())
    for name in ("operating_point.certify", "losses.AUCOCLoss", "lab.lower_load"):
        assert found[f"expertload.{name}"][0].startswith("learn/")


def test_cells_of_a_wide_table_are_named_after_their_columns():
    from docutils import nodes

    row = nodes.row("", *(nodes.entry("", nodes.paragraph("", text)) for text in ("a", "1", "2")))
    row += nodes.entry("", nodes.paragraph())
    importlib.import_module("narrow_tables").name_cells(row, ["what", "load", "AUCOC", "p"])
    assert [cell.astext() for cell in row] == ["a", "load1", "AUCOC2", ""]
    assert [len(list(cell.findall(nodes.inline))) for cell in row] == [0, 1, 1, 0]


def test_a_column_without_a_name_gives_none_to_its_cells():
    from docutils import nodes

    row = nodes.row("", *(nodes.entry("", nodes.paragraph("", text)) for text in ("--out", "b")))
    importlib.import_module("narrow_tables").name_cells(row, ["", ""])
    assert not list(row.findall(nodes.inline))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "Certify each group; --save-policy saves all.",
            "Certify each group; `--save-policy` saves all.",
        ),
        ("Save it for 'expertload decide'.", "Save it for `expertload decide`."),
        ("Of 'expertload evaluate --save-policy'.", "Of `expertload evaluate --save-policy`."),
        ("The desk's address, the user's cache.", "The desk's address, the user's cache."),
        ("Already `--set` as code.", "Already `--set` as code."),
    ],
)
def test_options_in_the_help_of_a_command_are_code(text, shown):
    """Otherwise the site shows two hyphens as a dash."""
    assert importlib.import_module("command_pages").prose(text) == shown
