from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import certify as reference
from tests.reference import rivals
from tests.strategies import tied_cases

from expertload import Cases
from expertload import operating_point as op
from expertload.exceptions import NonFiniteError, ParameterError, WeightError
from expertload.operating_point.graded import plan_starts
from expertload.operating_point.ladder import Steps
from expertload.operating_point.spending import plan


def strict_to_loose(values):
    return sorted(set(values), reverse=True)


def assert_same_tests(ladder, tests):
    assert ladder.threshold.tolist() == [t[0] for t in tests]
    assert ladder.n_accepted.tolist() == [t[1] for t in tests]
    assert ladder.n_errors.tolist() == [t[2] for t in tests]
    np.testing.assert_allclose(ladder.p_value, [t[3] for t in tests], rtol=1e-9, atol=1e-300)
    assert ladder.passed.tolist() == [t[4] for t in tests]


@pytest.mark.slow
@given(tied_cases(), st.sampled_from([0.6, 0.8, 0.9]), st.sampled_from([0.8, 0.9, 0.95]))
def test_fixed_sequence_equals_the_written_out_one(cases, target, level):
    correct, confidence = cases
    point = op.certify(
        Cases.from_correctness(*cases),
        target_accuracy=target,
        confidence_level=level,
        method="fixed_sequence",
    )
    delta = 1 - level
    tests = reference.fixed_sequence(
        correct,
        confidence,
        strict_to_loose(confidence),
        target=target,
        starts=plan_starts(len(correct), target, delta),
    )
    assert_same_tests(point.ladder, tests)
    passed = [t for t in tests if t[4]]
    assert point.is_certified == bool(passed)
    if passed:
        assert point.threshold == passed[-1][0]
        assert (point.n_accepted, point.n_errors) == passed[-1][1:3]
        described = op.at_threshold(Cases.from_correctness(*cases), threshold=point.threshold)
        assert point.n_errors_spared == described.n_errors_spared
        assert point.expert_load == described.expert_load
    else:
        assert point.threshold == math.inf
        assert point.accuracy is None
        assert point.n_errors_spared == (~correct).sum()


@given(tied_cases(), st.sampled_from([0.6, 0.8, 0.9]), st.sampled_from([0.8, 0.9, 0.95]))
def test_spending_equals_the_written_out_one(cases, target, level):
    correct, confidence = cases
    point = op.certify(
        Cases.from_correctness(*cases), target_accuracy=target, confidence_level=level
    )
    tied = len(np.unique(confidence)) < len(confidence)
    planned = plan(len(correct), target, 1 - level, tied=tied)
    tests = reference.spending(
        correct,
        confidence,
        strict_to_loose(confidence),
        target=target,
        level=planned.level_to_spend,
    )
    assert point.ladder.threshold.tolist() == [t[0] for t in tests]
    assert point.ladder.n_accepted.tolist() == [t[1] for t in tests]
    assert point.ladder.n_errors.tolist() == [t[2] for t in tests]
    assert point.ladder.passed.tolist() == [t[3] for t in tests]
    passed = [t for t in tests if t[3]]
    assert point.threshold == (passed[-1][0] if passed else math.inf)
    assert point.passed.steps.threshold.tolist() == [t[0] for t in passed]


def test_every_method_has_a_name_and_a_sentence():
    assert get_args(op.Method) == tuple(op.METHODS)
    assert next(iter(op.METHODS)) == "spending"


@given(tied_cases(), st.sampled_from([0.8, 0.9]))
def test_given_thresholds_are_the_ladder(cases, target):
    thresholds = [0.1, 0.9, 0.5, 0.5, 0.75, 2.0]
    point = op.certify(
        Cases.from_correctness(*cases),
        target_accuracy=target,
        thresholds=thresholds,
        method="fixed_sequence",
    )
    delta = 1 - point.confidence_level
    tests = reference.fixed_sequence(
        *cases,
        strict_to_loose(thresholds),
        target=target,
        starts=plan_starts(len(cases[0]), target, delta),
    )
    assert_same_tests(point.ladder, tests)


