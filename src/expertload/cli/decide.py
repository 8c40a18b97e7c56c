"""`expertload decide POLICY FILE` and `policy sql`: apply a policy to new predictions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from expertload._format import shares
from expertload._names import ColumnNames, FileOptions, Invalid
from expertload.cli.files import check_output
from expertload.cli.options import COLUMNS, OPENING, Policy, Rows, load_policy, takes
from expertload.cli.screen import console, one_line, rows_done

if TYPE_CHECKING:
    from expertload.io import DecisionCounts


@takes(
    columns=COLUMNS.only("probabilities", "logits", "classes", "normalize", "confidence", "group"),
    opening=OPENING,
)
def decide(
    policy: Policy,
    file: Path,
    out: Rows = None,
    keep: list[str] | None = None,
    invalid: Invalid = "refuse",
    *,
    columns: ColumnNames,
    opening: FileOptions,
) -> None:
    """Apply a policy to new predictions, in batches: files may be larger than memory.

    The output has one row per case: its row number, whether it is accepted, the model's label and
    its confidence.

    Parameters
    ----------
    file
        New predictions: .csv, .parquet, .jsonl, .npz, a folder of Parquet, a DuckDB database, or -
        for standard input.
    keep : COLUMN
        Copy a column, for example an identifier. May be repeated.
    invalid
        A case that cannot be decided stops the command (refuse), or goes to experts, with the
        reason in a column 'why' (delegate).
    """
    from expertload.io import decide_file

    policy_point = load_policy(policy)
    to_screen = out is None or str(out) == "-"
    if out is not None and not to_screen:
        check_output(out, others=[policy, file])
    with rows_done(file.name) as progress:
        counts = decide_file(
            policy_point,
            file,
            out=sys.stdout if out is None or to_screen else out,
            names=columns,
            keep=tuple(keep or ()),
            options=opening,
            invalid=invalid,
            progress=None if to_screen and sys.stdout.isatty() else progress,
        )
    _say(file, counts, policy_point.expert_load)


def _say(file: Path, counts: DecisionCounts, expected: float) -> None:
    screen = console(stderr=True)  # standard output may hold the decisions
    screen.say(one_line(f"{file.name}: {counts.columns}"), "dim")
    automated, load = shares(counts.n_delegated / counts.n_cases)
    screen.say(
        f"{counts.n_cases} case{'' if counts.n_cases == 1 else 's'}: "
        f"{counts.n_accepted} decided automatically ({automated}), "
        f"{counts.n_delegated} to experts ({load})."
    )
    before = " and ".join(shares(expected))
    screen.say(f"When the policy was made, these were {before}.", "dim")
    if counts.load is not None and counts.load.warns:
        screen.say(counts.load.summary(), "yellow")
    reasons = {
        "could not be decided": counts.n_invalid,
        "belong to a group without a threshold": counts.n_without_threshold,
    }
    for what, n in reasons.items():
        if n:
            why = "the column 'why' gives the reason"
            screen.say(f"{n} of those to experts {what}; {why}.", "yellow")


@takes(columns=COLUMNS.only("probabilities", "classes", "normalize", "confidence", "group"))
def sql(
    policy: Policy,
    dialect: Literal["bigquery", "duckdb", "postgres", "snowflake", "spark"] = "duckdb",
    table: str = "cases",
    keep: list[str] | None = None,
    *,
    columns: ColumnNames,
) -> None:
    """Print a statement that decides new predictions where they are stored.

    It decides as 'expertload decide --invalid delegate' does.

    Parameters
    ----------
    dialect
        The database that will run it.
    table
        The table of new predictions.
    keep : COLUMN
        Copy a column, for example an identifier. May be repeated.
    """
    from expertload.io import policy_sql

    typer.echo(
        policy_sql(
            load_policy(policy), dialect=dialect, table=table, keep=keep or (), names=columns
        )
    )
