"""Every test of the desk runs on both databases; PostgreSQL is a cluster made for the session."""

from __future__ import annotations

import asyncio
import functools
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

import httpx

from expertload.desk import Desk, Rules
from expertload.desk.app import create_app
from expertload.desk.people import sessions
from expertload.desk.store import open_database
from expertload.desk.store.tables import metadata
from tests.desk.serving import serving
from tests.desk.world import Clock, World

# Flushing to a busy disk is most of a test's time, and a killed process loses no memory.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


def _binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


def _account() -> str | None:
    """PostgreSQL refuses to run as root: the account to run it under, None for our own."""
    if os.geteuid() != 0:
        return None
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
        names = ", ".join(table.name for table in metadata.sorted_tables)
        as_copied = "SET session_replication_role = replica"  # otherwise, tables that grow refuse
        self.sql(f"{as_copied}; TRUNCATE {names} RESTART IDENTITY CASCADE", database="desk")


@pytest.fixture(scope="session")
def cluster():
    pytest.importorskip("psycopg")
    binaries = _binaries()
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


@pytest.fixture(scope="session")
def empty_folder():
    """A folder with the tables of a desk and nothing in them, to copy."""
    with tempfile.TemporaryDirectory(prefix="desk-", dir=MEMORY) as folder:
        open_database(Path(folder)).close()
        yield Path(folder)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request):
    """Where a desk can be opened: a folder, or an address; empty in either case."""
    if request.param == "sqlite":
        with tempfile.TemporaryDirectory(prefix="desk-", dir=MEMORY) as folder:
            yield shutil.copytree(request.getfixturevalue("empty_folder"), Path(folder, "desk"))
        return
    cluster = request.getfixturevalue("cluster")
    cluster.empty_desk()
    yield cluster.address("desk")


@pytest.fixture(scope="session", autouse=True)
def one_list_of_authorities():
    """Every client reads the authorities that sign certificates, though the tests ask none."""
    with pytest.MonkeyPatch.context() as patch:
        read_once = functools.cache(httpx.create_ssl_context)
        patch.setattr("httpx._transports.default.create_ssl_context", read_once)
        yield


@pytest.fixture(scope="session", autouse=True)
def short_pauses():
    """A server looks ten times a second whether it is to end, and then waits as long again."""

    def sleep(seconds):
        return asyncio.sleep(min(seconds, 0.005))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "uvicorn.server.asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": sleep})
        )
        yield


@pytest.fixture
def quick_passwords(monkeypatch):
    """Stretching a password takes a tenth of a second, which only its own tests wait for."""
    cost, nobody = 2**4, sessions._NOBODY
    monkeypatch.setattr(sessions, "_NOBODY", nobody.replace(str(sessions.COST), str(cost), 1))
    monkeypatch.setattr(sessions, "COST", cost)


@pytest.fixture
def world(place, quick_passwords):
    """An open desk with a clock to turn, a policy at hand, and people."""
    clock = Clock()
    shares = {"second_share": 0, "audit_second_share": 0}
    rules = Rules(quality_rate=0.2, **shares, webhook_hosts=("127.0.0.1",))
    with Desk.open(place, rules=rules, clock=clock, secret=b"test") as desk:
        yield World(desk, clock)


@pytest.fixture
def served(world):
    """The same desk behind a real server, whose address it knows."""
    world.app = create_app(world.desk)
    with serving(world.app) as address:
        world.address = address
        yield world
