"""The input of the template: texts, charts and tables of each model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from expertload._format import percent, promised
from expertload.evaluation import Evaluation, compare_evaluations
from expertload.operating_point.point import digits as point_digits
from expertload.report import charts
from expertload.report.scale import Frame
from expertload.report.stops import Mark, Stops, find_stops
from expertload.report.tables import PartTable, part_tables
from expertload.significance import Comparison

__all__ = ["FORMATS", "ModelPart", "TableRow", "models_of_page"]

N_COLOURS, N_TABLE_ROWS = 7, 20


@dataclass(frozen=True)
class TableRow:
    """A row of the table with the numbers of the curve."""

    threshold: float
    load: float
    accuracy: float
    low: float
    high: float
    accepted: float
    errors: float
    is_certified: bool


@dataclass(frozen=True, kw_only=True)
class ModelPart:
    """Everything that the page shows about one model."""

    name: str
    colour: int
    dashes: int
    evaluation: Evaluation
    stops: Stops
    lines: charts.Lines
    in_words: str
    reliability: charts.Figure | None
    histogram: charts.Figure
    parts: list[PartTable]
    table: list[TableRow]
    comparison: Comparison | None

    def table_of(self, kind: str) -> PartTable | None:
        """Return the table of groups or classes; None if there is none."""
        return next((table for table in self.parts if table.kind == kind), None)

    @property
    def has_group(self) -> bool:
        """Whether there is a table of groups."""
        return self.table_of("group") is not None

    @property
    def has_class(self) -> bool:
        """Whether there is a table of classes."""
        return self.table_of("class") is not None

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The stops with a label."""
        return self.stops.marks


def models_of_page(models: Mapping[str, Evaluation]) -> tuple[list[ModelPart], Frame]:
    """Return the parts of the page, and the frame that all curves share."""
    evaluations = list(models.values())
    stops = [find_stops(evaluation) for evaluation in evaluations]
    frame = charts.coc_frame(evaluations, stops)
    comparisons = compare_with_first(models)
    parts = [
        _part(i, name, models[name], stops[i], frame, comparisons.get(name))
        for i, name in enumerate(models)
    ]
    return parts, frame


def compare_with_first(models: Mapping[str, Evaluation]) -> dict[str, Comparison]:
    """Return each model's AUCOC minus that of the first, for models with the same cases."""
    first = next(iter(models.values()))
    same = {name: found for name, found in models.items() if found.saw_same_cases(first)}
    return {name: found for (name, _), found in compare_evaluations(same).items()}


def _part(
    index: int,
    name: str,
    evaluation: Evaluation,
    stops: Stops,
    frame: Frame,
    comparison: Comparison | None,
) -> ModelPart:
    return ModelPart(
        name=name,
        colour=index % N_COLOURS,
        dashes=index // N_COLOURS % 3,
        evaluation=evaluation,
        stops=stops,
        lines=charts.curve_lines(frame, evaluation),
        in_words=charts.curve_in_words(name, stops),
        reliability=charts.reliability_figure(evaluation),
        histogram=charts.histogram_figure(evaluation),
        parts=part_tables(index, evaluation, stops),
        table=_table(stops),
        comparison=comparison,
    )


def _table(stops: Stops) -> list[TableRow]:
    """Return rows at about every twentieth of the load."""
    loads = stops.load[:-1]
    marks = np.searchsorted(loads, np.arange(N_TABLE_ROWS) / N_TABLE_ROWS)
    rows = np.unique(np.minimum(marks, len(loads) - 1))
    return [
        TableRow(
            threshold=float(stops.threshold[i]),
            load=float(loads[i]),
            accuracy=float(1 - stops.errors[i] / stops.accepted[i]),
            low=float(stops.low[i]),
            high=float(stops.high[i]),
            accepted=float(stops.accepted[i]),
            errors=float(stops.errors[i]),
            is_certified=bool(stops.certified[i]),
        )
        for i in rows
    ]


# ------------------------------------------------------------------ wording


def count(number: float) -> str:
    """Return a count with thin spaces between thousands; weights keep a few digits.

    Examples
    --------
    >>> count(20000.0), count(3.25)
    ('20\u202f000', '3.25')
    """
    whole = number == int(number)
    return (f"{int(number):,}" if whole else f"{number:,.4g}").replace(",", "\u202f")


def digits(threshold: float) -> str:
    """Return a threshold with four digits, or more if it would be rounded down, or to 1.

    Examples
    --------
    >>> digits(0.91238), digits(0.912345), digits(0.9999996), digits(1.0)
    ('0.9124', '0.912345', '0.9999996', '1')
    """
    return "none" if math.isinf(threshold) else point_digits(threshold, 4)


def chance(p_value: float) -> str:
    """Return a p-value as text.

    Examples
    --------
    >>> chance(0.0312), chance(1e-9)
    ('0.031', '< 0.001')
    """
    return "< 0.001" if p_value < 0.001 else f"{p_value:.2g}"


FORMATS: dict[str, Any] = {
    "percent": percent,
    "promised": promised,
    "count": count,
    "digits": digits,
    "chance": chance,
    "score": lambda value: f"{value:.4f}",
    "signed": lambda value: f"{value:+.4f}".replace("-", "\N{MINUS SIGN}"),
}
