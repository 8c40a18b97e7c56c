"""Makes the paper's tables from runs: mean and spread over seeds, and the published figure.

If a loss was trained with several options, the table shows those with the best mean validation
AUCOC over seeds. The test split is not used for this choice.

A table is written as Markdown for people, or as CSV for programs.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Literal, get_args

from expertload._check import check_option
from expertload.lab import TableFormat, TableKind
from expertload.lab.results.measures import (
    Measure,
    Published,
    find_measure,
    find_published,
    find_published_outliers,
    published_losses,
)
from expertload.lab.results.outliers import SCORE_NAMES
from expertload.lab.results.rows import Experiment, ResultRow, choose_candidates, grouped
from expertload.lab.runs.finished import describe_options

CALIBRATION = ("ece", "ks", "brier", "cwece")
SCORE_HEADINGS = {
    "msp": "MSP",
    "odin": "ODIN",
    "odin_perturbed": "ODIN perturbed",
    "maxlogit": "MaxLogit",
    "energy": "Energy",
}
DASH = "\N{EN DASH}"
CSV_COLUMNS = (
    *("table", "loss", "n_seeds", "number", "mean", "spread", "mark"),
    *("published", "published_with"),
)
Mark = Literal["", "best", "second"]


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
    """A table; `source` names the network of the published figures."""

    caption: str
    columns: tuple[Measure, ...]
    lines: tuple[Line, ...]
    source: str | None


def make_table(
    rows: Iterable[ResultRow],
    *,
    kind: TableKind = "performance",
    format: TableFormat = "markdown",  # noqa: A002 - the usual name
    losses: Sequence[str] | None = None,
) -> str:
    """Return tables made from rows of results, as text.

    The best figure of each column is bold and the second underlined, after rounding: equal figures
    are marked alike. Ensembles are ranked separately. A loss without runs has a dash. Everything is
    in percent.

    Parameters
    ----------
    rows : iterable of ResultRow
        From `expertload.lab.collect`, and from `collect_ensembles` to include ensembles.
        Every combination of data, network and settings makes a separate table.
    kind : {"performance", "calibration", "ood"}, default="performance"
        AUCOC, accuracy and loads; calibration errors after calibration; or outliers.
    format : {"markdown", "csv"}, default="markdown"
    losses : sequence of str, optional
        The rows, in order; by default all losses with runs or a published figure.

    Returns
    -------
    str

    Examples
    --------
    >>> from expertload.lab.results.rows import ResultRow
    >>> from expertload.lab.results.tables import make_table
    >>> rows = [
    ...     ResultRow(data="digits", model="small-cnn", loss=loss, options="{}", batch_size=64,
    ...               settings="{}", seed=seed, split="test", metric="aucoc", value=value,
    ...               versions="")
    ...     for loss, seed, value in [("ce", 0, 0.9), ("ce", 1, 0.92), ("ce+aucoc", 0, 0.95)]]
    >>> print(make_table(rows))
    **digits, small-cnn: performance (%)**
    <BLANKLINE>
    | loss | seeds | AUCOC ↑ |
    | --- | ---: | ---: |
    | ce | 2 | <u>91.00 ± 1.41</u> |
    | ce+aucoc | 1 | **95.00** |
    <BLANKLINE>
    """
    check_option(format, get_args(TableFormat), "format")
    tables = build_tables(rows, kind=kind, losses=losses)
    return _csv(tables) if format == "csv" else "\n".join(map(markdown_of, tables))


def build_tables(
    rows: Iterable[ResultRow],
    *,
    kind: TableKind = "performance",
    losses: Sequence[str] | None = None,
) -> list[Table]:
    """Return the tables as objects; parameters as in `make_table`.

    Examples
    --------
    >>> from expertload.lab.results.tables import build_tables
    >>> build_tables([])
    []
    """
    check_option(kind, get_args(TableKind), "kind")
    groups = grouped(choose_candidates(rows), lambda r: r.experiment)
    tables = []
    for experiment, chosen in groups.items():
        title = _title(experiment, groups) + _changes(chosen)
        for caption, own, columns, published in _parts(experiment, chosen, kind):
            tables.append(_table(f"{title}: {caption}", own, columns, published, losses))
    return [table for table in tables if table.lines]


# ------------------------------------------------------------------ one table


def _parts(
    experiment: Experiment, rows: Sequence[ResultRow], kind: TableKind
) -> Iterator[tuple[str, list[ResultRow], list[Measure], Published | None]]:
    """Return the tables of an experiment: caption, rows, columns and published figures."""
    published = find_published(experiment.data, experiment.model, batch_size=experiment.batch_size)
    by_split = grouped(rows, lambda r: r.split)
    if kind == "performance":
        own = by_split.get("test", [])
        loads = {row.metric for row in own if row.metric.startswith("load@")}
        ordered = sorted(loads, key=lambda name: float(name.partition("@")[2]))
        yield "performance", own, [*map(find_measure, ("aucoc", "accuracy", *ordered))], published
    elif kind == "calibration":
        own, columns = by_split.get("test_calibrated", []), [*map(find_measure, CALIBRATION)]
        yield "calibration, after calibrating on validation", own, columns, published
    else:
        columns = [
            replace(find_measure("auroc"), name=f"{score}/auroc", heading=SCORE_HEADINGS[score])
            for score in SCORE_NAMES
        ]
        for split, own in by_split.items():
            kind_of_split, _, against = split.partition(":")
            if kind_of_split == "outliers":
                figures = find_published_outliers(experiment.data, against.partition(" (")[0])
                yield f"AUROC of outliers from {against}", own, columns, figures


def _table(
    caption: str,
    rows: Sequence[ResultRow],
    columns: Sequence[Measure],
    published: Published | None,
    losses: Sequence[str] | None,
) -> Table:
    measured = {row.metric for row in rows}
    columns = [column for column in columns if column.name in measured]
    if not columns:
        return Table(caption, (), (), None)
    figures = published.figures if published else {}
    by_loss = grouped((row for row in rows if row.n_runs == 1), lambda r: r.loss)
    lines = [
        _line(loss, by_loss.get(loss, []), columns, figures.get(loss, {}))
        for loss in losses or _order([*by_loss, *figures])
    ]
    ensembles = grouped((row for row in rows if row.n_runs > 1), lambda r: (r.loss, r.n_runs))
    for loss in losses or _order(loss for loss, _ in ensembles):
        for key in sorted(key for key in ensembles if key[0] == loss):
            line = _line(loss, ensembles[key], columns, {})
            label = f"ensemble of {line.label}"
            lines.append(replace(line, label=label, n_seeds=key[1], is_ensemble=True))
    return Table(caption, tuple(columns), tuple(lines), published.source if published else None)


def _line(
    loss: str, rows: Sequence[ResultRow], columns: Sequence[Measure], published: Mapping[str, float]
) -> Line:
    # A column of outliers is SCORE/auroc; published figures have the score.
    figures = [published.get(column.name.partition("/")[0]) for column in columns]
    cells = tuple(_cell(rows, *pair) for pair in zip(columns, figures, strict=True))
    label = describe_options(loss, json.loads(rows[0].options) if rows else {})
    return Line(label, len({row.seed for row in rows}), cells)


def _cell(rows: Iterable[ResultRow], column: Measure, published: float | None) -> Cell:
    values = [100 * row.value for row in rows if row.metric == column.name]
    if not values:
        return Cell(None, None, published)
    return Cell(fmean(values), stdev(values) if len(values) > 1 else None, published)


def _order(losses: Iterable[str]) -> list[str]:
    """Return the losses in the paper's order, then all others."""
    names, first = set(losses), published_losses()
    return [*(loss for loss in first if loss in names), *sorted(names.difference(first))]


