"""A desk in a folder: SQLite with a write-ahead log, one writer, and a lock against a second."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import orjson
from sqlalchemy import Connection, Table, create_engine, event
from sqlalchemy.exc import DBAPIError

from expertload._validation import require_extra
from expertload.desk.store.checkpointing import MOST_BYTES, Checkpointer
from expertload.desk.store.database import Database
from expertload.desk.store.migrating import upgrade
from expertload.desk.store.writer import Writer
from expertload.exceptions import DeskInUseError

__all__ = ["SqliteDatabase"]

T = TypeVar("T")
FILE = "desk.sqlite"
_COUNT = (
    "INSERT INTO counters (project_id, name, slot, value) VALUES (?, ?, 0, ?) "
    "ON CONFLICT (project_id, name, slot) DO UPDATE SET value = value + excluded.value"
)
BUSY_SECONDS = 30


class SqliteDatabase(Database):
    """The desk of a folder.

    Parameters
    ----------
    folder : path
        Made if it is not there; readable by its owner alone.
    serving : bool
        Take the folder's lock, so that a second server is refused. Commands beside a running
        server do without.
    """

    def __init__(self, folder: Path, *, serving: bool = False) -> None:
        super().__init__(sqlite3.Error)
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = _locked(folder) if serving else None
        self.file = folder / FILE
        self.engine = create_engine(
            f"sqlite:///{self.file}",
            connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
            pool_size=10,
            max_overflow=-1,
        )
        event.listen(self.engine, "connect", _prepare)
        if serving:
            event.listen(self.engine, "connect", _leave_the_log)
        event.listen(self.engine, "begin", _begin_reading)
        self._writing = self.engine.execution_options(desk_writes=True)
        self._writer = Writer(self._writing, self.said)
        self._checkpointer = Checkpointer(self.file) if serving else None

    @property
    def name(self) -> str:
        """The file."""
        return f"The database {self.file}"

    def submit(self, work: Callable[[Connection], T], *, alone: bool = False) -> Future[T]:
        """Hand work to the one writer, which is always alone."""
        return self._writer.submit(self._wording(work))

    def _wording(self, work: Callable[[Connection], T]) -> Callable[[Connection], T]:
        def worded(connection: Connection) -> T:
            try:
                return work(connection)
            except DBAPIError as error:
                raise self.said(error) from error

        return worded

    def new_ids(self, connection: Connection, table: Table, n: int) -> list[int]:
        """Count on from the last row: nobody else inserts meanwhile."""
        ((last,),) = self.rows(connection, f"SELECT max(id) FROM {table.name}", {})
        first = (last or 0) + 1
        return list(range(first, first + n))

    def insert(
        self, connection: Connection, table: str, names: Sequence[str], rows: list[tuple[Any, ...]]
    ) -> None:
        """Insert by one prepared statement."""
        marks = ", ".join("?" * len(names))
        statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})"
        with self._driver(connection, statement) as driver:
            driver.executemany(statement, rows)

    def rows(
        self, connection: Connection, query: str, values: dict[str, Any]
    ) -> list[tuple[Any, ...]]:
        """Ask; lists go as JSON, which SQLite can look into."""
        given = {
            name: orjson.dumps(value).decode() if isinstance(value, list) else value
            for name, value in values.items()
        }
        with self._driver(connection, query) as driver:
            found: list[tuple[Any, ...]] = driver.execute(query, given).fetchall()
            return found

    def among(self, name: str) -> str:
        """Look into the JSON of a list."""
        return f"IN (SELECT value FROM json_each(:{name}))"

    def count(self, connection: Connection, project: int, counts: list[tuple[str, int]]) -> None:
        """Add to the one row that every counter has."""
        with self._driver(connection, _COUNT) as driver:
            driver.executemany(_COUNT, [(project, name, n) for name, n in counts])

    def stream(
        self, connection: Connection, query: str, values: dict[str, Any], n: int
    ) -> Iterator[Sequence[Sequence[Any]]]:
        """Give the driver's own rows: it names no columns, and a million rows need none."""
        with self._driver(connection, query) as driver:
            cursor = driver.execute(query, values)
            while rows := cursor.fetchmany(n):
                yield rows

    def migrate(self) -> None:
        """Bring the tables up to date, after a copy of what was there."""
        upgrade(self.engine, before=self._copy_first)

    def _copy_first(self, revision: str) -> None:
        self.copy(self.folder / f"before-upgrade-from-{revision}.sqlite")

    def copy(self, target: Path) -> None:
        """Copy the database while it is in use: the copy is of one moment."""
        with sqlite3.connect(self.file) as source, sqlite3.connect(target) as copy:
            source.backup(copy)
        source.close()
        copy.close()

    def close(self) -> None:
        """Finish what waits to be written, and let the folder go."""
        self._writer.close()
        if self._checkpointer is not None:
            self._checkpointer.close()
        super().close()
        if self._lock is not None:
            self._lock.release()


def _locked(folder: Path) -> Any:
    filelock = require_extra("filelock", "desk", "A desk in a folder")
    lock = filelock.FileLock(folder / "desk.lock", timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise DeskInUseError(
            f"Another server has the desk in {folder} open, and one SQLite file has one server. "
            "Hint: use the server that runs, or PostgreSQL (--database) for several."
        ) from None
    return lock


def _prepare(connection: Any, _: object) -> None:
    """Set up a connection; transactions are begun by hand, not by the driver's guess."""
    connection.isolation_level = None
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
        "recursive_triggers = ON",
        "temp_store = MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _leave_the_log(connection: Any, _: object) -> None:
    """Leave the log to the checkpointer."""
    connection.execute("PRAGMA wal_autocheckpoint = 0").close()
    connection.execute(f"PRAGMA journal_size_limit = {MOST_BYTES}").close()


def _begin_reading(connection: Connection) -> None:
    """Begin; those who write say so at once, for a read that turns into a write may fail."""
    writes = connection.get_execution_options().get("desk_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
