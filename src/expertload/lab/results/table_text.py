"""Writes tables as text: Markdown for people, LaTeX for papers, CSV for programs.

A table is laid out once, as a grid of marked cells. Each format only defines how a cell is made
bold or underlined, and how cells become lines.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import get_args

from expertload._names import TableFormat
from expertload._validation import check_option
from expertload.lab.results.measures import Measure

__all__ = ["Cell", "Line", "Mark", "Table", "marks_of", "write_tables"]

DASH = "\N{EN DASH}"
CSV_COLUMNS = (
    "table",
    "loss",
    "n_seeds",
    "number",
    "mean",
    "spread",
    "mark",
    "published",
    "published_with",
)


class Mark(Enum):
    """The highlighting of a figure."""

    NONE = ""
    BEST = "best"
    SECOND = "second"


@dataclass(frozen=True)
class Cell:
    """Mean and spread over seeds, and the published figure; None if there is none."""

    mean: float | None
    spread: float | None
    published: float | None


@dataclass(frozen=True)
class Line:
    """A row of a table: a loss or an ensemble, its number of seeds, and one cell per column."""

    label: str
    n_seeds: int
    cells: tuple[Cell, ...]
    is_ensemble: bool = False


@dataclass(frozen=True)
class Table:
    """A table. Columns are pairs of heading and number; `source` names the published network."""

    caption: str
    columns: tuple[tuple[str, Measure], ...]
    lines: tuple[Line, ...]
    source: str | None


def marks_of(table: Table, column: int) -> list[Mark]:
    """Return which rows of a column are best and second best, after rounding.

    Ensembles are ranked among themselves.

    Examples
    --------
    >>> from expertload.lab.results.measures import find_measure
    >>> from expertload.lab.results.table_text import Cell, Line, Table, marks_of
    >>> lines = tuple(Line("a", 1, (Cell(value, None, None),)) for value in (3.0, 1.0, 2.0))
    >>> table = Table("", (("ECE", find_measure("ece")),), lines, None)
    >>> [mark.value for mark in marks_of(table, 0)]
    ['', 'best', 'second']
    """
    number = table.columns[column][1]
    printed = [
        (line.is_ensemble, round(mean, number.decimals))
        for line in table.lines
        if (mean := line.cells[column].mean) is not None
    ]
    places: dict[tuple[bool, float], Mark] = {}
    for kind in (False, True):
        ranked = sorted({p for p in printed if p[0] is kind}, reverse=number.higher_is_better)
        places |= dict(zip(ranked, (Mark.BEST, Mark.SECOND), strict=False))
    return [_place(line, column, number, places) for line in table.lines]


def _place(
    line: Line, column: int, number: Measure, places: dict[tuple[bool, float], Mark]
) -> Mark:
    mean = line.cells[column].mean
    if mean is None:
        return Mark.NONE
    return places.get((line.is_ensemble, round(mean, number.decimals)), Mark.NONE)


def write_tables(
    tables: Sequence[Table],
    *,
    format: TableFormat = "markdown",  # noqa: A002 - the usual name
) -> str:
    """Return several tables as text.

    Parameters
    ----------
    tables : sequence of Table
    format : {"markdown", "latex", "csv"}, default="markdown"
        CSV is one table in the long format, one row per cell, without rounding.

    Examples
    --------
    >>> from expertload.lab.results.table_text import write_tables
    >>> print(write_tables([], format="csv"))
    table,loss,n_seeds,number,mean,spread,mark,published,published_with
    <BLANKLINE>
    """
    check_option(format, get_args(TableFormat), "format")
    if format == "csv":
        return _csv(tables)
    write = _markdown if format == "markdown" else _latex
    return "\n".join(write(table) for table in tables)


# ------------------------------------------------------------------ layout


def _headings(table: Table, up: str, down: str) -> list[str]:
    headings = ["loss", "seeds"]
    for position, (heading, number) in enumerate(table.columns):
        headings.append(f"{heading} {up if number.higher_is_better else down}")
        if _has_published(table, position):
            headings.append("published")
    return headings


def _words(table: Table, style: Callable[[str, Mark], str], plus_minus: str) -> Iterator[list[str]]:
    marks = [marks_of(table, position) for position in range(len(table.columns))]
    for row, line in enumerate(table.lines):
        words = [line.label, str(line.n_seeds) if line.n_seeds else DASH]
        for position, cell in enumerate(line.cells):
            decimals = table.columns[position][1].decimals
            words.append(style(_figure(cell, decimals, plus_minus), marks[position][row]))
            if _has_published(table, position):
                words.append(DASH if cell.published is None else f"{cell.published:.{decimals}f}")
        yield words


def _has_published(table: Table, position: int) -> bool:
    return any(line.cells[position].published is not None for line in table.lines)


def _figure(cell: Cell, decimals: int, plus_minus: str) -> str:
    if cell.mean is None:
        return DASH
    spread = "" if cell.spread is None else f" {plus_minus} {cell.spread:.{decimals}f}"
    return f"{cell.mean:.{decimals}f}{spread}"


def _caption(table: Table) -> str:
    note = f"; published figures with {table.source}" if table.source else ""
    return f"{table.caption} (%){note}"


# ------------------------------------------------------------------ formats


def _markdown(table: Table) -> str:
    def style(text: str, mark: Mark) -> str:
        return {Mark.BEST: f"**{text}**", Mark.SECOND: f"<u>{text}</u>"}.get(mark, text)

    headings = _headings(table, "↑", "↓")
    grid = [headings, ["---", *["---:"] * (len(headings) - 1)], *_words(table, style, "±")]
    lines = ["| " + " | ".join(word.replace("|", "\\|") for word in words) + " |" for words in grid]
    return "\n".join([f"**{_caption(table)}**", "", *lines, ""])


def _latex(table: Table) -> str:
    def style(text: str, mark: Mark) -> str:
        command = {Mark.BEST: r"\textbf", Mark.SECOND: r"\underline"}.get(mark)
        return f"{command}{{{text}}}" if command else text

    headings = _headings(table, r"$\uparrow$", r"$\downarrow$")
    body = [
        " & ".join([_escape(label), *others]) + r" \\"
        for label, *others in _words(table, style, r"$\pm$")
    ]
    lines = [
        r"\begin{table}",
        rf"\caption{{{_escape(_caption(table))}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}",
        r"\hline",
        " & ".join(heading.replace("%", r"\%") for heading in headings) + r" \\",
        r"\hline",
        *body,
        r"\hline",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ]
    return "\n".join(lines).replace(DASH, "--")


def _escape(text: str) -> str:
    """Escape the special characters of LaTeX."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return re.sub(r"[\\~^&%$#_{}]", lambda m: special.get(m[0], "\\" + m[0]), text)


def _csv(tables: Sequence[Table]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for table in tables:
        for position, (heading, _) in enumerate(table.columns):
            for line, mark in zip(table.lines, marks_of(table, position), strict=True):
                cell = line.cells[position]
                values = [cell.mean, cell.spread, mark.value, cell.published, table.source]
                writer.writerow([table.caption, line.label, line.n_seeds, heading, *values])
    return text.getvalue()
