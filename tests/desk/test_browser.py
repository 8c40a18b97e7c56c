"""The pages in a real browser: by keyboard, by phone, without script, and for a whole day."""

from __future__ import annotations

import contextlib
import re

import pytest
from sqlalchemy import select

from expertload.cases import Cases

pytest.importorskip("playwright")

from playwright.sync_api import expect

from expertload.desk.app import create_app
from expertload.desk.client import DeskClient
from expertload.desk.intake.shadows import PILOT
from expertload.desk.people.sessions import make_link
from expertload.desk.store.tables import answers, monitors, policies, readings, skips
from expertload.evaluation import evaluate
from expertload.exceptions import DeskRefusedError
from expertload.io import read_predictions
from tests.desk.people import person
from tests.desk.serving import serving
from tests.desk.tabs import Tab, image
from tests.desk.world import policy_text, sent


@pytest.fixture
def place(tmp_path):
    """What a browser sees does not depend on the database."""
    return tmp_path / "desk"


@pytest.fixture
def served(world, browser):
    with serving(create_app(world.desk)) as address, contextlib.ExitStack() as stack:
        world.address, world.browser, world.stack = address, browser, stack
        yield world


def labels(world) -> list[str]:
    return [row.label for row in world.rows(select(answers).order_by(answers.c.id))]


# ------------------------------------------------------------------ reading


def test_a_phone_shows_a_long_text_to_its_end(served):
    """A text in a box that scrolls by itself looks complete although its end is hidden."""
    content = "\n".join(f"line {i}" for i in range(200))
    served.send(sent("long", body={"kind": "text", "content": content}))
    tab = Tab(served, "ann", "reader", width=360, height=640).go()
    tab.click("Take it")
    inner = "box => [box.scrollHeight, box.clientHeight]"
    whole, shown = tab.page.locator(".paper").evaluate(inner)
    assert whole == shown > 3_000


def test_a_reader_needs_no_mouse(served):
    served.with_rules(classes=("cat", "dog", "owl"), undo_seconds=60)
    served.send(*(image(f"case-{i}") for i in range(4)))
    link = served.desk.write(make_link, person(served.desk, "ann", "reader"))
    tab = Tab(served, None).go(f"/welcome/{link}")
    tab.press("Enter", leads_to="A case waits")
    tab.press("Enter", leads_to="case-0")
    tab.press("2", leads_to="case-1")
    assert "You answered dog" in tab.text()
    tab.press("u", leads_to="case-0")
    tab.press("ArrowDown")
    tab.press("ArrowDown")
    tab.press("ArrowDown")
    tab.press("Enter", leads_to="case-1")
    assert labels(served) == ["dog", "owl"]
    tab.press("s")
    tab.page.get_by_label("Not my field").check()
    with tab.page.expect_navigation():
        tab.page.get_by_role("button", name="Pass it on to somebody else").press("Enter")
    assert "case-2" in tab.title
    (skipped,) = served.rows(select(skips))
    assert skipped.reason == "Not my field"
    tab.press("b", leads_to="A case waits")
    assert not served.rows(select(readings).where(readings.c.state == "leased"))
    assert not tab.complaints


def test_keys_can_be_switched_off_and_stay_off(served):
    served.with_rules(classes=("cat", "dog"))
    served.send(image("case-0"), image("case-1"))
    tab = Tab(served, "ann", "reader").go()
    tab.press("Enter", leads_to="case-0")
    assert tab.page.locator("kbd").first.is_visible()
    tab.press("?")
    assert "more, less contrast" in tab.text("#help")
    tab.page.get_by_label("Keys are on").uncheck()
    tab.page.locator("h1").click()
    tab.press("1")
    tab.go()
    tab.press("1")
    tab.page.wait_for_timeout(200)
    assert labels(served) == []
    assert not tab.page.locator("#classes kbd").first.is_visible()
    tab.click("cat")
    assert labels(served) == ["cat"]


