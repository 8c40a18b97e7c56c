"""A desk in a folder: SQLite with a write-ahead log, one writer, and a lock for one server."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import orjson
from sqlalchemy import Connection, Table, create_engine, event
from sqlalchemy.exc import DatabaseError, DBAPIError

from expertload._validation import require_extra
from expertload.desk.store.checkpointing import MOST_BYTES, Checkpointer
from expertload.desk.store.database import Database
from expertload.desk.store.migrating import upgrade
from expertload.desk.store.writer import Writer
from expertload.exceptions import DeskInUseError, DeskUnavailableError, FileWriteError

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
        Created if it does not exist; then only its owner can read it. A new database can only be
        read by its owner anyway.
    serving : bool
        Whether to lock the folder, so that a second server is refused. Commands that run next to a
        server do not lock it.
    """

    def __init__(self, folder: Path, *, serving: bool = False) -> None:
        super().__init__(sqlite3.Error)
        self.folder = folder
        self.file = folder / FILE
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _locked(folder, _SECOND_SERVER) if serving else None
            _make_private(self.file)
        except DeskInUseError:
            raise
        except OSError as error:
            raise FileWriteError(
                f"{folder} could not be opened as the folder of a desk: {error.strerror or error}. "
                "Hint: name a folder that you can write to."
            ) from error
        self.engine = create_engine(
            f"sqlite:///{self.file}",
            connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
            pool_size=10,
            max_overflow=-1,
        )
        event.listen(self.engine, "connect", _prepare)
        if serving:
            event.listen(self.engine, "connect", _disable_checkpoints)
        event.listen(self.engine, "begin", _begin)
        self._writing = self.engine.execution_options(desk_writes=True)
        self._writer = Writer(self._writing, self.explained)
        self._checkpointer = Checkpointer(self.file) if serving else None

    @property
    def name(self) -> str:
        """The database's name for messages: its file."""
        return f"The database {self.file}"

    def submit(self, work: Callable[[Connection], T], *, alone: bool = False) -> Future[T]:
        """Pass work to the one writer, which always runs alone."""
        return self._writer.submit(self._explaining(work))

    def explained(self, error: DBAPIError) -> Exception:
        """Return the error to raise; one that explains if the file is damaged."""
        # SQLite has no class of its own for this: neither for pages nor for text.
        if type(error) is DatabaseError or "Could not decode to UTF-8" in str(error.orig):
            return DeskUnavailableError(
                f"{self.name} is damaged, or not the database of a desk ({error.orig}). "
                "Hint: put a copy that 'expertload desk backup' made in its place."
            )
        return super().explained(error)

    def _explaining(self, work: Callable[[Connection], T]) -> Callable[[Connection], T]:
        def explained(connection: Connection) -> T:
            try:
                return work(connection)
            except DBAPIError as error:
                raise self.explained(error) from error

        return explained

    def new_ids(self, connection: Connection, table: Table, n: int) -> list[int]:
        """Continue from the last id: nobody else inserts meanwhile."""
        ((last,),) = self.rows(connection, f"SELECT max(id) FROM {table.name}", {})
        first = (last or 0) + 1
        return list(range(first, first + n))

    def insert(
        self, connection: Connection, table: str, names: Sequence[str], rows: list[tuple[Any, ...]]
    ) -> None:
        """Insert with one prepared statement."""
        marks = ", ".join("?" * len(names))
        statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})"
        with self._driver(connection, statement) as driver:
            driver.executemany(statement, rows)

    def rows(
        self, connection: Connection, query: str, values: dict[str, Any]
    ) -> list[tuple[Any, ...]]:
        """Run the query; lists are passed as JSON, which SQLite can read."""
        given = {
            name: orjson.dumps(value).decode() if isinstance(value, list) else value
            for name, value in values.items()
        }
        with self._driver(connection, query) as driver:
            found: list[tuple[Any, ...]] = driver.execute(query, given).fetchall()
            return found

    def among(self, name: str) -> str:
        """Compare with the items of a JSON list."""
        return f"IN (SELECT value FROM json_each(:{name}))"

    def count(self, connection: Connection, project: int, counts: list[tuple[str, int]]) -> None:
        """Add to counters; each has one row."""
        with self._driver(connection, _COUNT) as driver:
            driver.executemany(_COUNT, [(project, name, n) for name, n in counts])

    def stream(
        self, connection: Connection, query: str, values: dict[str, Any], n: int
    ) -> Iterator[Sequence[Sequence[Any]]]:
        """Yield the driver's own rows: tuples without column names, which cost less."""
        with self._driver(connection, query) as driver:
            cursor = driver.execute(query, values)
            while rows := cursor.fetchmany(n):
                yield rows

    def migrate(self) -> None:
        """Upgrade the tables, after a copy of the old ones."""
        upgrade(self.engine, before=self._copy_first)

    def _copy_first(self, _: Connection, revision: str) -> None:
        if self._lock is None:  # a server of the old version would go on writing as it does
            self._lock = _locked(self.folder, _OLD_SERVER)
        self.copy(self.folder / f"before-upgrade-from-{revision}.sqlite")

    def copy(self, target: Path) -> None:
        """Copy the database while it is in use; the copy shows a single point in time."""
        _make_private(target)
        with sqlite3.connect(self.file) as source, sqlite3.connect(target) as copy:
            source.backup(copy)
        source.close()
        copy.close()

    def close(self) -> None:
        """Finish pending writes, close the database and unlock the folder."""
        self._writer.close()
        if self._checkpointer is not None:
            self._checkpointer.close()
        super().close()
        if self._lock is not None:
            self._lock.release()


def _make_private(file: Path) -> None:
    """Create a file that only its owner can read, unless it exists; its log gets the same mode."""
    if not file.exists():
        file.touch(mode=0o600)


_SECOND_SERVER = (
    "Another server is running on the desk in {}, and a folder can have only one. "
    "Hint: use that server, or PostgreSQL (--database) for several servers."
)
_OLD_SERVER = (
    "The tables of the desk in {} are of an older version of expertload, and a server is running "
    "on it. Hint: stop that server; the next start upgrades the tables."
)


def _locked(folder: Path, refusal: str) -> Any:
    filelock = require_extra("filelock", "desk", "A desk in a folder")
    lock = filelock.FileLock(folder / "desk.lock", timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise DeskInUseError(refusal.format(folder)) from None
    return lock


def _prepare(connection: Any, _: object) -> None:
    """Set up a connection; `_begin` starts transactions, because the driver would only guess."""
    connection.isolation_level = None
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
        "recursive_triggers = ON",
        "temp_store = MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _disable_checkpoints(connection: Any, _: object) -> None:
    """Leave the write-ahead log to the `Checkpointer`."""
    connection.execute("PRAGMA wal_autocheckpoint = 0").close()
    connection.execute(f"PRAGMA journal_size_limit = {MOST_BYTES}").close()


def _begin(connection: Connection) -> None:
    """Start a transaction; one that writes locks at once, because locking later may fail."""
    writes = connection.get_execution_options().get("desk_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
