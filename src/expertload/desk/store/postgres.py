"""A desk for a team: PostgreSQL, several servers on one database."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Table, create_engine, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError

from expertload._check import require_extra
from expertload.desk.store.database import Database, Rows, WantsExclusive
from expertload.desk.store.migrating import LOCK, copy_tables
from expertload.exceptions import ParameterError

T = TypeVar("T")
WRITERS = 16
ATTEMPTS = 8
# Serialization failure, deadlock, and a row that another sender has just inserted.
RETRIED_STATES = {"40001", "40P01", "23505"}
# Seconds to wait for a connection, and milliseconds until the network must acknowledge sent bytes:
# a server may disappear silently. Timeouts in the address are kept.
TIMEOUTS = {"connect_timeout": "10", "tcp_user_timeout": "30000"}
FEW = 5  # up to this many rows, INSERT needs fewer round trips than COPY


class PostgresDatabase(Database):
    """A desk in a PostgreSQL database, which several servers may share."""

    counter_slots = 16
    mark = "%s"

    def __init__(self, address: str) -> None:
        self.driver_error = require_extra("psycopg", "desk-postgres", "A desk on PostgreSQL").Error
        try:
            url = make_url(address).set(drivername="postgresql+psycopg")
        except (ArgumentError, ValueError):  # their messages may show the password
            raise ParameterError(
                "The address of the database cannot be read. Hint: write "
                "postgresql://USER:PASSWORD@HOST:PORT/NAME, with %40 for @ in a password."
            ) from None
        engine = create_engine(
            url.set(query={**TIMEOUTS, **url.query}),
            pool_pre_ping=True,
            pool_use_lifo=True,  # the connection used last has prepared statements
            pool_size=WRITERS + 8,
            max_overflow=0,
            pool_timeout=30,
        )
        # By default, each statement of a transaction also sees what others have committed since.
        snapshots = engine.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        name = f"The database {url.set(query={}).render_as_string(hide_password=True)}"
        super().__init__(name, engine, snapshots)
        self._writers = ThreadPoolExecutor(WRITERS, thread_name_prefix="desk-writer")

    def submit(self, work: Callable[[Connection], T], *, alone: bool = False) -> Future[T]:
        """Run work in one of the writing threads."""
        return self._writers.submit(self._attempt, work, alone)

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

    @staticmethod
    @cache
    def translated(query: str) -> str:
        """Return a query whose lists are arrays, and whose names are written as psycopg's."""
        lists = re.sub(r"IN :(\w+)", r"= ANY(:\1)", query.replace("%", "%%"))
        return re.sub(r":(\w+)", r"%(\1)s", lists)

    def insert(self, connection: Connection, into: str, rows: Rows, on_conflict: str = "") -> None:
        """Insert many rows with COPY, and a few with INSERT."""
        if on_conflict or len(rows) <= FEW:
            super().insert(connection, into, rows, on_conflict)
            return
        statement = f"COPY {into} FROM STDIN"
        with (
            self.driver(connection, statement) as driver,
            driver.cursor() as cursor,
            cursor.copy(statement) as copy,
        ):
            for row in rows:
                copy.write_row(row)

    def copy(self, target: Path) -> None:
        """Copy the rows of every table."""
        with self._snapshots.connect() as source:
            copy_tables(source, target)

    def copy_before_upgrade(self, connection: Connection, revision: str) -> None:
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