def test_one_of_a_thousand_classes_is_found_by_typing(served):
    names = (*(f"Art {i}" for i in range(998)), "Grünspecht", "Zaunkönig")
    served.with_rules(classes=names)
    served.send(image("case-0"), image("case-1"))
    tab = Tab(served, "ann", "reader").go()
    tab.press("Enter", leads_to="case-0")
    tab.page.keyboard.type("grunsp")
    assert tab.page.locator("#classes button:visible").all_inner_texts() == ["Grünspecht"]
    assert "Enter answers with Grünspecht" in tab.text("#found")
    tab.press("Enter", leads_to="case-1")
    tab.press("Escape")
    tab.press("/")
    tab.page.keyboard.type("Art 7")
    assert tab.page.locator("#classes button:visible").count() == 111
    assert tab.page.locator("#classes button.first").get_attribute("value") == "Art 7"
    tab.page.keyboard.type("zzz")
    assert "No class" in tab.text("#found")
    assert labels(served) == ["Grünspecht"]


def test_an_image_can_be_enlarged_and_made_clearer(served):
    served.with_rules(classes=("cat", "dog"))
    served.send(image("case-0"))
    tab = Tab(served, "ann", "reader").go()
    tab.press("Enter", leads_to="case-0")
    shown = tab.page.locator("#image")
    fitted = shown.bounding_box()["width"]
    for _ in range(3):
        tab.press("+")
    assert shown.evaluate("e => e.width") > 1.5 * shown.evaluate("e => e.naturalWidth")
    assert tab.page.locator("#frame").evaluate("e => e.scrollWidth > e.clientWidth")
    for key in "cci":
        tab.press(key)
    assert shown.evaluate("e => e.style.filter") == "contrast(140%) brightness(100%) invert(1)"
    tab.press("r")
    assert shown.evaluate("e => e.style.filter") == "contrast(100%) brightness(100%) invert(0)"
    assert shown.bounding_box()["width"] == fitted
    assert not tab.complaints


def test_time_left_is_shown_and_grows_while_somebody_works(served):
    served.with_rules(classes=("cat", "dog"), lease_seconds=300)
    served.send(image("case-0"))
    tab = Tab(served, "ann", "reader").go()
    tab.press("Enter", leads_to="case-0")
    (before,) = served.rows(select(readings.c.until))
    served.clock.turn(200)
    tab.go()
    assert re.match(r"1:(40|3\d)", tab.text("#left"))
    with tab.page.expect_response("**/review/extend"):
        tab.press("t")
    expect(tab.page.locator("#left")).to_have_text(re.compile("4:5|5:0"))
    (after,) = served.rows(select(readings.c.until))
    assert after.until == before.until + 200_000_000


def test_the_next_image_is_there_before_it_is_wanted(served):
    served.with_rules(classes=("cat", "dog"))
    served.send(image("case-0"), image("case-1"))
    tab = Tab(served, "ann", "reader").go()
    following = f"/review/body/{served.case('case-1').id}"
    with tab.page.expect_response(f"**{following}") as fetched:
        tab.press("Enter", leads_to="case-0")
    assert fetched.value.ok
    with tab.page.expect_response(f"**{following}") as again:
        tab.press("1", leads_to="case-1")
    assert again.value.request.timing["requestStart"] <= 0, "from the browser's own memory"


def test_without_script_everything_essential_works(served):
    served.with_rules(classes=("cat", "dog"))
    served.send(image("case-0"), image("case-1"))
    tab = Tab(served, "ann", "reader", java_script_enabled=False).go()
    tab.click("Take it")
    assert tab.page.locator("#image").is_visible()
    assert not tab.page.locator("kbd").first.is_visible()
    tab.click("dog")
    assert "case-1" in tab.title
    tab.click("Undo")
    assert "case-0" in tab.title
    tab.page.get_by_text("Pass it on").first.click()
    tab.click("Pass it on to somebody else")
    assert "case-1" in tab.title
    tab.click("More time")
    tab.click("Put it back and stop")
    assert labels(served) == ["dog"]
    assert not served.rows(select(readings).where(readings.c.state == "leased"))


# ------------------------------------------------------------------ every page

EVERYTHING = ("reader", "arbiter", "manager", "auditor")
PAGES = ("/review", "/manage", "/manage/policies", "/manage/people", "/audit", "/account")


