"""Makes the paper's tables from runs: mean and spread over seeds, and the published figure.

If a loss was trained with several options, the table shows those with the best mean validation
AUCOC over seeds. The test split is not used for this choice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import get_args

from expertload._names import OutlierNumber, TableFormat, TableKind
from expertload._validation import check_option
from expertload.lab.results.measures import Measure, find_measure
from expertload.lab.results.ood import SCORE_NAMES
from expertload.lab.results.published import (
    Published,
    find_published,
    find_published_outliers,
    published_losses,
)
from expertload.lab.results.rows import Experiment, ResultRow
from expertload.lab.results.selection import choose_candidates, grouped
from expertload.lab.results.table_text import Cell, Line, Table, write_tables
from expertload.lab.runs.finished import describe_options

__all__ = ["build_tables", "make_table"]

CALIBRATION = ("ece", "ks", "brier", "cwece")
SCORE_HEADINGS = {
    "msp": "MSP",
    "odin": "ODIN",
    "odin_perturbed": "ODIN perturbed",
    "maxlogit": "MaxLogit",
    "energy": "Energy",
}


def make_table(
    rows: Iterable[ResultRow],
    *,
    kind: TableKind = "performance",
    format: TableFormat = "markdown",  # noqa: A002 - the usual name
    losses: Sequence[str] | None = None,
    outlier_number: OutlierNumber = "auroc",
) -> str:
    """Return tables made from rows of results, as text.

    The best figure of each column is bold and the second underlined, after rounding: equal figures
    are marked alike. Ensembles are ranked separately. A loss without runs has a dash. Everything is
    in percent.

    Parameters
    ----------
    rows : iterable of ResultRow
        From `expertload.lab.results.collect`, and from `collect_ensembles` to include ensembles.
        Every combination of data, network and settings makes a separate table.
    kind : {"performance", "calibration", "ood"}, default="performance"
        AUCOC, accuracy and loads; calibration errors after calibration; or outliers.
    format : {"markdown", "latex", "csv"}, default="markdown"
    losses : sequence of str, optional
        The rows, in order; by default all losses with runs or a published figure.
    outlier_number : {"auroc", "aupr", "fpr95"}, default="auroc"
        For ``kind="ood"``. The paper printed AUROC.

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
    tables = build_tables(rows, kind=kind, losses=losses, outlier_number=outlier_number)
    return write_tables(tables, format=format)


def build_tables(
    rows: Iterable[ResultRow],
    *,
    kind: TableKind = "performance",
    losses: Sequence[str] | None = None,
    outlier_number: OutlierNumber = "auroc",
) -> list[Table]:
    """Return the tables as objects; parameters as in `make_table`.

    Examples
    --------
    >>> from expertload.lab.results.tables import build_tables
    >>> build_tables([])
    []
    """
    check_option(kind, get_args(TableKind), "kind")
    check_option(outlier_number, get_args(OutlierNumber), "outlier_number")
    groups = grouped(choose_candidates(rows), lambda r: r.experiment)
    tables = []
    for experiment, chosen in groups.items():
        title = _title(experiment, groups) + _changes(chosen)
        published = find_published(
            experiment.data, experiment.model, batch_size=experiment.batch_size
        )
        if kind == "performance":
            own = [row for row in chosen if row.split == "test"]
            columns = _columns(["aucoc", "accuracy", *_load_names(own)])
            tables.append(_table(f"{title}: performance", own, columns, published, losses))
        elif kind == "calibration":
            own = [row for row in chosen if row.split == "test_calibrated"]
            caption = f"{title}: calibration, after calibrating on validation"
            tables.append(_table(caption, own, _columns(CALIBRATION), published, losses))
        else:
            tables += _outlier_tables(title, experiment, chosen, outlier_number, losses)
    return [table for table in tables if any(line.cells for line in table.lines)]


# ------------------------------------------------------------------ one table


@dataclass(frozen=True)
class _Column:
    """A metric in the rows, its number, its heading, and its key among published figures."""

    metric: str
    number: Measure
    heading: str
    key: str


