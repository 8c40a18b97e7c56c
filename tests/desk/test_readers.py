"""Golden cases, how good readers are, and who is away."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from expertload.cli.app import app
from expertload.desk.intake.golden import add_golden, read_golden
from expertload.desk.people.accounts import add_user, all_tokens, set_away
from expertload.desk.queue.managing import void_case
from expertload.desk.trail.export import export
from expertload.desk.watch.readers import (
    SecondReadings,
    readers_of,
    second_readings,
    whole_accuracy,
)
from expertload.desk.watch.state import state_of
from expertload.exceptions import DeskRefusedError
from expertload.team import Readings
from tests.desk.invariants import check_all
from tests.desk.people import visit
from tests.desk.world import CLASSES, sent


def golden(world, n, first=0):
    lines = [{"key": f"g{i}", "label": CLASSES[i % 2]} for i in range(first, first + n)]
    return world.desk.write(add_golden, [read_golden(json.dumps(line)) for line in lines])


def read_all(world, name, rng, error):
    """Read golden cases until nothing waits, with errors at random."""
    while (held := world.claim(name)) is not None:
        truth = CLASSES[int(held.key[1:]) % 2]
        wrong = rng.random() < error
        label = CLASSES[1 - CLASSES.index(truth)] if wrong else truth
        world.answer(held, label, name)


def test_everybody_reads_a_golden_case_once_and_nothing_comes_of_it(world):
    world.with_rules(classes=CLASSES)
    for name in ("ann", "bob", "cleo"):
        world.user(name)
    assert golden(world, 3) == 3
    assert golden(world, 3) == 0, "sent before"
    rng = np.random.default_rng(0)
    for name in ("ann", "bob", "cleo"):
        read_all(world, name, rng, 0.0)
    said = {each["name"]: each for each in world.desk.read(readers_of)}
    assert {name: each["golden"] for name, each in said.items()} == dict.fromkeys(said, 3)
    state = world.desk.read(state_of)
    assert state["counts"]["received"] == 0
    assert state["backlog"]["waiting"] == 0
    assert world.case("g0").state == "golden"
    check_all(world.desk)


def test_a_golden_case_needs_its_truth_and_a_key_of_its_own(world):
    with pytest.raises(DeskRefusedError, match="a 'label', the true class"):
        read_golden('{"key": "g"}')
    world.send(sent("taken", 0.6))
    with pytest.raises(DeskRefusedError, match="other content"):
        world.desk.write(add_golden, [read_golden('{"key": "taken", "label": "cat"}')])


@pytest.mark.parametrize("known_by", ["rules", "policy"])
def test_a_truth_that_nobody_could_answer_is_refused(world, known_by):
    """Every reader would be counted as wrong."""
    good, early, bad = (
        read_golden(json.dumps({"key": key, "label": label}))
        for key, label in (("g-1", "cat"), ("g-2", "banana"), ("g-3", "banana"))
    )
    assert world.desk.write(add_golden, [early]) == 1, "no classes are known yet"
    world.with_rules(classes=CLASSES) if known_by == "rules" else world.activate()
    with pytest.raises(DeskRefusedError, match="'banana' is not one of .* cat, dog") as refused:
        world.desk.write(add_golden, [good, bad])
    assert refused.value.code == "bad_label"
    assert world.desk.write(add_golden, [good, early]) == 1, "all or none, and sent before"


def test_a_reader_ten_points_worse_is_named_in_a_sentence(world):
    world.with_rules(classes=CLASSES)
    for name in ("ann", "bob", "cleo"):
        world.user(name)
    golden(world, 150)
    rng = np.random.default_rng(1)
    for name, error in (("ann", 0.05), ("bob", 0.05), ("cleo", 0.15)):
        read_all(world, name, rng, error)
    said = {each["name"]: each for each in world.desk.read(readers_of)}
    assert said["ann"]["finding"] is said["bob"]["finding"] is None
    assert said["cleo"]["finding"].startswith("cleo errs more often than the others: ")
    assert said["cleo"]["evidence"] >= 20
    for each in said.values():
        assert each["low"] < each["accuracy"] < each["high"]
        counts = each["confusion"]
        right = sum(counts[name][name] for name in CLASSES)
        assert right / 150 == each["accuracy"]


def test_a_void_golden_case_does_not_count(world):
    world.with_rules(classes=CLASSES)
    world.user("ann")
    golden(world, 1)
    read_all(world, "ann", np.random.default_rng(0), 0.0)
    world.desk.write(void_case, "g0", reason="its truth was wrong")
    (said,) = world.desk.read(readers_of)
    assert said["known"] == 0
    check_all(world.desk)


def test_second_readings_tell_about_both_readers(world):
    world.with_rules(classes=CLASSES, second_share=1.0)
    world.send(*(sent(f"c{i}", 0.6) for i in range(12)))
    for i in range(12):
        world.answer(world.claim("ann"), "cat", "ann")
        world.answer(world.claim("bob"), "cat" if i else "dog", "bob")
    world.answer(world.claim("zoe", "arbiter"), "cat", "zoe", "arbiter")
    said = {each["name"]: each for each in world.desk.read(readers_of)}
    assert (said["ann"]["accuracy"], said["bob"]["accuracy"]) == (1.0, 11 / 12)
    assert said["zoe"]["known"] == 0, "nobody checks an arbiter"


@pytest.mark.parametrize("in_clusters", [True, False])
def test_who_misreads_one_patient_is_not_named_for_all_images(world, in_clusters):
    world.with_rules(classes=CLASSES, second_share=1.0)
    patient = [{"cluster": f"patient-{max(i - 10, 0)}"} if in_clusters else {} for i in range(60)]
    world.send(*(sent(f"c{i}", 0.6, **patient[i]) for i in range(60)))
    for _ in range(60):  # the images of one patient are alike, and ann takes all of them for a dog
        held = world.claim("ann")
        world.answer(held, "dog" if int(held.key[1:]) <= 10 else "cat", "ann")
        world.answer(world.claim("bob"), "cat", "bob")
    while (held := world.claim("zoe", "arbiter")) is not None:
        world.answer(held, "cat", "zoe", "arbiter")
    said = {each["name"]: each for each in world.desk.read(readers_of)}
    whole = world.desk.read(second_readings)
    if in_clusters:
        assert said["ann"]["known"] == whole.settled == 50
        assert said["ann"]["accuracy"] == 49 / 50
        assert whole.right >= 49  # by whoever read the case first
        assert said["ann"]["finding"] is None
    else:
        assert said["ann"]["accuracy"] == 49 / 60
        assert whole.settled == 60
        assert said["ann"]["finding"] is not None
    assert (whole.n, whole.agreed) == (60, 49)


def test_readings_are_exported_as_the_library_reads_them(world, tmp_path):
    world.with_rules(classes=CLASSES)
    world.user("ann"), world.user("bob")
    golden(world, 12)
    rng = np.random.default_rng(0)
    read_all(world, "ann", rng, 0.0), read_all(world, "bob", rng, 0.4)
    assert export(world.desk, tmp_path / "readings.csv", which="readings") == 24
    with (tmp_path / "readings.csv").open() as file:
        rows = list(csv.DictReader(file))
    frame = {name: [row[name] for row in rows] for name in ("case", "reader", "answer")}
    readers = Readings.from_frame(frame).quality({row["case"]: row["truth"] for row in rows})
    said = {each["name"]: each["accuracy"] for each in world.desk.read(readers_of)}
    assert {reader.name: reader.accuracy.estimate for reader in readers} == said
    assert float(rows[0]["given"]) == world.clock.now / 1e6


def test_nobody_waits_for_somebody_who_is_away(world):
    world.with_rules(second_share=1.0)
    bob = world.user("bob")
    world.send_one("a", 0.6)
    world.answer(world.claim("ann"), "cat")
    assert world.desk.read(state_of)["backlog"]["stuck"] == 0
    world.desk.write(set_away, bob, world.clock.now + 1_000_000)
    assert world.desk.read(state_of)["backlog"]["stuck"] == 1
    assert world.claim("bob") is not None, "who comes back early may work"
    world.clock.turn(10_000)
    world.claim("ann")
    assert world.desk.read(state_of)["backlog"]["stuck"] == 0
    check_all(world.desk)


@pytest.mark.slow
def test_the_readers_page_and_the_interface_say_the_same(served):
    served.with_rules(classes=CLASSES)
    served.user("ann"), served.user("bob")
    lines = "".join(json.dumps({"key": f"g{i}", "label": CLASSES[i % 2]}) + "\n" for i in range(60))
    with visit(served, "boss", "manager") as client:
        sent_file = {"golden": ("golden.jsonl", lines.encode())}
        added = client.post("/manage/readers/golden", files=sent_file)
        assert added.headers["location"] == "/manage/readers?added=60"
        rng = np.random.default_rng(0)
        read_all(served, "ann", rng, 0.0), read_all(served, "bob", rng, 0.4)
        page = client.get("/manage/readers").text
        assert "bob errs more often than the others" in page
        assert "60 golden" in page
        got = client.get("/manage/export", params={"cases": "readings", "format": "csv"}).text
        assert got.splitlines()[0] == "case,reader,answer,truth,given,seconds"
        headers = {"Authorization": f"Bearer {served.token('boss2', 'manager')}"}
        said = client.get("/api/readers", headers=headers).json()["readers"]
        assert said == served.desk.read(readers_of)
    with visit(served, "cleo", "reader") as client:
        assert client.get("/manage/readers").status_code == 403


@pytest.mark.slow
def test_commands_list_people_policies_and_tokens(tmp_path):
    def typed(*words):
        done = CliRunner().invoke(app, ["desk", *words, "--data", str(tmp_path / "desk")])
        assert done.exit_code == 0, done.output
        return done.output

    from tests.desk.world import policy_text

    (tmp_path / "policy.json").write_text(policy_text(model_name="net"))
    typed("user", "add", "Ada", "--role", "reader")
    typed("user", "add", "Bo", "--role", "manager")
    typed("user", "add", "Cy", "--role", "manager")
    typed("user", "disable", "Bo")
    typed("user", "away", "Ada", "--until", "2099-01-01")
    assert typed("user", "list").splitlines()[:2] == ["Ada  reader  away", "Bo  manager  disabled"]
    for day, said in (("2020-01-06", "The day is over."), ("06.01.2099", "YYYY-MM-DD")):
        words = ["desk", "user", "away", "Ada", "--until", day, "--data", str(tmp_path / "desk")]
        refused = CliRunner().invoke(app, words)
        assert (refused.exit_code != 0, said in refused.output) == (True, True), refused.output
    typed("user", "enable", "Bo")
    typed("user", "away", "Ada")
    assert typed("user", "list").splitlines()[:2] == ["Ada  reader", "Bo  manager"]
    typed("token", "add", "scanner", "--role", "api")
    assert typed("token", "list") == "1  scanner  api\n"
    typed("policy", "activate", str(tmp_path / "policy.json"))
    assert re.match(r"1  active  accuracy 0.95, load [\d.]+%, model net\n", typed("policy", "list"))


@pytest.mark.slow
def test_a_person_is_disabled_in_two_steps_and_away_by_a_date(served):
    user = served.desk.write(add_user, "Ada", ["reader"])
    with visit(served, "boss", "manager") as client:
        page = client.get("/manage/people").text
        before = page.split(f"/manage/people/{user}/disable")[0]
        assert before.endswith('<form method="post" action="')
        assert before.rstrip().count("<details>") > before.rstrip().count("</details>")
        assert client.form(f"/manage/people/{user}/away", until="2099-01-01").status_code == 303
        assert "Away until 01 Jan 2099<" in client.get("/manage/people").text
        past = client.form(f"/manage/people/{user}/away", until="2020-01-06")
        assert (past.status_code, "The day is over." in past.text) == (422, True)
        assert client.form(f"/manage/people/{user}/away").status_code == 303
        assert "Away until" not in client.get("/manage/people").text
    assert served.desk.read(all_tokens) == []


# ------------------------------------------------------------------ the whole desk


def test_the_whole_desk_is_both_parts_by_their_shares(world):
    world.with_rules(quality_rate=1.0, second_share=1.0, classes=CLASSES)
    world.activate()
    assert world.desk.read(state_of)["whole"] is None
    world.send(*(sent(f"sure-{i}", 0.99) for i in range(30)))
    world.send(*(sent(f"unsure-{i}", 0.6) for i in range(10)))
    for name in ("ann", "bob"):
        while (held := world.claim(name)) is not None:
            world.answer(held, "dog" if (name, held.key) == ("ann", "unsure-3") else "cat", name)
    world.answer(world.claim("zoe", "arbiter"), "cat", "zoe", "arbiter")
    whole = world.desk.read(state_of)["whole"]
    assert whole["accuracy"] == pytest.approx(0.75 * 1.0 + 0.25 * 0.9)
    assert 0 < whole["low"] < whole["accuracy"] < whole["high"] <= 1


@pytest.mark.simulation
def test_the_interval_of_the_whole_desk_holds():
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(400):
        wrong, misread = rng.binomial(300, 0.04), rng.binomial(60, 0.12)
        monitor = {"counted": 300.0, "counted_errors": float(wrong), "open": 0}
        whole = whole_accuracy(0.3, monitor, SecondReadings(60, 0, 60, 60 - misread))
        held += whole["low"] <= 0.7 * 0.96 + 0.3 * 0.88 <= whole["high"]
    assert held >= 0.95 * 400
    assert whole["high"] - whole["low"] < 0.2, "it says something"
