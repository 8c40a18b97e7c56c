"""What both databases can do: read, write in one transaction, assign ids, upgrade their tables."""

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


class WantsExclusive(Exception):  # noqa: N818 - not an error: a request to start again
    """Raised by work that must run alone: it is rolled back and starts again, alone."""


class Database(ABC):
    """A database and the two ways to use it."""

    engine: Engine

    def __init__(self, driver_error: type[Exception]) -> None:
        self._driver_error = driver_error
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="desk-reader")

    @property
    def _snapshots(self) -> Engine:
        """The engine whose transactions see the database as it was when they started."""
        return self.engine

    @property
    @abstractmethod
    def name(self) -> str:
        """The database's name for messages, without a password."""

    @abstractmethod
    def submit(self, work: Callable[[Connection], T], *, alone: bool = False) -> Future[T]:
        """Run work in a transaction; the future gets its result after the commit.

        Work that runs `alone` sees every earlier transaction, and no other one runs meanwhile.
        """

    @abstractmethod
    def new_ids(self, connection: Connection, table: Table, n: int) -> list[int]:
        """Return ids in ascending order, for rows that this transaction will insert."""

    @abstractmethod
    def insert(
        self, connection: Connection, table: str, names: Sequence[str], rows: list[tuple[Any, ...]]
    ) -> None:
        """Insert plain values in the fastest way, since most of a batch's time is spent here."""

    @abstractmethod
    def rows(
        self, connection: Connection, query: str, values: dict[str, Any]
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query with `:names` in it, without SQLAlchemy.

        For queries of every request: SQLAlchemy takes longer to build and unpack a statement than
        the database takes to answer it.
        """

    @abstractmethod
    def among(self, name: str) -> str:
        """Return the SQL condition "is in the list", for the list passed under this name."""

    @abstractmethod
    def count(self, connection: Connection, project: int, counts: list[tuple[str, int]]) -> None:
        """Add to counters, in the order given."""

    @contextmanager
    def _driver(self, connection: Connection, statement: str) -> Iterator[Any]:
        """Yield the driver's own connection; its errors become those of SQLAlchemy."""
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
        """Yield the rows of a query, n at a time, so that any number fits into memory."""

    @abstractmethod
    def migrate(self) -> None:
        """Upgrade the tables, after a copy of the old ones."""

    def write(self, work: Callable[[Connection], T], *, alone: bool = False) -> T:
        """Run work in a transaction and wait for its commit."""
        return self.submit(work, alone=alone).result()

    def submit_read(self, work: Callable[[Connection], T]) -> Future[T]:
        """Run work that only reads, in one of the reading threads."""
        return self._readers.submit(self.read, work)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run work that only reads, on one snapshot."""
        with self.reading() as connection:
            return work(connection)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection with a transaction for reading; errors are `explained`."""
        try:
            with self._snapshots.connect() as connection, connection.begin():
                yield connection
        except DBAPIError as error:
            raise self.explained(error) from error

    def explained(self, error: DBAPIError) -> Exception:
        """Return the error to raise: if the database does not answer, one that explains it."""
        lost = error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
        if not lost:
            return error
        return DeskUnavailableError(
            f"{self.name} does not answer ({_first_line(error)}). Nothing was decided. "
            "Hint: send the same request again."
        )

    def close(self) -> None:
        """Close all connections."""
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
    """Run work and put its result or error into a future."""
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
