"""A desk in a folder: SQLite with a write-ahead log, one writer, and a lock for one server.

SQLite lets one connection write at a time, and a durable commit costs a flush to the disk. So one
thread does all writing. Requests that wait when a commit ends go into the next commit together,
each in its own savepoint. None is reported as done before it is on the disk.
"""

from __future__ import annotations

import queue
import re
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import orjson
from sqlalchemy import Connection, Table, create_engine, event
from sqlalchemy.exc import DatabaseError, DBAPIError

from expertload._check import require_extra
from expertload.desk.store.database import Database, Rows
from expertload.exceptions import DeskInUseError, DeskUnavailableError, FileWriteError

T = TypeVar("T")
Request = tuple[Callable[[Connection], Any], Future[Any]]

FILE = "desk.sqlite"
BUSY_SECONDS = 30
MOST_IN_A_COMMIT = 256
PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "foreign_keys = ON",
    "recursive_triggers = ON",
    "secure_delete = ON",  # what is erased is overwritten
    "temp_store = MEMORY",
    # The commit that fills the log also moves it into the database. By default, that is every
    # thousandth page; with a log of 64 MB, fewer commits have to wait for it.
    "wal_autocheckpoint = 16000",
    "journal_size_limit = 64000000",
)


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

    driver_error = sqlite3.Error

    def __init__(self, folder: Path, *, serving: bool = False) -> None:
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
        engine = create_engine(
            f"sqlite:///{self.file}",
            connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
            pool_size=10,
            max_overflow=-1,
        )
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)
        super().__init__(f"The database {self.file}", engine)
        self._waiting: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._writer = threading.Thread(target=self._run, name="desk-writer", daemon=True)
        self._writer.start()

    def submit(self, work: Callable[[Connection], T], *, alone: bool = False) -> Future[T]:
        """Queue work for the one writer, which always runs alone."""
        future: Future[T] = Future()
        with self._closing:
            if self._closed:
                raise DeskUnavailableError("The desk is shutting down. Hint: try again in a while.")
            self._waiting.put((work, future))
        return future

    def _run(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch = [first]
            while len(batch) < MOST_IN_A_COMMIT and not self._waiting.empty():
                following = self._waiting.get()
                if following is None:
                    self._waiting.put(None)  # end after this commit
                    break
                batch.append(following)
            self._commit(batch)

    def _commit(self, batch: list[Request]) -> None:
        outcomes: list[tuple[Any, Exception | None]] = []
        try:
            with self.engine.execution_options(desk_writes=True).begin() as connection:
                for work, _ in batch:
                    outcomes.append(self._attempt(work, connection))
        except BaseException as error:  # of any kind: those who wait must get an answer
            raised = self.explained(error) if isinstance(error, DBAPIError) else error
            for _, future in batch:
                future.set_exception(raised)
            return
        for (_, future), (result, failure) in zip(batch, outcomes, strict=True):
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)

    def _attempt(
        self, work: Callable[[Connection], Any], connection: Connection
    ) -> tuple[Any, Exception | None]:
        """Run work in a savepoint, so that its failure does not affect the others.

        If the disk is full, SQLite ends the whole transaction. Then the error is raised for the
        whole batch: no request is kept, and the rest is not written outside of a transaction.
        """
        with self.driver(connection, "SAVEPOINT") as driver:
            driver.execute("SAVEPOINT request")
            try:
                result, failure = work(connection), None
            except Exception as error:
                if not driver.in_transaction:
                    raise
                result = None
                failure = self.explained(error) if isinstance(error, DBAPIError) else error
                driver.execute("ROLLBACK TO request")
            driver.execute("RELEASE request")
        return result, failure

    def explained(self, error: DBAPIError) -> Exception:
        """Return the error to raise; one that explains if the file is damaged."""
        # SQLite has no class of its own for this: neither for pages nor for text.
        if type(error) is DatabaseError or "Could not decode to UTF-8" in str(error.orig):
            return DeskUnavailableError(
                f"{self.name} is damaged, or not the database of a desk ({error.orig}). "
                "Hint: put a copy that 'expertload desk backup' made in its place."
            )
        return super().explained(error)

    def new_ids(self, connection: Connection, table: Table, n: int) -> list[int]:
        """Continue from the last id: nobody else inserts meanwhile."""
        ((last,),) = self.rows(connection, f"SELECT max(id) FROM {table.name}", {})
        first = (last or 0) + 1
        return list(range(first, first + n))

    @staticmethod
    @cache
    def translated(query: str) -> str:
        """Return a query whose lists are the items of a JSON list."""
        return re.sub(r"IN :(\w+)", r"IN (SELECT value FROM json_each(:\1))", query)

    def rows(self, connection: Connection, query: str, values: dict[str, Any]) -> Rows:
        """Run a query; lists are passed as JSON, which SQLite can read."""
        given = {
            name: orjson.dumps(value).decode() if isinstance(value, list) else value
            for name, value in values.items()
        }
        return super().rows(connection, query, given)

    def copy(self, target: Path) -> None:
        """Copy the database while it is in use."""
        _make_private(target)
        with (
            closing(sqlite3.connect(self.file)) as source,
            closing(sqlite3.connect(target)) as copy,
        ):
            source.backup(copy)

    def copy_before_upgrade(self, connection: Connection, revision: str) -> None:
        """Copy the database into a file next to it."""
        if self._lock is None:  # a server of the old version would go on writing as it does
            self._lock = _locked(self.folder, _OLD_SERVER)
        self.copy(self.folder / f"before-upgrade-from-{revision}.sqlite")

    def close(self) -> None:
        """Finish pending writes, close the database and unlock the folder."""
        with self._closing:
            self._closed = True
            self._waiting.put(None)
        self._writer.join()
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
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection: Connection) -> None:
    """Start a transaction; one that writes locks at once, because locking later may fail."""
    writes = connection.get_execution_options().get("desk_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