def _title(experiment: Experiment, others: Iterable[Experiment]) -> str:
    """Return the title: data, network, and the settings that distinguish this experiment."""
    alike = [other for other in others if other[:2] == experiment[:2]]
    title = f"{experiment.data}, {experiment.model}"
    if len({other.batch_size for other in alike}) > 1:
        title += f", batch size {experiment.batch_size}"
    if len({other.settings for other in alike}) > 1:
        title += "".join(f", {item}" for item in _differing(experiment, alike))
    return title


def _changes(rows: Iterable[ResultRow]) -> str:
    """Return which settings of the recipe were changed for some of these runs."""
    changed = [text for text in dict.fromkeys(row.changed for row in rows) if text]
    return f" (with --set {' or '.join(changed)})" if changed else ""


def _differing(experiment: Experiment, alike: Iterable[Experiment]) -> list[str]:
    every = [json.loads(other.settings) for other in alike]
    own = json.loads(experiment.settings)
    return [
        f"{key} {own.get(key, 'default')}"
        for key in sorted({key for settings in every for key in settings})
        if any(settings.get(key) != own.get(key) for settings in every)
    ]


# ------------------------------------------------------------------ text


def marks_of(table: Table, column: int) -> list[Mark]:
    """Return which rows of a column are best and second best, after rounding.

    Ensembles are ranked among themselves.

    Examples
    --------
    >>> from expertload.lab.results.measures import find_measure
    >>> from expertload.lab.results.tables import Cell, Line, Table, marks_of
    >>> lines = tuple(Line("a", 1, (Cell(value, None, None),)) for value in (3.0, 1.0, 2.0))
    >>> table = Table("", (find_measure("ece"),), lines, None)
    >>> marks_of(table, 0)
    ['', 'best', 'second']
    """
    number = table.columns[column]
    printed = [
        None if cell.mean is None else (line.is_ensemble, round(cell.mean, number.decimals))
        for line in table.lines
        for cell in [line.cells[column]]
    ]
    marks: dict[tuple[bool, float] | None, Mark] = {}
    for kind in (False, True):
        known = {place for place in printed if place is not None and place[0] is kind}
        ranked = sorted(known, reverse=number.higher_is_better)
        marks |= dict(zip(ranked, ("best", "second"), strict=False))
    return [marks.get(place, "") for place in printed]


