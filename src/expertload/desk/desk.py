"""The desk: a database, a project and a clock, and one way to run anything on them.

Everything a desk can do is a function whose first argument is a `Transaction`: `claim`, `answer`,
`receive` and so on. `Desk.write` runs such a function, with its events and counters, in one commit.
`Desk.read` runs one that only reads.
"""

from __future__ import annotations

import asyncio
import copy
import os
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from sqlalchemy import Connection, insert, select

from expertload.desk.settings import Rules
from expertload.desk.store import open_database
from expertload.desk.store.database import Database, Transaction
from expertload.desk.store.tables import projects

T = TypeVar("T")
P = ParamSpec("P")
Work: TypeAlias = Callable[Concatenate[Transaction, P], T]


class Desk:
    """One project on one database.

    Parameters
    ----------
    database : Database
        Open, with its tables up to date.
    project : str
        The name of the project. If it does not exist, it is created.
    rules : Rules, optional
        The rules of a new project.
    clock : callable, optional
        Returns microseconds since 1970.
    secret : bytes, optional
        The secret of a new project, with which the quality sample is drawn. Random by default.
    """

    def __init__(
        self,
        database: Database,
        *,
        project: str = "main",
        rules: Rules | None = None,
        clock: Callable[[], int] | None = None,
        secret: bytes | None = None,
    ) -> None:
        self.database = database
        self.project = project
        self.clock = clock or (lambda: time.time_ns() // 1_000)
        self._actor: int | None = None
        if not database.read(lambda c: _exists(c, project)):
            new = (rules or Rules(), secret or secrets.token_bytes(32))
            database.write(lambda c: self._create(c, *new), alone=True)

    @classmethod
    def open(
        cls,
        where: str | os.PathLike[str],
        *,
        serving: bool = False,
        may_make: bool = True,
        **options: Any,
    ) -> Desk:
        """Open the desk of a folder or of a ``postgresql://`` address; create it if need be."""
        return cls(open_database(where, serving=serving, may_make=may_make), **options)

    def acting(self, user: int) -> Desk:
        """Return the same desk, whose events name this user as the actor."""
        same = copy.copy(self)
        same._actor = user
        return same

    def _create(self, connection: Connection, rules: Rules, secret: bytes) -> None:
        if _exists(connection, self.project):
            return
        row = {
            "name": self.project,
            "secret": secret,
            "rules": rules.model_dump_json(),
            "sampling_rate": rules.quality_rate,
            "created": self.clock(),
        }
        connection.execute(insert(projects).values(**row))
        self._run(connection, lambda t: t.event("project.made").note(projects, t.project.id, row))

    # ------------------------------------------------------------------ running

    def write(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run work in one transaction and wait for its commit."""
        return self.submit(work, *args, **kwargs).result()

    def submit(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run work in one transaction; the future gets its result after the commit."""
        return self.database.submit(lambda c: self._run(c, work, *args, **kwargs))

    async def awrite(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run work in one transaction, from asynchronous code."""
        return await asyncio.wrap_future(self.submit(work, *args, **kwargs))

    def read(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run work that only reads."""
        return self.database.read(lambda c: self._run(c, work, *args, **kwargs))

    async def aread(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run work that only reads, from asynchronous code."""
        future = self.database.submit_read(lambda c: self._run(c, work, *args, **kwargs))
        return await asyncio.wrap_future(future)

    def _run(
        self, connection: Connection, work: Work[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        transaction = Transaction(
            self.database, connection, project=self.project, now=self.clock(), actor=self._actor
        )
        result = work(transaction, *args, **kwargs)
        transaction.finish()
        return result

    def close(self) -> None:
        """Finish pending writes and close the database."""
        self.database.close()

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _exists(connection: Connection, project: str) -> bool:
    row = connection.execute(select(projects.c.id).where(projects.c.name == project)).first()
    return row is not None
