"""What a certification says of itself is true, above all where nothing is certified."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from tests.strategies import examples, tied_cases

from expertload import Cases
from expertload import operating_point as op
from expertload._format import promised
from expertload.operating_point.point import at_least, digits


def more_of_the_same(correct, confidence, n):
    """Each case repeated about equally often, n in all: what was observed, from more cases."""
    order = np.lexsort((correct, -confidence))  # right ones last, errors are not left out
    rows = order[np.arange(n) * len(correct) // n]
    return correct[rows], confidence[rows]


REQUESTS = [
    {},
    {"method": "fixed_sequence"},
    {"risk": "joint"},
    {"thresholds": [0.5]},
    {"thresholds": [0.25, 0.5, 0.75]},
    {"thresholds": [2.0]},
    {"method": "fixed_sequence", "thresholds": [0.3, 0.6]},
]


@pytest.mark.slow
@examples(300)
@given(tied_cases(), st.sampled_from([0.8, 0.9, 0.95]), st.sampled_from(REQUESTS))
def test_every_sentence_about_a_failure_is_true(cases, target, request_):
    correct, confidence = cases
    options = {"target_accuracy": target, **request_}
    point = op.certify(Cases.from_correctness(correct, confidence), **options)
    if point.is_certified:
        return
    said, n = point.guarantee, len(correct)
    asked = np.unique(request_.get("thresholds", confidence))
    accepted = np.array([(confidence >= t).sum() for t in asked])
    wrong = np.array([(~correct[confidence >= t]).sum() for t in asked])
    if "case(s) are too few" in said or "accept too few" in said:
        perfect = op.certify(Cases.from_correctness(np.ones(n, bool), confidence), **options)
        assert not perfect.is_certified
    if "looser threshold would pass on its own" in said:
        first = point.ladder.threshold[0]
        alone = binom.cdf(wrong, accepted, 1 - target) <= 0.05
        assert alone[(asked < first) & (accepted > 0)].any()
    if "accuracy is too low" in said:
        assert point.sufficient_cases is None
    if "accuracy is too low" in said and point.risk == "selective":
        most_tests = max(20, len(asked), len(correct))  # a level shared by so many at most
        testable = accepted >= math.log(0.05 / most_tests) / math.log(target)
        assert (wrong >= accepted * (1 - target) - 1e-9)[testable].all()
    if point.sufficient_cases is not None:
        how = "at least" if point.reason == "too_few_cases" else "About"
        assert f"{how} {point.sufficient_cases} cases" in said
        assert point.sufficient_cases > n
        assert any(
            op.certify(
                Cases.from_correctness(
                    *more_of_the_same(
                        correct, confidence, math.ceil(times * point.sufficient_cases)
                    )
                ),
                **options,
            ).is_certified
            for times in (1, 1.02, 1.05, 1.1, 1.2)
        )
    if point.target_within_reach is not None:
        reached = {**options, "target_accuracy": point.target_within_reach}
        assert op.certify(Cases.from_correctness(correct, confidence), **reached).is_certified


@pytest.mark.parametrize("n", [2, 50, 400])
def test_no_number_of_cases_suffices_where_half_are_wrong(n):
    point = op.certify(
        Cases.from_correctness(np.arange(n) % 2, np.full(n, 0.7)), target_accuracy=0.95
    )
    assert point.sufficient_cases is None
    assert "would be enough" not in point.guarantee


def test_one_threshold_is_judged_by_itself():
    rng = np.random.default_rng(0)
    confidence = rng.random(1000)
    correct = rng.random(1000) < 0.7 + 0.3 * confidence
    point = op.certify(
        Cases.from_correctness(correct, confidence), target_accuracy=0.9, thresholds=[0.5]
    )
    assert not point.is_certified
    assert "looser" not in point.guarantee
    assert point.ladder.threshold.tolist() == [0.5]


def test_thresholds_that_accept_nothing_are_named():
    point = op.certify(
        Cases.from_correctness(np.ones(500), np.linspace(0, 1, 500)),
        target_accuracy=0.9,
        thresholds=[2.0],
    )
    assert point.reason == "too_few_accepted"
    assert "accept too few of the cases" in point.guarantee
    assert "wrong" not in point.guarantee


def test_one_threshold_has_the_whole_level():
    """29 right cases prove 0.9 at 0.95: nothing is held back for tests that are not done."""
    correct, confidence = np.ones(2000, bool), np.repeat([1.0, 0.0], [29, 1971])
    correct[29:] = False
    point = op.certify(
        Cases.from_correctness(correct, confidence), target_accuracy=0.9, thresholds=[1.0]
    )
    assert point.is_certified


@pytest.mark.slow
def test_a_million_cases_keep_all_their_digits():
    correct, confidence = np.ones(1_500_001, bool), np.full(1_500_001, 0.5)
    correct[:150_003] = False
    point = op.certify(Cases.from_correctness(correct, confidence), target_accuracy=0.95)
    assert "all 1500001 cases" in str(point)
    assert "150003 of the 1500001 most confident wrong" in point.guarantee
    accepted = op.at_threshold(
        Cases.from_correctness(correct, np.arange(1_500_001)), threshold=1_234_567
    )
    assert "(1234567 of 1500001)" in str(accepted)


def test_a_good_top_too_small_to_test_is_not_called_too_low():
    """Fifty right of fifty at the top, where 59 can pass: more cases of the kind would do."""
    point = op.certify(
        Cases.from_correctness(np.arange(100) >= 50, np.arange(100)), target_accuracy=0.95
    )
    assert point.reason == "not_enough_evidence"
    assert 118 <= point.sufficient_cases <= 240


def test_no_advice_rests_on_a_lucky_handful():
    """Thirty right answers at the top of ten thousand that are right in 0.85."""
    correct = np.arange(10_000) % 20 >= 3
    correct[-30:] = True
    point = op.certify(Cases.from_correctness(correct, np.arange(10_000)), target_accuracy=0.95)
    assert point.reason == "accuracy_too_low"
    assert "would be enough" not in point.guarantee


@pytest.mark.parametrize("seed", range(4))
def test_a_threshold_as_it_is_printed_accepts_no_more_than_was_certified(seed):
    """Of a model that is nearly always nearly sure, many cases differ in the seventh digit."""
    rng = np.random.default_rng(seed)
    doubt = 10 ** -rng.uniform(1, 9, 20_000)
    correct = rng.random(20_000) > 0.4 * doubt**0.1
    point = op.certify(Cases.from_correctness(correct, 1 - doubt), target_accuracy=0.9)
    for text in (str(point), point.guarantee):
        for printed in re.findall(r">= (\S+?):? ", text):
            accepted = (1 - doubt >= float(printed)).sum()
            assert 0.99 * point.n_accepted < accepted <= point.n_accepted


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_printed_threshold_is_not_rounded_down(threshold):
    for shown in (digits(threshold), digits(threshold, 4)):
        assert threshold <= float(shown) <= threshold + 5e-4 * abs(threshold)
        assert (float(shown) == 1) == (threshold == 1)


def test_one_case_of_each_cluster_counts_clusters():
    """300 patients with three cases each: the number that would be enough is one of patients."""
    rng = np.random.default_rng(1)
    confidence = rng.random(900)
    correct = rng.random(900) < 0.85 + 0.11 * confidence
    point = op.certify(
        Cases.from_correctness(correct, confidence, clusters=np.arange(900) // 3),
        target_accuracy=0.95,
        cluster_promise="one_case_each",
    )
    assert point.sufficient_cases is not None
    assert f"{point.sufficient_cases} clusters" in point.guarantee
    assert f"{point.sufficient_cases} cases" not in point.guarantee


@given(st.floats(1e-9, 1, exclude_max=True))
def test_no_more_is_said_than_was_promised(share):
    assert share * (1 - 1e-5) <= float(at_least(share)) <= share + 1e-15
    told = float(promised(share).removesuffix(" %")) / 100
    assert share - 1.01e-4 <= told <= share + 1e-11


@pytest.mark.parametrize("share", [0.5, 0.9, 0.95, 0.9975, 0.99, 0.999, 0.9995, 0.99999])
def test_what_was_asked_for_is_said_as_it_was_asked_for(share):
    assert at_least(share) == repr(share)
    assert at_least(1 - (1 - share)) == repr(share)
    assert float(promised(share).removesuffix(" %")) == pytest.approx(100 * share, abs=1e-9)


def test_a_level_next_to_one_is_not_said_to_be_one():
    point = op.certify(
        Cases.from_correctness([1] * 500, range(500)),
        target_accuracy=0.9,
        confidence_level=1 - 1e-7,
    )
    assert point.guarantee.startswith("One can be 99.9999 % sure that ")


def test_columns_in_another_order_are_suspected():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.full(5, 0.1), size=500)
    y_true = (proba.cumsum(axis=1) > rng.random((500, 1))).argmax(axis=1)
    swapped = op.certify(y_true, proba[:, ::-1], target_accuracy=0.95)
    assert "may be in another order" in swapped.guarantee
    assert "A target of" not in swapped.guarantee
    few = op.certify(y_true, proba, target_accuracy=0.999)
    assert "another order" not in few.guarantee
