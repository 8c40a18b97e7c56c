"""A database of a desk, and one transaction on one project: its rows, its events, its counters.

Every change of a row is also recorded in an event, in the same transaction. So the tables can be
rebuilt from the events.

Statements are built with SQLAlchemy, except those that every case needs, and the search for a case
to read: they are plain SQL, which `Database.rows` and `Database.insert` give to the driver.
SQLAlchemy takes seven times as long as SQLite for such a statement, which would double the time
that a single case takes.
"""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import orjson
from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Executable,
    FromClause,
    Row,
    Select,
    Table,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from expertload.desk.settings import Rules
from expertload.exceptions import DeskRefusedError, DeskUnavailableError

AnyRow: TypeAlias = Row[*tuple[Any, ...]]
Rows: TypeAlias = list[tuple[Any, ...]]
T = TypeVar("T")

READERS = 8
SECOND = 1_000_000
HOUR = 3_600 * SECOND
# Its own generator: drawing a slot must not disturb a seed that somebody set.
_SLOTS = random.Random()
CLOCK_SLACK = 60 * SECOND  # by how much clocks may differ, or may be set back


class WantsExclusive(Exception):  # noqa: N818 - not an error: a request to start again
    """Raised by work that must run alone: it is rolled back and starts again, alone."""


class Database(ABC):
    """A database and the two ways to use it.

    Parameters
    ----------
    name : str
        For messages, without a password.
    engine : Engine
        The connections.
    snapshots : Engine, optional
        The same connections, whose transactions see the database as it was when they started, if
        those of `engine` do not.
    """

    counter_slots = 1  # rows per counter, so that transactions need not wait for each other
    mark = "?"  # where a value goes in the driver's SQL
    driver_error: type[Exception]

    def __init__(self, name: str, engine: Engine, snapshots: Engine | None = None) -> None:
        self.name = name
        self.engine = engine
        self._snapshots = snapshots or engine
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="desk-reader")

    @abstractmethod
    def submit(self, work: Callable[[Connection], T], *, alone: bool = False) -> Future[T]:
        """Run work in a transaction; the future gets its result after the commit.

        Work that runs `alone` sees every earlier transaction, and no other one runs meanwhile.
        """

    @abstractmethod
    def new_ids(self, connection: Connection, table: Table, n: int) -> list[int]:
        """Return ids in ascending order, for rows that this transaction will insert."""

    @staticmethod
    @abstractmethod
    def translated(query: str) -> str:
        """Return a query with `:names` and `IN :names` in it as the driver expects it."""

    def rows(self, connection: Connection, query: str, values: dict[str, Any]) -> Rows:
        """Return the rows of a query with `:names` in it; a list is written as `IN :name`."""
        with self.driver(connection, query) as driver:
            return list(driver.execute(self.translated(query), values).fetchall())

    def insert(self, connection: Connection, into: str, rows: Rows, on_conflict: str = "") -> None:
        """Insert plain values into the columns of a table: "table (column, column)"."""
        marks = ", ".join([self.mark] * len(rows[0]))
        statement = f"INSERT INTO {into} VALUES ({marks}) {on_conflict}"
        with self.driver(connection, statement) as driver:
            driver.cursor().executemany(statement, rows)

    @contextmanager
    def driver(self, connection: Connection, statement: str) -> Iterator[Any]:
        """Yield the driver's own connection; its errors become those of SQLAlchemy."""
        try:
            yield connection.connection.dbapi_connection
        except self.driver_error as error:
            raise DBAPIError.instance(
                statement, None, error, self.driver_error, dialect=connection.dialect
            ) from error

    @abstractmethod
    def copy(self, target: Path) -> None:
        """Copy everything to a SQLite file, as of a single point in time."""

    @abstractmethod
    def copy_before_upgrade(self, connection: Connection, revision: str) -> None:
        """Keep a copy of the tables, next to them."""

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
        first_line = (str(error.orig).strip().splitlines() or [type(error.orig).__name__])[0]
        return DeskUnavailableError(
            f"{self.name} does not answer ({first_line}). Nothing was decided. "
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


# ------------------------------------------------------------------ one transaction


@dataclass(frozen=True)
class Project:
    """A project's row."""

    id: int
    name: str
    secret: bytes = field(repr=False)
    rules: Rules
    sampling_rate: float


@dataclass(slots=True)
class Event:
    """What happened: a kind, the case if there is one, and every change of a row."""

    kind: str
    case_id: int | None = None
    changes: list[tuple[str, int, dict[str, Any]]] = field(default_factory=list)

    def note(self, table: Table, row: int, values: dict[str, Any]) -> None:
        """Record the new values of a row, without secrets; of large content, its digest."""
        recorded, known = _recorded(table), _with_digests(table, values)
        kept = {name: value for name, value in known.items() if name in recorded}
        self.changes.append((table.name, row, kept))


class Transaction:
    """A connection with a running transaction, the project, the time and the user who acts.

    Attributes
    ----------
    connection : Connection
        For reading, and for statements whose changes the caller records.
    project : Project
        The project as this transaction sees it.
    now : int
        Microseconds since 1970, the same throughout the transaction.
    actor : int or None
        The user who acts; None is the desk itself.
    """

    def __init__(
        self,
        database: Database,
        connection: Connection,
        *,
        project: str,
        now: int,
        actor: int | None = None,
    ) -> None:
        self.connection = connection
        self.now = now
        self.actor = actor
        self._database = database
        self._events: list[Event] = []
        self._counts: Counter[str] = Counter()
        self.project = self._find(project)

    def _find(self, name: str) -> Project:
        rows = self.rows(_PROJECT, wanted=name)
        if not rows:
            raise DeskRefusedError(
                "no_such_project", f"There is no project '{name}'.", "open the desk again."
            )
        ((number, name, secret, rules, rate),) = rows
        return Project(number, name, secret, _rules(rules), rate)

    def rows(self, query: str, **values: Any) -> Rows:
        """Return the rows of a query with `:names` in it; a list is written as `IN :name`."""
        return self._database.rows(self.connection, query, values)

    def in_project(self, table: FromClause) -> ColumnElement[bool]:
        """Return the condition that a row belongs to the project."""
        return table.c.project_id == self.project.id

    def first(self, query: Executable, **values: Any) -> AnyRow | None:
        """Return the first row of a query, or None."""
        return self.connection.execute(query, values).first()

    def find(self, table: Table, number: int, what: str) -> AnyRow:
        """Return a row of this project; refuse a number that none has."""
        row = None
        if 0 <= number < 2**63:  # PostgreSQL refuses to search for other numbers
            row = self.first(select(table).where(self.in_project(table), table.c.id == number))
        if row is None:
            raise DeskRefusedError("not_found", f"There is no {what} {number}.")
        return row

    def all(self, query: Executable, **values: Any) -> list[AnyRow]:
        """Return every row of a query."""
        return list(self.connection.execute(query, values).all())

    def value(self, query: Select[Any]) -> Any:
        """Return the first column of the first row of a query, or None."""
        return self.connection.execute(query).scalar()

    def values(self, query: Select[Any]) -> list[Any]:
        """Return the first column of every row of a query."""
        return list(self.connection.execute(query).scalars())

    def event(self, kind: str, *, case_id: int | None = None) -> Event:
        """Start an event; it is written when the transaction ends."""
        made = Event(kind, case_id)
        self._events.append(made)
        return made

    def new_ids(self, table: Table, n: int) -> list[int]:
        """Return ids for rows that will be inserted."""
        return self._database.new_ids(self.connection, table, n)

    def insert(self, table: Table, event: Event, **values: Any) -> int:
        """Insert one row and record it; return its id.

        The project and the time of creation are filled in.
        """
        known = {"project_id": self.project.id, "created": self.now}
        row = {name: value for name, value in known.items() if name in table.c} | values
        self.insert_all(table, [(event, row)])
        return int(row["id"])

    def insert_all(self, table: Table, rows: Sequence[tuple[Event, dict[str, Any]]]) -> None:
        """Insert rows, each recorded in its own event; empty columns are left out there.

        Rows without an id get one.
        """
        if not rows:
            return
        if new := [values for _, values in rows if "id" not in values]:
            for values, number in zip(new, self.new_ids(table, len(new)), strict=True):
                values["id"] = number
        names, written = table.columns.keys(), []
        hidden = set(names) - _recorded(table)
        for event, values in rows:
            kept = _with_digests(table, values)
            written.append(tuple(map(kept.get, names)))
            for name in hidden:
                kept.pop(name, None)
            if None in kept.values():
                kept = {name: value for name, value in kept.items() if value is not None}
            event.changes.append((table.name, values["id"], kept))
        self._database.insert(self.connection, f"{table.name} ({', '.join(names)})", written)
        if "state" in table.c:
            for state, n in Counter(values["state"] for _, values in rows).items():
                self.count(f"{table.name}.{state}", n)

    def update(self, table: Table, row: int, event: Event, **values: Any) -> None:
        """Change one row and record it."""
        stored = {k: v for k, v in _with_digests(table, values).items() if k in table.c}
        self.connection.execute(update(table).where(table.c.id == row).values(**stored))
        event.note(table, row, values)

    def move(self, table: Table, row: AnyRow, state: str, event: Event, **values: Any) -> None:
        """Change the state of a row, and the counters of both states."""
        self.update(table, row.id, event, state=state, **values)
        self.moved(table, row.state, state)

    def moved(self, table: Table, old: str, new: str) -> None:
        """Count a change of state that another statement has made."""
        self.count(f"{table.name}.{old}", -1)
        self.count(f"{table.name}.{new}")

    def count(self, name: str, n: int = 1) -> None:
        """Add to a counter."""
        self._counts[name] += n

    def count_hourly(self, name: str, n: int = 1) -> None:
        """Add to the counter of this hour."""
        self.count(f"{name}@{self.now // HOUR}", n)

    def is_within(self, seconds: float, began: int) -> bool:
        """Whether at most this many seconds have passed since `began`.

        If the start lies in the future, the clock has been set back since. Nobody knows how much
        time is left, so it counts as over. Otherwise it would last until the clock gets there.
        """
        return began - CLOCK_SLACK <= self.now <= began + seconds * SECOND

    def require_alone(self) -> None:
        """Make sure that no other transaction runs; otherwise start again, alone."""
        if not self.connection.get_execution_options().get("desk_alone", True):
            raise WantsExclusive

    def finish(self) -> None:
        """Write the events and the counters."""
        project, slot = self.project.id, _SLOTS.randrange(self._database.counter_slots)
        if self._events:
            rows: Rows = [
                (project, self.now, e.kind, self.actor, e.case_id, orjson.dumps(e.changes).decode())
                for e in self._events
            ]
            self._database.insert(self.connection, _EVENTS, rows)
        # Always in the same order, to avoid deadlocks.
        counted = [(project, name, slot, n) for name, n in sorted(self._counts.items()) if n]
        if counted:
            self._database.insert(self.connection, _COUNTERS, counted, _ADD)


_PROJECT = "SELECT id, name, secret, rules, sampling_rate FROM projects WHERE name = :wanted"
# Without the id: both databases number the rows in the order in which they are inserted.
_EVENTS = "events (project_id, at, kind, actor, case_id, changes)"
_COUNTERS = "counters (project_id, name, slot, value)"
_ADD = "ON CONFLICT (project_id, name, slot) DO UPDATE SET value = counters.value + excluded.value"


@cache
def _recorded(table: Table) -> frozenset[str]:
    """Return what events record of a table: no secrets, and the digests of large content.

    The id is left out, because each change has it anyway.
    """
    plain = {c.name for c in table.columns if not c.info.get("secret") and c.name != "id"}
    return frozenset(plain | {*_digests(table).values()})


@cache
def _digests(table: Table) -> dict[str, str]:
    """Return the columns with large content, each with the name of its digest."""
    return {c.name: c.info["digest"] for c in table.columns if "digest" in c.info}


def _with_digests(table: Table, values: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of the values of a row, with the digests of its large content."""
    known = values.copy()
    for name, digest in _digests(table).items():
        if name in known:
            known[digest] = content_digest(known[name])
    return known


def content_digest(content: Any) -> str | None:
    """Return the SHA-256 of text or bytes, as events record it; None if there is no content."""
    if content is None:
        return None
    # If somebody changed the database, content can have any type.
    data = content if isinstance(content, bytes) else str(content).encode()
    return hashlib.sha256(data).hexdigest()


@cache
def _rules(written: str) -> Rules:
    return Rules.model_validate_json(written)
