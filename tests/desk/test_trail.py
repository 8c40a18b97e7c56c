"""What happened is kept: one changed byte is found, wherever it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select, text, update
from typer.testing import CliRunner

from expertload.cli.app import app
from expertload.desk.pages.audit import events_before
from expertload.desk.queue.managing import ERASED, erase, keys_before
from expertload.desk.store.tables import bodies, cases, events, metadata, tokens
from expertload.desk.trail.chain import differences, replay, seal_events, verify
from expertload.exceptions import DeskRefusedError
from tests.desk.world import sent


@pytest.fixture
def used(world):
    """A desk on which something of everything has happened."""
    world.activate()
    world.send(*(sent(f"case-{i}", 0.99 if i % 2 else 0.6) for i in range(20)))
    world.send(sent("with a body", body={"kind": "text", "content": "a cat"}))
    world.send({"key": "only a label", "label": "cat", "confidence": 0.99})
    for label in ("cat", "dog", "cat"):
        world.answer(world.claim(), label)
    world.claim("bob")
    seal_events(world.desk)
    world.send(sent("after the seal"))
    return world


def tamper(world, statement, **values):
    """Change a row as somebody with the database's password can: the guard is taken off first."""

    def change(connection):
        for table in ("events", "decisions"):
            for verb in ("update", "delete"):
                on = f" ON {table}" if connection.dialect.name == "postgresql" else ""
                connection.execute(text(f"DROP TRIGGER IF EXISTS {table}_refuse_{verb}{on}"))
        connection.execute(text(statement), values)

    world.desk.database.write(change)


@pytest.fixture(autouse=True)
def _guards_again(request):
    """On the one database that tests share, put back what a test took off."""
    yield
    if request.node.callspec.params.get("place") != "postgresql":
        return
    put_back = (
        "DROP TRIGGER IF EXISTS {0} ON {1}; CREATE TRIGGER {0} BEFORE {2} ON {1} "
        "FOR EACH ROW EXECUTE FUNCTION desk_refuse_change();"
    )
    statements = (
        put_back.format(f"{table}_refuse_{verb}", table, verb)
        for table in ("events", "decisions", "seals")
        for verb in ("update", "delete")
    )
    request.getfixturevalue("cluster").sql(" ".join(statements), database="desk")


def test_an_untouched_desk_is_intact(used):
    verdict = used.desk.read(verify)
    assert verdict.is_intact, verdict.problems
    assert verdict.n_blocks == 1
    assert verdict.n_unsealed == 1
    assert verdict.n_events > 20
    assert used.desk.read(verify, head=verdict.head).is_intact


def test_blocks_follow_each_other(used):
    first = used.desk.read(verify).head
    seal_events(used.desk)
    assert seal_events(used.desk) == 0
    verdict = used.desk.read(verify, head=first)
    assert (verdict.n_blocks, verdict.n_unsealed, verdict.is_intact) == (2, 0, True)
    assert verdict.head != first


@pytest.mark.parametrize("column", ["at", "kind", "actor", "case_id", "changes"])
def test_one_changed_byte_of_an_event_is_found(used, column):
    change = {
        "at": "at + 1",
        "kind": "kind || ' '",
        "actor": "coalesce(actor, 0) + 1",
        "case_id": "coalesce(case_id, 0) + 1",
        "changes": "replace(changes, 'waiting', 'Waiting')",
    }[column]
    (row,) = used.rows(select(events.c.id).where(events.c.kind == "case.received").limit(1))
    tamper(used, f"UPDATE events SET {column} = {change} WHERE id = :id", id=row.id)
    verdict = used.desk.read(verify, tables=False)
    assert any("Block 1 is not as it was sealed" in said for said in verdict.problems)


