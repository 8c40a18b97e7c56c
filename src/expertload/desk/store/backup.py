"""Copies a running desk to one SQLite file, whichever database the desk uses.

Both databases have the same tables, so one kind of copy is enough. To move a desk from a folder to
PostgreSQL, restore a copy there.
"""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import Connection, create_engine, event, func, insert, select, text

from expertload._files import replaced_whole
from expertload.desk.store.database import Database
from expertload.desk.store.migrating import current_revision, newest_revision
from expertload.desk.store.sqlite import SqliteDatabase
from expertload.desk.store.tables import metadata
from expertload.exceptions import DeskRefusedError, FileWriteError

__all__ = ["backup", "restore"]

CHUNK = 2_000


def backup(database: Database, path: str | os.PathLike[str]) -> None:
    """Copy a desk to a file, as of a single point in time; the file is complete or not there."""
    target = Path(path)
    if target.exists():
        raise DeskRefusedError(
            "exists", f"{target} already exists.", "name a new file; copies are not replaced."
        )
    try:
        with replaced_whole(target) as draft:
            draft.touch(mode=0o600)
            if isinstance(database, SqliteDatabase):
                database.copy(draft)
            else:
                _copy_out(database, draft)
    except OSError as error:
        raise FileWriteError(
            f"{target} could not be written: {error.strerror or error}."
        ) from error


def _copy_out(database: Database, draft: Path) -> None:
    engine = create_engine(f"sqlite:///{draft}")
    try:
        with database.engine.connect() as source, engine.begin() as target:
            source.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
            metadata.create_all(target)
            _copy_rows(source, target)
            _stamp(target, current_revision(source))
    finally:
        engine.dispose()


def restore(path: str | os.PathLike[str], database: Database) -> None:
    """Fill an empty desk from a copy; the copy must have the schema of this version.

    Parameters
    ----------
    path : str or path
        A file that `backup` wrote.
    database : Database
        Open, with empty tables.
    """
    file = Path(path)
    if not file.is_file():
        raise DeskRefusedError("not_found", f"There is no file {file}.")
    engine = create_engine(f"sqlite:///file:{file}?mode=ro&uri=true")
    event.listen(engine, "connect", lambda c, _: c.execute("PRAGMA query_only = ON").close())
    try:
        with engine.connect() as source:
            _check(source, file)
            database.write(lambda target: _fill(source, target), alone=True)
    finally:
        engine.dispose()


def _check(source: Connection, file: Path) -> None:
    try:
        found = current_revision(source)
    except Exception as error:
        raise DeskRefusedError("bad_backup", f"{file} is not a copy of a desk.") from error
    if found != newest_revision():
        raise DeskRefusedError(
            "bad_backup",
            f"{file} is not a copy from this version of expertload: its schema is {found}.",
            "copy it to an empty folder as desk.sqlite; opening that folder upgrades it.",
        )


def _fill(source: Connection, target: Connection) -> None:
    for table in metadata.sorted_tables:
        if target.execute(select(func.count()).select_from(table)).scalar_one():
            raise DeskRefusedError(
                "not_empty",
                "The desk to restore into is not empty.",
                "name a new folder or database.",
            )
    _copy_rows(source, target)
    if target.dialect.name == "postgresql":
        for table in metadata.sorted_tables:
            if f"{table.name}.id" in _SEQUENCES:
                target.execute(
                    text(
                        f"SELECT setval('{table.name}_id_seq', "
                        f"coalesce((SELECT max(id) FROM {table.name}), 0) + 1, false)"
                    )
                )


_SEQUENCES = {
    f"{table.name}.id"
    for table in metadata.sorted_tables
    if "id" in table.c and not table.c.id.foreign_keys
}


def _copy_rows(source: Connection, target: Connection) -> None:
    for table in metadata.sorted_tables:
        order = [table.c.id] if "id" in table.c else list(table.primary_key)
        rows = source.execute(
            select(table).order_by(*order), execution_options={"yield_per": CHUNK}
        )
        for part in rows.mappings().partitions(CHUNK):
            target.execute(insert(table), [dict(row) for row in part])


def _stamp(target: Connection, revision: str | None) -> None:
    target.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
    target.execute(text("INSERT INTO alembic_version VALUES (:found)"), {"found": revision})
