"""The numbers that managers see are those that a count gives, and never better than the truth."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import numpy as np
import pytest
from sqlalchemy import func, select

from expertload.desk.pages import overview as page
from expertload.desk.pages.overview import course_of, hourly_bars, overview
from expertload.desk.store.tables import cases, monitors, policies, projects, readings
from expertload.desk.watch.state import edit_rules, state_of
from expertload.exceptions import DeskRefusedError
from expertload.operating_point import certify
from tests.desk.people import visit
from tests.desk.test_watch import read_all
from tests.desk.world import CLASSES, _saved, sent


def text_of(page: str) -> str:
    """What a person reads of a page."""
    return re.sub(r"\s+", " ", unescape(re.sub("<[^>]*>", " ", page))).replace("\u202f", " ")


def policy_of(target: float) -> str:
    """A policy that promises this accuracy."""
    rng = np.random.default_rng(1)
    sure = rng.uniform(0.5, 1, size=4_000)
    right = rng.random(4_000) < np.where(sure < 0.8, 0.6, 1.0)
    y_proba = np.stack([sure, 1 - sure], axis=1)
    y_true = np.array(CLASSES)[np.where(right, 0, 1)]
    return _saved(certify(y_true, y_proba, target_accuracy=target, labels=list(CLASSES)))


def monitor(world):
    return world.rows(select(monitors).order_by(monitors.c.id.desc()))[0]


# ------------------------------------------------------------------ as they are written


@pytest.mark.parametrize(("target", "said"), [(0.975, "97.5 %"), (0.995, "99.5 %")])
def test_a_promise_is_written_as_it_was_made(served, target, said):
    served.activate(policy_of(target))
    with visit(served, "max", "manager") as client:
        assert f"{said} accuracy was promised" in text_of(client.get("/manage").text)


def test_a_level_of_confidence_is_written_as_it_was_chosen(served):
    served.with_rules(alarm_level=0.004)
    served.activate()
    with visit(served, "max", "manager") as client:
        assert "holds with 99.6 % confidence" in text_of(client.get("/manage").text)


def test_what_is_sure_is_rounded_down(served):
    served.with_rules(quality_rate=1.0)
    served.activate()
    served.send(sent("a"), sent("b"))
    served.answer(served.claim(), "cat")
    served.desk.database.write(
        lambda c: c.execute(
            monitors.update().values(
                bound=0.94996, audited=2_000, errors=1, counted=2_000, counted_errors=1
            )
        )
    )
    with visit(served, "max", "manager") as client:
        page = text_of(client.get("/manage").text)
    assert "At least 94.9 % is sure" in page
    assert "95.0 %" not in page
    assert "so far 99.9 %" in page, "one was wrong"


def test_fewer_right_than_promised_is_not_called_well(served):
    served.with_rules(quality_rate=1.0)
    served.activate()
    served.send(*(sent(f"case-{i}") for i in range(22)))
    with visit(served, "max", "manager") as client:
        served.answer(served.claim(), "cat")
        assert "Audits do not speak against it so far" in text_of(client.get("/manage").text)
        read_all(served, lambda key: "dog" if key in ("case-3", "case-4") else "cat")
        page = text_of(client.get("/manage").text)
    assert "Audits do not speak against it" not in page
    assert "So far 90.9 % of the audited decisions are right, which may be chance: 22" in page


# ------------------------------------------------------------------ as they are counted


def test_checks_that_nobody_has_answered_are_counted_at_once(served):
    """The monitor moves with answers; what was drawn since is drawn all the same."""
    served.with_rules(quality_rate=1.0)
    served.activate()
    served.send(*(sent(f"case-{i}") for i in range(7)))
    with visit(served, "max", "manager") as client:
        page = text_of(client.get("/manage").text)
        assert "7 automatic decisions were drawn for a blind check: 0 wrong, 7 not answered" in page
        served.answer(served.claim(), "cat")
        served.send(sent("one more"))
        page = text_of(client.get("/manage").text)
        assert "8 automatic decisions were drawn for a blind check: 0 wrong, 7 not answered" in page


def test_the_oldest_wait_is_that_of_the_oldest(world):
    """Not of the one that is due first: a second reading of an old case has just been asked for."""
    world.with_rules(classes=CLASSES, second_share=1)
    world.send(sent("first", 0.6), sent("second", 0.6))
    world.clock.turn(3_600)
    world.answer(world.claim(), "cat")
    world.send(sent("urgent", 0.6, due=world.clock.now / 1e6))
    world.clock.turn(60)
    assert world.desk.read(state_of)["backlog"]["oldest_seconds"] == 3_660
    oldest = select(func.min(readings.c.created)).where(readings.c.state == "waiting")
    ((created,),) = world.rows(oldest)
    assert world.clock.now - created == 3_660_000_000


def test_the_picture_ends_with_the_latest_audits(world, monkeypatch):
    """However many there were before: a desk that has audited long ago must not look well."""
    world.with_rules(quality_rate=1.0, raised_rate=1.0)
    world.activate()
    world.send(*(sent(f"case-{i:03}") for i in range(60)))
    read_all(world, lambda key: "cat" if key < "case-050" else "dog")
    world.send(*(sent(f"late-{i}") for i in range(3)))
    whole = world.desk.read(overview)["course"]
    monkeypatch.setattr(page, "MOST_AUDITS", 20)
    part = world.desk.read(overview)["course"]
    last = whole["frame"].x_range[1]
    assert part["frame"].x_range == (last - 19, last)
    for name in ("estimate", "bound"):
        assert _end(part, name) == pytest.approx(_end(whole, name), abs=2e-3), name


def test_the_picture_and_the_monitor_count_the_same_audits_of_a_cluster(served, monkeypatch):
    """The first audit of a patient: the others depend on it."""
    served.with_rules(quality_rate=1.0, raised_rate=1.0, audit_second_share=0)
    served.activate()
    served.send(*(sent(f"case-{i:02}", cluster=f"patient-{i % 9}") for i in range(40)))
    for n, most in enumerate([5_000] * 12 + [4] * 12):
        monkeypatch.setattr(page, "MOST_AUDITS", most)
        held = served.claim()
        served.answer(held, "dog" if held.key in ("case-01", "case-20") else "cat")
        served.send(sent(f"new-{n:02}", cluster=f"patient-{n}"))
        view = served.desk.read(overview)
        if view["course"] is not None:
            bound = max(monitor(served).bound, view["course"]["frame"].y_range[0])
            assert _end(view["course"], "bound") == pytest.approx(bound, abs=2e-3)
    assert view["drawn"]["n"] == 24, "9 patients, and 15 new ones"
    with visit(served, "max", "manager") as client:
        assert client.get("/manage").status_code == 200


def test_weights_that_differ_by_rounding_are_drawn():
    wrong, ones = np.array([0.0, 0.0, 1.0]), np.ones(3)
    # The two before them were not wrong and count nothing, but for rounding.
    nearly = {"audited": 5, "open": 0, "counted": 3 - 7.1e-15, "counted_errors": 1 - 7.1e-15}
    assert course_of(wrong, 0 * wrong, ones, nearly, 0.9, 0.95) is not None


def _end(course, name: str) -> float:
    """The value at which a line of a picture ends."""
    start, steps = course[name][1:].split("l")
    y = float(start.split()[1]) + sum(float(step) for step in steps.split()[1::2])
    frame = course["frame"]
    low, high = frame.y_range
    return low + (frame.bottom - y) / (frame.bottom - frame.top) * (high - low)


def test_a_picture_goes_on_from_what_came_before():
    rng = np.random.default_rng(0)
    wrong = (rng.random(300) < 0.05).astype(float)
    is_open = np.where(wrong, 0.0, (rng.random(300) < 0.1).astype(float))
    n_open = is_open.sum()
    sums = {"audited": 300, "open": n_open, "counted": 300 - n_open, "counted_errors": wrong.sum()}
    ones = np.ones(len(wrong))
    whole = course_of(wrong, is_open, ones, sums, 0.9, 0.95)
    part = course_of(wrong[100:], is_open[100:], ones[100:], sums, 0.9, 0.95)
    for name in ("estimate", "bound"):
        assert _end(part, name) == pytest.approx(_end(whole, name), abs=2e-3), name


def test_large_numbers_are_readable():
    bars = hourly_bars([(datetime(2026, 5, 1, 10, tzinfo=UTC), 2_500_000, 2_000_000, 300)])
    assert [tick.label for tick in bars["y_ticks"]][-1] == "2\u202f500\u202f000"


@pytest.mark.parametrize("n", range(1, 25))
def test_the_last_hour_has_a_label_and_the_others_are_even(n):
    start = datetime(2026, 5, 1, tzinfo=UTC)
    bars = hourly_bars([(start + timedelta(hours=i), 5, 4, 3) for i in range(n)])
    labels = [re.sub("<.*?>", "", tick.label) for tick in bars["x_ticks"]]
    shown = range(n - 1, -1, -1 if n <= 8 else -3)
    assert labels == [f"{i:02}:00" for i in reversed(shown)]
    assert [tick.is_minor for tick in bars["x_ticks"]][::-1] == [
        i % 2 == 1 for i in range(len(shown))
    ]


def test_every_tile_of_the_overview_recounts(served):
    served.with_rules(quality_rate=0.5, second_share=0.5)
    served.activate()
    served.send(*(sent(f"case-{i}", 0.99 if i % 3 else 0.6) for i in range(60)))
    served.clock.turn(120)
    for name in ("ann", "ben"):
        for _ in range(12):
            held = served.claim(name)
            served.clock.turn(6)
            served.answer(held, "cat", name)
    served.claim("cleo")
    rows = served.rows(select(cases))
    looked = {row.state: row.n for row in served.rows(_by_state(readings))}
    decided = sum(row.state == "auto" for row in rows)
    with visit(served, "max", "manager") as client:
        page = text_of(client.get("/manage").text)
    assert f"Cases received 60 {decided} decided automatically" in page
    load = f"{100 * (1 - decided / 60):.1f} %"
    assert f"Expert load {load} {100 * decided / 60:.1f} % automated; " in page
    waiting = (
        f"Waiting for a reader {looked['waiting']} {looked['leased']} being read, 0 in dispute"
    )
    assert waiting in page
    minutes, seconds = divmod(looked["waiting"] * 6, 60)
    assert f"in dispute; {minutes} min {seconds} s of work" in page
    ((created,),) = served.rows(
        select(func.min(readings.c.created)).where(readings.c.state == "waiting")
    )
    minutes, seconds = divmod((served.clock.now - created) // 1_000_000, 60)
    assert f"Oldest wait {minutes} min {seconds} s" in page
    drawn = [row.audit for row in rows if row.audit]
    checked = f"{len(drawn)} automatic decisions were drawn for a blind check: 0 wrong, "
    assert checked + f"{drawn.count('open')} not answered yet" in page


def _by_state(table):
    return select(table.c.state, func.count().label("n")).group_by(table.c.state)


# ------------------------------------------------------------------ under other rules


@pytest.mark.slow
def test_another_level_is_another_bound(world):
    """What is confirmed at one level need not be at the next, from the moment it is chosen."""
    world.with_rules(quality_rate=1.0, alarm_level=0.2)
    world.activate()
    world.send(*(sent(f"case-{i}") for i in range(70)))
    read_all(world, lambda key: "cat")
    loose = monitor(world)
    assert loose.state == "confirmed"
    world.with_rules(alarm_level=0.001)
    strict = monitor(world)
    assert strict.state == "not refuted"
    assert strict.bound < loose.bound
    world.with_rules(alarm_level=0.2)
    assert (monitor(world).state, monitor(world).bound) == (loose.state, loose.bound)


@pytest.mark.slow
def test_evidence_that_is_enough_for_the_new_level_ends_the_policy_at_once(world):
    world.with_rules(quality_rate=1.0, raised_rate=1.0, alarm_level=0.0001)
    number = world.activate()
    world.send(*(sent(f"case-{i}") for i in range(40)))
    read_all(world, lambda key: "dog" if int(key[5:]) % 4 == 0 else "cat")
    evidence = monitor(world).evidence
    assert 20 < evidence < 10_000, evidence
    world.with_rules(alarm_level=0.05)
    ended = {row.id: row for row in world.rows(select(policies))}[number]
    assert (ended.state, monitor(world).state) == ("withdrawn", "refuted")
    assert monitor(world).alarmed == world.clock.now


def test_rules_change_before_anything_was_audited(world):
    world.with_rules(alarm_level=0.1)
    world.activate()
    world.with_rules(alarm_level=0.2, quality_rate=0.7)
    assert monitor(world).state == "not refuted"
    ((rate,),) = world.rows(select(projects.c.sampling_rate))
    assert rate == 0.7


def test_a_comma_in_a_number_is_pointed_out(world):
    with pytest.raises(DeskRefusedError) as refused:
        world.desk.write(edit_rules, {"quality_rate": "0,1"})
    assert refused.value.hint == "use a point: 0.1."
