"""One object that agrees with every function it stands for."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import expertload
from expertload import Cases, metrics, operating_point, significance
from expertload._format import shares
from expertload.evaluation import (
    compare_evaluations,
    compare_with_first,
    evaluate,
)
from expertload.exceptions import InsufficientDataError, ParameterError, ShapeError, WeightError
from expertload.report import build_report


def predictions(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    y_true = np.random.default_rng(n).integers(0, 3, n)
    logits = rng.normal(0, 1, (n, 3))
    logits[np.arange(n), y_true] += 2
    proba = np.exp(logits)
    return y_true, proba / proba.sum(axis=1, keepdims=True)


def test_numbers_are_those_of_the_functions():
    y, proba = predictions()
    found = evaluate(
        Cases.from_predictions(y, proba), target_accuracy=(0.9, 0.8), confidence_level=0.9
    )
    assert found.accuracy.estimate == np.mean(proba.argmax(axis=1) == y)
    assert found.aucoc == significance.aucoc_interval(
        Cases.from_predictions(y, proba), confidence_level=0.9
    )
    for ours, theirs in zip(found.curve, expertload.coc_curve(y, proba), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    band = significance.coc_band(Cases.from_predictions(y, proba), confidence_level=0.9)
    np.testing.assert_array_equal(found.band.low, band.low)
    assert list(found.loads) == [0.8, 0.9, 0.95, 0.99]
    for target, load in found.loads.items():
        assert load == expertload.load_at_accuracy(y, proba, target_accuracy=target)
    calibration = found.calibration
    assert calibration.expected_error == metrics.expected_calibration_error(y, proba)
    assert calibration.kolmogorov_smirnov_error == metrics.kolmogorov_smirnov_error(y, proba)
    assert calibration.brier_loss == metrics.brier_loss(y, proba)
    assert calibration.log_loss == metrics.log_loss(y, proba)
    points = operating_point.certify(y, proba, target_accuracy=[0.9, 0.8], confidence_level=0.9)
    assert found.operating_point == points[0.9]
    assert dict(found.target_certification) == dict(points)
    assert found.is_certified
    assert "95 % sure" in found.guarantee  # half of the level each, so that both hold with 90 %


def test_string_labels_and_own_confidence():
    y, proba = predictions()
    names = np.array(["cat", "dog", "owl"])
    rank = proba.max(axis=1) ** 2 - 3
    found = evaluate(Cases.from_predictions(names[y], proba, confidence=rank, labels=names))
    assert found.aucoc == significance.aucoc_interval(Cases.from_predictions(y, proba))
    assert found.calibration.expected_error == metrics.expected_calibration_error(y, proba)
    assert found.operating_point.origin.ranked_by == "given_confidence"
    assert found.operating_point.origin.labels == ("cat", "dog", "owl")
    assert found.histogram.edges[0] == rank.min()


def test_where_nothing_is_certified_the_point_is_described_and_said_to_promise_nothing():
    y, proba = predictions(60)
    found = evaluate(Cases.from_predictions(y, proba), target_accuracy=0.95)
    assert not found.is_certified
    assert found.operating_point == operating_point.choose(
        Cases.from_predictions(y, proba), target_accuracy=0.95
    )
    assert "No threshold can be promised" in found.guarantee
    assert "Nothing is certified" in found.conditions
    hopeless = evaluate(Cases.from_correctness([0, 0, 0], [0.1, 0.2, 0.3]))
    assert "none does on these" in hopeless.guarantee
    assert hopeless.to_dict()["operating_point"]["threshold"] is None


def test_weighted_cases_are_described_but_not_certified():
    y, proba = predictions()
    weight = np.random.default_rng(1).random(len(y))
    weight[:10] = 0
    found = evaluate(Cases.from_predictions(y, proba, sample_weight=weight, groups=y))
    assert found.is_weighted
    assert found.certification is None
    assert "cannot be certified" in found.conditions
    assert found.n_cases == len(y) - 10
    assert sum(group.n_cases for group in found.groups) == found.n_cases
    kept = evaluate(Cases.from_predictions(y[10:], proba[10:], sample_weight=weight[10:]))
    assert found.aucoc.estimate == pytest.approx(kept.aucoc.estimate)
    assert found.accuracy.low == pytest.approx(kept.accuracy.low)


@pytest.mark.parametrize("target", [0, 1])
def test_extreme_targets_are_not_tested(target):
    found = evaluate(Cases.from_correctness([1] * 99 + [0], range(100)), target_accuracy=target)
    assert found.certification is None
    assert "No finite number" in found.conditions


def test_groups_are_read_at_one_threshold_worst_first():
    y, proba = predictions()
    site = np.where(np.arange(len(y)) % 3 == 0, "A", "B").astype(object)
    site[:5] = None
    found = evaluate(Cases.from_predictions(y, proba, groups=site), target_accuracy=0.9)
    assert {group.name for group in found.groups} == {"A", "B", "(missing)"}
    rates = [group.accepted_accuracy.estimate for group in found.groups]
    assert rates == sorted(rates)
    for group in found.groups:
        rows = np.array([(v or "(missing)") == group.name for v in site])
        there = operating_point.at_threshold(
            Cases.from_predictions(y[rows], proba[rows]), threshold=found.operating_point.threshold
        )
        assert group.expert_load == there.expert_load
        assert group.accepted_accuracy.estimate == there.accuracy
        assert group.n_accepted == there.n_accepted
        if len(np.unique(y[rows])) == 3:
            assert group.aucoc == expertload.aucoc_score(y[rows], proba[rows])
    assert next(g for g in found.groups if g.name == "(missing)").is_small


def test_a_group_that_is_delegated_whole_comes_last():
    found = evaluate(
        Cases.from_correctness(
            [1] * 70 + [0] * 30, np.arange(100)[::-1], groups=["up"] * 70 + ["down"] * 30
        )
    )
    assert [g.name for g in found.groups] == ["up", "down"]
    assert found.groups[1].accepted_accuracy is None


def test_groups_that_are_no_groups():
    with pytest.raises(ParameterError, match="identifier"):
        evaluate(Cases.from_correctness([1] * 2000, range(2000), groups=range(2000)))
    with pytest.raises(ShapeError, match="'groups'"):
        evaluate(Cases.from_correctness([1, 0, 1], [0.1, 0.2, 0.3], groups=["a"]))


def test_comparison_is_the_paired_test_and_needs_the_same_cases():
    (y, a), (_, b) = predictions(seed=0), predictions(seed=1)
    first, second = evaluate(Cases.from_predictions(y, a)), evaluate(Cases.from_predictions(y, b))
    assert first.compare(second) == significance.aucoc_paired_test(
        Cases.from_predictions(y, a), Cases.from_predictions(y, b)
    )
    with pytest.raises(ShapeError, match="labels"):
        first.compare(evaluate(Cases.from_predictions(y[::-1], b)))
    with pytest.raises(ShapeError, match="weights"):
        first.compare(evaluate(Cases.from_predictions(y, b, sample_weight=np.ones(len(y)))))
    with pytest.raises(ShapeError, match="9 of the other"):
        first.compare(evaluate(Cases.from_predictions(y[:9], b[:9])))


def test_models_are_compared_whatever_the_order_of_their_columns():
    rng = np.random.default_rng(0)
    y_true = np.array(["cat", "dog"] * 50)
    proba = rng.dirichlet([1, 1], size=100)
    given = Cases.from_predictions(y_true, proba, labels=["cat", "dog"])
    turned = Cases.from_predictions(y_true, proba[:, ::-1], labels=["dog", "cat"])
    assert evaluate(given).compare(evaluate(turned)).difference == 0


@pytest.mark.parametrize("wrong", ["0.9", [], 95, [0.9, 95], None])
def test_wrong_targets(wrong):
    with pytest.raises(ParameterError, match="target_accuracy"):
        evaluate(Cases.from_correctness([0, 1], [0.1, 0.2]), target_accuracy=wrong)


def test_one_case_is_too_few():
    with pytest.raises(InsufficientDataError, match="At least 2"):
        evaluate(Cases.from_correctness([1], [0.5]))


def test_text_and_json_say_the_same():
    y, proba = predictions()
    found = evaluate(Cases.from_predictions(y, proba, groups=y), target_accuracy=0.9)
    numbers = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert numbers["aucoc"]["estimate"] == found.aucoc.estimate
    assert numbers["operating_point"]["threshold"] == found.operating_point.threshold
    assert [g["name"] for g in numbers["groups"]] == [g.name for g in found.groups]
    text = str(found)
    assert f"AUCOC {found.aucoc.estimate:.4f} ({found.aucoc.low:.4f} to" in text
    assert found.guarantee in text
    automated, left = shares(found.loads[0.9])
    assert f"load at 90 % {left} ({automated} auto" in text
    assert all(value in found._repr_html_() for _, value, _ in found.rows)


grades = st.lists(
    st.tuples(st.sampled_from([0, 0.5, 1]), st.floats(-5, 5, width=32), st.sampled_from("ab")),
    min_size=2,
    max_size=40,
)


@pytest.mark.slow
@given(grades)
def test_any_cases_add_up(rows):
    correct, confidence, group = zip(*rows, strict=True)
    found = evaluate(Cases.from_correctness(correct, confidence, groups=group))
    edges, right, wrong = found.histogram
    assert right.sum() == pytest.approx(sum(correct))
    assert right.sum() + wrong.sum() == pytest.approx(len(rows))
    assert edges[0] <= min(confidence)
    assert max(confidence) <= edges[-1]
    assert sum(g.n_cases for g in found.groups) == len(rows)
    accepted = sum(g.n_accepted for g in found.groups)
    assert accepted == found.operating_point.n_accepted
    json.dumps(found.to_dict(), allow_nan=False)


def test_sums_of_weights_are_called_so():
    rng = np.random.default_rng(0)
    confidence = rng.random(400)
    correct = rng.random(400) < 0.7 + 0.3 * confidence
    weighted = evaluate(
        Cases.from_correctness(correct, confidence, sample_weight=np.full(400, 5000.25)),
        target_accuracy=0.9,
    )
    assert "of a sum of weights of 2000100)" in weighted.guarantee
    assert "examined" not in weighted.guarantee
    counted = evaluate(Cases.from_correctness(correct, confidence), target_accuracy=0.9)
    assert "of the 400 examined)" in counted.guarantee


def test_a_group_that_is_delegated_whole_is_not_small_for_that():
    confidence = np.repeat([0.9, 0.1, 0.1], [500, 400, 20])
    correct = np.append(np.ones(500), np.arange(420) % 2)
    groups = np.repeat(["kept", "delegated", "tiny"], [500, 400, 20])
    found = evaluate(
        Cases.from_correctness(correct, confidence, groups=groups), target_accuracy=0.95
    )
    assert {g.name: (g.n_accepted, g.is_small) for g in found.groups} == {
        "kept": (500, False),
        "delegated": (0, False),
        "tiny": (0, True),
    }


# ------------------------------------------------------------------ each thing once


def test_cases_are_added_up_and_hashed_once():
    """The tally and the digest are kept, so that no other function computes them again."""
    y, proba = predictions()
    cases = Cases.from_predictions(y, proba, groups=y)
    evaluate(cases, target_accuracy=[0.9, 0.8])
    assert {"tally", "sha256"} <= vars(cases).keys()
    assert cases.by_probability is cases


def test_a_comparison_is_that_of_the_cases():
    (y, a), (_, b), (_, c) = (predictions(seed=seed) for seed in range(3))
    models = {
        name: evaluate(Cases.from_predictions(y, p))
        for name, p in zip("abc", (a, b, c), strict=True)
    }
    found = compare_evaluations(models, pairs="all")
    assert found == significance.compare_models(
        {name: Cases.from_predictions(y, p) for name, p in zip("abc", (a, b, c), strict=True)}
    )


def test_loads_are_compared_at_the_target_of_the_first():
    (y, a), (_, b) = (predictions(seed=seed) for seed in range(2))
    cases = {name: Cases.from_predictions(y, p) for name, p in (("a", a), ("b", b))}
    models = {name: evaluate(each, target_accuracy=0.8) for name, each in cases.items()}
    compared, apart = compare_with_first(models)
    expected = significance.load_difference(cases["b"], cases["a"], target_accuracy=0.8)
    assert compared["b"].load == expected
    assert compared["b"].aucoc == models["b"].compare(models["a"])
    assert apart == {}
    weighted = Cases.from_predictions(y, a, sample_weight=np.arange(1, len(y) + 1))
    alike = {name: evaluate(weighted) for name in "ab"}
    assert compare_with_first(alike)[0]["b"].load is None


# ------------------------------------------------------------------ weights of any size


@given(st.data())
def test_weights_of_any_size_give_the_numbers_of_their_ratios(data):
    """Exact fractions say what the curve is; nothing overflows, vanishes or is called right."""
    n = data.draw(st.integers(2, 8))
    confidence = data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    correct = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    scales = ([1e308, 1.7e308, 1e170], [1e-300, 3e-308, 1e-200], [0.0, 1.0, 2.5e-9, 1e150])
    sizes = st.sampled_from(data.draw(st.sampled_from(scales)))
    weight = data.draw(st.lists(sizes, min_size=n, max_size=n))
    assume(np.count_nonzero(weight) >= 2)
    with np.errstate(all="raise", under="ignore"):
        found = evaluate(
            Cases.from_correctness(correct, confidence, sample_weight=weight, groups=correct)
        )
    for load, accuracy, threshold in zip(*found.curve, strict=True):
        inside = [i for i in range(n) if confidence[i] >= threshold]
        whole = sum(Fraction(w) for w in weight)
        accepted = sum(Fraction(weight[i]) for i in inside)
        right = sum(Fraction(weight[i]) for i in inside if correct[i])
        assert load == pytest.approx(float(1 - accepted / whole), abs=1e-12)
        assert accuracy == pytest.approx(float(right / accepted), abs=1e-12)
    json.dumps(found.to_dict(), allow_nan=False)
    assert np.isfinite(found.band.low).all()
    assert np.isfinite(found.band.high).all()


def test_weights_too_far_apart_are_refused():
    with pytest.raises(WeightError, match="1e-300 and 1e"):
        evaluate(Cases.from_correctness([1, 0], [1, 2], sample_weight=[1e300, 1e-300]))


def test_true_classes_without_a_probability_are_counted():
    found = evaluate(Cases.from_predictions([0, 1, 1, 0], [[1, 0], [0, 1], [1, 0], [0.6, 0.4]]))
    assert found.calibration.n_impossible == 1
    assert found.calibration.log_loss == pytest.approx((708.3964 - np.log(0.6)) / 4, abs=1e-3)


# ------------------------------------------------------------------ in a notebook


class Tags(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += f"{data} "


def test_notebooks_show_an_evaluation_and_its_point():
    y, proba = predictions()
    found = evaluate(Cases.from_predictions(y, proba), target_accuracy=0.9)
    page = Tags(found._repr_html_())
    assert set(page.tags) == {"div", "p", "b", "table", "tbody", "tr", "th", "td"}
    assert f"{found.aucoc.estimate:.4f}" in page.text
    assert found.guarantee in page.text
    point = Tags(found.operating_point._repr_html_())
    assert f"{found.operating_point.expert_load:.1%}" in point.text
    assert found.operating_point.guarantee in point.text


def test_both_shares_of_a_point_add_up_as_shown():
    for n in range(2001):  # of 2,000, an odd number ends in half of what is shown
        counts = {"n_accepted": n, "n_delegated": 2000 - n, "n_errors": 0, "n_errors_spared": 0}
        point = operating_point.OperatingPoint(threshold=0.5, **counts)
        shares = re.findall(
            r"(?:automatically|experts)</th><td[^>]*><b>([\d.]+)%", point._repr_html_()
        )
        assert sum(map(float, shares)) == pytest.approx(100)
        assert len(shares) == 2


def test_nothing_in_a_notebook_is_markup_of_a_stranger():
    y, proba = predictions()
    hostile = replace(
        evaluate(Cases.from_predictions(y, proba)), guarantee="<script>alert(1)</script>"
    )
    assert "script" not in Tags(hostile._repr_html_()).tags
    nothing = operating_point.at_threshold(Cases.from_predictions(y, proba), threshold=2)
    assert "none" in nothing._repr_html_()


@pytest.mark.parametrize("pair", [(-1e308, 1e308), (1e17, 1e17), (-1.7e308, -1e308)])
def test_confidences_as_large_as_floats_can_be(tmp_path, pair):
    found = evaluate(Cases.from_correctness([1, 0] * 20, list(pair) * 20))
    edges, right, wrong = found.histogram
    assert edges[0] <= pair[0] <= pair[1] <= edges[-1]
    assert (np.diff(edges / 2) > 0).all()
    assert right.sum() == wrong.sum() == 20
    build_report({"a": found}, path=tmp_path / "report.html")


def test_the_shares_of_a_row_add_up_as_shown():
    """A load of 19.85 % is shown as 19.9 %, so 80.1 % are automated, not 80.2 %."""
    found = evaluate(Cases.from_correctness([0, 1] * 50, range(100)))
    (row,) = [row for row in replace(found, loads={0.9: 0.1985}).rows if row[0] == "load at 90 %"]
    shown = float(row[1].removesuffix(" %")), float(row[2].split(" %")[0])
    assert shown == (19.9, 80.1)
