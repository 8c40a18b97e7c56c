"""`expertload decide POLICY FILE`: which cases are decided, and which go to experts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from expertload.cli.file_options import Decimal, Delimiter, Encoding, Format, Query
from expertload.cli.outputs import check_output
from expertload.cli.policies import load_policy
from expertload.cli.predictions_options import Confidence, Group, Probabilities
from expertload.cli.screen import console, one_line

__all__ = ["decide"]


def decide(
    policy: Annotated[Path, typer.Argument(help="What 'expertload evaluate --save-policy' saved.")],
    file: Annotated[
        Path,
        typer.Argument(help="New predictions: .csv, .parquet, .jsonl, .npz, or a DuckDB database."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="A .csv, .jsonl or .parquet file, written whole or not at all.",
            show_default="CSV to standard output",
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Copy a column, an identifier for instance. May be repeated.",
            show_default=False,
        ),
    ] = None,
    probabilities: Probabilities = None,
    confidence: Confidence = None,
    group: Group = None,
    query: Query = None,
    file_format: Format = None,
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    encoding: Encoding = None,
) -> None:
    """Apply a policy to new predictions, some rows at a time: any size fits in memory.

    Every case gets its row, whether it is accepted, the model's label and its confidence.
    """
    from expertload.predictions import ColumnNames, FileOptions, decide_file

    policy_point = load_policy(policy)
    if out is not None:
        check_output(out, others=[policy, file])
    counts = decide_file(
        policy_point,
        file,
        out=sys.stdout if out is None else out,
        names=ColumnNames(probabilities=probabilities, confidence=confidence, group=group),
        keep=tuple(keep or ()),
        options=FileOptions(
            query=query, format=file_format, delimiter=delimiter, decimal=decimal, encoding=encoding
        ),
    )
    said = console(stderr=True)  # standard output may be the decisions
    said.print(
        one_line(f"{file.name}: {counts.columns}"), style="dim", markup=False, soft_wrap=True
    )
    said.print(
        f"{counts.n_cases} cases: {counts.n_accepted} decided automatically, "
        f"{counts.n_delegated} to experts ({counts.n_delegated / counts.n_cases:.1%}).",
        soft_wrap=True,
    )
