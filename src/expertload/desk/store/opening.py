"""Opens the database that an operator named."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from expertload.desk.store.database import Database, is_postgres
from expertload.desk.store.migrating import current_revision
from expertload.desk.store.postgres import PostgresDatabase
from expertload.desk.store.sqlite import FILE, SqliteDatabase
from expertload.exceptions import DataNotFoundError

__all__ = ["open_database"]


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
    if not (may_make or is_postgres(where) or (Path(where) / FILE).is_file()):
        raise _no_desk(f"in the folder {where}")
    database: Database = (
        PostgresDatabase(str(where))
        if is_postgres(where)
        else SqliteDatabase(Path(where), serving=serving)
    )
    try:
        if not may_make and database.read(current_revision) is None:
            raise _no_desk(f"yet: {database.name} is empty")
        database.migrate()
    except DBAPIError as error:
        database.close()
        raise database.explained(error) from error
    except BaseException:
        database.close()
        raise
    return database


def _no_desk(where: str) -> DataNotFoundError:
    return DataNotFoundError(
        f"There is no desk {where}. Hint: check the name; 'expertload desk serve' makes a new desk."
    )
