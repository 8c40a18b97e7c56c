"""Tables of groups and classes in a real browser: they follow the slider, fold and are searched."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest

from expertload.cases import Cases
from expertload.evaluation import evaluate
from expertload.report import build_report
from expertload.report.slider import find_stops
from expertload.significance.interval import wilson
from tests.report.conftest import predictions
from tests.report.test_browser import HOSTILE, OUTSIDE

PRECISION = {"rel": 1e-9, "abs": 1e-12}


def many(n, k, *, seed=0):
    """Predictions of k classes with names, some harder than others."""
    rng = np.random.default_rng(seed)
    names = np.array([f"class {i:04d}" for i in range(k)])
    y = rng.integers(0, k, n)
    logits = rng.normal(0, 1, (n, k))
    logits[np.arange(n), y] += rng.uniform(1, 5, k)[y]
    proba = np.exp(logits)
    return names[y], proba / proba.sum(axis=1, keepdims=True), names


@pytest.fixture(scope="module")
def thirty():
    y_true, proba, names = many(3000, 30)
    return evaluate(Cases.from_predictions(y_true, proba, labels=names), target_accuracy=0.9)


def shown(seen, kind):
    """Name, rate, load, text of the interval and whether it is marked, of each row in sight."""
    number = {"group": 0, "class": 1}[kind]
    rows = seen.page.locator(f'[data-table="{number}"] tbody tr:visible')
    return rows.evaluate_all(
        """all => all.map((row) => { const [rate, load] = row.querySelectorAll("data"); return [
          row.querySelector(".name").textContent, rate.value, load.value,
          row.querySelector(".right-rate small").textContent,
          !row.querySelector(".few").hidden]; })"""
    )


def slow(evaluation, member, name, threshold):
    """A part at a threshold, case by case."""
    cases = evaluation.cases
    correct, confidence, weight = cases.correct, cases.confidence, cases.weight
    inside = np.array([each == name for each in member])
    weight = np.ones(len(correct)) if weight is None else weight
    taken = inside & (confidence >= threshold) & (weight > 0)
    mass = weight[taken].sum()
    load = 1 - mass / weight[inside].sum()
    if not taken.any():
        return None, load, None, int((inside & (weight > 0)).sum())
    rate = float((weight * correct)[taken].sum() / mass)
    low, high = wilson(np.array(rate), np.array(mass**2 / (weight[taken] ** 2).sum()), 0.95)
    return rate, load, (float(low), float(high)), int(taken.sum())


def assert_follows(seen, evaluation, member, kind):
    thresholds = find_stops(evaluation).threshold
    for stop in {0, len(thresholds) // 4, len(thresholds) // 2, len(thresholds) - 2}:
        seen.go_to(stop)
        rows = shown(seen, kind)
        assert rows
        for name, rate, load, interval, is_few in rows:
            right, share, ends, count = slow(evaluation, member, name, thresholds[stop])
            assert float(load) == pytest.approx(share, **PRECISION)
            assert is_few == (count < 30)
            if right is None:
                assert rate == interval == ""
                continue
            assert float(rate) == pytest.approx(right, **PRECISION)
            said = [float(end.removesuffix(" %")) / 100 for end in interval.split(" to ")]
            assert said == pytest.approx(ends, abs=5.1e-4)


def test_groups_and_classes_follow_the_slider(visit, tmp_path):
    y_true, proba, site = predictions(1500)
    evaluation = evaluate(Cases.from_predictions(y_true, proba, groups=site), target_accuracy=0.9)
    seen = visit(build_report(evaluation, path=tmp_path / "r.html"))
    assert_follows(seen, evaluation, site, "group")
    assert_follows(seen, evaluation, y_true.astype(str), "class")
    assert not seen.complaints


def test_weighted_graded_groups_follow_too(visit, tmp_path):
    rng = np.random.default_rng(5)
    confidence, site = rng.random(600), rng.choice(["a", "b", "c"], 600)
    correct = np.clip(confidence + rng.normal(0, 0.2, 600), 0, 1)
    weight = rng.integers(0, 3, 600) * 0.7
    evaluation = evaluate(
        Cases.from_correctness(correct, confidence, groups=site, sample_weight=weight),
        target_accuracy=0.6,
    )
    seen = visit(build_report(evaluation, path=tmp_path / "r.html"))
    assert_follows(seen, evaluation, site, "group")


def test_what_the_page_says_first_is_what_it_says_at_the_operating_point(visit, tmp_path):
    y_true, proba, site = predictions(1500)
    evaluation = evaluate(Cases.from_predictions(y_true, proba, groups=site), target_accuracy=0.9)
    path = build_report(evaluation, path=tmp_path / "r.html")
    seen = visit(path)
    moved = seen.page.locator(".parts").all_inner_texts()
    seen.page.evaluate("document.documentElement.outerHTML")
    bare = seen.page.context.browser.new_context(java_script_enabled=False)
    still = bare.new_page()
    still.set_viewport_size({"width": 1280, "height": 900})
    still.goto(path.as_uri())
    assert [text.split() for text in still.locator(".parts").all_inner_texts()] == [
        text.split() for text in moved
    ]
    bare.close()


def test_delegating_everything_leaves_no_rate(visit, tmp_path):
    y_true, proba, site = predictions(300)
    evaluation = evaluate(Cases.from_predictions(y_true, proba, groups=site))
    seen = visit(build_report(evaluation, path=tmp_path / "r.html"))
    seen.page.get_by_role("button", name="Delegate everything").click()
    for _, rate, load, interval, _ in shown(seen, "group"):
        assert (rate, load, interval) == ("", "1", "")
    assert seen.page.locator(".parts .point:visible").count() == 0
    assert "the threshold that delegates everything" in seen.text(".lead")
    seen.page.get_by_role("button", name="Decide everything").click()
    assert seen.page.locator(".parts .point:visible").count() == 8


def test_two_classes_are_shown_whole(visit, tmp_path):
    rng = np.random.default_rng(0)
    proba = rng.random(400)
    y_true = np.where(rng.random(400) < proba, "ill", "well")
    evaluation = evaluate(
        Cases.from_predictions(y_true, np.stack([proba, 1 - proba], 1)), target_accuracy=0.8
    )
    seen = visit(build_report(evaluation, path=tmp_path / "r.html"))
    assert seen.page.locator(".finder").count() == 0
    assert sorted(row[0] for row in shown(seen, "class")) == ["ill", "well"]
    confused = evaluation.classes[0].confused_with[0]
    text = seen.text(".confused")
    assert text.split() == ["taken", "for", confused.name, f"({100 * confused.share:.1f}", "%)"]


def test_thirty_classes_fold_unfold_and_are_found(visit, tmp_path, thirty):
    seen = visit(build_report(thirty, path=tmp_path / "r.html"))
    order = [part.name for part in thirty.classes]
    assert [row[0] for row in shown(seen, "class")] == order[:12]
    seen.page.get_by_role("button", name="Show all 30").click()
    assert [row[0] for row in shown(seen, "class")] == order
    assert_follows(seen, thirty, np.array(thirty.answers.names)[thirty.answers.target], "class")
    seen.page.get_by_role("button", name="Show the least accurate").click()
    assert len(shown(seen, "class")) == 12
    seen.page.get_by_role("searchbox").fill("CLASS 002")
    found = [row[0] for row in shown(seen, "class")]
    assert sorted(found) == [f"class {i:04d}" for i in range(20, 30)]
    assert seen.text("[data-found]") == "10 of 30"
    seen.page.get_by_role("searchbox").fill("nothing")
    assert shown(seen, "class") == []
    seen.page.get_by_role("searchbox").fill("")
    assert len(shown(seen, "class")) == 12


def test_a_thousand_classes_stay_light(visit, tmp_path):
    y_true, proba, names = many(20_000, 1000)
    evaluation = evaluate(Cases.from_predictions(y_true, proba, labels=names))
    path = build_report(evaluation, path=tmp_path / "r.html")
    assert path.stat().st_size < 1_500_000
    for width in (1280, 390):
        seen = visit(path, width=width)
        assert len(shown(seen, "class")) == 12
        assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert seen.page.evaluate("document.documentElement.scrollHeight") < 9000
    seen.page.get_by_role("button", name="Show all 1\u202f000").click()
    assert len(shown(seen, "class")) == 1000
    # Unfolded, they scroll in a box of their own.
    assert seen.page.evaluate("document.documentElement.scrollHeight") < 9000
    seen.page.get_by_role("searchbox").fill("0777")
    assert [row[0] for row in shown(seen, "class")] == ["class 0777"]


def test_folded_rows_are_not_printed_and_nothing_is_cut(visit, tmp_path, thirty):
    seen = visit(build_report(thirty, path=tmp_path / "r.html"), width=688, height=1000)
    seen.page.emulate_media(media="print")
    assert len(shown(seen, "class")) == 12
    assert "12 least accurate of 30 classes" in seen.text("main")
    assert not seen.page.locator(".finder").is_visible()
    assert seen.page.evaluate(OUTSIDE) == []


def test_hostile_names_of_classes_are_inert(visit, tmp_path):
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(len(HOSTILE)), 400)
    y_true = np.array(HOSTILE)[rng.integers(0, len(HOSTILE), 400)]
    evaluation = evaluate(
        Cases.from_predictions(y_true, proba, labels=HOSTILE), target_accuracy=0.2
    )
    seen = visit(build_report(evaluation, path=tmp_path / "r.html"), width=390)
    assert {row[0] for row in shown(seen, "class")} == set(HOSTILE)
    assert seen.page.evaluate("window.bad") is None
    assert not seen.complaints
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def downloaded(seen, tmp_path):
    with seen.page.expect_download() as waiting:
        seen.page.get_by_role("button", name="Download the curve").click()
    file = tmp_path / "downloaded.csv"
    waiting.value.save_as(file)
    with file.open(newline="") as lines:
        return waiting.value.suggested_filename, list(csv.DictReader(lines))


def test_the_curve_can_be_downloaded(visit, tmp_path, models):
    two = {"=1+1 <b>": models["first"], "b": models["second"]}
    path = build_report(two, path=tmp_path / "r.html")
    seen = visit(path)
    for evaluation, name in ((models["first"], "coc-1-1-b.csv"), (models["second"], "coc-b.csv")):
        called, rows = downloaded(seen, tmp_path)
        assert called == name
        stops = find_stops(evaluation)
        assert [float(row["threshold"]) for row in rows] == stops.threshold[:-1].tolist()
        assert [float(row["accepted"]) for row in rows] == stops.accepted[:-1].tolist()
        assert [float(row["errors"]) for row in rows] == stops.errors[:-1].tolist()
        assert [float(row["low"]) for row in rows] == stops.low.tolist()
        assert [row["certified"] == "1" for row in rows] == stops.certified[:-1].tolist()
        for row in rows:
            rate = 1 - float(row["errors"]) / float(row["accepted"])
            assert float(row["accuracy"]) == pytest.approx(rate)
            assert math.isclose(
                float(row["expert_load"]), 1 - float(row["accepted"]) / 2000, abs_tol=1e-12
            )
        seen.page.locator("label", has_text="b").last.click()
    assert not seen.complaints
    assert all(url == path.as_uri() or url.startswith("blob:") for url in seen.requests)
