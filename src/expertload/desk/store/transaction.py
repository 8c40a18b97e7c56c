"""One transaction on one project: its rows, the events that record them, and the counters.

Every change of a row is also recorded in an event, in the same transaction. So the tables can be
rebuilt from the events.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson
from sqlalchemy import Connection, Row, Table, update

from expertload.desk.settings import Rules
from expertload.desk.store.database import WantsExclusive
from expertload.desk.store.tables import events
from expertload.exceptions import DeskRefusedError

if TYPE_CHECKING:
    from expertload.desk.store.database import Database

AnyRow: TypeAlias = Row[*tuple[Any, ...]]

__all__ = ["CLOCK_SLACK", "SECOND", "AnyRow", "Event", "Project", "Transaction", "content_digest"]

SECOND = 1_000_000
HOUR = 3_600 * SECOND
CLOCK_SLACK = 60 * SECOND  # by how much clocks may differ, or may be set back

# Without the id: both databases number the rows in the order in which they are inserted.
_EVENT_COLUMNS = [str(column.name) for column in events.columns if column.name != "id"]

_PROJECT = "SELECT id, name, secret, rules, sampling_rate FROM projects WHERE name = :wanted"


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
        """Record the new values of a row, without secrets."""
        recorded = _shape(table).recorded
        kept = {name: value for name, value in values.items() if name in recorded}
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
        found = self.rows(_PROJECT, wanted=name)
        if not found:
            raise DeskRefusedError(
                "no_such_project", f"There is no project '{name}'.", "open the desk again."
            )
        ((number, name, secret, rules, rate),) = found
        return Project(number, name, secret, _rules(rules), rate)

    def rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query with `:names` in it, in the fastest way."""
        return self._database.rows(self.connection, query, values)

    def among(self, name: str) -> str:
        """Return the SQL condition "is in the list", for the list passed under this name."""
        return self._database.among(name)

    # ------------------------------------------------------------------ writing

    def event(self, kind: str, *, case_id: int | None = None) -> Event:
        """Start an event; it is written when the transaction ends."""
        made = Event(kind, case_id)
        self._events.append(made)
        return made

    def new_ids(self, table: Table, n: int) -> list[int]:
        """Return ids for rows that will be inserted."""
        return self._database.new_ids(self.connection, table, n)

    def insert(self, table: Table, event: Event, **values: Any) -> int:
        """Insert one row and record it; return its id."""
        if "id" not in values:
            values["id"] = self.new_ids(table, 1)[0]
        self.insert_all(table, [(event, {**_shape(table).blank, **values})])
        return int(values["id"])

    def insert_all(self, table: Table, rows: Sequence[tuple[Event, dict[str, Any]]]) -> None:
        """Insert rows that have every column, each recorded in its own event."""
        if not rows:
            return
        shape = _shape(table)
        written = [shape.row(values) for _, values in rows]
        self._database.insert(self.connection, table.name, shape.names, written)
        for event, values in rows:
            event.changes.append((table.name, values["id"], shape.to_record(values)))
        if "state" in table.c:
            for state, n in Counter(values["state"] for _, values in rows).items():
                self.count(f"{table.name}.{state}", n)

    def update(self, table: Table, row: int, event: Event, **values: Any) -> None:
        """Change one row and record it."""
        self.connection.execute(update(table).where(table.c.id == row).values(**values))
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

    def is_within(self, seconds: float, began: int) -> bool:
        """Whether at most this many seconds have passed since `began`.

        If the start lies in the future, the clock has been set back since. Nobody knows how much
        time is left, so it counts as over. Otherwise it would last until the clock gets there.
        """
        return began - CLOCK_SLACK <= self.now <= began + seconds * SECOND

    def count_hourly(self, name: str, n: int = 1) -> None:
        """Add to the counter of this hour."""
        self.count(f"{name}@{self.now // HOUR}", n)

    def require_alone(self) -> None:
        """Make sure that no other transaction runs; otherwise start again, alone."""
        alone = self.connection.get_execution_options().get("desk_alone", True)
        if not alone:
            raise WantsExclusive

    def finish(self) -> None:
        """Write the events and the counters."""
        if self._events:
            project, now, actor = self.project.id, self.now, self.actor
            rows = [
                (project, now, e.kind, actor, e.case_id, orjson.dumps(e.changes).decode())
                for e in self._events
            ]
            self._database.insert(self.connection, "events", _EVENT_COLUMNS, rows)
        self._write_counts()

    def _write_counts(self) -> None:
        counted = [(name, n) for name, n in sorted(self._counts.items()) if n]
        if counted:  # always in the same order, to avoid deadlocks
            self._database.count(self.connection, self.project.id, counted)


@dataclass(frozen=True)
class _Shape:
    """How rows of a table are written, computed once per table.

    Attributes
    ----------
    names : list of str
        The columns.
    row : callable
        Returns the values of a row in the order of the columns.
    blank : dict
        A row with None in every column.
    recorded : frozenset of str
        What events record: the columns, except secrets and the id, which each change has anyway,
        and the digests of large content.
    """

    names: list[str]
    row: Callable[[dict[str, Any]], tuple[Any, ...]]
    blank: dict[str, Any]
    recorded: frozenset[str]

    def to_record(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return what an event records of a new row; empty columns are left out."""
        recorded = self.recorded
        return {name: v for name, v in values.items() if v is not None and name in recorded}


@cache
def _shape(table: Table) -> _Shape:
    names = [str(column.name) for column in table.columns]  # plain text, for JSON
    digests = {c.info["digest"] for c in table.columns if "digest" in c.info}
    plain = {c.name for c in table.columns if not c.info.get("secret") and c.name != "id"}
    return _Shape(names, itemgetter(*names), dict.fromkeys(names), frozenset(plain | digests))


def content_digest(content: Any) -> str | None:
    """Return the SHA-256 of text or bytes, as events record it; None if there is no content."""
    if content is None:
        return None
    # If somebody changed the database, content can have any type.
    data = content if isinstance(content, bytes) else str(content).encode()
    return hashlib.sha256(data).hexdigest()


@cache
def _rules(text: str) -> Rules:
    return Rules.model_validate_json(text)
