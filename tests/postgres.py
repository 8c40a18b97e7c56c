"""A PostgreSQL server for the session, for tests of the desk and of statements.

What needs the desk's extras is imported where it is used: tests of the core run without them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

# Flushing to a busy disk is most of a test's time, and a killed process loses no memory.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


def postgres_binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


def _account() -> str | None:
    """PostgreSQL refuses to run as root: the account to run it under, None for our own."""
    if os.geteuid() != 0:
        return None
    import pwd  # only Unix has it

    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in names)


class Cluster:
    """A PostgreSQL server on a socket in a temporary folder."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.binaries, self.folder, self.account = binaries, folder, _account()
        if self.account is not None:
            shutil.chown(folder, self.account)
        self._run("initdb", "-D", folder / "data", "-U", "desk", "-A", "trust", "-N", "-E", "UTF8")
        self.start()

    def _run(self, name, *arguments):
        subprocess.run(
            [self.binaries / name, *arguments],
            check=True,
            user=self.account,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(self.folder)},
        )

    def start(self):
        options = f"-k {self.folder} -h '' -c fsync=off -c max_connections=200"
        log = self.folder / "log"
        self._run("pg_ctl", "-D", self.folder / "data", "-w", "-l", log, "-o", options, "start")

    def start_if_stopped(self):
        if not (self.folder / "data" / "postmaster.pid").exists():
            self.start()

    def stop(self):
        self._run("pg_ctl", "-D", self.folder / "data", "-w", "-m", "immediate", "stop")

    def address(self, name: str) -> str:
        return f"postgresql://desk@/{name}?host={self.folder}"

    def sql(self, statement: str, database: str = "postgres") -> None:
        import psycopg

        with psycopg.connect(self.address(database), autocommit=True) as connection:
            connection.execute(statement)

    def empty_desk(self) -> None:
        """Remove every row of the desk, as a copy of the database would begin."""
        from expertload.desk.store.tables import metadata

        names = ", ".join(table.name for table in metadata.sorted_tables)
        as_copied = "SET session_replication_role = replica"  # otherwise, tables that grow refuse
        self.sql(f"{as_copied}; TRUNCATE {names} RESTART IDENTITY CASCADE", database="desk")


@pytest.fixture(scope="session")
def cluster():
    pytest.importorskip("psycopg")
    from expertload.desk.store import open_database

    binaries = postgres_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed (Debian's package postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="desk-pg-", dir=MEMORY))
    folder.chmod(0o755)
    made = Cluster(binaries, folder)
    made.sql("CREATE DATABASE desk")
    open_database(made.address("desk")).close()
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder)
