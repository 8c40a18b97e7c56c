"""Every test of the desk runs on both databases; PostgreSQL is a cluster made for the session."""

from __future__ import annotations

import asyncio
import functools
import shutil
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
from tests.desk.serving import serving
from tests.desk.world import Clock, World
from tests.postgres import MEMORY, cluster  # noqa: F401 - a fixture


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
    server = request.getfixturevalue("cluster")
    server.empty_desk()
    yield server.address("desk")


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
