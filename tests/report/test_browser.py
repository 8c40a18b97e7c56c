"""The page in a real browser: what readers see and do."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from expertload.cases import Cases
from expertload.evaluation import evaluate
from expertload.operating_point import at_threshold
from expertload.report import build_report
from expertload.report.slider import find_stops
from expertload.significance import coc_band
from tests.report.conftest import predictions

PRECISION = {"rel": 1e-12, "abs": 1e-12}


@pytest.fixture(scope="module")
def page(models, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    return build_report(models, path=path, expert_accuracy=0.97, volume=12_000, minutes_a_case=2.5)


def assert_shows_the_library(seen, evaluation, stop, threshold):
    """Compare what the panel says at a stop with what the library says at its threshold."""
    point = at_threshold(evaluation.cases, threshold=threshold)
    seen.go_to(stop)
    assert seen.value("threshold") == (None if math.isinf(threshold) else threshold)
    assert seen.value("load") == pytest.approx(point.expert_load, **PRECISION)
    assert seen.value("spared") == pytest.approx(point.n_errors_spared, **PRECISION)
    assert seen.value("remaining") == pytest.approx(point.n_errors, **PRECISION)
    team = point.team_accuracy(expert_accuracy=0.97)
    assert seen.value("team") == pytest.approx(team, **PRECISION)
    assert seen.value("hours") == pytest.approx(12_000 * point.expert_load * 2.5 / 60, **PRECISION)
    if point.accuracy is None:
        assert seen.value("accuracy") is None
        return
    assert seen.value("accuracy") == pytest.approx(point.accuracy, **PRECISION)
    band = coc_band(evaluation.cases)
    row = np.searchsorted(band.thresholds, threshold)
    assert seen.value("low") == pytest.approx(band.low[row], **PRECISION)
    assert seen.value("high") == pytest.approx(band.high[row], **PRECISION)


def test_every_number_on_the_slider_is_the_librarys(visit, page, models):
    seen = visit(page)
    for number, evaluation in enumerate(models.values()):
        seen.page.locator("input[name=model]").nth(number).check(force=True)
        thresholds = find_stops(evaluation).threshold
        assert seen.n_stops == len(thresholds)
        for stop in {0, 1, seen.n_stops // 3, seen.n_stops - 2, seen.n_stops - 1}:
            assert_shows_the_library(seen, evaluation, stop, thresholds[stop])


def test_weighted_graded_cases_agree_too(visit, tmp_path):
    rng = np.random.default_rng(3)
    confidence = rng.normal(size=1500)
    correct = np.clip(0.6 + 0.2 * confidence + rng.normal(0, 0.1, 1500), 0, 1)
    evaluation = evaluate(
        Cases.from_correctness(correct, confidence, sample_weight=rng.random(1500)),
        target_accuracy=0.7,
    )
    path = build_report(
        evaluation,
        path=tmp_path / "r.html",
        expert_accuracy=0.97,
        volume=12_000,
        minutes_a_case=2.5,
    )
    seen = visit(path)
    thresholds = find_stops(evaluation).threshold
    for stop in (0, 100, len(thresholds) - 2, len(thresholds) - 1):
        assert_shows_the_library(seen, evaluation, stop, thresholds[stop])
    assert seen.page.locator("text=When it says 90 %").count() == 0
    assert not seen.complaints


def test_it_starts_at_the_operating_point(visit, page, models):
    evaluation = models["first"]
    assert evaluation.is_certified
    seen = visit(page)
    assert seen.value("threshold") == evaluation.operating_point.threshold
    assert seen.value("load") == evaluation.operating_point.expert_load
    assert evaluation.guarantee in seen.text(".sentence")


def test_the_shown_text_rounds_the_number(visit, page):
    seen = visit(page)
    for stop in range(0, seen.n_stops - 1, 37):
        seen.go_to(stop)
        for name in ("load", "accuracy", "low", "high", "team"):
            shown = float(seen.text(f"#{name}").removesuffix(" %"))
            assert shown == pytest.approx(100 * seen.value(name), abs=0.0501)


def test_the_keyboard_moves_the_operating_point(visit, page):
    seen = visit(page)
    slider = seen.page.locator("#stop")
    slider.focus()
    for key, goes in (
        ("Home", lambda old, new: new == 0),
        ("ArrowRight", lambda old, new: new == old + 1),
        ("PageUp", lambda old, new: new > old + 5),
        ("PageDown", lambda old, new: new < old),
        ("End", lambda old, new: new == seen.n_stops - 1),
        ("ArrowLeft", lambda old, new: new == old - 1),
    ):
        old = int(slider.input_value())
        seen.page.keyboard.press(key)
        assert goes(old, int(slider.input_value())), key
    assert "of cases to experts" in slider.get_attribute("aria-valuetext")
    assert seen.value("load") > 0.9


def test_the_chart_follows_the_pointer(visit, page):
    seen = visit(page)
    box = seen.page.locator("#coc").bounding_box()
    middle = box["x"] + box["width"] * (58 + 0.5 * (702 - 58)) / 720
    seen.page.mouse.click(middle, box["y"] + box["height"] / 2)
    assert seen.value("load") == pytest.approx(0.5, abs=0.005)
    dot = seen.page.locator("#dot").bounding_box()
    assert dot["x"] + dot["width"] / 2 == pytest.approx(middle, abs=3)


def test_marks_lead_to_their_stops(visit, page, models):
    seen = visit(page)
    seen.page.get_by_role("button", name="Decide everything").click()
    assert seen.value("load") == 0
    seen.page.get_by_role("button", name="95 % here").click()
    assert seen.value("load") == models["first"].loads[0.95]
    seen.page.get_by_role("button", name="Delegate everything").click()
    assert seen.value("load") == 1
    assert seen.text("#accuracy") == "none"


def test_assumptions_change_the_outlook_and_nonsense_does_not(visit, page):
    seen = visit(page)
    load, hours = seen.value("load"), seen.value("hours")
    seen.page.locator("#minutes").fill("5")
    assert seen.value("hours") == pytest.approx(2 * hours)
    seen.page.locator("#volume").fill("600")
    assert seen.value("hours") == pytest.approx(load * 50)
    before = seen.value("team")
    seen.page.locator("#expert-accuracy").fill("50")
    assert seen.value("team") < before
    seen.page.locator("#expert-accuracy").fill("120")
    assert seen.value("team") == pytest.approx(before)


def test_choosing_a_model_shows_its_parts_and_keeps_the_place_of_each(visit, page, models):
    seen = visit(page)
    seen.go_to(10)
    here = seen.value("load")
    seen.page.locator("label", has_text="second").click()
    assert seen.page.locator(".sentence:visible").count() == 1
    assert models["second"].guarantee in seen.text(".sentence:visible")
    assert seen.value("threshold") == models["second"].operating_point.threshold
    seen.page.locator("label", has_text="first").click()
    assert seen.value("load") == here


def test_nothing_is_fetched_and_nothing_complains(visit, page):
    seen = visit(page)
    seen.page.locator("#stop").press("ArrowRight")
    seen.page.locator("#theme").click()
    seen.page.wait_for_timeout(200)
    assert seen.requests == [page.as_uri()]
    assert not seen.complaints


def test_the_policy_stops_what_gets_in(visit, page):
    """The net under the escaping: even a script that is in the page does not run."""
    seen, failures = visit(page), []
    seen.page.on("requestfailed", lambda request: failures.append(request.failure))
    with seen.page.expect_event("requestfailed"), seen.page.expect_console_message():
        seen.page.evaluate(
            "() => { const s = document.createElement('script'); s.textContent = 'window.in = 1';"
            " document.body.append(s); const i = new Image(); i.src = 'http://127.0.0.1:9/x.png';"
            " document.body.append(i); }"
        )
    assert seen.page.evaluate("window.in") is None
    assert failures == ["csp"]
    assert any("Content Security Policy" in text for text in seen.complaints)


HOSTILE = [
    "<script>window.bad = 1</script>",
    "</script><script>window.bad = 1</script>",
    "\"'><img src=x onerror=window.bad=1>",
    "{{ 7 * 7 }} {% raw %} ${window.bad = 1}",
    "naïve 🩺 模型 \u202eevil\u2028x",
    "a" * 300,
    "<!-- --> &amp; ]]>",
]


def test_hostile_names_are_inert_and_shown_as_they_are(visit, tmp_path):
    y_true, proba, _ = predictions(400)
    groups = np.array(HOSTILE)[np.arange(400) % len(HOSTILE)]
    models = {
        name: evaluate(Cases.from_predictions(y_true, proba, groups=groups)) for name in HOSTILE
    }
    path = build_report(models, path=tmp_path / "r.html", title=HOSTILE[1], note=HOSTILE[2])
    seen = visit(path, width=390)
    assert seen.page.evaluate("window.bad") is None
    assert not seen.complaints
    assert seen.requests == [path.as_uri()]
    names = seen.page.locator(".models .name").all_text_contents()
    assert names == HOSTILE
    groups = seen.page.locator('[aria-labelledby="group-heading"] tbody .name:visible')
    assert set(groups.all_text_contents()) == set(HOSTILE)
    assert seen.text("h1") == HOSTILE[1]
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def luminance(page, query="body"):
    colour = page.locator(query).evaluate("e => getComputedStyle(e).backgroundColor")
    return sum(float(v) for v in colour[4:-1].split(","))


def test_it_is_dark_where_the_system_is_and_can_be_turned(visit, page):
    day, night = visit(page), visit(page, color_scheme="dark")
    assert luminance(night.page) < 150 < 600 < luminance(day.page)
    night.page.locator("#theme").click()
    assert luminance(night.page) == luminance(day.page)
    day.page.locator("#theme").click()
    assert luminance(day.page) < 150
    assert day.page.locator("#theme").get_attribute("aria-pressed") == "true"
    day.page.emulate_media(media="print")
    assert luminance(day.page) == 3 * 255


@pytest.mark.parametrize("width", [320, 390, 768])
def test_it_fits_a_small_screen(visit, page, width):
    seen = visit(page, width=width, has_touch=True)
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for query in ("#stop", "#theme", ".marks:visible button"):
        assert seen.page.locator(query).first.bounding_box()["height"] >= 35


OUTSIDE = """() => [...document.querySelectorAll("main *, header *")].filter((e) => {
  const box = e.getBoundingClientRect();
  return box.width && box.height && !e.closest(".hidden, clipPath, defs, #coc g[clip-path]")
    && (box.right > innerWidth + 1 || box.left < -1);
}).map((e) => e.outerHTML.slice(0, 120))"""


def test_print_cuts_nothing_and_leaves_out_what_paper_cannot_do(visit, page):
    seen = visit(page, width=688, height=1000)  # what 16 mm margins leave of A4
    seen.page.emulate_media(media="print")
    assert seen.page.evaluate(OUTSIDE) == []
    assert not seen.page.locator("#stop").is_visible()
    assert not seen.page.locator("#theme").is_visible()
    assert seen.page.locator("#accuracy").is_visible()
    for box in seen.page.locator(".scroll:visible").all():
        assert box.evaluate("e => e.scrollWidth <= e.clientWidth + 1")


def test_it_prints_to_pdf(visit, page):
    assert visit(page).page.pdf(format="A4").startswith(b"%PDF")


def test_a_screen_reader_finds_its_way(visit, page):
    seen = visit(page)
    tree = seen.page.locator("body").aria_snapshot()
    assert tree.count("heading") >= 7
    assert "slider" in tree
    assert 'radio "first' in tree
    levels = seen.page.locator("h1,h2,h3").evaluate_all("all => all.map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    for image in seen.page.locator("svg[role=img]").all():
        named = "e => !!(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby'))"
        assert image.evaluate(named)
    unnamed = "all => all.filter(e => !e.labels?.length && !e.ariaLabel).length"
    assert seen.page.locator("input").evaluate_all(unnamed) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_that_keeps_readers_out(visit, page, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    seen = visit(page, color_scheme=scheme, bypass_csp=True)  # axe comes in as a script
    found = axe.run(seen.page)
    assert found.violations_count == 0, found.generate_report()


def test_the_table_says_what_the_curve_shows(visit, page, models):
    seen = visit(page)
    seen.page.locator("summary:visible").click()
    rows = seen.page.locator("details:visible tbody tr")
    assert rows.count() == 20
    first = rows.first.inner_text()
    assert f"{100 * models['first'].accuracy.estimate:.1f}" in first
    assert "2\u202f000" in first


def test_without_script_it_is_still_a_report(browser, page, models):
    context = browser.new_context(java_script_enabled=False)
    bare = context.new_page()
    bare.goto(page.as_uri())
    assert not bare.locator("#stop").is_visible()
    for evaluation in models.values():
        assert bare.get_by_text(evaluation.guarantee).is_visible()
    assert bare.locator("#coc").is_visible()
    assert bare.locator(".legend:visible").count() == 1
    assert bare.locator(".curve .certified:visible").count() == 1
    context.close()


def test_the_slider_says_which_thresholds_are_certified(visit, page, models):
    seen = visit(page)
    for number, (name, evaluation) in enumerate(models.items()):
        seen.page.locator("input[name=model]").nth(number).check(force=True)
        stops, passed = find_stops(evaluation), evaluation.certification.passed
        first, last = np.flatnonzero(stops.certified)[[0, -1]].tolist()
        for stop in (first, first + 1, (first + last) // 2, last):
            assert stops.threshold[stop] in passed
            seen.go_to(stop)
            assert seen.text("#standing") == "This threshold is certified.", name
        for stop, side, end in ((first - 1, "loosest", first), (last + 1, "strictest", last)):
            assert stops.threshold[stop] not in passed
            seen.go_to(stop)
            said = seen.text("#standing")
            assert said.startswith(f"Not certified: the {side} certified threshold is 0.")
            shown = float(said.rsplit(" ", 1)[1].removesuffix("."))
            assert shown == pytest.approx(stops.threshold[end], abs=1e-3)
            assert shown != seen.value("threshold")
            assert seen.page.locator("#stop").get_attribute("aria-valuetext").endswith(said)
        seen.go_to(seen.n_stops - 1)
        assert seen.text("#standing").startswith("Nothing is decided automatically")
        assert seen.page.locator(".curve .certified:visible").count() == 1
        legend = seen.page.locator(".legend:visible").all_inner_texts()
        assert legend == ["certified: any threshold here keeps the promise"]
    assert not seen.complaints


def test_few_distinct_confidences_and_nothing_reached(visit, tmp_path):
    evaluation = evaluate(Cases.from_correctness([0, 0, 1, 0], [0.9, 0.9, 0.5, 0.5]))
    seen = visit(build_report(evaluation, path=tmp_path / "r.html"))
    assert seen.value("load") == 1
    assert seen.n_stops == 3
    seen.go_to(0)
    assert seen.value("accuracy") == 0.25
    assert not seen.complaints


@pytest.mark.parametrize("width", [1280, 375])
def test_a_lone_histogram_is_no_larger_than_one_of_two(visit, page, tmp_path, width):
    """Confidences that are no probabilities have no reliability diagram beside it."""
    rng = np.random.default_rng(0)
    score = rng.normal(0, 5, 400)
    found = evaluate(Cases.from_correctness(rng.random(400) < 1 / (1 + np.exp(-score)), score))
    path = build_report({"m": found}, path=tmp_path / "lone.html")
    lone = visit(path, width=width).page.locator(".pair svg:visible").bounding_box()
    beside = visit(page, width=width).page.locator(".pair svg:visible").last.bounding_box()
    assert lone["width"] <= beside["width"] * 1.05


@pytest.mark.parametrize("width", [1280, 375])
@pytest.mark.parametrize("target", [0.95, 0.952, 0.97])
def test_the_target_is_not_written_over_the_axis(visit, tmp_path, width, target):
    found = evaluate(
        Cases.from_correctness(np.ones(500), np.linspace(0, 1, 500)), target_accuracy=target
    )
    seen = visit(build_report({"m": found}, path=tmp_path / "right.html"), width=width)
    label = seen.page.locator("#coc text.target").bounding_box()
    axis = seen.page.locator("#coc .ticks text.x:visible").first.bounding_box()
    assert label["y"] + label["height"] <= axis["y"] + 1
