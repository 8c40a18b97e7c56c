"""Every released schema is brought up to date, after a copy, and nothing is lost."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import filelock
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from expertload.desk import Desk
from expertload.desk.people.accounts import add_token
from expertload.desk.store import migrating, open_database
from expertload.desk.store.migrating import current_revision, newest_revision
from expertload.desk.store.tables import metadata
from expertload.desk.trail.chain import verify
from expertload.exceptions import DeskInUseError, DeskRefusedError
from tests.desk.world import Clock, World

SCHEMAS = Path(__file__).with_name("schemas")
RELEASED = sorted({file.name.partition(".")[0] for file in SCHEMAS.glob("*.sql")})


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request, tmp_path):
    """A place without tables."""
    if request.param == "sqlite":
        return tmp_path / "desk"
    cluster = request.getfixturevalue("cluster")
    cluster.sql("DROP DATABASE IF EXISTS frozen")
    cluster.sql("CREATE DATABASE frozen")
    return cluster.address("frozen")


def load(place, revision) -> None:
    """Make a desk as an older version left it."""
    if isinstance(place, Path):
        place.mkdir(parents=True)
        with sqlite3.connect(place / "desk.sqlite") as connection:
            connection.executescript((SCHEMAS / f"{revision}.sqlite.sql").read_text())
        connection.close()
        return
    import psycopg

    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute((SCHEMAS / f"{revision}.postgresql.sql").read_text())


def test_the_newest_schema_is_frozen():
    assert newest_revision() in RELEASED, "run python -m tests.desk.freeze_schema"


@pytest.mark.parametrize("revision", RELEASED)
def test_a_released_desk_goes_on(empty, revision):
    load(empty, revision)
    with Desk.open(empty, clock=Clock(1_700_000_100_000_000)) as desk:
        verdict = desk.read(verify)
        assert verdict.is_intact, verdict.problems
        world = World(desk, desk.clock)
        assert world.case("case-1").state == "auto"
        assert world.send_one("new").status == "decided"
        held = world.claim("cleo")
        assert held.key.startswith("case-")
        world.answer(held, "cat", "cleo")
        assert desk.read(verify).is_intact


@pytest.mark.parametrize("revision", RELEASED)
def test_a_released_desk_gets_the_tables_of_today(empty, revision):
    load(empty, revision)
    with open_database(empty) as database:
        found = database.read(lambda c: compare_metadata(MigrationContext.configure(c), metadata))
        guards = database.read(_triggers)
    assert [change for change in found if "alembic_version" not in str(change)] == []
    assert guards == {
        f"{table}_refuse_{verb}"
        for table in ("events", "seals", "answers", "decisions", "skips")
        for verb in ("update", "delete", *([] if isinstance(empty, Path) else ["truncate"]))
    }


def _triggers(connection) -> set[str]:
    names = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
        "postgresql": "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal",
    }[connection.dialect.name]
    return set(connection.execute(text(names)).scalars())


@pytest.mark.parametrize("revision", RELEASED)
def test_probabilities_of_a_released_desk_are_verified_from_now_on(empty, revision):
    load(empty, revision)
    change = "UPDATE cases SET probabilities = replace(probabilities, '0.99', '0.98') WHERE id = :i"
    with Desk.open(empty) as desk:
        (found,) = desk.read(lambda t: t.rows("SELECT min(id) FROM cases WHERE accepted"))
        desk.database.write(lambda c: c.execute(text(change), {"i": found[0]}))
        (said,) = desk.read(verify).problems
        assert "('case-1'): 'probabilities' differs" in said


def copied_events(place, revision) -> int:
    """How many events the copy has that was made before an upgrade."""
    if isinstance(place, Path):
        with sqlite3.connect(place / f"before-upgrade-from-{revision}.sqlite") as connection:
            ((n,),) = connection.execute("SELECT count(*) FROM events").fetchall()
        connection.close()
        return n
    with open_database(place) as database:
        query = text(f"SELECT count(*) FROM before_upgrade_from_{revision}.events")
        return database.read(lambda c: c.execute(query).scalar())


def test_of_two_servers_that_start_together_one_upgrades_and_the_copy_is_of_before(
    empty, monkeypatch
):
    load(empty, "0001")
    look = migrating.current_revision
    seen = []

    def look_while_another_server_starts(connection):
        found = look(connection)
        if not seen:
            seen.append(found)
            connection.rollback()
            open_database(empty).close()
        return found

    monkeypatch.setattr(migrating, "current_revision", look_while_another_server_starts)
    with open_database(empty) as database:
        count = text("SELECT count(*) FROM events WHERE kind = 'cases.digested'")
        assert database.read(lambda c: c.execute(count).scalar()) == 1
        everything = database.read(lambda c: c.execute(text("SELECT max(id) FROM events")).scalar())
    assert seen == ["0001"]
    assert copied_events(empty, "0001") == everything - 1


def test_only_the_owner_can_read_a_desk_in_a_folder_that_others_can_read(tmp_path):
    """It has the secret of the quality sample, and whatever was sent."""
    folder = tmp_path / "made before"
    folder.mkdir(mode=0o755)
    with Desk.open(folder, serving=True) as desk:
        desk.write(add_token, "scanner", "api")
        modes = {file.name: oct(file.stat().st_mode)[-3:] for file in folder.glob("desk.sqlite*")}
    assert modes == dict.fromkeys(("desk.sqlite", "desk.sqlite-wal", "desk.sqlite-shm"), "600")
    load(tmp_path / "old", "0001")
    open_database(tmp_path / "old").close()
    assert (tmp_path / "old" / "before-upgrade-from-0001.sqlite").stat().st_mode & 0o777 == 0o600


def test_a_desk_is_not_upgraded_under_a_server_of_the_old_version(tmp_path):
    """It would go on writing as the old version does."""
    load(tmp_path / "desk", "0001")
    with filelock.FileLock(tmp_path / "desk" / "desk.lock", timeout=0):
        with pytest.raises(DeskInUseError, match="older version.* Hint: stop"):
            open_database(tmp_path / "desk")
        assert not list(tmp_path.glob("desk/before-*"))
    open_database(tmp_path / "desk", serving=True).close()


# ------------------------------------------------------------------ a step to come


STEP = '''
"""A step to come."""
import sqlalchemy as sa
from alembic import op

revision = "0099"
down_revision = "{before}"


def upgrade():
    op.add_column("users", sa.Column("nickname", sa.Text))
    {more}
'''


@pytest.fixture
def a_step(tmp_path, monkeypatch):
    """Add a migration; return a function that says what more it does."""
    before = newest_revision()
    scripts = tmp_path / "scripts"
    shutil.copytree(migrating.SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))

    def add(more: str = "pass") -> None:
        (scripts / "versions" / "step_0099.py").write_text(STEP.format(before=before, more=more))
        monkeypatch.setattr(migrating, "SCRIPTS", scripts)

    return add


def test_what_was_there_is_copied_before_it_is_changed(empty, a_step):
    before = newest_revision()
    load(empty, before)
    a_step()
    with open_database(empty) as database:
        assert database.read(current_revision) == "0099"
        columns = database.read(lambda c: [i["name"] for i in inspect(c).get_columns("users")])
        assert "nickname" in columns
        n = database.read(lambda c: c.execute(text("SELECT count(*) FROM cases")).scalar())
        if not isinstance(empty, Path):
            copied = f"SELECT count(*) FROM before_upgrade_from_{before}.cases"
            assert database.read(lambda c: c.execute(text(copied)).scalar()) == n == 4
    if isinstance(empty, Path):
        copy = empty / f"before-upgrade-from-{before}.sqlite"
        with sqlite3.connect(copy) as connection:
            assert connection.execute("SELECT count(*) FROM cases").fetchone() == (n,)
        connection.close()


def test_a_step_that_fails_changes_nothing(empty, a_step):
    before = newest_revision()
    load(empty, before)
    a_step("raise RuntimeError('half way')")
    with pytest.raises(RuntimeError, match="half way"):
        open_database(empty)
    migrating.SCRIPTS.joinpath("versions", "step_0099.py").unlink()
    with open_database(empty) as database:
        assert database.read(current_revision) == before
        columns = database.read(lambda c: [i["name"] for i in inspect(c).get_columns("users")])
        assert "nickname" not in columns


def test_a_newer_desk_is_refused_in_a_sentence(empty, a_step, monkeypatch):
    load(empty, newest_revision())
    with monkeypatch.context():
        a_step()
        open_database(empty).close()
    monkeypatch.undo()
    with pytest.raises(DeskRefusedError, match="made by a newer version"):
        open_database(empty)
