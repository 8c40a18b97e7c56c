"""The desk's memory: one writer, durable answers, guarded rows, one server a folder."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import text

from expertload.desk import Desk
from expertload.desk.store import open_database
from expertload.desk.store.sqlite import SqliteDatabase
from expertload.exceptions import DeskInUseError, DeskUnavailableError


def test_a_second_server_on_one_folder_is_refused_in_a_sentence(tmp_path):
    with Desk.open(tmp_path, serving=True):
        with pytest.raises(DeskInUseError, match="Another server is running on the desk"):
            Desk.open(tmp_path, serving=True)
        Desk.open(tmp_path).close()  # a command beside the server
    Desk.open(tmp_path, serving=True).close()


@pytest.mark.parametrize("table", ["events", "answers", "decisions", "seals", "skips"])
@pytest.mark.parametrize("statement", ["UPDATE {} SET id = id + 1", "DELETE FROM {}"])
def test_what_is_only_added_cannot_be_changed(world, table, statement):
    world.send({"key": "a", "confidence": 0.5, "label": "cat"})
    held = world.claim()
    from expertload.desk.queue.claims import skip
    from expertload.desk.trail.chain import seal_events

    world.desk.write(skip, world.user("ann"), held.lease, "dark")
    world.answer(world.claim("bob"), "cat", "bob")
    seal_events(world.desk)

    def change(connection):
        connection.execute(text(statement.format(table)))

    with pytest.raises(Exception, match=f"rows of {table} are never changed"):
        world.desk.database.write(change)


def test_waiting_requests_share_a_commit_and_fail_alone(tmp_path):
    with open_database(tmp_path) as database:
        gate = threading.Event()
        first = database.submit(lambda c: gate.wait(5))

        def add(number):
            def work(connection):
                connection.execute(
                    text("INSERT INTO users (name, created) VALUES (:name, 0)"),
                    {"name": f"user{number}"},
                )
                if number == 3:
                    raise ValueError("no")
                return connection.execute(text("SELECT count(*) FROM users")).scalar()

            return work

        futures = [database.submit(add(number)) for number in range(6)]
        commits = []
        from sqlalchemy import event

        event.listen(database.engine, "commit", lambda c: commits.append(c))
        gate.set()
        assert first.result()
        with pytest.raises(ValueError, match="no"):
            futures[3].result()
        assert [f.result() for f in futures if f is not futures[3]] == [1, 2, 3, 4, 5]
        assert len(commits) == 1, "one for all that waited"


def test_a_commit_that_fails_is_told_to_all_who_waited(tmp_path):
    with open_database(tmp_path) as database:
        from sqlalchemy import event

        def refuse(connection):
            raise OSError("disk full")

        event.listen(database.engine, "commit", refuse)
        futures = [database.submit(lambda c: 1) for _ in range(3)]
        for future in futures:
            with pytest.raises(OSError, match="disk full"):
                future.result()


def test_a_closed_desk_says_so(tmp_path):
    database = open_database(tmp_path)
    database.close()
    with pytest.raises(DeskUnavailableError, match="shutting down"):
        database.submit(lambda c: 1)


def test_durability_is_not_traded_for_speed(tmp_path):
    with open_database(tmp_path) as database:
        assert isinstance(database, SqliteDatabase)
        settings = database.read(
            lambda c: [
                c.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "synchronous", "foreign_keys")
            ]
        )
    assert settings == ["wal", 2, 1]
    assert tmp_path.joinpath("desk.sqlite").exists()


def test_rows_of_a_project_that_does_not_exist_are_refused(world):
    with pytest.raises(Exception, match="(?i)foreign key"):
        world.desk.database.write(
            lambda c: c.execute(
                text(
                    "INSERT INTO tokens (user_id, project_id, name, role, digest, created) "
                    "VALUES (9, 9, 'x', 'x', 'x', 0)"
                )
            )
        )


def test_the_log_stays_below_its_limit(tmp_path):
    with open_database(tmp_path, serving=True) as database:
        database.write(lambda c: c.execute(text("CREATE TABLE moved (x BLOB)")))
        insert = text("INSERT INTO moved VALUES (zeroblob(10000000))")
        for _ in range(15):
            database.write(lambda c: c.execute(insert))
        assert database.file.with_name("desk.sqlite-wal").stat().st_size < 80_000_000
        assert database.file.stat().st_size > 70_000_000