@given(tied_cases(), st.sampled_from([0.6, 0.8, 0.9]))
def test_sgr_counts_errors_and_keeps_its_bound(cases, target):
    """The reference script truncates its error counts and may return a bound above the target."""
    ladder = rivals.sgr(
        Steps.every(Cases.from_correctness(*cases).tally), len(cases[0]), target, 0.05
    )
    row = ladder.loosest
    threshold = math.inf if row is None else ladder.steps.threshold[row]
    assert threshold == reference.sgr(*cases, target=target, error_level=0.05)
    if row is not None:
        rounds = max(1, math.ceil(math.log2(len(cases[0]))))
        assert ladder.steps.n_errors[row] == (~cases[0][cases[1] >= threshold]).sum()
        assert ladder.steps.p_values(target)[row] <= 0.05 / rounds


@pytest.mark.slow
@given(tied_cases(), st.sampled_from([0.6, 0.8, 0.9]))
def test_joint_risk_counts_all_cases(cases, target):
    point = op.certify(Cases.from_correctness(*cases), target_accuracy=target, risk="joint")
    correct, confidence = cases
    best = math.inf
    for threshold in strict_to_loose(confidence):
        _, errors = reference.accepted_and_wrong(correct, confidence, threshold)
        if reference.binomial_tail(errors, len(correct), 1 - reference.Fraction(target)) > 0.05:
            break
        best = threshold
    assert point.threshold == best
    if point.is_certified:
        assert point.team_accuracy() >= target


@given(tied_cases())
def test_bonferroni_shares_the_level(cases):
    steps = Steps.every(Cases.from_correctness(*cases).tally)
    ladder = rivals.bonferroni(steps, len(cases[0]), 0.8, 0.05)
    np.testing.assert_array_equal(ladder.passed, ladder.p_value <= (0.05 + 1e-15) / 20)


@pytest.mark.slow
@given(tied_cases(), st.randoms())
def test_the_order_of_rows_does_not_matter(cases, random):
    order = list(range(len(cases[0])))
    random.shuffle(order)
    for method in op.METHODS:
        options = {"target_accuracy": 0.8, "method": method}
        shuffled = op.certify(Cases.from_correctness(cases[0][order], cases[1][order]), **options)
        assert shuffled == op.certify(Cases.from_correctness(*cases), **options)


def test_predictions_and_correctness_agree():
    rng = np.random.default_rng(1)
    proba = rng.dirichlet(np.full(4, 0.2), 800)
    y = np.array([rng.choice(4, p=p) for p in proba])
    names = np.array(["a", "b", "c", "d"])
    point = op.certify(names[y], proba, target_accuracy=0.85, labels=names, model_name="m")
    same = op.certify(
        Cases.from_correctness(proba.argmax(axis=1) == y, proba.max(axis=1)), target_accuracy=0.85
    )
    assert point == same
    assert point.is_certified
    assert point.origin.labels == ("a", "b", "c", "d")
    assert point.origin.model_name == "m"
    assert point.origin.data_sha256 == same.origin.data_sha256
    assert point.origin.ranked_by == "top_probability"


def test_graded_correctness_is_certified_by_a_bound():
    rng = np.random.default_rng(2)
    confidence = rng.random(2000)
    grades = np.clip(0.85 + 0.15 * confidence + rng.normal(0, 0.02, 2000), 0, 1)
    point = op.certify(Cases.from_correctness(grades, confidence), target_accuracy=0.9)
    assert point.is_certified
    assert point.accuracy >= 0.9
    assert (point.ladder.p_value[point.ladder.passed] <= 0.05 + 1e-15).all()


# ------------------------------------------------------------------ nothing certified


def test_too_few_cases():
    point = op.certify(Cases.from_correctness(np.ones(40), range(40)), target_accuracy=0.95)
    assert point.reason == "too_few_cases"
    assert point.sufficient_cases == 59
    assert "40 case(s) are too few" in point.guarantee
    assert "it takes at least 59 cases" in point.guarantee
    reached = op.certify(
        Cases.from_correctness(np.ones(40), range(40)), target_accuracy=point.target_within_reach
    )
    assert reached.is_certified
    assert str(point).startswith("Delegate everything: all 40 cases go to experts. Nothing is")