def _grid(table: Table) -> list[list[str]]:
    """Return the words of a table, the headings first; published figures follow their column."""
    columns = [
        ["loss", *(line.label for line in table.lines)],
        ["seeds", *(str(line.n_seeds or DASH) for line in table.lines)],
    ]
    for position, number in enumerate(table.columns):
        cells = [line.cells[position] for line in table.lines]
        figures = [_figure(cell.mean, number.decimals, cell.spread) for cell in cells]
        heading = f"{number.heading} {'↑' if number.higher_is_better else '↓'}"
        columns.append([heading, *map(_marked, figures, marks_of(table, position))])
        if any(cell.published is not None for cell in cells):
            columns.append(["published", *(_figure(c.published, number.decimals) for c in cells)])
    return [list(row) for row in zip(*columns, strict=True)]


def _figure(value: float | None, decimals: int, spread: float | None = None) -> str:
    if value is None:
        return DASH
    return f"{value:.{decimals}f}" + ("" if spread is None else f" ± {spread:.{decimals}f}")


def _marked(figure: str, mark: Mark) -> str:
    return {"best": f"**{figure}**", "second": f"<u>{figure}</u>"}.get(mark, figure)


def markdown_of(table: Table) -> str:
    """Return a table in Markdown, under its caption."""
    headings, *body = _grid(table)
    grid = [headings, ["---", *["---:"] * (len(headings) - 1)], *body]
    lines = ["| " + " | ".join(word.replace("|", "\\|") for word in words) + " |" for words in grid]
    note = (
        f"; published figures with {table.source}, by the authors' definitions"
        if table.source
        else ""
    )
    return "\n".join([f"**{table.caption} (%){note}**", "", *lines, ""])


def _csv(tables: Sequence[Table]) -> str:
    """Return tables as one, with a row per cell, without rounding."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for table in tables:
        for position, column in enumerate(table.columns):
            for line, mark in zip(table.lines, marks_of(table, position), strict=True):
                cell = line.cells[position]
                values = [cell.mean, cell.spread, mark, cell.published, table.source]
                writer.writerow([table.caption, line.label, line.n_seeds, column.heading, *values])
    return text.getvalue()