@pytest.mark.parametrize(
    "changes",
    ['[["cases"', "[5]", '{"cases": 1}', '[["no table", 1, {}]]', '[["cases", [1], {}]]', "[[]]"],
)
def test_an_event_that_cannot_be_read_any_more_is_found_and_shown(used, changes, quick_passwords):
    """One changed byte of JSON is seldom JSON."""
    query = select(events.c.id, events.c.changes).where(events.c.kind == "case.received").limit(1)
    ((number, before),) = used.rows(query)
    tamper(used, "UPDATE events SET changes = :to WHERE id = :id", to=changes, id=number)
    problems = used.desk.read(verify).problems
    assert any("Block 1 is not as it was sealed" in said for said in problems)
    assert f"The changes of event {number} cannot be read." in problems
    shown = used.desk.read(events_before, number + 1)[0]
    assert shown["changes"] == [changes]
    tamper(used, "UPDATE events SET changes = :to WHERE id = :id", to=before, id=number)
    assert used.desk.read(verify).is_intact


def test_a_removed_event_is_found(used):
    tamper(used, "DELETE FROM events WHERE id = 5")
    assert not used.desk.read(verify, tables=False).is_intact


def test_a_chain_written_anew_does_not_have_the_noted_head(used):
    head = used.desk.read(verify).head
    tamper(used, "UPDATE events SET actor = 99 WHERE id = 5")
    drop = "DROP TRIGGER seals_refuse_delete"
    on = " ON seals" if used.desk.database.engine.dialect.name == "postgresql" else ""
    used.desk.database.write(lambda c: c.execute(text(drop + on)))
    used.desk.database.write(lambda c: c.execute(text("DELETE FROM seals")))
    seal_events(used.desk)
    assert used.desk.read(verify, tables=False).is_intact
    assert not used.desk.read(verify, head=head, tables=False).is_intact


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE cases SET predicted = 'dog' WHERE id = 2",
        "UPDATE cases SET confidence = confidence + 0.001 WHERE id = 2",
        "UPDATE cases SET probabilities = NULL WHERE id = 2",
        "UPDATE cases SET probabilities = '{{}}' WHERE key = 'only a label'",
        "UPDATE readings SET state = 'void' WHERE state = 'waiting'",
        "UPDATE decisions SET label = 'dog' WHERE label = 'cat'",
        "UPDATE policies SET state = 'withdrawn'",
        "UPDATE policies SET document = replace(document, '0.', '0.0')",
        "UPDATE bodies SET content = CAST('a dog' AS {bytes})",
        "UPDATE bodies SET content = {number}",
        "UPDATE monitors SET audited = audited + 1",
        "UPDATE users SET name = 'eve' WHERE name = 'ann'",
    ],
)
def test_a_table_changed_behind_the_desk_is_found(used, statement):
    assert used.desk.read(lambda t: list(differences(t))) == []
    is_postgres = used.desk.database.engine.dialect.name == "postgresql"
    # SQLite stores a value of any type in any column.
    types = {"bytes": "bytea", "number": "'5'"} if is_postgres else {"bytes": "blob", "number": 5}
    tamper(used, statement.format(**types))
    assert used.desk.read(lambda t: list(differences(t)))


@pytest.mark.parametrize("key", ["case-3", "after the seal"])
def test_one_changed_byte_of_a_probability_is_found_and_the_case_is_named(used, place, key):
    (row,) = used.rows(select(cases.c.id, cases.c.probabilities).where(cases.c.key == key))
    last = row.probabilities.rindex("}") - 1
    other = "1" if row.probabilities[last] != "1" else "2"
    changed = row.probabilities[:last] + other + row.probabilities[last + 1 :]
    tamper(used, "UPDATE cases SET probabilities = :p WHERE id = :id", p=changed, id=row.id)
    option = "--data" if isinstance(place, Path) else "--database"
    done = CliRunner().invoke(app, ["desk", "verify", option, str(place)])
    assert done.exit_code == 1
    said = " ".join(done.output.split())
    assert f"Row {row.id} of cases ('{key}'): 'probabilities' differs from the events." in said
    assert said.count("Row ") == 1