def test_accuracy_too_low():
    correct = np.arange(600) % 3 > 0
    point = op.certify(Cases.from_correctness(correct, np.arange(600) % 7), target_accuracy=0.9)
    assert point.reason == "accuracy_too_low"
    assert point.sufficient_cases is None
    assert 0.5 < point.target_within_reach < 2 / 3
    assert "too low" in point.guarantee


def test_not_enough_evidence_says_how_many_cases_would_do():
    """At one error in 30 and one in 20 allowed, more of the same would certify it."""
    correct = np.arange(300) % 30 > 0
    confidence = np.full(300, 0.9)
    point = op.certify(Cases.from_correctness(correct, confidence), target_accuracy=0.95)
    assert point.reason == "not_enough_evidence"
    assert "could be luck (10 of the 300 most confident wrong)" in point.guarantee
    n = point.sufficient_cases
    assert n > 300
    enough, short = (np.arange(m) % 30 > 0 for m in (n + 30, n - 90))
    assert op.certify(
        Cases.from_correctness(enough, np.full(len(enough), 0.9)), target_accuracy=0.95
    ).is_certified
    assert not op.certify(
        Cases.from_correctness(short, np.full(len(short), 0.9)), target_accuracy=0.95
    ).is_certified


def test_an_over_confident_top_is_named_and_can_be_stepped_over():
    confidence = np.arange(900) / 900
    correct = (np.arange(900) < 860) | (np.arange(900) % 2 == 0)
    point = op.certify(Cases.from_correctness(correct, confidence), target_accuracy=0.95)
    assert point.reason == "over_confident_top"
    assert "thresholds=" in point.guarantee
    assert not point.ladder.passed.any()
    assert len(point.ladder.threshold) == len(plan(900, 0.95, 0.05).looks)
    other = op.certify(
        Cases.from_correctness(correct, confidence), target_accuracy=0.95, thresholds=[0.0]
    )
    assert other.is_certified
    assert other.accuracy >= 0.95


def test_nothing_within_reach():
    point = op.certify(Cases.from_correctness(np.zeros(100), np.ones(100)), target_accuracy=0.9)
    assert point.target_within_reach is None
    assert "No lower target" in point.guarantee


def test_joint_risk_without_hope():
    point = op.certify(
        Cases.from_correctness([0] * 5 + [1] * 60, [1.0] * 5 + [0.5] * 60),
        target_accuracy=0.95,
        risk="joint",
    )
    assert point.reason == "accuracy_too_low"
    luck = op.certify(
        Cases.from_correctness([0] + [1] * 69, [1.0] + [0.5] * 69),
        target_accuracy=0.95,
        risk="joint",
    )
    assert luck.reason == "not_enough_evidence"
    assert 93 <= luck.sufficient_cases <= 140


def test_a_perfect_model_is_certified_without_load():
    point = op.certify(Cases.from_correctness(np.ones(500), np.arange(500)), target_accuracy=0.95)
    assert point.is_certified
    assert point.expert_load == 0


# ------------------------------------------------------------------ words


def test_the_guarantee_in_words():
    point = op.certify(
        Cases.from_correctness(np.ones(100), np.full(100, 0.5)), target_accuracy=0.95
    )
    assert point.guarantee.startswith(
        "One can be 95 % sure that the accuracy among cases accepted at confidence >= 0.5 is at "
        "least 0.95. This holds for independent new cases drawn as the calibration cases were"
    )
    joint = op.certify(
        Cases.from_correctness(np.ones(100), np.full(100, 0.5)), target_accuracy=0.95, risk="joint"
    )
    assert "team's accuracy is at least 0.95" in joint.guarantee


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"target_accuracy": 95}, ParameterError, "pass 0.95 for 95 %"),
        ({"target_accuracy": 1}, ParameterError, "never an error"),
        ({"target_accuracy": 0}, ParameterError, r"\(0, 1\)"),
        ({"target_accuracy": 0.9, "confidence_level": 95}, ParameterError, "pass 0.95 for 95 %"),
        ({"target_accuracy": 0.9, "method": "sgr"}, ParameterError, "'spending'"),
        ({"target_accuracy": 0.9, "risk": "none"}, ParameterError, "'joint'"),
        ({"target_accuracy": 0.9, "thresholds": [math.nan]}, NonFiniteError, "thresholds"),
        ({"target_accuracy": 0.9, "sample_weight": [1, 1]}, WeightError, "count cases"),
        ({"target_accuracy": 0.9, "labels": [0, 1]}, ParameterError, "'labels'"),
    ],
)
def test_bad_requests(options, error, match):
    with pytest.raises(error, match=match):
        op.certify(Cases.from_correctness([1, 0], [0.1, 0.2]), **options)