def _columns(names: Iterable[str]) -> list[_Column]:
    numbers = [find_measure(name) for name in names]
    return [_Column(number.name, number, number.heading, number.name) for number in numbers]


def _load_names(rows: Iterable[ResultRow]) -> list[str]:
    names = {row.metric for row in rows if row.metric.startswith("load@")}
    return sorted(names, key=lambda name: float(name.partition("@")[2]))


def _outlier_tables(
    title: str,
    experiment: Experiment,
    rows: Iterable[ResultRow],
    outlier_number: str,
    losses: Sequence[str] | None,
) -> list[Table]:
    number = find_measure(outlier_number)
    tables = []
    found = [row for row in rows if row.split.startswith("outliers:")]
    for split, own in grouped(found, lambda r: r.split).items():
        against = split.partition(":")[2]
        # The paper has only AUROC.
        printed = find_published_outliers(experiment.data, against.partition(" (")[0])
        columns = [
            _Column(f"{score}/{outlier_number}", number, SCORE_HEADINGS[score], score)
            for score in SCORE_NAMES
        ]
        caption = f"{title}: {number.heading} of outliers from {against}"
        published = printed if outlier_number == "auroc" else None
        tables.append(_table(caption, own, columns, published, losses))
    return tables


def _table(
    caption: str,
    rows: Iterable[ResultRow],
    columns: Sequence[_Column],
    published: Published | None,
    losses: Sequence[str] | None,
) -> Table:
    rows, together = _split_ensembles(rows)
    measured = {row.metric for row in [*rows, *together]}
    columns = [column for column in columns if column.metric in measured]
    by_loss = grouped(rows, lambda r: r.loss)
    if not columns:
        return Table(caption, (), (), None)
    figures = published.figures if published else {}
    lines = []
    for loss in losses or _order([*by_loss, *figures]):
        own = by_loss.get(loss, [])
        printed = figures.get(loss, {})
        cells = tuple(_cell(own, column, printed.get(column.key)) for column in columns)
        lines.append(Line(_label(loss, own), len({row.seed for row in own}), cells))
    lines += _ensemble_lines(together, columns, losses)
    numbers = tuple((column.heading, column.number) for column in columns)
    return Table(caption, numbers, tuple(lines), published.source if published else None)


def _split_ensembles(rows: Iterable[ResultRow]) -> tuple[list[ResultRow], list[ResultRow]]:
    """Return the rows of single runs, and the rows of ensembles."""
    every = list(rows)
    return [row for row in every if row.n_runs == 1], [row for row in every if row.n_runs > 1]


def _ensemble_lines(
    rows: Sequence[ResultRow], columns: Sequence[_Column], losses: Sequence[str] | None
) -> list[Line]:
    by_loss = grouped(rows, lambda r: r.loss)
    return [
        Line(
            f"ensemble of {_label(loss, own)}",
            n_runs,
            tuple(_cell(own, column, None) for column in columns),
            is_ensemble=True,
        )
        for loss in losses or _order(by_loss)
        for n_runs, own in sorted(grouped(by_loss.get(loss, []), lambda r: r.n_runs).items())
    ]


def _cell(rows: Iterable[ResultRow], column: _Column, published: float | None) -> Cell:
    values = [100 * row.value for row in rows if row.metric == column.metric]
    if not values:
        return Cell(None, None, published)
    return Cell(fmean(values), stdev(values) if len(values) > 1 else None, published)


def _order(losses: Iterable[str]) -> list[str]:
    """Return the losses in the paper's order, then all others."""
    found, first = dict.fromkeys(losses), published_losses()
    return [*(loss for loss in first if loss in found), *sorted(set(found) - set(first))]


def _label(loss: str, rows: Sequence[ResultRow]) -> str:
    return describe_options(loss, json.loads(rows[0].options) if rows else {})


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
    keys = sorted({key for settings in every for key in settings})
    return [
        f"{key} {own.get(key, 'default')}"
        for key in keys
        if any(settings.get(key) != own.get(key) for settings in every)
    ]
