"""Stores everything: the same tables in SQLite (a folder) or PostgreSQL (several servers)."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from expertload.desk.store.database import Database
from expertload.desk.store.migrating import current_revision, upgrade
from expertload.desk.store.postgres import PostgresDatabase
from expertload.desk.store.sqlite import FILE, SqliteDatabase
from expertload.exceptions import DataNotFoundError


def open_database(
    where: str | os.PathLike[str], *, serving: bool = False, may_make: bool = True
) -> Database:
    """Open the desk of a folder, or of a ``postgresql://`` address, with its tables up to date.

    Parameters
    ----------
    where : str or path
        A folder, which is created if it does not exist, or an address.
    serving : bool, default=False
        Whether this is the server. A folder can have only one.
    may_make : bool, default=True
        Whether to create a desk where there is none. Commands that read or copy a desk must not:
        a mistyped folder would look like a desk in which nothing has happened.
    """
    database: Database
    if is_postgres(where):
        database = PostgresDatabase(str(where))
    elif may_make or (Path(where) / FILE).is_file():
        database = SqliteDatabase(Path(where), serving=serving)
    else:
        raise _no_desk(f"in the folder {where}")
    try:
        if not may_make and database.read(current_revision) is None:
            raise _no_desk(f"yet: {database.name} is empty")
        upgrade(database.engine, before=database.copy_before_upgrade)
    except BaseException as error:
        database.close()
        if isinstance(error, DBAPIError):
            raise database.explained(error) from error
        raise
    return database


def is_postgres(where: str | os.PathLike[str]) -> bool:
    """Whether a place is a PostgreSQL address and not a folder."""
    return str(where).startswith(("postgresql://", "postgres://", "postgresql+psycopg://"))


def _no_desk(where: str) -> DataNotFoundError:
    return DataNotFoundError(
        f"There is no desk {where}. Hint: check the name; 'expertload desk serve' makes a new desk."
    )
