"""What happens to people in a real browser: pressed twice, signed out, a desk that is away."""

from __future__ import annotations

import contextlib

import pytest
from sqlalchemy import select

pytest.importorskip("playwright")

from playwright.sync_api import expect

from expertload.desk.app import create_app
from expertload.desk.people.accounts import end_sessions
from expertload.desk.store.tables import answers
from tests.desk.people import person
from tests.desk.serving import serving
from tests.desk.tabs import Tab, image
from tests.desk.world import sent


@pytest.fixture
def place(tmp_path):
    """What a browser sees does not depend on the database."""
    return tmp_path / "desk"


@pytest.fixture
def served(world, browser):
    with serving(create_app(world.desk)) as address, contextlib.ExitStack() as stack:
        world.address, world.browser, world.stack = address, browser, stack
        yield world.with_rules(classes=("cat", "dog"), undo_seconds=60)


def holding(world, *, hasty=False):
    """A reader's page with a case on it."""
    world.send(*(image(f"case-{i}") for i in range(4)))
    tab = Tab(world, "ann", "reader", hasty=hasty).go()
    tab.click("Take it")
    return tab


def n_answers(world) -> int:
    return len(world.rows(select(answers)))


@pytest.mark.parametrize("by", ["mouse", "key"])
def test_what_is_pressed_twice_answers_one_case(served, by):
    tab = holding(served, hasty=True)
    tab.look()
    for _ in range(2):
        if by == "mouse":
            tab.page.locator("#classes button").first.click()
        else:
            tab.press("1")
        expect(tab.page).to_have_title("Case case-1 · expertload desk")
    expect(tab.page.locator("#too-soon")).to_contain_text("Look, and answer again")
    tab.page.wait_for_timeout(200)
    assert n_answers(served) == 1
    tab.look()
    tab.press("1", leads_to="case-2")
    assert n_answers(served) == 2


def test_nothing_moves_under_the_hand_when_undo_is_over(served):
    served.with_rules(undo_seconds=2)
    tab = holding(served)
    tab.press("1", leads_to="case-1")
    button = tab.page.locator("#classes button").first
    before = button.bounding_box()
    undo = tab.page.get_by_text("You answered")
    expect(undo).to_be_visible()
    expect(undo).to_be_hidden(timeout=10_000)
    assert button.bounding_box() == before
    tab.press("u")
    tab.page.wait_for_timeout(200)
    assert "case-1" in tab.title, "what is not there cannot be pressed"


def test_a_reader_who_was_signed_out_is_told_and_comes_back_to_the_case(served):
    tab = holding(served)
    served.desk.write(end_sessions, person(served.desk, "ann"))
    tab.press("1", leads_to="Sign in")
    assert "what you sent was not saved" in tab.text()
    assert tab.page.locator("[name=next]").input_value() == "/review"
    assert n_answers(served) == 0


def test_an_idle_reader_who_was_signed_out_is_sent_to_sign_in(served):
    tab = Tab(served, "ann", "reader").go()
    served.desk.write(end_sessions, person(served.desk, "ann"))
    expect(tab.page).to_have_title("Sign in · expertload desk", timeout=20_000)


@pytest.mark.parametrize(("path", "role"), [("/manage", "manager"), ("/review", "reader")])
def test_a_page_says_when_the_desk_does_not_answer(served, path, role):
    served.send(sent("a"))
    served.answer(served.claim("ben"), "cat", "ben")
    tab = Tab(served, "max", role).go(path)
    gone = tab.page.get_by_text("The desk does not answer")
    expect(gone).to_be_hidden()
    tab.page.context.set_offline(True)
    expect(gone).to_be_visible(timeout=20_000)
    tab.page.context.set_offline(False)
    expect(gone).to_be_hidden(timeout=20_000)


def test_an_overview_whose_session_is_over_does_not_stay(served):
    tab = Tab(served, "max", "manager").go("/manage")
    served.desk.write(end_sessions, person(served.desk, "max"))
    expect(tab.page).to_have_title("Sign in · expertload desk", timeout=20_000)


def test_more_time_is_said_only_where_there_is_more(served):
    tab = holding(served)
    served.clock.turn(1_000)
    served.claim("ben")
    with tab.page.expect_response("**/review/extend"):
        tab.press("t")
    expect(tab.page.locator("#clock-notice")).to_have_text("Your time was over.")
    expect(tab.page.locator("#left")).to_contain_text("over")


def test_a_clock_goes_on_while_the_machine_sleeps(served):
    """A machine that sleeps stops the counter of its pages, and not the clock on the wall."""
    served.send(image("case-0"))
    tab = Tab(served, "ann", "reader")
    tab.page.clock.install()
    tab.go().click("Take it")
    frozen = "performance.now = () => 0"
    tab.page.evaluate(frozen)
    tab.page.clock.fast_forward(3_600_000)
    expect(tab.page.locator("#left")).to_contain_text("over", timeout=10_000)