@pytest.fixture
def busy(served):
    served.with_rules(quality_rate=1.0, second_share=0.5)
    served.activate()
    served.send(*(sent(f"case-{i}", 0.5 + i / 60) for i in range(30)), image("picture"))
    for name in ("ann", "ben"):
        for _ in range(12):
            held = served.claim(name)
            if held is not None:
                served.answer(held, "cat" if held.key != "case-29" else "dog", name)
    served.token("a program", "api")
    return served


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_pages_are_accessible_and_ask_nobody_else(busy, theme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    tab = Tab(busy, "boss", *EVERYTHING, width=width, color_scheme=theme).go()
    tab.click("Take it")
    stranger = Tab(busy, None, width=width, color_scheme=theme)
    for each, path in [*((tab, path) for path in PAGES), (stranger, "/sign-in")]:
        each.go(path)
        for summary in each.page.locator("summary:visible").all()[:3]:
            summary.click()
        found = axe.run(each.page)
        assert found.violations_count == 0, (path, found.generate_report())
        wide = each.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{path} scrolls sideways: {wide}"
    for each in (tab, stranger):
        assert each.requests
        assert all(url.startswith(busy.address) for url in each.requests)
        assert not each.complaints


def test_the_overview_moves_by_itself(busy):
    tab = Tab(busy, "boss", "manager").go("/manage")
    before = int(re.match(r"\d+", tab.page.locator(".tiles dd").first.inner_text()).group())
    busy.send(*(sent(f"new-{i}", 0.99) for i in range(5)))
    first = tab.page.locator(".tiles dd").first
    expect(first).to_contain_text(str(before + 5), timeout=20_000)
    assert not tab.complaints


@pytest.mark.parametrize(
    ("zone", "options", "hour", "tip"),
    [
        ("Australia/Adelaide", {"locale": "en-GB"}, "08:30", "08:30"),
        ("America/New_York", {"locale": "en-US"}, r"5:00\sPM", r"5:00\sPM"),
        ("UTC", {"java_script_enabled": False}, "22:00", "22:00 UTC"),
    ],
)
def test_hours_are_those_of_the_manager_or_said_to_be_utc(busy, zone, options, hour, tip):
    """It is 22:13 in Greenwich."""
    if "locale" in options:
        options = {**options, "timezone_id": zone}
    tab = Tab(busy, "boss", "manager", **options).go("/manage")

    def check(came):
        chart = tab.page.locator("figure", has_text="Cases an hour")
        last = chart.locator("title").last
        expect(last).to_have_text(re.compile(f"^{tip}: {came} came, "), timeout=20_000)
        expect(chart.locator("tspan").last).to_have_text(re.compile(f"^{hour}$"))
        assert f"Hour ({zone})" in chart.inner_text()
        said = chart.locator("svg").get_attribute("aria-label")
        assert f"; this hour: {came} came, " in said

    check(31)
    if "locale" in options:
        busy.send(sent("new"))
        check(32)
    assert not tab.complaints


def test_managers_give_people_access(served):
    tab = Tab(served, "boss", "manager").go("/manage/people")
    tab.page.get_by_label("Name").first.fill("Zoë")
    tab.click("Add, and make a link")
    link = tab.text(".secret").strip()
    assert tab.go("/manage/people").page.locator(".secret").count() == 0, "shown once"
    guest = Tab(served, None)
    guest.page.goto(link)
    guest.click("Enter the desk")
    assert "Nothing waits" in guest.title
    tab.page.get_by_label("Disable Zoë").click()
    tab.click("End the access of Zoë")
    guest.go()
    assert "Sign in" in guest.title
    tab.page.get_by_label("Name").nth(1).fill("scanner")
    tab.click("Make a token")
    with DeskClient(served.address, tab.text(".secret").strip()) as client:
        assert client.send(sent("a")).is_acknowledged
        tab.page.get_by_label("End token").first.click()
        tab.click("for good")
        with pytest.raises(DeskRefusedError):
            client.send(sent("b"))


# ------------------------------------------------------------------ a whole day


def work(tab, truth, *, most=200) -> int:
    """Read by keyboard until nothing waits; return how many were read."""
    done = 0
    tab.go()
    while done < most and "Nothing waits" not in tab.title:
        if "A case waits" in tab.title:
            tab.press("Enter", leads_to="")
            continue
        key = re.search("Case (.*) ·", tab.title).group(1)
        tab.press("1" if truth(key) == "cat" else "2", leads_to="")
        done += 1
    if "Case" in tab.title:
        tab.press("b", leads_to="")
    return done


def test_a_whole_day(served, tmp_path):
    """Cases arrive, drift begins, the alarm falls, a new policy is certified from blind labels."""
    served.with_rules(quality_rate=0.5, raised_rate=1.0, undo_seconds=0, certify_share=1.0)
    file = tmp_path / "policy.json"
    file.write_text(policy_text())
    boss = Tab(served, "boss", "manager", "auditor").go("/manage/policies")
    boss.page.get_by_label("Policy file").set_input_files(file)
    boss.click("Keep it as a draft")
    boss.click("Activate")
    assert "decides from now on" in boss.text()

    readers = [Tab(served, name, "reader") for name in ("ann", "ben")]
    arbiter = Tab(served, "cleo", "arbiter")
    token = served.token("the model", "api")
    with DeskClient(served.address, token) as sender:
        morning = [sent(f"morning-{i}", 0.99 if i % 3 else 0.6) for i in range(12)]
        statuses = {outcome.status for outcome in sender.send_many(morning)}
        assert statuses == {"decided", "delegated"}
        assert work(readers[0], lambda key: "cat", most=3) == 3
        assert work(readers[1], lambda key: "cat") > 0
        assert "Not refuted yet" in boss.go("/manage").text()

        # Drift: the model is as sure as before, and wrong.
        for i in range(60):
            outcome = sender.send(sent(f"noon-{i}", 0.99))
            if outcome.status == "delegated":
                break
            work(readers[i % 2], lambda key: "dog")
            work(arbiter, lambda key: "dog")
        assert outcome.status == "delegated", "the alarm must have fallen"
        said = boss.go("/manage").text()
        assert "Refuted" in said
        assert "alarm, the promise is refuted" in said
        served.clock.turn(60)  # only what comes after the alarm is evidence for a new policy
        n_evening = PILOT + 150  # the first ones set the thresholds
        evening = [sent(f"evening-{i}", 0.99 - (i % 5) / 1000) for i in range(n_evening)]
        assert {outcome.status for outcome in sender.send_many(evening)} == {"delegated"}

        # Experts read everything; most of it here without a browser, which is only slower.
        work(readers[0], lambda key: "cat", most=5)
        while (held := served.claim("dora")) is not None:
            served.answer(held, "cat", "dora")
        boss.go("/manage/policies")
        assert "labelled blind" in boss.text()
        boss.page.get_by_label("Accuracy to promise").fill("0.9")
        boss.click("Certify")
        assert "certified from blind labels" in boss.text()
        boss.click("Activate")
        assert sender.send(sent("night", 0.99)).status == "decided"

        # What the withdrawn policy decided is read again.
        boss.page.get_by_text("Look back at what it decided").click()
        boss.click("Let experts read them")
        assert "wait to be read again" in boss.text()

    states = [row.state for row in served.rows(select(policies).order_by(policies.c.id))]
    assert states == ["withdrawn", "active"]
    _check_export(served, boss, tmp_path)
    boss.go("/audit").click("Verify everything")
    assert "Nothing was changed" in boss.text()


def _check_export(world, boss, folder):
    """The file that a manager downloads gives the monitor's own numbers."""
    boss.go("/manage").page.locator("[name=cases]").select_option("audited")
    boss.page.locator("[name=format]").select_option("parquet")
    with boss.page.expect_download() as download:
        boss.page.get_by_role("button", name="Download").click()
    file = folder / "audited.parquet"
    download.value.save_as(file)
    table = read_predictions(file)
    evaluation = evaluate(
        Cases.from_predictions(table.y_true, table.cases.proba), target_accuracy=0.9
    )
    counted = world.rows(select(monitors))
    n, wrong = sum(m.audited - m.open for m in counted), sum(m.errors for m in counted)
    assert evaluation.n_cases == n
    assert evaluation.accuracy.estimate == pytest.approx(1 - wrong / n)
