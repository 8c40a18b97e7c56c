"""The two databases of a desk: SQLite and PostgreSQL, both on the same disk, both durable."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from expertload.desk import Desk

TABLES = ("cases", "readings", "events")


class Place(ABC):
    """A database in which desks are made, and a plain way to write to it."""

    kind: str

    @abstractmethod
    def desk(self, name: str) -> str:
        """Return the folder or address of a desk with this name."""

    @abstractmethod
    def connect(self, name: str) -> Any:
        """Connect to a desk's database with the plain driver; the caller commits."""

    @abstractmethod
    def insert(self, connection: Any, table: str, rows: list[tuple[Any, ...]]) -> None:
        """Insert rows in the fastest way that the driver has."""

    def rows(self, name: str) -> dict[str, list[tuple[Any, ...]]]:
        """Return all rows that receiving cases has written."""
        connection = self.connect(name)
        rows = {
            table: connection.execute(f"SELECT * FROM {table} ORDER BY id").fetchall()
            for table in TABLES
        }
        connection.close()
        return rows

    def empty(self, name: str) -> Any:
        """Return a connection to the same tables, which contain only the project."""
        Desk.open(self.desk(name)).close()
        connection = self.connect(name)
        for statement in self.UNGUARD:
            connection.execute(statement)
        connection.execute("DELETE FROM events")
        connection.execute("COMMIT")
        return connection

    UNGUARD: tuple[str, ...] = ()


class Folder(Place):
    """SQLite."""

    kind = "sqlite"
    UNGUARD = ("BEGIN IMMEDIATE", "DROP TRIGGER events_refuse_delete")

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def desk(self, name: str) -> str:
        """Return a folder."""
        return str(self.folder / name)

    def connect(self, name: str) -> sqlite3.Connection:
        """Connect as durably as the desk does."""
        connection = sqlite3.connect(self.folder / name / "desk.sqlite", isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def insert(self, connection: Any, table: str, rows: list[tuple[Any, ...]]) -> None:
        """Insert with one prepared statement."""
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)


class Cluster(Place):
    """PostgreSQL with its defaults, so every commit is flushed."""

    kind = "postgresql"
    UNGUARD = ("BEGIN", "ALTER TABLE events DISABLE TRIGGER USER")

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.binaries, self.folder, self.made = binaries, folder, set[str]()
        self.account = "postgres" if os.geteuid() == 0 else None
        folder.mkdir()
        for above in (folder, folder.parent):
            above.chmod(0o755)
        if self.account:
            shutil.chown(folder, self.account)
        self._run("initdb", "-D", folder / "data", "-U", "desk", "-A", "trust", "-E", "UTF8")
        options = f"-k {folder} -h '' -c max_connections=200"
        log = folder / "log"
        self._run("pg_ctl", "-D", folder / "data", "-w", "-l", log, "-o", options, "start")

    def _run(self, name: str, *arguments: object) -> None:
        subprocess.run(
            [self.binaries / name, *map(str, arguments)],
            check=True,
            user=self.account,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(self.folder)},
        )

    def stop(self) -> None:
        """End the server."""
        self._run("pg_ctl", "-D", self.folder / "data", "-w", "-m", "fast", "stop")

    def desk(self, name: str) -> str:
        """Return the address of a database, which is created if it is new."""
        if name not in self.made:
            self._run("createdb", "-h", self.folder, "-U", "desk", name.replace("-", "_"))
            self.made.add(name)
        return f"postgresql://desk@/{name.replace('-', '_')}?host={self.folder}"

    def connect(self, name: str) -> Any:
        """Connect with the plain driver."""
        import psycopg

        return psycopg.connect(self.desk(name), autocommit=True)

    def insert(self, connection: Any, table: str, rows: list[tuple[Any, ...]]) -> None:
        """Insert with COPY."""
        with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)


def places(folder: Path, only: str | None) -> Iterator[Place]:
    """Yield the databases that are installed."""
    if only != "postgresql":
        yield Folder(folder)
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if only != "sqlite" and found:
        cluster = Cluster(found[-1].parent, folder / "cluster")
        try:
            yield cluster
        finally:
            cluster.stop()


@contextlib.contextmanager
def server(place: Place, name: str, *, watched: bool = False) -> Iterator[tuple[str, int]]:
    """Run `expertload desk serve` in its own process; yield its host and port.

    If it is `watched`, it records how long its event loop pauses.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    where = "--data" if place.kind == "sqlite" else "--database"
    serve = ["expertload", "desk", "serve", where, place.desk(name), "--port", str(port)]
    if watched:
        serve = ["benchmarks.desk.watched", place.desk(name), str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, "-m", *serve], **quiet)
    try:
        _wait(port)
        yield "127.0.0.1", port
    finally:
        process.terminate()
        process.wait()


def _wait(port: int) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError):
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", "/healthz")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.1)
    raise RuntimeError("the server did not start")
