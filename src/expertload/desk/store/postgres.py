"""A desk for a team: PostgreSQL, several servers on one database."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, Table, create_engine, inspect, make_url, text
from sqlalchemy.exc import DBAPIError

from expertload._validation import require_extra
from expertload.desk.store.database import Database, WantsExclusive
from expertload.desk.store.migrating import LOCK, upgrade

__all__ = ["PostgresDatabase"]

T = TypeVar("T")
WRITERS = 16
ATTEMPTS = 8
# Serialization failure, deadlock, and a row that another sender has just inserted.
RETRIED_STATES = {"40001", "40P01", "23505"}

# Seconds to wait for a connection, and milliseconds until the network must acknowledge sent bytes.
TIMEOUTS = {"connect_timeout": "10", "tcp_user_timeout": "30000"}


FEW = 5  # up to this many rows, INSERT needs fewer round trips than COPY
SLOTS = 16  # rows per counter
_COUNT = (
    "INSERT INTO counters (project_id, name, slot, value) "
    "SELECT :project, name, :slot, n "
    "FROM unnest(CAST(:names AS text[]), CAST(:numbers AS bigint[])) AS counted(name, n) "
    "ON CONFLICT (project_id, name, slot) DO UPDATE SET value = counters.value + excluded.value"
)


class PostgresDatabase(Database):
    """A desk in a PostgreSQL database, which several servers may share."""

    def __init__(self, address: str) -> None:
        psycopg = require_extra("psycopg", "desk-postgres", "A desk on PostgreSQL")
        super().__init__(psycopg.Error)
        url = make_url(address).set(drivername="postgresql+psycopg")
        self._name = f"The database {url.render_as_string(hide_password=True)}"
        self.address = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self.engine = create_engine(
            _with_timeouts(url),
            pool_pre_ping=True,
            pool_use_lifo=True,  # the connection used last has prepared statements
            pool_size=WRITERS + 8,
            max_overflow=0,
            pool_timeout=30,
        )
        # By default, each statement of a transaction also sees what others have committed since.
        self._of_one_moment = self.engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._writers = ThreadPoolExecutor(WRITERS, thread_name_prefix="desk-writer")

    @property
    def _snapshots(self) -> Engine:
        return self._of_one_moment

    @property
    def name(self) -> str:
        """The database's name for messages: its address, without the password."""
        return self._name

    def submit(self, work: Callable[[Connection], T], *, alone: bool = False) -> Future[T]:
        """Run work in one of the writing threads."""
        return self._writers.submit(self._attempt, work, alone)

    def write(self, work: Callable[[Connection], T], *, alone: bool = False) -> T:
        """Run work in this thread."""
        return self._attempt(work, alone)

    def _attempt(self, work: Callable[[Connection], T], alone: bool) -> T:
        for attempt in range(ATTEMPTS):
            try:
                return self._once(work, alone)
            except WantsExclusive:
                alone = True
            except DBAPIError as error:
                state = getattr(error.orig, "sqlstate", None)
                if state not in RETRIED_STATES or attempt == ATTEMPTS - 1:
                    raise self.explained(error) from error
                time.sleep(0.005 * 2**attempt)
        return self._once(work, alone=True)

    def _once(self, work: Callable[[Connection], T], alone: bool) -> T:
        how = "pg_advisory_xact_lock" if alone else "pg_advisory_xact_lock_shared"
        with self.engine.begin() as connection:
            self.rows(connection, f"SELECT {how}({LOCK})", {})
            return work(connection.execution_options(desk_alone=alone))

    def new_ids(self, connection: Connection, table: Table, n: int) -> list[int]:
        """Take ids from the table's sequence."""
        query = f"SELECT nextval('{table.name}_id_seq') FROM generate_series(1, :n)"
        return sorted(number for (number,) in self.rows(connection, query, {"n": n}))

    def insert(
        self, connection: Connection, table: str, names: Sequence[str], rows: list[tuple[Any, ...]]
    ) -> None:
        """Insert many rows with COPY, and a few with INSERT statements in one round trip."""
        columns = f"{table} ({', '.join(names)})"
        if len(rows) <= FEW:
            marks = ", ".join(["%s"] * len(names))
            statement = f"INSERT INTO {columns} VALUES ({marks})"
            with self._driver(connection, statement) as driver, driver.cursor() as cursor:
                cursor.executemany(statement, rows)
            return
        statement = f"COPY {columns} FROM STDIN"
        with (
            self._driver(connection, statement) as driver,
            driver.cursor() as cursor,
            cursor.copy(statement) as copy,
        ):
            for row in rows:
                copy.write_row(row)

    def rows(
        self, connection: Connection, query: str, values: dict[str, Any]
    ) -> list[tuple[Any, ...]]:
        """Run the query; the driver prepares one that is repeated."""
        with self._driver(connection, query) as driver:
            found: list[tuple[Any, ...]] = driver.execute(_psycopg(query), values).fetchall()
            return found

    def among(self, name: str) -> str:
        """Compare with an array."""
        return f"= ANY(:{name})"

    def count(self, connection: Connection, project: int, counts: list[tuple[str, int]]) -> None:
        """Add to one of the rows of each counter, so that transactions do not wait for another."""
        names, numbers = zip(*counts, strict=True)
        values = {
            "project": project,
            "slot": random.randrange(SLOTS),
            "names": list(names),
            "numbers": list(numbers),
        }
        with self._driver(connection, _COUNT) as driver:
            driver.execute(_psycopg(_COUNT), values)

    def stream(
        self, connection: Connection, query: str, values: dict[str, Any], n: int
    ) -> Iterator[Sequence[Sequence[Any]]]:
        """Yield the driver's own rows, from a cursor on the database server."""
        with self._driver(connection, query) as driver, driver.cursor("export") as cursor:
            cursor.execute(_psycopg(query), values)
            while rows := cursor.fetchmany(n):
                yield rows

    def migrate(self) -> None:
        """Upgrade the tables, after a copy of the old ones."""
        upgrade(self.engine, before=self._copy_first)

    def _copy_first(self, connection: Connection, revision: str) -> None:
        """Copy every table into another schema of the database."""
        schema = f"before_upgrade_from_{revision}"
        connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {schema}"))
        for name in inspect(connection).get_table_names():
            connection.execute(text(f"DROP TABLE IF EXISTS {schema}.{name}"))
            connection.execute(text(f"CREATE TABLE {schema}.{name} AS TABLE {name}"))

    def close(self) -> None:
        """Finish pending writes and close all connections."""
        self._writers.shutdown()
        super().close()


def _with_timeouts(url: URL) -> URL:
    """Add timeouts for a server that disappears silently; those in the address are kept."""
    return url.set(query={**TIMEOUTS, **url.query})


@cache
def _psycopg(query: str) -> str:
    """Write the `:names` of a query as psycopg expects them."""
    return re.sub(r":(\w+)", r"%(\1)s", query.replace("%", "%%"))