def test_a_row_in_the_place_of_another_is_found_on_both_sides(used):
    used.token("sender", "api")
    tamper(used, "UPDATE tokens SET id = id + 1000")
    *_, added, missing = used.desk.read(lambda t: list(differences(t)))
    assert added.endswith("of tokens is in no event.")
    n = len(used.rows(select(tokens.c.id)))
    assert missing == f"{n} row(s) of tokens are in the events, but not in the table."


def test_more_differences_than_are_listed_are_said_to_be_more(used):
    tamper(used, "UPDATE cases SET model = 'x' WHERE id <= 20")
    problems = used.desk.read(verify).problems
    assert len(problems) == 20
    assert all("'model' differs" in said for said in problems)
    tamper(used, "UPDATE cases SET model = 'x' WHERE id <= 21")
    problems = used.desk.read(verify).problems
    assert len(problems) == 21
    assert problems[-1] == "There are more differences: only the first 20 are listed."


def test_events_hold_no_secret(used):
    told, _ = used.desk.read(replay)
    for name, rows in told.items():
        hidden = {c.name for c in metadata.tables[name].columns if c.info.get("secret")}
        assert not any(hidden & row.keys() for row in rows.values())
    everything = " ".join(row.changes for row in used.rows(select(events.c.changes)))
    assert all(token not in everything for token in used.tokens.values())


# ------------------------------------------------------------------ erasing


def test_an_erased_case_leaves_its_decision_and_an_intact_trail(world):
    world.activate()
    body = {"kind": "text", "content": "the patient's name"}
    world.send(sent("a", body=body), sent("b", body=body), sent("open", 0.6, body=body))
    kept = next(key for key in ("a", "b") if world.case(key).audit is None)
    before = world.case(kept)
    assert world.desk.write(erase, kept)
    assert not world.desk.write(erase, kept), "nothing is left to erase"
    after = world.case(kept)
    assert after.probabilities is None
    assert (after.digest, after.predicted, after.state) == (before.digest, before.predicted, "auto")
    (content,) = world.rows(select(bodies.c.content).where(bodies.c.id == after.id))
    assert content == (ERASED,)
    verdict = world.desk.read(verify)
    assert verdict.is_intact, verdict.problems
    with pytest.raises(DeskRefusedError, match="read"):
        world.desk.write(erase, "open")
    with pytest.raises(DeskRefusedError, match="no case"):
        world.desk.write(erase, "nowhere")


def test_old_cases_are_found_to_be_erased(world):
    world.activate()
    world.send(*(sent(f"old-{i}") for i in range(20)), sent("waiting", 0.6))
    world.clock.turn(100)
    world.send(*(sent(f"new-{i}") for i in range(20)))
    found = world.desk.read(keys_before, world.clock())
    assert found
    assert all(key.startswith("old-") for key in found)
    for key in found:
        world.desk.write(erase, key)
    assert world.desk.read(keys_before, world.clock()) == []


def test_an_erased_body_that_comes_back_is_seen(world):
    world.activate()
    world.send(*(sent(f"{i}", body={"kind": "text", "content": "x"}) for i in range(9)))
    key = world.desk.read(keys_before, world.clock() + 1)[0]
    world.desk.write(erase, key)
    again = update(cases).where(cases.c.key == key).values(probabilities="{}")
    world.desk.database.write(lambda c: c.execute(again))
    assert not world.desk.read(verify).is_intact


def test_the_command_erases_by_key_and_by_age(world, place):
    world.activate()
    world.send(*(sent(f"{i}") for i in range(9)))
    keys = world.desk.read(keys_before, world.clock() + 1)
    option = "--data" if isinstance(place, Path) else "--database"
    one = CliRunner().invoke(app, ["desk", "erase", keys[0], option, str(place)])
    assert "Erased 1 cases." in one.output
    rest = CliRunner().invoke(app, ["desk", "erase", "--older-than", "30", option, str(place)])
    assert f"Erased {len(keys) - 1} cases." in rest.output
    assert world.desk.read(verify).is_intact
