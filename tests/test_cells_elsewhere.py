"""Cells that the site shows and does not run: they run here, where what they need is installed."""

from __future__ import annotations

import re

import pytest

from tests.pages import PAGES, ROOT, fences, page_id

SKIPPED = "skip-execution"


def skipped_cells(page):
    """The code of the cells of a page that are not run when the site is built."""
    cells = [text for language, text in fences(page) if language == "{code-cell} python"]
    return [text.partition("\n")[2] for text in cells if SKIPPED in text.partition("\n")[0]]


def test_every_cell_that_is_not_run_at_build_is_run_by_a_test():
    spoken = {page_id(page) for page in PAGES if SKIPPED in page.read_text()}
    assert spoken == {"docs/learn/huggingface_trainer.md", "docs/learn/hundred_million_rows.md"}


@pytest.mark.training
@pytest.mark.filterwarnings("ignore")  # of other packages
def test_the_trainer_of_hugging_face(tmp_path, monkeypatch, capsys):
    pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    monkeypatch.chdir(tmp_path)
    (cell,) = skipped_cells(ROOT / "docs" / "learn" / "huggingface_trainer.md")
    exec(compile(cell, "huggingface_trainer", "exec"), {"__name__": "page"})
    area = re.search(r"^AUCOC (\S+),", capsys.readouterr().out, flags=re.MULTILINE)[1]
    assert float(area) > 0.9
