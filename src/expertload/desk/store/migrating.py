"""Upgrades of the tables, forward only, and copies of a whole desk to one SQLite file.

Both databases have the same tables, so one kind of copy is enough. To move a desk from a folder to
PostgreSQL, restore a copy there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Index,
    Table,
    create_engine,
    func,
    insert,
    select,
    text,
)

from expertload._files import explained_write_errors, replaced_whole
from expertload.desk.store.tables import metadata
from expertload.exceptions import DeskRefusedError

if TYPE_CHECKING:
    from expertload.desk.store.database import Database

SCRIPTS = Path(__file__).with_name("_migrations")
# On PostgreSQL, every transaction holds this lock shared. One that must run alone (the end of a
# policy, sealing, an upgrade) holds it exclusively.
LOCK = 5_403_117_920
CHUNK = 2_000


# ------------------------------------------------------------------ upgrades


def upgrade(engine: Engine, *, before: Callable[[Connection, str], None]) -> None:
    """Run every migration that is missing, in one transaction that runs alone.

    Parameters
    ----------
    engine : Engine
        The database.
    before : callable
        Called with the connection and the present revision before anything is changed; makes the
        copy.
    """
    with engine.connect() as connection:
        if not _is_old(current_revision(connection)):
            return
    with engine.execution_options(desk_writes=True).begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
        revision = current_revision(connection)
        if not _is_old(revision):  # a server that started at the same time was first
            return
        if revision is not None:
            before(connection, revision)
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def add_missing(connection: Connection) -> None:
    """Add the tables, columns and indexes of today that an older version did not have.

    Columns that are added later must be nullable and without constraints, for SQLite.
    """
    context = MigrationContext.configure(connection)
    alter = Operations(context)
    for change in compare_metadata(context, metadata):
        match change:
            case ("add_table", Table() as table):
                table.create(connection)
            case ("add_column", _, str(name), Column() as column):
                alter.add_column(name, Column(column.name, column.type))
            case ("add_index", Index() as index):
                index.create(connection)


def current_revision(connection: Connection) -> str | None:
    """Return the revision of a database; None if it is empty."""
    return MigrationContext.configure(connection).get_current_revision()


def newest_revision() -> str | None:
    """Return the revision that this version of the package works with."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def _is_old(revision: str | None) -> bool:
    """Whether migrations are missing; a revision that this version does not know is refused."""
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if revision is not None and revision not in known:
        raise DeskRefusedError(
            "newer_schema",
            f"This database was made by a newer version of expertload (its schema is {revision}).",
            "install that version; a schema is never downgraded.",
        )
    return revision != newest_revision()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


# ------------------------------------------------------------------ copies


def backup(database: Database, path: str | os.PathLike[str]) -> None:
    """Copy a desk to a file, as of a single point in time; the file is complete or not there."""
    target = Path(path)
    if target.exists():
        raise DeskRefusedError(
            "exists", f"{target} already exists.", "name a new file; copies are not replaced."
        )
    with explained_write_errors(target), replaced_whole(target) as draft:
        draft.touch(mode=0o600)
        database.copy(draft)


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
    try:
        with engine.connect() as source:
            _check(source, file)
            database.write(lambda target: _fill(source, target), alone=True)
    finally:
        engine.dispose()


def _check(source: Connection, file: Path) -> None:
    try:
        revision = current_revision(source)
    except Exception as error:
        raise DeskRefusedError("bad_backup", f"{file} is not a copy of a desk.") from error
    if revision != newest_revision():
        raise DeskRefusedError(
            "bad_backup",
            f"{file} is not a copy from this version of expertload: its schema is {revision}.",
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
        _continue_sequences(target)


def _continue_sequences(target: Connection) -> None:
    """Let the sequences of PostgreSQL continue after the ids that were copied."""
    for table in metadata.sorted_tables:
        if "id" in table.c and not table.c.id.foreign_keys:
            target.execute(
                text(
                    f"SELECT setval('{table.name}_id_seq', "
                    f"coalesce((SELECT max(id) FROM {table.name}), 0) + 1, false)"
                )
            )


def copy_tables(source: Connection, file: Path) -> None:
    """Copy every row to new tables in a SQLite file."""
    engine = create_engine(f"sqlite:///{file}")
    try:
        with engine.begin() as target:
            metadata.create_all(target)
            _copy_rows(source, target)
            MigrationContext.configure(target).stamp(
                ScriptDirectory.from_config(_config()), current_revision(source) or "base"
            )
    finally:
        engine.dispose()


def _copy_rows(source: Connection, target: Connection) -> None:
    for table in metadata.sorted_tables:
        query = select(table).order_by(*table.primary_key)
        rows = source.execute(query, execution_options={"yield_per": CHUNK})
        for part in rows.mappings().partitions(CHUNK):
            target.execute(insert(table), [dict(row) for row in part])
