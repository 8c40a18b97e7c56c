"""An expert's answer and the model's together: who closes a case, and who asks a second reader."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sqlalchemy import select

from expertload.desk.intake.golden import add_golden, read_golden
from expertload.desk.store.tables import readings
from expertload.desk.trail.chain import verify
from expertload.desk.watch.combining import combiner_of, start_combining, stop_combining
from expertload.exceptions import DeskRefusedError
from tests.desk.invariants import check_all
from tests.desk.people import visit
from tests.desk.world import CLASSES, sent


def prepared(world):
    """A desk that knows how ann errs (1 in 10), and what the model's probabilities mean."""
    world.with_rules(classes=CLASSES, quality_rate=1.0, certify_share=1.0)
    world.activate()
    lines = [{"key": f"g{i}", "label": CLASSES[i % 2]} for i in range(40)]
    world.desk.write(add_golden, [read_golden(json.dumps(line)) for line in lines])
    world.send(*(sent(f"c{i}", (0.5 + i / 80) if i % 2 else 0.5 - i / 80) for i in range(30)))
    rng = np.random.default_rng(0)
    while (held := world.claim()) is not None:
        number = int(held.key[1:])
        is_golden = held.key[0] == "g"
        truth = CLASSES[number % 2] if is_golden else CLASSES[1 - number % 2]
        wrong = number % 10 == 0 if is_golden else rng.random() < 0.2
        world.answer(held, CLASSES[1 - CLASSES.index(truth)] if wrong else truth)
    while (held := world.claim("zoe", "arbiter")) is not None:
        world.answer(held, CLASSES[1 - int(held.key[1:]) % 2], "zoe", "arbiter")
    return world


def asked(world, key):
    rows = world.rows(select(readings).where(readings.c.case_id == world.case(key).id))
    return [row.why for row in sorted(rows, key=lambda row: row.id)]


def test_a_case_closes_when_both_together_are_sure_and_else_a_second_reads(world):
    prepared(world).desk.write(start_combining)
    combiner = world.desk.read(combiner_of)
    assert combiner.confusion_[0, 1] > combiner.confusion_[1, 0], "only cats were misread"
    cases = {"agree": (0.7, "cat"), "differ": (0.22, "cat"), "even": (0.5, "dog")}
    for key, (cat, label) in cases.items():
        world.send_one(key, cat)
        held = world.claim()
        assert held.key == key
        world.answer(held, label)
        (row,) = combiner.transform([[cat, 1 - cat]], [label])
        sure = row[CLASSES.index(label)] >= 0.95
        assert asked(world, key) == (["delegated"] if sure else ["delegated", "doubt"])
        assert world.case(key).state == ("closed" if sure else "waiting")
    assert asked(world, "differ") == ["delegated", "doubt"]
    held = world.claim("bob")
    world.answer(held, "cat", "bob")
    assert world.case(held.key).state == "closed", "two who agree are enough"
    check_all(world.desk)
    assert world.desk.read(verify).is_intact


def test_it_is_off_by_default_and_off_again(world):
    prepared(world)
    assert world.desk.read(combiner_of) is None
    world.desk.write(start_combining)
    world.desk.write(stop_combining)
    world.send_one("differ", 0.22)
    world.answer(world.claim(), "cat")
    assert world.case("differ").state == "closed"
    check_all(world.desk)


def test_it_needs_to_know_how_readers_err(world):
    world.with_rules(classes=CLASSES)
    world.activate()
    with pytest.raises(DeskRefusedError, match="at least 20 readings whose truth is known"):
        world.desk.write(start_combining)


def test_audits_stay_blind(world):
    prepared(world).desk.write(start_combining)
    world.send_one("checked", 0.99)
    world.answer(world.claim(), "cat")
    assert asked(world, "checked") == ["quality"]
    assert world.case("checked").audit == "right"


@pytest.mark.slow
def test_a_manager_turns_it_on_by_a_form(served):
    prepared(served)
    with visit(served, "boss", "manager") as client:
        assert "Combine from now on" in client.get("/manage/readers").text
        assert client.form("/manage/readers/combine", on="yes").status_code == 303
        assert "Stop combining" in client.get("/manage/readers").text
