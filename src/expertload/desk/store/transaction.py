"""One transaction on one project: rows, the event that tells of them, and the counters.

Whatever changes a row here also notes the change in an event, in the same transaction. So the
events are the whole story: read from the first to the last, they give the tables.
"""

from __future__ import annotations

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

__all__ = ["CLOCK_SLACK", "SECOND", "AnyRow", "Event", "Project", "Transaction"]

SECOND = 1_000_000
HOUR = 3_600 * SECOND
CLOCK_SLACK = 60 * SECOND  # clocks of several servers differ, and are set back a little


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
    """What happened: a kind, perhaps a case, and every change of a row."""

    kind: str
    case_id: int | None = None
    changes: list[tuple[str, int, dict[str, Any]]] = field(default_factory=list)

    def note(self, table: Table, row: int, values: dict[str, Any]) -> None:
        """Note what a row's columns became; its id is said once, secrets stay out."""
        told = _shape(table).told
        kept = {name: value for name, value in values.items() if name in told}
        self.changes.append((table.name, row, kept))


class Transaction:
    """A connection with a transaction under way, the project, the time and who acts.

    Attributes
    ----------
    connection : Connection
        For reading, and for statements whose changes are noted by hand.
    project : Project
        The project as it is in this transaction.
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
                "no_such_project", f"There is no project '{name}'.", "expertload desk serve"
            )
        ((number, name, secret, rules, rate),) = found
        return Project(number, name, secret, _rules(rules), rate)

    def rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query with `:names` in it, by the shortest way."""
        return self._database.rows(self.connection, query, values)

    def among(self, name: str) -> str:
        """Return the condition that something is in the list of this name."""
        return self._database.among(name)

    # ------------------------------------------------------------------ writing

    def event(self, kind: str, *, case_id: int | None = None) -> Event:
        """Begin an event; it is written when the transaction ends."""
        made = Event(kind, case_id)
        self._events.append(made)
        return made

    def new_ids(self, table: Table, n: int) -> list[int]:
        """Return ids for rows about to be inserted."""
        return self._database.new_ids(self.connection, table, n)

    def insert(self, table: Table, event: Event, **values: Any) -> int:
        """Insert one row and note it; return its id."""
        if "id" not in values:
            values["id"] = self.new_ids(table, 1)[0]
        self.insert_all(table, [(event, {**_shape(table).blank, **values})])
        return int(values["id"])

    def insert_all(self, table: Table, rows: Sequence[tuple[Event, dict[str, Any]]]) -> None:
        """Insert rows that have every column, each noted in an event of its own."""
        if not rows:
            return
        shape = _shape(table)
        self._insert_rows(table, [shape.row(values) for _, values in rows])
        for event, values in rows:
            event.changes.append((table.name, values["id"], shape.told_of(values)))
        if "state" in table.c:
            for state, n in Counter(values["state"] for _, values in rows).items():
                self.count(f"{table.name}.{state}", n)

    def _insert_rows(self, table: Table, rows: list[tuple[Any, ...]]) -> None:
        self._database.insert(self.connection, table.name, _shape(table).names, rows)

    def update(self, table: Table, row: int, event: Event, **values: Any) -> None:
        """Change one row and note it."""
        self.connection.execute(update(table).where(table.c.id == row).values(**values))
        event.note(table, row, values)

    def move(self, table: Table, row: AnyRow, state: str, event: Event, **values: Any) -> None:
        """Change the state of a row, and how many are in each."""
        self.update(table, row.id, event, state=state, **values)
        self.moved(table, row.state, state)

    def moved(self, table: Table, old: str, new: str) -> None:
        """Count a change of state that a statement has made by itself."""
        self.count(f"{table.name}.{old}", -1)
        self.count(f"{table.name}.{new}")

    def count(self, name: str, n: int = 1) -> None:
        """Add to a counter."""
        self._counts[name] += n

    def is_within(self, seconds: float, began: int) -> bool:
        """Whether a time that began then still runs.

        One that begins in the future was begun by a clock that has been set back since. Nobody
        knows how much of it is left, so it is over, and does not last until the clock is there.
        """
        return began - CLOCK_SLACK <= self.now <= began + seconds * SECOND

    def count_hourly(self, name: str, n: int = 1) -> None:
        """Add to the counter of this hour."""
        self.count(f"{name}@{self.now // HOUR}", n)

    def require_alone(self) -> None:
        """Go on only while no other transaction runs; else begin again so."""
        alone = self.connection.get_execution_options().get("desk_alone", True)
        if not alone:
            raise WantsExclusive

    def finish(self) -> None:
        """Write the events and the counters."""
        if self._events:
            ids = self.new_ids(events, len(self._events))
            project, now, actor = self.project.id, self.now, self.actor
            rows = [
                (i, project, now, e.kind, actor, e.case_id, orjson.dumps(e.changes).decode())
                for i, e in zip(ids, self._events, strict=True)
            ]
            self._insert_rows(events, rows)
        self._write_counts()

    def _write_counts(self) -> None:
        counted = [(name, n) for name, n in sorted(self._counts.items()) if n]
        if counted:  # in one order, against deadlocks
            self._database.count(self.connection, self.project.id, counted)


@dataclass(frozen=True)
class _Shape:
    """How rows of a table are written, worked out once.

    Attributes
    ----------
    names : list of str
        The columns.
    row : callable
        The values of a row in the order of the columns.
    blank : dict
        A row of nothing.
    told : frozenset of str
        The columns that events tell of: neither the id, which is said once, nor secrets.
    """

    names: list[str]
    row: Callable[[dict[str, Any]], tuple[Any, ...]]
    blank: dict[str, Any]
    told: frozenset[str]

    def told_of(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return what an event tells of a new row: what is not there needs no word."""
        told = self.told
        return {name: v for name, v in values.items() if v is not None and name in told}


@cache
def _shape(table: Table) -> _Shape:
    names = [str(column.name) for column in table.columns]  # plain text, for JSON
    return _Shape(
        names,
        itemgetter(*names),
        dict.fromkeys(names),
        frozenset(c.name for c in table.columns if not c.info.get("secret") and c.name != "id"),
    )


@cache
def _rules(text: str) -> Rules:
    return Rules.model_validate_json(text)
