"""`expertload policy sql POLICY`: a policy as a statement for a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import typer

from expertload.cli.options import COLUMNS, Policy, load_policy, takes

if TYPE_CHECKING:
    from expertload.io import ColumnNames


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
