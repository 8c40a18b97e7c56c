"""From what an operator typed to a database that is ready."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from expertload.desk.store.database import Database, is_postgres
from expertload.desk.store.migrating import current_revision
from expertload.desk.store.postgres import PostgresDatabase
from expertload.desk.store.sqlite import FILE, SqliteDatabase
from expertload.exceptions import DeskRefusedError

__all__ = ["open_database"]


def open_database(
    where: str | os.PathLike[str], *, serving: bool = False, make: bool = True
) -> Database:
    """Open the desk of a folder, or of a ``postgresql://`` address, with its tables up to date.

    Parameters
    ----------
    where : str or path
        A folder, made if it is not there, or an address.
    serving : bool, default=False
        Whether this is the server: of a folder there is one.
    make : bool, default=True
        Whether to make a desk where there is none; else that is an error.
    """
    if not make and not is_postgres(where) and not Path(where, FILE).is_file():
        raise _no_desk(f"in {where}")
    database: Database = (
        PostgresDatabase(str(where))
        if is_postgres(where)
        else SqliteDatabase(Path(where), serving=serving)
    )
    try:
        if not make and _is_empty(database):
            raise _no_desk(f"in this place. {database.name} is empty")
        database.migrate()
    except DBAPIError as error:
        database.close()
        raise database.said(error) from error
    except BaseException:
        database.close()
        raise
    return database


def _is_empty(database: Database) -> bool:
    with database.engine.connect() as connection:
        return current_revision(connection) is None


def _no_desk(where: str) -> DeskRefusedError:
    return DeskRefusedError(
        "not_found",
        f"There is no desk {where}.",
        "check the name; 'expertload desk serve' makes one.",
    )
