"""Opens the database that an operator named."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from expertload.desk.store.database import Database, is_postgres
from expertload.desk.store.postgres import PostgresDatabase
from expertload.desk.store.sqlite import SqliteDatabase

__all__ = ["open_database"]


def open_database(where: str | os.PathLike[str], *, serving: bool = False) -> Database:
    """Open the desk of a folder, or of a ``postgresql://`` address, with its tables up to date.

    Parameters
    ----------
    where : str or path
        A folder, which is created if it does not exist, or an address.
    serving : bool, default=False
        Whether this is the server. A folder can have only one.
    """
    database: Database = (
        PostgresDatabase(str(where))
        if is_postgres(where)
        else SqliteDatabase(Path(where), serving=serving)
    )
    try:
        database.migrate()
    except DBAPIError as error:
        database.close()
        raise database.explained(error) from error
    except BaseException:
        database.close()
        raise
    return database
