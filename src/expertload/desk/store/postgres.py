"""A desk for a team: PostgreSQL, several servers on one database."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Table, create_engine, inspect, make_url, text
from sqlalchemy.exc import DBAPIError

from expertload._validation import require_extra
from expertload.desk.store.database import Database, WantsExclusive
from expertload.desk.store.migrating import upgrade

__all__ = ["PostgresDatabase"]

T = TypeVar("T")
WRITERS = 16
ATTEMPTS = 8
# Serialization failure, deadlock, and a row that another sender has just inserted: begin again.
BEGIN_AGAIN = {"40001", "40P01", "23505"}
# Every transaction holds it shared; one that must be alone (a policy's end, the sealer) does not.
LOCK = 5_403_117_920

# Seconds to wait for a connection, and milliseconds for a sign that what was sent has arrived.
PATIENCE = {"connect_timeout": "10", "tcp_user_timeout": "30000"}


class PostgresDatabase(Database):
    """The desk in a PostgreSQL database, which other servers may share."""

    def __init__(self, address: str) -> None:
        super().__init__()
        psycopg = require_extra("psycopg", "desk-postgres", "A desk on PostgreSQL")
        self._error = psycopg.Error
        url = make_url(address).set(drivername="postgresql+psycopg")
        self._name = f"The database {url.render_as_string(hide_password=True)}"
        self.address = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self.engine = create_engine(
            _with_patience(url),
            pool_pre_ping=True,
            pool_size=WRITERS + 8,
            max_overflow=0,
            pool_timeout=30,
        )
        self._writers = ThreadPoolExecutor(WRITERS, thread_name_prefix="desk-writer")

    @property
    def name(self) -> str:
        """The address, without its password."""
        return self._name

    def submit(self, work: Callable[[Connection], T], *, alone: bool = False) -> Future[T]:
        """Run work in a writer's thread."""
        return self._writers.submit(self._attempt, work, alone)

    def write(self, work: Callable[[Connection], T], *, alone: bool = False) -> T:
        """Run work here and now."""
        return self._attempt(work, alone)

    def _attempt(self, work: Callable[[Connection], T], alone: bool) -> T:
        for attempt in range(ATTEMPTS):
            try:
                return self._once(work, alone)
            except WantsExclusive:
                alone = True
            except DBAPIError as error:
                state = getattr(error.orig, "sqlstate", None)
                if state not in BEGIN_AGAIN or attempt == ATTEMPTS - 1:
                    raise self.said(error) from error
                time.sleep(0.005 * 2**attempt)
        return self._once(work, alone=True)

    def _once(self, work: Callable[[Connection], T], alone: bool) -> T:
        how = "pg_advisory_xact_lock" if alone else "pg_advisory_xact_lock_shared"
        with self.engine.begin() as connection:
            connection.execute(text(f"SELECT {how}({LOCK})"))
            return work(connection.execution_options(desk_alone=alone))

    def new_ids(self, connection: Connection, table: Table, n: int) -> list[int]:
        """Take ids from the table's sequence."""
        sequence = f"{table.name}_id_seq"
        ids = connection.execute(
            text("SELECT nextval(CAST(:name AS regclass)) FROM generate_series(1, :n)"),
            {"name": sequence, "n": n},
        )
        return sorted(ids.scalars())

    def insert(
        self, connection: Connection, table: str, names: Sequence[str], rows: list[tuple[Any, ...]]
    ) -> None:
        """Insert by COPY, whose errors are made those of any other statement."""
        statement = f"COPY {table} ({', '.join(names)}) FROM STDIN"
        driver = connection.connection.dbapi_connection
        try:
            with driver.cursor() as cursor, cursor.copy(statement) as copy:  # type: ignore[union-attr]
                for row in rows:
                    copy.write_row(row)
        except self._error as error:
            raise DBAPIError.instance(
                statement, None, error, self._error, dialect=connection.dialect
            ) from error

    def migrate(self) -> None:
        """Bring the tables up to date, after a copy of what was there."""
        upgrade(self.engine, before=self._copy_first)

    def _copy_first(self, revision: str) -> None:
        """Copy every table into a schema beside it."""
        schema = f"before_upgrade_from_{revision}"
        with self.engine.begin() as connection:
            connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {schema}"))
            for name in inspect(connection).get_table_names():
                connection.execute(text(f"DROP TABLE IF EXISTS {schema}.{name}"))
                connection.execute(text(f"CREATE TABLE {schema}.{name} AS TABLE {name}"))

    def close(self) -> None:
        """Finish what is being written, and let every connection go."""
        self._writers.shutdown()
        super().close()


def _with_patience(url: URL) -> URL:
    """Give up on a machine that has vanished without a word, unless the address says otherwise."""
    return url.set(query={**PATIENCE, **url.query})
