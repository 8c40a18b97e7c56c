"""Options for opening a file, if its name does not determine the format."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["Decimal", "Delimiter", "Encoding", "Format", "Query"]

OPENING = "Opening files"

Query = Annotated[
    str | None,
    typer.Option(
        metavar="SQL",
        help="Rows to read: 'SELECT ... FROM file', or from the tables of a DuckDB database.",
        rich_help_panel=OPENING,
        show_default=False,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="csv, tsv, parquet, jsonl, json or npz; for standard input, csv by default.",
        rich_help_panel=OPENING,
        show_default="by name",
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        metavar="CHARACTER",
        help="The character between the values of a CSV.",
        rich_help_panel=OPENING,
        show_default="the first of , ; and tab in the header",
    ),
]
Decimal = Annotated[
    str,
    typer.Option(
        metavar="CHARACTER",
        help="The decimal mark of numbers in a CSV: . or ,",
        rich_help_panel=OPENING,
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The encoding of text that is not UTF-8: latin-1, cp1252, utf-16, ...",
        rich_help_panel=OPENING,
        show_default="utf-8",
    ),
]