# ------------------------------------------------------------------ another implementation


@pytest.mark.filterwarnings("ignore:Fixed sequence testing requires a monotonic risk")
@pytest.mark.parametrize("seed", range(5))
def test_mapie_certifies_the_same_thresholds(seed):
    """The error rate of `confidence >= threshold` as an answer to `correct` is our risk.

    mapie recovers counts by rounding a product of floats up, and so sees one error too many where
    that product lands a little above a whole number; rows in which it does are set aside.
    """
    control = pytest.importorskip("mapie.risk_control")
    from mapie.risk_control.fwer_control import control_fwer

    rng = np.random.default_rng(seed)
    confidence = rng.random(400)  # few enough for a single sequence, which is what mapie has
    correct = rng.random(400) < np.where(confidence > 0.3, 0.98, 0.4)
    grid = np.linspace(0, 0.99, 100)
    point = op.certify(
        Cases.from_correctness(correct, confidence),
        target_accuracy=0.9,
        thresholds=grid,
        method="fixed_sequence",
    )
    tested = point.ladder
    wrong = control.BinaryRisk(
        risk_occurrence=lambda y_true, y_pred: y_pred != y_true,
        risk_condition=lambda y_true, y_pred: y_pred == 1,
        higher_is_better=False,
    )
    controller = control.BinaryClassificationController(
        predict_function=lambda x: np.column_stack([1 - x, x]),
        risk=wrong,
        target_level=0.1,
        confidence_level=0.95,
        best_predict_param_choice="precision",
        list_predict_params=tested.threshold,
        fwer_method="fixed_sequence",
    )
    controller.calibrate(confidence, correct.astype(int))
    theirs = controller.p_values[:, 0]
    agree = np.ceil(tested.n_errors / tested.n_accepted * tested.n_accepted) == tested.n_errors
    assert agree.mean() > 0.8
    np.testing.assert_allclose(theirs[agree], tested.p_value[agree], rtol=1e-6, atol=1e-12)
    passed = control_fwer(tested.p_value, 0.05, "fixed_sequence")
    assert passed.tolist() == np.flatnonzero(tested.passed).tolist()
    assert 0 < len(passed) < len(tested.threshold)
    if agree.all():
        assert controller.valid_predict_params.tolist() == tested.threshold[passed].tolist()


def test_too_few_clusters_are_told_how_many_it_takes():
    def patients(n):
        clusters = np.repeat(range(n), 3)
        cases = Cases.from_correctness(
            np.ones(3 * n), np.linspace(0.9, 1, 3 * n), clusters=clusters
        )
        return op.certify(cases, target_accuracy=0.95)

    few = patients(29)
    assert few.reason == "too_few_cases"
    assert "87 case(s) in these clusters are too few, even if all were right." in few.guarantee
    assert "cluster_promise='one_case_each'" in few.guarantee
    assert few.sufficient_cases is not None
    enough = few.sufficient_cases // 3
    assert not patients(int(0.8 * enough)).is_certified
    assert patients(int(1.2 * enough)).is_certified
    assert few.target_within_reach is not None


def test_a_share_of_errors_that_plainly_exceeds_the_target_is_not_called_luck():
    rng = np.random.default_rng(0)
    confidence = rng.random(4000)
    correct = rng.random(4000) < 0.8 + 0.2 * confidence
    clusters = np.arange(4000) // 3
    cases = Cases.from_correctness(correct, confidence, clusters=clusters)
    for target in (0.97, 0.99, 0.999):
        point = op.certify(cases, target_accuracy=target)
        wrong, accepted = point._first_test
        assert not point.is_certified
        if wrong > (1 - target) * accepted:
            assert "may be high enough" not in point.guarantee
