"""The file itself: its size, what it promises the browser, and how it is written."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import numpy as np
import pytest

from expertload._format import percent
from expertload.cases import Cases
from expertload.evaluation import compare_with_first, evaluate
from expertload.exceptions import ParameterError
from expertload.operating_point import at_threshold
from expertload.report import build_report
from expertload.report.charts import promise_figures
from expertload.report.page import FORMATS, models_of_page
from expertload.report.slider import N_STEPS, find_stops
from tests.report.conftest import predictions


def payload(path):
    block = re.search(
        r'<script type="application/json"[^>]*>(.*?)</script>', path.read_text("utf-8")
    )
    return json.loads(block.group(1))


@pytest.mark.slow
def test_ten_models_of_twenty_thousand_cases_stay_below_two_megabytes(tmp_path):
    models = {}
    for seed in range(10):
        y_true, proba, site = predictions(20_000, seed=seed, noise=0.2 * seed)
        models[f"model {seed}"] = evaluate(Cases.from_predictions(y_true, proba, groups=site))
    path = build_report(models, path=tmp_path / "report.html")
    assert path.stat().st_size < 2_000_000
    assert len(payload(path)["models"]) == 10


def test_the_slider_offers_about_every_fifth_of_a_percent_and_the_marks():
    y_true, proba, _ = predictions(20_000)
    evaluation = evaluate(Cases.from_predictions(y_true, proba))
    stops = find_stops(evaluation)
    assert N_STEPS <= len(stops.threshold) <= N_STEPS + 10
    assert np.diff(stops.load).max() == pytest.approx(1 / N_STEPS)
    assert set(stops.threshold[:-1]) - set(evaluation.curve.thresholds) <= {
        evaluation.operating_point.threshold
    }
    for load in evaluation.loads.values():
        assert np.isclose(stops.load, load, rtol=0, atol=1e-15).any()


@pytest.mark.slow
def test_every_stop_on_the_page_holds_the_librarys_numbers(models, tmp_path):
    evaluation = models["second"]
    page = payload(build_report(evaluation, path=tmp_path / "r.html"))["models"][0]
    band = evaluation.band
    rows = zip(*(page[name] for name in ("threshold", "accepted", "errors")), strict=True)
    for stop, (threshold, accepted, errors) in enumerate(rows):
        point = at_threshold(
            evaluation.cases,
            threshold=np.inf if threshold is None else threshold,
        )
        assert (accepted, errors) == (point.n_accepted, point.n_errors)
        if threshold is not None:
            row = np.searchsorted(band.thresholds, threshold)
            assert (page["low"][stop], page["high"][stop]) == (band.low[row], band.high[row])


def test_all_thresholds_are_offered_where_they_are_few():
    confidence = np.arange(100) / 100
    stops = find_stops(evaluate(Cases.from_correctness(np.arange(100) % 3 > 0, confidence)))
    assert stops.threshold[:-1].tolist() == confidence.tolist()


@pytest.mark.slow
def test_the_policy_allows_two_hashes_and_no_connection(tmp_path, models):
    text = build_report(models, path=tmp_path / "r.html").read_text("utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1)
    assert policy.startswith("default-src &#39;none&#39;")
    assert policy.count("sha256-") == 2
    assert "unsafe" not in policy
    assert "http" not in re.sub(r"http-equiv", "", text)


def test_no_attribute_styles_nor_handlers(tmp_path, models):
    text = build_report(models, path=tmp_path / "r.html").read_text("utf-8")
    body = text[text.index("<body>") : text.index('<script type="application/json"')]
    assert not re.search(r'\s(style|on\w+)="', body)


def test_same_input_same_file(tmp_path, models):
    when = datetime(2026, 5, 1, tzinfo=UTC)
    a = build_report(models, path=tmp_path / "a.html", created=when).read_bytes()
    assert a == build_report(models, path=tmp_path / "b.html", created=when).read_bytes()
    assert b"1 May 2026" in a


def test_a_name_that_is_no_text_is_written_all_the_same(tmp_path, models):
    path = build_report({"odd \udcff name": models["first"]}, path=tmp_path / "r.html")
    assert "odd ? name" in path.read_text("utf-8")


def test_models_on_other_cases_are_not_tested_in_pairs(models, tmp_path):
    y_true, proba, _ = predictions(300)
    mixed = {**models, "elsewhere": evaluate(Cases.from_predictions(y_true, proba))}
    compared, apart = compare_with_first(mixed)
    assert list(compared) == list(models)[1:]
    assert list(apart) == ["elsewhere"]
    assert "other cases" in build_report(mixed, path=tmp_path / "r.html").read_text("utf-8")


def test_differences_are_the_librarys_with_holms_p_values(models):
    first, second, third = models.values()
    plain = [second.compare(first), third.compare(first)]
    found = [each.aucoc for each in compare_with_first(models)[0].values()]
    assert [c.difference for c in found] == [c.difference for c in plain]
    assert [c.p_value for c in found] == [c.p_value for c in plain]
    small, large = sorted(c.p_value for c in plain)
    assert sorted(c.adjusted_p_value for c in found) == [2 * small, max(2 * small, large)]


def test_loads_at_the_target_are_compared_with_their_interval(models, tmp_path):
    text = build_report(models, path=tmp_path / "r.html").read_text("utf-8")
    for each in compare_with_first(models)[0].values():
        change, low, high = (
            FORMATS["points"](v) for v in (each.load.estimate, each.load.low, each.load.high)
        )
        assert f"{change} <small>{low} to {high} points</small>" in text


def test_old_file_survives_a_failure(tmp_path, models, monkeypatch):
    path = tmp_path / "r.html"
    path.write_text("old")
    with pytest.raises(ParameterError):
        build_report(models, path=path, expert_accuracy=97)
    with pytest.raises(ParameterError, match="evaluate"):
        build_report({"a": 3}, path=path)
    with pytest.raises(ParameterError, match="'models'"):
        build_report({}, path=path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["report.pdf", "report", "report.html.gz", "html"])
def test_a_page_is_named_as_one(tmp_path, models, name):
    with pytest.raises(ParameterError, match=r"must end in .html. Got .*print it"):
        build_report(models, path=tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    assert build_report(models["first"], path=tmp_path / "R.HTM").exists()


def test_the_least_number_of_cases_is_said(tmp_path):
    evaluation = evaluate(Cases.from_correctness(np.ones(50), np.linspace(0, 1, 50)))
    text = build_report(evaluation, path=tmp_path / "r.html").read_text("utf-8")
    assert "50 case(s) are too few, even if all were right" in text
    assert "it takes at least 59 cases" in text


@pytest.mark.slow
def test_all_groups_are_on_the_page_and_most_of_them_folded(tmp_path):
    y_true, proba, _ = predictions(1200)
    evaluation = evaluate(Cases.from_predictions(y_true, proba, groups=np.arange(1200) % 130))
    text = build_report(evaluation, path=tmp_path / "r.html").read_text("utf-8")
    assert "These are the 12 least accurate of 130 groups" in text
    assert text.count('class="folded"') == 118
    assert "are left out" not in text


@pytest.mark.slow
def test_more_classes_than_a_page_holds(tmp_path):
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.full(1100, 0.05), 3300)
    evaluation = evaluate(Cases.from_predictions(np.arange(3300) % 1100, proba))
    text = build_report(evaluation, path=tmp_path / "r.html").read_text("utf-8")
    assert "The 100 most accurate classes are left out" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "confidence", "said"),
    [
        (50, 0.9, "with 50 cases, that may be chance"),
        (5000, 0.9, "is 4.0 points lower than accuracy: the model is under-confident"),
        (5000, 0.98, "is 4.0 points higher than accuracy: the model is over-confident"),
        (50, 0.94, "agree within half a point"),
    ],
)
def test_few_cases_are_not_called_under_confident(tmp_path, n, confidence, said):
    """Of all cases, 94 % are right."""
    correct = np.arange(n) % 50 >= 3
    evaluation = evaluate(Cases.from_correctness(correct, np.full(n, confidence)))
    text = build_report(evaluation, path=tmp_path / "r.html").read_text("utf-8")
    assert said in text


def model_with_a_dip(n=6000):
    """Sure cases and unsure ones are right; some between them are not."""
    rng = np.random.default_rng(5)
    confidence = rng.random(n)
    dips = (confidence > 0.8) & (confidence < 0.85)
    return rng.random(n) < np.where(dips, 0.5, 0.99), confidence


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clusters", "method"),
    [({}, "spending"), ({}, "fixed_sequence"), ({"clusters": np.arange(6000) // 3}, "spending")],
)
def test_the_certified_stops_are_the_thresholds_that_passed(tmp_path, clusters, method):
    cases = Cases.from_correctness(*model_with_a_dip(), **clusters)
    evaluation = evaluate(cases, target_accuracy=0.93, method=method)
    point = evaluation.certification
    page = payload(build_report(evaluation, path=tmp_path / "r.html"))["models"][0]
    tested_and_passed = set(point.ladder.threshold[point.ladder.passed].tolist())
    assert 0 < sum(page["certified"]) < len(page["certified"])
    for threshold, certified in zip(page["threshold"], page["certified"], strict=True):
        assert certified == (threshold in tested_and_passed) == (threshold in point.passed)
    ends = {end for ends in point.passed.ranges for end in ends}
    assert ends <= set(page["threshold"])
    if not point.passed.is_continuous:  # the slider stops at each
        assert tested_and_passed <= set(page["threshold"])


def starts_and_ends(path):
    """The first and the last point of every part of an SVG path."""
    for part in path.split("M")[1:]:
        points = np.array(re.findall(r"-?[\d.]+", part.replace("h0", "")), float).reshape(-1, 2)
        yield points[0], points.sum(axis=0)


@pytest.mark.slow
def test_the_certified_stroke_lies_on_the_curve_and_keeps_its_gaps():
    evaluation = evaluate(Cases.from_correctness(*model_with_a_dip()), target_accuracy=0.93)
    ranges = evaluation.certification.passed.ranges
    assert len(ranges) > 1
    (part,), frame = models_of_page({"m": evaluation})
    strokes = part.lines.certified
    drawn = list(starts_and_ends(strokes.stretches))
    for (start, end), (low, high) in zip(drawn, ranges[::-1], strict=True):
        for pixel, threshold in ((start, low), (end, high)):
            point = at_threshold(evaluation.cases, threshold=threshold)
            at = float(frame.x(point.expert_load)), float(frame.y(point.accuracy))
            assert pixel == pytest.approx(at, abs=0.051)
    assert not strokes.dots
    assert part.in_words.count(" % to ") == len(ranges)


def test_thresholds_tested_apart_are_dots():
    evaluation = evaluate(
        Cases.from_correctness(*model_with_a_dip(), clusters=np.arange(6000) // 3),
        target_accuracy=0.93,
    )
    (part,), _ = models_of_page({"m": evaluation})
    strokes = part.lines.certified
    assert strokes.stretches == ""
    assert strokes.dots.count("h0") == len(evaluation.certification.passed)
    assert "at the dots" in strokes.legend


@pytest.mark.parametrize("weight", [None, np.linspace(1, 2, 300)])
def test_nothing_is_marked_where_nothing_is_certified(tmp_path, weight):
    evaluation = evaluate(
        Cases.from_correctness(np.arange(300) % 2, np.linspace(0, 1, 300), sample_weight=weight)
    )
    path = build_report(evaluation, path=tmp_path / "r.html")
    assert not any(payload(path)["models"][0]["certified"])
    text = path.read_text("utf-8")
    assert "keeps the promise" not in text
    assert 'class="certified' not in text
    assert '<th scope="col">Certified</th>' not in text


@pytest.mark.parametrize("n", [2, 3, 40])
@pytest.mark.parametrize("kind", ["right", "wrong", "tied"])
def test_extremes_make_a_page(tmp_path, n, kind):
    confidence = np.full(n, 0.5) if kind == "tied" else np.linspace(0, 1, n)
    correct = np.arange(n) % 2 if kind == "tied" else np.full(n, kind == "right")
    evaluation = evaluate(Cases.from_correctness(correct, confidence, groups=["g"] * n))
    data = payload(build_report(evaluation, path=tmp_path / "r.html"))
    assert len(data["models"][0]["accepted"]) == (2 if kind == "tied" else n + 1)


def test_each_promise_about_a_class_is_drawn(tmp_path):
    """Precision and misses at the certified threshold, counted case by case."""
    rng = np.random.default_rng(0)
    p = rng.beta(0.3, 0.5, size=3000)
    y = np.where(rng.random(3000) < p, "bad", "good")
    cases = Cases.from_predictions(y, p, labels=["good", "bad"])
    wanted = ["precision:bad=0.9", "missed:bad=0.03", "precision:good=0.999"]
    found = evaluate(cases, promises=wanted)
    precise, missed, not_certified = promise_figures(found)
    sure, answer = np.maximum(p, 1 - p), np.where(p > 0.5, "bad", "good")
    own = {str(k): v.threshold for k, v in found.class_certification.promises.items()}
    taken = (sure >= own[wanted[0]]) & (answer == "bad")
    assert f"{percent((y[taken] == 'bad').mean())} of these were right" in precise.summary
    lost = (sure >= own[wanted[1]]) & (answer == "good") & (y == "bad")
    n_bad = (y == "bad").sum()
    assert f"{percent(lost.sum() / n_bad)} of {n_bad} cases of class 'bad'" in missed.summary
    assert "threshold" in precise.paths
    assert "threshold" not in not_certified.paths
    assert not_certified.summary.startswith("Not certified")
    text = build_report(found, path=tmp_path / "r.html").read_text("utf-8")
    for figure in (precise, missed, not_certified):
        assert f'd="{figure.paths["curve"]}"' in text
        assert figure.title.split(" of ")[0] in text
