"""The options by which columns of a file of predictions are named."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["Confidence", "Group", "Label", "Probabilities", "Query"]

COLUMNS = "Columns"

Label = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="The true class.", rich_help_panel=COLUMNS, show_default="by name"
    ),
]
Probabilities = Annotated[
    str | None,
    typer.Option(
        metavar="PATTERN",
        help="The probabilities of the classes: 'p_*', or names with commas between them.",
        rich_help_panel=COLUMNS,
        show_default="by name",
    ),
]
Confidence = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="What to rank cases by.",
        rich_help_panel=COLUMNS,
        show_default="the top probability",
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The site, age band, ... of a case; 'none' if the column 'group' is something else.",
        rich_help_panel=COLUMNS,
        show_default="by name",
    ),
]
Query = Annotated[
    str | None,
    typer.Option(
        metavar="SQL", help="What to read, where FILE is a DuckDB database.", show_default=False
    ),
]
