"""The whole story of a challenger in a real browser, from its first answers to an empty queue."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

import pytest
from sqlalchemy import select

pytest.importorskip("playwright")

from expertload.desk.app import create_app
from expertload.desk.client import DeskClient
from expertload.desk.intake import shadows as intake_shadows
from expertload.desk.store.tables import readings
from expertload.desk.watch import challengers
from tests.desk.invariants import check_all
from tests.desk.serving import serving
from tests.desk.tabs import Tab
from tests.desk.test_challengers import PILOT, cat, running
from tests.desk.world import sent


@pytest.fixture
def place(tmp_path):
    return tmp_path / "desk"


@pytest.fixture
def served(world, browser, monkeypatch):
    monkeypatch.setattr(challengers, "PILOT", PILOT)
    monkeypatch.setattr(intake_shadows, "PILOT", PILOT)
    with serving(create_app(world.desk)) as address, contextlib.ExitStack() as stack:
        world.address, world.browser, world.stack = address, browser, stack
        yield world


def look(tab, name):
    """Keep a picture, if somebody wants to see it."""
    folder = os.environ.get("DESK_PICTURES")
    if folder:
        tab.page.screenshot(path=str(Path(folder, f"{name}.png")), full_page=True)


def test_from_the_first_shadow_to_an_empty_queue(served):
    world = running(served)
    tab = Tab(world, "mia", "manager").go("/manage/challengers")
    assert "No model is in shadow" in tab.text()
    n = PILOT + 140
    with DeskClient(world.address, world.token("scanner", "api")) as client:
        sent_cases = [sent(f"c{i:03}", 0.6 if i % 3 else 0.99, model="A") for i in range(n)]
        assert all(outcome.is_acknowledged for outcome in client.send_many(sent_cases))
        answers = [
            {
                "key": f"c{i:03}",
                "model": "B",
                "probabilities": cat(0.9 + i / 1000 if i < PILOT else 0.99),
            }
            for i in range(n)
        ]
        assert [o.status for o in client.send_shadows(answers)] == ["stored"] * n
    tab.go("/manage/challengers")
    assert "Not yet" in tab.text()
    assert "it is not shown that an accuracy of 0.95 is kept" in tab.text()
    assert tab.page.get_by_role("button", name="Let it decide").count() == 0
    for _ in range(PILOT + 125):
        world.answer(world.claim(), "cat")
    look(tab.go("/manage/challengers"), "may")
    assert "The new model may take over" in tab.text()
    tab.click(re.compile("a share of 10"))
    assert "On trial: 10" in tab.text()
    look(tab, "trial")
    other = Tab(world, "max", "manager").go("/manage/challengers")
    tab.click(re.compile("a share of 50"))
    other.click("Let it decide all cases")
    assert "decides a share of 0.5 now: somebody was faster" in other.text()
    world.with_rules(quality_rate=0.0)
    tab.click("Let it decide all cases")
    assert "decided anew" in tab.text()
    assert "Decides" in tab.text()
    left = world.rows(select(readings).where(readings.c.state == "waiting"))
    assert {row.why for row in left} <= {"quality"}, "only checks of what is decided are left"
    tab.go("/manage")
    check_all(world.desk)
    tab.go("/manage/challengers").click("Go back")
    assert "decides nothing any more" in tab.text()
    assert tab.complaints == []
    phone = Tab(world, "pia", "manager", width=360, height=740).go("/manage/challengers")
    look(phone, "phone")
    wide = phone.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 360
