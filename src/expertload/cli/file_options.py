"""The options by which a file is opened, where its name does not say how."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["Decimal", "Delimiter", "Encoding", "Format", "Query"]

OPENING = "Opening files"

Query = Annotated[
    str | None,
    typer.Option(
        metavar="SQL",
        help="What to read: 'SELECT ... FROM file', or from the tables of a DuckDB database.",
        rich_help_panel=OPENING,
        show_default=False,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="csv, tsv, parquet, jsonl, json or npz; of standard input, csv unless it is said.",
        rich_help_panel=OPENING,
        show_default="by name",
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        metavar="CHARACTER",
        help="What stands between the values of a CSV.",
        rich_help_panel=OPENING,
        show_default="the first of , ; and tab in the header",
    ),
]
Decimal = Annotated[
    str,
    typer.Option(
        metavar="CHARACTER",
        help="What stands before the digits of a fraction in CSV: . or ,",
        rich_help_panel=OPENING,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Of text that is not UTF-8: latin-1, cp1252, utf-16, ...",
        rich_help_panel=OPENING,
        show_default="utf-8",
    ),
]
