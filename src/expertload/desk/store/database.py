"""What both databases can do: read, write in one transaction, hand out ids, be copied."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Table
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from expertload.exceptions import DeskUnavailableError

__all__ = ["Database", "WantsExclusive"]

T = TypeVar("T")
READERS = 8


class WantsExclusive(Exception):  # noqa: N818 - not an error: a request to begin again
    """Raised by work that must run alone: it is rolled back and begun again so."""


class Database(ABC):
    """A database and the two ways to use it."""

    engine: Engine

    def __init__(self, driver_error: type[Exception]) -> None:
        self._driver_error = driver_error
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="desk-reader")

    @property
    def _snapshots(self) -> Engine:
        """The engine whose transactions see the database as it is when they begin."""
        return self.engine

    @property
    @abstractmethod
    def name(self) -> str:
        """What to call it in a sentence, without a password."""

    @abstractmethod
    def submit(self, work: Callable[[Connection], T], *, alone: bool = False) -> Future[T]:
        """Run work in a transaction; the future is settled after the commit.

        Work that is done `alone` sees every earlier transaction, and no other runs beside it.
        """

    @abstractmethod
    def new_ids(self, connection: Connection, table: Table, n: int) -> list[int]:
        """Return ids for rows about to be inserted in this transaction, ascending."""

    @abstractmethod
    def insert(
        self, connection: Connection, table: str, names: Sequence[str], rows: list[tuple[Any, ...]]
    ) -> None:
        """Insert plain values in the quickest way there is: a batch of cases is mostly this."""

    @abstractmethod
    def rows(
        self, connection: Connection, query: str, values: dict[str, Any]
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query with `:names` in it, by the driver alone.

        What every request asks is asked so: to build and unpack a statement takes SQLAlchemy longer
        than the database needs to answer it.
        """

    @abstractmethod
    def among(self, name: str) -> str:
        """Return the condition that something is in a list, which is the value of this name."""

    @abstractmethod
    def count(self, connection: Connection, project: int, counts: list[tuple[str, int]]) -> None:
        """Add to counters, in the order given."""

    @contextmanager
    def _driver(self, connection: Connection, statement: str) -> Iterator[Any]:
        """Give the driver's own connection; its errors are made those of any other statement."""
        try:
            yield connection.connection.dbapi_connection
        except self._driver_error as error:
            raise DBAPIError.instance(
                statement, None, error, self._driver_error, dialect=connection.dialect
            ) from error

    @abstractmethod
    def stream(
        self, connection: Connection, query: str, values: dict[str, Any], n: int
    ) -> Iterator[Sequence[Sequence[Any]]]:
        """Give the rows of a query, n at a time, however many there are."""

    @abstractmethod
    def migrate(self) -> None:
        """Bring the tables up to date; what was there is copied first."""

    def write(self, work: Callable[[Connection], T], *, alone: bool = False) -> T:
        """Run work in a transaction and wait for its commit."""
        return self.submit(work, alone=alone).result()

    def submit_read(self, work: Callable[[Connection], T]) -> Future[T]:
        """Run work that only reads, in a thread of the readers'."""
        return self._readers.submit(self.read, work)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run work that only reads, on one snapshot."""
        with self.reading() as connection:
            return work(connection)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection with a transaction for reading; errors say what they mean."""
        try:
            with self._snapshots.connect() as connection, connection.begin():
                yield connection
        except DBAPIError as error:
            raise self.said(error) from error

    def said(self, error: DBAPIError) -> Exception:
        """Word what a database that does not answer means; other errors are passed on."""
        lost = error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
        if not lost:
            return error
        return DeskUnavailableError(
            f"{self.name} does not answer ({_first_line(error)}). Nothing was decided. "
            "Hint: send the same request again."
        )

    def close(self) -> None:
        """Let go of every connection."""
        self._readers.shutdown()
        self.engine.dispose()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _first_line(error: DBAPIError) -> str:
    lines = str(error.orig).strip().splitlines()
    return lines[0] if lines else type(error.orig).__name__


def is_postgres(where: str | os.PathLike[str]) -> bool:
    """Whether a place is a PostgreSQL address and not a folder."""
    return str(where).startswith(("postgresql://", "postgres://", "postgresql+psycopg://"))


def settled(future: Future[Any], work: Callable[[], Any]) -> None:
    """Run work into a future."""
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
