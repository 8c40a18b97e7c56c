"""Triggers with which the database itself refuses to change tables that only grow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import DDL, MetaData, Table, event

__all__ = ["guard"]


def guard(metadata: MetaData, names: Iterable[str]) -> None:
    """Refuse UPDATE and DELETE on these tables from their creation on."""
    event.listen(metadata, "before_create", _REFUSE)
    for name in names:
        _guard(metadata.tables[name])


def _guard(table: Table) -> None:
    said = f"rows of {table.name} are never changed"
    for verb in ("UPDATE", "DELETE"):
        name = f"{table.name}_refuse_{verb.lower()}"
        on_sqlite = _ddl(
            f"CREATE TRIGGER {name} BEFORE {verb} ON {table.name} "
            f"BEGIN SELECT RAISE(ABORT, '{said}'); END",
            "sqlite",
        )
        on_postgres = _ddl(
            f"CREATE TRIGGER {name} BEFORE {verb} ON {table.name} "
            "FOR EACH ROW EXECUTE FUNCTION desk_refuse_change()",
            "postgresql",
        )
        event.listen(table, "after_create", on_sqlite)
        event.listen(table, "after_create", on_postgres)


def _ddl(statement: str, dialect: str) -> Any:
    made: Any = DDL
    return made(statement).execute_if(dialect=dialect)


_REFUSE = _ddl(
    "CREATE OR REPLACE FUNCTION desk_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$ "
    "BEGIN RAISE EXCEPTION 'rows of %% are never changed', TG_TABLE_NAME; END $$",
    "postgresql",
)
