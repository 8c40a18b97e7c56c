"""Options for opening a file, if its name does not determine the format."""

from __future__ import annotations

from typing import Annotated, Any

import typer

__all__ = ["Decimal", "Delimiter", "Encoding", "Format", "Query"]

OPENING = "Opening files"


def _opening_option(
    metavar: str,
    help: str,  # noqa: A002 - typer's name
    *names: str,
    default: str | bool = False,
) -> Any:
    return typer.Option(
        *names, metavar=metavar, help=help, rich_help_panel=OPENING, show_default=default
    )


Query = Annotated[
    str | None,
    _opening_option(
        "SQL", "Rows to read: 'SELECT ... FROM file', or from the tables of a DuckDB database."
    ),
]
Format = Annotated[
    str | None,
    _opening_option(
        "FORMAT",
        "The format: csv, tsv, parquet, jsonl, json or npz; for standard input, csv by default.",
        "--format",
        default="by name",
    ),
]
Delimiter = Annotated[
    str | None,
    _opening_option(
        "CHARACTER",
        "The character between the values of a CSV.",
        default="the first of , ; and tab in the header",
    ),
]
Decimal = Annotated[
    str,
    _opening_option("CHARACTER", "The decimal mark of numbers in a CSV: . or ,", default=True),
]
Encoding = Annotated[
    str | None,
    _opening_option(
        "NAME",
        "The encoding of text that is not UTF-8: latin-1, cp1252, utf-16, ...",
        default="utf-8",
    ),
]
