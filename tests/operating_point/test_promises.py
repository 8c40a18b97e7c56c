"""Promises beside that of one target: several targets, costs, error budgets, clusters, curves."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, hypergeom
from tests.operating_point.populations import POPULATIONS, Population, drawn_steps, limit
from tests.strategies import examples

from expertload import Cases
from expertload import operating_point as op
from expertload.exceptions import CorrectnessError, DataTypeError, ParameterError, ShapeError
from expertload.operating_point import promises as budget
from expertload.operating_point.promises import (
    bounded_ranks,
    lower_bounds,
    probability_of_staying_above,
    simultaneous_level,
)

ROUNDS = 400


def example(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    confidence = rng.random(n)
    return rng.random(n) < 0.75 + 0.25 * confidence, confidence


# ------------------------------------------------------------------ several targets


def test_each_target_has_its_share_of_the_level():
    points = op.certify(Cases.from_correctness(*example()), target_accuracy=[0.95, 0.85, 0.9])
    assert list(points) == [0.85, 0.9, 0.95]
    for target, point in points.items():
        alone = op.certify(
            Cases.from_correctness(*example()),
            target_accuracy=target,
            confidence_level=1 - 0.05 / 3,
        )
        assert point == alone
    assert points.confidence_level == pytest.approx(0.95)
    assert set(points.certified) <= {0.85, 0.9, 0.95}
    assert "all of these hold at once" in points.guarantee
    assert len(str(points).splitlines()) == len(points) == 3
    assert points[0.9].origin == points.origin


def test_one_target_in_a_list_is_still_a_mapping():
    points = op.certify(Cases.from_correctness(*example()), target_accuracy=[0.9])
    assert points[0.9] == op.certify(Cases.from_correctness(*example()), target_accuracy=0.9)


@pytest.mark.parametrize("targets", [[], [0.9, 0.9]])
def test_targets_must_be_different(targets):
    with pytest.raises(ParameterError, match="must be distinct"):
        op.certify(Cases.from_correctness([1, 0], [0.1, 0.2]), target_accuracy=targets)


@pytest.mark.simulation
def test_all_targets_keep_their_promise_at_once():
    """Each target sits where a wave of accuracy just misses it."""
    rng, broken, targets = np.random.default_rng(0), 0, [0.8, 0.85, 0.9]
    population = Population(lambda r: 0.8 - 1e-3 + 0.1 * (r > 0.7) + 0.05 * (r > 0.85))
    for _ in range(ROUNDS):
        points = op.certify(
            Cases.from_correctness(*population.draw(rng, 600)),
            target_accuracy=targets,
            confidence_level=0.9,
        )
        broken += any(population.accuracy_above(p.threshold) < t for t, p in points.items())
    assert broken / ROUNDS <= limit(0.1, ROUNDS)


# ------------------------------------------------------------------ moving inside what passed


def test_a_point_moves_inside_what_passed():
    correct, confidence = example()
    point = op.certify(Cases.from_correctness(correct, confidence), target_accuracy=0.9)
    low, high = point.passed.ranges[-1]
    assert point.threshold == low
    for threshold in (low, (low + high) / 2, high):
        moved = point.at(threshold=threshold)
        described = op.at_threshold(
            Cases.from_correctness(correct, confidence), threshold=threshold
        )
        assert moved.threshold == threshold
        assert (moved.n_accepted, moved.n_errors) == (described.n_accepted, described.n_errors)
        assert moved.n_errors_spared == described.n_errors_spared
        assert moved.target_accuracy == 0.9
        assert moved.is_certified
    half = point.at(expert_load=0.6)
    assert 0.6 <= half.expert_load < 0.602
    better = point.at(accuracy=0.95)
    assert better.accuracy >= 0.95
    assert better.threshold in point.passed


def test_a_point_does_not_leave_what_passed():
    correct, confidence = example()
    correct[confidence.argmax()] = False  # so that none of the thresholds is without an error
    point = op.certify(Cases.from_correctness(correct, confidence), target_accuracy=0.9)
    low, high = point.passed.ranges[-1]
    for threshold in (low - 1e-6, high + 1e-6):
        with pytest.raises(ParameterError, match=r"is not certified\. Certified: .* to "):
            point.at(threshold=threshold)
    with pytest.raises(ParameterError, match="No certified threshold delegates"):
        point.at(expert_load=1.0)
    with pytest.raises(ParameterError, match="No certified threshold was right in 1"):
        point.at(accuracy=1.0)
    with pytest.raises(ParameterError, match="one of threshold"):
        point.at()
    with pytest.raises(ParameterError, match="Got 2"):
        point.at(threshold=0.5, accuracy=0.9)
    nothing = op.certify(Cases.from_correctness([1] * 5, range(5)), target_accuracy=0.9)
    with pytest.raises(ParameterError, match="no certified threshold to move to"):
        nothing.at(expert_load=0.5)


def test_between_given_thresholds_nothing_is_certified():
    point = op.certify(
        Cases.from_correctness(*example()), target_accuracy=0.85, thresholds=[0.3, 0.5, 0.7]
    )
    assert point.at(threshold=0.7).threshold == 0.7
    with pytest.raises(ParameterError, match="is not certified"):
        point.at(threshold=0.6)


def test_what_passed_may_have_a_gap():
    """A bad stretch in the middle ends one run; a later look begins another."""
    correct = np.ones(4000, bool)
    correct[150:250:2] = False
    point = op.certify(Cases.from_correctness(correct, -np.arange(4000)), target_accuracy=0.95)
    assert len(point.passed.ranges) == 2
    (_, _), (low, high) = point.passed.ranges
    assert low == -3999
    with pytest.raises(ParameterError, match="is not certified"):
        point.at(threshold=high + 1)


# ------------------------------------------------------------------ costs


def test_costs_of_one_are_joint_risk():
    correct, confidence = example()
    cost = op.certify_mean_cost(
        Cases.from_correctness(correct, confidence), error_costs=np.ones(2000), max_mean_cost=0.1
    )
    joint = op.certify(
        Cases.from_correctness(correct, confidence), target_accuracy=0.9, risk="joint"
    )
    assert cost.threshold == joint.threshold
    assert cost.risk == "cost"
    assert "cost at most 0.1 on average over all cases" in cost.guarantee


def test_costs_are_counted():
    correct, confidence = example()
    costs = np.random.default_rng(1).random(2000)
    point = op.certify_mean_cost(
        Cases.from_correctness(correct, confidence), error_costs=costs, max_mean_cost=0.05
    )
    accepted = confidence >= point.threshold
    assert point.n_errors == pytest.approx((costs * ~correct)[accepted].sum())
    assert point.n_errors / 2000 < 0.05


@pytest.mark.parametrize(
    ("costs", "most", "match"),
    [
        ([0.5, 3.0], 0.1, "divide all costs"),
        ([0.5, -0.1], 0.1, r"must be in \[0, 1\]"),
        ([0.5, 0.5], 5, r"\(0, 1\)"),
        ([0.5, 0.5], 0, r"\(0, 1\)"),
    ],
)
def test_bad_costs(costs, most, match):
    with pytest.raises(ParameterError, match=match):
        op.certify_mean_cost(
            Cases.from_correctness([1, 0], [0.1, 0.2]), error_costs=costs, max_mean_cost=most
        )
    with pytest.raises(ShapeError):
        op.certify_mean_cost(
            Cases.from_correctness([1, 0], [0.1, 0.2]), error_costs=[1.0], max_mean_cost=0.1
        )


@pytest.mark.simulation
@pytest.mark.parametrize("spread", ["all or nothing", "uniform"])
def test_mean_costs_keep_their_promise(spread):
    rng, broken, naive = np.random.default_rng(0), 0, 0
    wrong_rate = 0.3  # accuracy does not depend on confidence; the mean cost is half of it
    for _ in range(ROUNDS):
        confidence, wrong = rng.random(400), rng.random(400) < wrong_rate
        costs = rng.random(400) if spread == "uniform" else (rng.random(400) < 0.5) * 1.0
        point = op.certify_mean_cost(
            Cases.from_correctness(~wrong, confidence),
            error_costs=costs,
            max_mean_cost=0.1,
            confidence_level=0.9,
        )
        broken += 0.5 * wrong_rate * (1 - min(point.threshold, 1)) > 0.1
        by_confidence = np.argsort(-confidence)
        total = np.cumsum((costs * wrong)[by_confidence]) / 400
        naive += 0.5 * wrong_rate * (np.searchsorted(total, 0.1) / 400) > 0.1
    assert broken / ROUNDS <= limit(0.1, ROUNDS)
    assert naive / ROUNDS > 0.3  # the control: as many as fit the budget on these cases


# ------------------------------------------------------------------ error budgets


@given(st.integers(1, 80), st.integers(1, 60), st.integers(0, 20), st.integers(0, 40))
def test_the_chance_of_too_many_errors_is_hypergeometric(n, coming, most, allowed):
    most, allowed = min(most, coming - 1), min(allowed, n)
    found = budget.too_many_probability(n, coming, most, allowed)
    law = hypergeom(n + coming, coming, most + 1 + allowed)
    assert found == pytest.approx(law.sf(most), rel=1e-9, abs=1e-12)


@pytest.mark.slow
@examples(40)
@given(st.integers(1, 120), st.integers(1, 100), st.integers(0, 20))
def test_the_most_calibration_errors_are_allowed(n, coming, most):
    allowed = budget.allowed_calibration_errors(n, coming, most, 0.1)
    if most >= coming:
        assert allowed == n
        return
    chance = [hypergeom(n + coming, coming, most + 1 + c).sf(most) for c in range(n + 1)]
    expected = max((c for c in range(n + 1) if chance[c] <= 0.1 + 1e-12), default=-1)
    assert allowed == expected


def test_an_error_budget_lies_above_an_error():
    correct, confidence = example()
    point = op.certify_error_budget(
        Cases.from_correctness(correct, confidence), max_errors=20, next_cases=500
    )
    allowed = budget.allowed_calibration_errors(2000, 500, 20, 0.05)
    errors = np.sort(confidence[~correct])[::-1]
    assert point.n_errors == allowed
    assert point.threshold > errors[allowed]
    assert "at most 20 automatic error(s) among the next 500 cases" in point.guarantee
    assert "independent new cases" in point.guarantee


def test_an_error_budget_that_cannot_be_kept(tmp_path):
    point = op.certify_error_budget(
        Cases.from_correctness([1] * 50, range(50)), max_errors=0, next_cases=1000
    )
    assert not point.is_certified
    assert point.sufficient_cases > 50
    assert f"{point.sufficient_cases} would be enough" in point.guarantee
    n = point.sufficient_cases
    enough = op.certify_error_budget(
        Cases.from_correctness([1] * n, range(n)), max_errors=0, next_cases=1000
    )
    assert enough.is_certified
    for each in (point, enough):
        each.save(tmp_path / "p.json")
        assert op.load_operating_point(tmp_path / "p.json") == each
    with pytest.raises(CorrectnessError, match="errors are counted"):
        op.certify_error_budget(Cases.from_correctness([0.5], [1]), max_errors=0, next_cases=1)
    with pytest.raises(ParameterError, match="whole number"):
        op.certify_error_budget(Cases.from_correctness([1], [1]), max_errors=0.5, next_cases=1)


@pytest.mark.simulation
@pytest.mark.parametrize("name", ["rising", "never quite", "ties", "over-confident top"])
def test_error_budgets_are_kept(name):
    population, rng, rounds = POPULATIONS[name](0.8), np.random.default_rng(0), 2000
    broken = naive = 0
    for _ in range(rounds):
        correct, confidence = population.draw(rng, 200)
        point = op.certify_error_budget(
            Cases.from_correctness(correct, confidence),
            max_errors=8,
            next_cases=100,
            confidence_level=0.9,
        )
        next_correct, next_confidence = population.draw(rng, 100)
        broken += (~next_correct)[next_confidence >= point.threshold].sum() > 8
        in_proportion = np.append(np.sort(confidence[~correct])[::-1], -np.inf)[
            min(16, (~correct).sum())
        ]
        naive += (~next_correct)[next_confidence > in_proportion].sum() > 8
    assert broken / rounds <= limit(0.1, rounds)
    assert naive / rounds > 0.25  # the control: twice the cases, so twice the errors
    if name != "ties":
        assert broken / rounds > 0.04  # the level is spent


# ------------------------------------------------------------------ clusters


def clustered_cases(rng, n_clusters, size, accuracy, correlation):
    """Beta-binomial: each cluster has its own accuracy, of the given mean and correlation."""
    spread = (1 - correlation) / correlation
    own = rng.beta(accuracy * spread, (1 - accuracy) * spread, n_clusters)
    cluster = np.repeat(np.arange(n_clusters), size)
    correct = rng.random(len(cluster)) < own[cluster]
    return correct, rng.random(len(cluster)), cluster


@pytest.mark.simulation
@pytest.mark.parametrize("what", ["all_cases", "one_case_each"])
@pytest.mark.parametrize("correlation", [0.1, 0.6])
def test_clusters_keep_their_promise(what, correlation):
    """Confidence tells nothing and the accuracy just misses: any certificate is a wrong one."""
    rng, broken, independent = np.random.default_rng(0), 0, 0
    for _ in range(ROUNDS):
        correct, confidence, cluster = clustered_cases(rng, 200, 5, 0.9 - 1e-6, correlation)
        cases = Cases.from_correctness(correct, confidence, clusters=cluster)
        point = op.certify(cases, target_accuracy=0.9, confidence_level=0.9, cluster_promise=what)
        broken += point.is_certified
        independent += op.certify(
            Cases.from_correctness(correct, confidence), target_accuracy=0.9, confidence_level=0.9
        ).is_certified
    assert broken / ROUNDS <= limit(0.1, ROUNDS)
    if correlation > 0.5:
        assert independent / ROUNDS > limit(0.1, ROUNDS)  # the control: clusters ignored


UNCLUSTERED = {
    "budget": lambda cases: op.certify_error_budget(cases, max_errors=20, next_cases=500),
    "cost": lambda cases: op.certify_mean_cost(
        cases, error_costs=np.ones(len(cases)), max_mean_cost=0.05, confidence_level=0.9
    ),
    "curve": lambda cases: op.certified_curve(cases, confidence_level=0.9),
}


@pytest.mark.parametrize("certify", UNCLUSTERED.values(), ids=UNCLUSTERED)
def test_promises_about_independent_cases_refuse_clusters(certify):
    correct, confidence, cluster = clustered_cases(np.random.default_rng(0), 100, 5, 0.9, 0.5)
    with pytest.raises(ParameterError, match=r"'cases' must be independent.*in clusters"):
        certify(Cases.from_correctness(correct, confidence, clusters=cluster))


@pytest.mark.simulation
@pytest.mark.parametrize("name", ["cost", "curve"])
def test_promises_that_ignored_clusters_would_be_broken(name):
    """Why they are refused: cases of a patient, taken for independent, show what is not so."""
    rng, broken = np.random.default_rng(0), 0
    for _ in range(ROUNDS):
        correct, confidence, _ = clustered_cases(rng, 50, 20, 0.9, 0.6)
        found = UNCLUSTERED[name](Cases.from_correctness(correct, confidence))
        # A tenth of what is accepted is wrong: to cost 0.05, half of all may be accepted.
        broken += (found.lower > 0.9).any() if name == "curve" else found.threshold < 0.5
    assert broken / ROUNDS > limit(0.1, ROUNDS)


@pytest.mark.simulation
@pytest.mark.parametrize("what", ["all_cases", "one_case_each"])
def test_groups_with_clusters_keep_their_promise(what):
    """Branches whose customers have several cases each; all branches just miss the target."""
    rng, broken, independent, rounds = np.random.default_rng(0), 0, 0, 250
    for _ in range(rounds):
        correct, confidence, customer = clustered_cases(rng, 300, 5, 0.9 - 1e-6, 0.6)
        branch = np.where(rng.random(300) < 0.5, "north", "south")[customer]
        cases = Cases.from_correctness(correct, confidence, clusters=customer, groups=branch)
        options = {"target_accuracy": 0.9, "confidence_level": 0.9}
        broken += bool(op.certify_groups(cases, **options, cluster_promise=what).certified)
        ignored = replace(cases, clusters=None)
        independent += bool(op.certify_groups(ignored, **options).certified)
    assert broken / rounds <= limit(0.1, rounds)
    assert independent / rounds > limit(0.1, rounds)  # the control: customers ignored


def test_each_group_is_certified_by_its_own_clusters():
    """As if it were alone, at its share of the level; a customer may be in both branches."""
    rng = np.random.default_rng(0)
    correct, confidence, customer = clustered_cases(rng, 400, 5, 0.98, 0.3)
    branch = rng.integers(0, 2, len(customer))
    cases = Cases.from_correctness(correct, confidence, clusters=customer, groups=branch)
    points = op.certify_groups(cases, target_accuracy=0.9)
    for group, point in points.items():
        alone = op.certify(
            Cases.from_correctness(
                correct[branch == group],
                confidence[branch == group],
                clusters=customer[branch == group],
            ),
            target_accuracy=0.9,
            confidence_level=0.975,
        )
        assert point == alone
        assert point.clusters == "all_cases"
    assert "independent clusters" in points.guarantee


@pytest.mark.simulation
@pytest.mark.parametrize(("what", "least"), [("all_cases", 0.65), ("one_case_each", 0.65)])
def test_clusters_are_certified_where_they_are_good(what, least):
    rng, certified = np.random.default_rng(0), 0
    for _ in range(60):
        correct, confidence, cluster = clustered_cases(rng, 400, 5, 0.98, 0.3)
        point = op.certify(
            Cases.from_correctness(correct, confidence, clusters=cluster),
            target_accuracy=0.95,
            cluster_promise=what,
        )
        certified += point.is_certified
    assert certified / 60 >= least


@pytest.mark.simulation
def test_large_clusters_that_are_worse_count_for_all_they_have():
    """Small clusters are good and large ones bad: all cases together just miss the target."""
    rng, broken = np.random.default_rng(0), 0
    for _ in range(ROUNDS):
        size = np.where(rng.random(150) < 0.5, 1, 9)
        cluster = np.repeat(np.arange(150), size)
        correct = rng.random(len(cluster)) < np.where(size[cluster] == 1, 0.99, 0.79 / 0.9)
        cases = Cases.from_correctness(correct, rng.random(len(cluster)), clusters=cluster)
        point = op.certify(cases, target_accuracy=0.8893, confidence_level=0.9)
        broken += point.is_certified
    assert broken / ROUNDS <= limit(0.1, ROUNDS)


@pytest.mark.simulation
@pytest.mark.parametrize("what", ["class", "group"])
def test_rare_clusters_with_many_cases_of_a_kind_count(what):
    """All customers have 20 cases, nearly always one of a kind; few have 20, and all are wrong.

    Half of the calibration sets hold none of these. The most cases of a cluster must be those of
    all kinds, or such sets certify what the promise's own conditions allow to be broken.
    """
    rng, broken, alone, rounds = np.random.default_rng(0), 0, 0, 200
    options = {"confidence_level": 0.9}
    for _ in range(rounds):
        many = rng.random(150) < 0.005
        customer, place = np.repeat(np.arange(150), 20), np.tile(np.arange(20), 150)
        is_kind = (place == 0) | many[customer]
        correct = ~many[customer] & (rng.random(len(customer)) > 0.0097)  # 0.1 of them are wrong
        confidence = 0.5 + rng.random(len(customer)) / 2
        if what == "class":  # the answers 1 are of the kind
            shown = np.where(is_kind, confidence, 1 - confidence)
            cases = Cases.from_predictions(
                np.where(correct, is_kind, ~is_kind).astype(int),
                shown,
                labels=[0, 1],
                clusters=customer,
            )
            found = op.certify_classes(cases, promises="precision:1=0.9", **options)
            broken += bool(found.certified)
        else:
            cases = Cases.from_correctness(
                correct, confidence, clusters=customer, groups=is_kind.astype(int)
            )
            found = op.certify_groups(cases, target_accuracy=0.9, **options)
            broken += found[1].is_certified
        part = replace(cases.take(is_kind), groups=None)
        alone += op.certify(part, target_accuracy=0.9, **options).is_certified
    assert broken / rounds <= limit(0.1, rounds)
    assert alone / rounds > limit(0.1, rounds)  # the control: cases of the kind alone


@pytest.mark.simulation
@pytest.mark.parametrize("correlation", [0.1, 0.6])
def test_few_cases_missed_in_clusters_or_with_delegated_ones(correlation):
    """Wrong cases lie evenly below 0.8, so that 0.1 of all cases is wrong above 0.4."""
    rng, broken, certified, ignored = np.random.default_rng(0), 0, 0, 0
    for _ in range(ROUNDS):
        wrong, shown, cluster = clustered_cases(rng, 200, 5, 0.2, correlation)
        confidence = np.where(wrong, 0.8 * shown, shown)
        cases = Cases.from_correctness(~wrong, confidence, clusters=cluster)
        options = {"target_accuracy": 0.9, "confidence_level": 0.9, "risk": "joint"}
        found = op.certify(cases, **options)
        broken += found.threshold < 0.4
        certified += found.threshold < 0.7
        ignored += op.certify(replace(cases, clusters=None), **options).threshold < 0.4
    assert broken / ROUNDS <= limit(0.1, ROUNDS)
    assert certified / ROUNDS > 0.9
    if correlation > 0.5:
        assert ignored / ROUNDS > limit(0.1, ROUNDS)  # the control: clusters ignored


def test_the_sentence_says_what_is_promised_of_clusters(tmp_path):
    rng = np.random.default_rng(0)
    correct, confidence, cluster = clustered_cases(rng, 400, 5, 0.98, 0.3)
    for what, words in (
        ("all_cases", "all cases of new clusters"),
        ("one_case_each", "one case drawn at random from each new cluster"),
    ):
        point = op.certify(
            Cases.from_correctness(correct, confidence, clusters=cluster),
            target_accuracy=0.9,
            cluster_promise=what,
        )
        assert point.clusters == what
        assert words in point.guarantee
        assert "independent clusters" in point.guarantee
        point.save(tmp_path / "p.json")
        again = op.load_operating_point(tmp_path / "p.json")
        assert again == point
        assert again.guarantee == point.guarantee
        stricter = point.at(expert_load=0.3)
        assert stricter.threshold in point.passed


def test_clusters_where_nothing_is_certified():
    rng = np.random.default_rng(0)
    for n_clusters, reason in ((30, "too_few_cases"), (300, "accuracy_too_low")):
        correct, confidence, cluster = clustered_cases(rng, n_clusters, 5, 0.8, 0.3)
        point = op.certify(
            Cases.from_correctness(correct, confidence, clusters=cluster), target_accuracy=0.95
        )
        assert point.reason == reason
        assert point.expert_load == 1
        assert "Nothing is certified" in point.guarantee
    alone = op.certify(
        Cases.from_correctness([1, 1], [0, 1], clusters=["a", "a"]), target_accuracy=0.9
    )
    assert not alone.is_certified


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"clusters": [1]}, ShapeError, "clusters"),
        ({"clusters": [0.5, 1.5]}, DataTypeError, "'clusters'"),
        ({"clusters": [1, 2], "cluster_promise": "some"}, ParameterError, "'one_case_each'"),
    ],
)
def test_bad_clusters(options, error, match):
    with pytest.raises(error, match=match):
        op.certify([1, 0], [0.1, 0.2], target_accuracy=0.9, **options)


# ------------------------------------------------------------------ the whole curve


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 5, 30])
def test_staying_above_against_counting(n):
    """The chain against the plain recursion over multinomial counts, and two closed forms."""
    ranks = np.arange(1, n + 1)
    flat = probability_of_staying_above(np.full(n, 0.3), ranks, n)
    assert flat == pytest.approx(0.7**n)
    last = probability_of_staying_above(np.array([0.4]), np.array([n]), n)
    assert last == pytest.approx(1 - 0.4**n)
    bounds = np.linspace(0.01, 0.9, n) ** 2
    law, at = {0: 1.0}, 0.0
    for bound, rank in zip(bounds, ranks, strict=True):
        share, after = (bound - at) / (1 - at), {}
        for count, p in law.items():
            for more in range(n - count + 1):
                if count + more < rank:
                    after[count + more] = after.get(count + more, 0.0) + p * binom.pmf(
                        more, n - count, share
                    )
        law, at = after, bound
    found = probability_of_staying_above(bounds, ranks, n)
    assert found == pytest.approx(sum(law.values()), abs=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 2000])
def test_the_simultaneous_level_holds_and_is_not_wasted(n):
    rng, level = np.random.default_rng(0), simultaneous_level(n, 0.1)
    from scipy.special import betaincinv

    ranks = bounded_ranks(n)
    bounds = betaincinv(ranks, n - ranks + 1.0, level)
    numbers = np.sort(rng.random((4000, n)), axis=1)[:, ranks - 1]
    failed = (numbers < bounds).any(axis=1).mean()
    assert 0.07 <= failed <= limit(0.1, 4000)
    above = betaincinv(ranks, n - ranks + 1.0, 1 - level)
    assert (numbers > above).any(axis=1).mean() <= limit(0.1, 4000)


def test_every_rank_has_a_bound_on_its_safe_side():
    ranks = bounded_ranks(5000)
    assert ranks[0] == 1
    assert ranks[-1] == 5000
    assert (np.diff(ranks) <= np.maximum(0.04 * ranks[:-1], 1)).all()


@pytest.mark.simulation
@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("n", [100, 1500])
def test_the_whole_curve_keeps_its_promise(name, n):
    population, broken, pointwise = POPULATIONS[name](0.9), 0, 0
    for steps in drawn_steps(population, n, ROUNDS):
        accepted, errors = steps.n_accepted[::-1], steps.n_errors[::-1]
        true = population.accuracy_above(steps.threshold[::-1])
        broken += bool((lower_bounds(accepted, errors, 0.1) > true + 1e-9).any())
        alone = 1 - _upper_limit(errors, accepted, 0.1)
        pointwise += bool((alone > true + 1e-9).any())
    assert broken / ROUNDS <= limit(0.1, ROUNDS)
    assert pointwise / ROUNDS > limit(0.1, ROUNDS)  # the control: each bound by itself


def _upper_limit(errors, accepted, level):
    """Clopper and Pearson's bound for the error rate at one threshold."""
    from scipy.special import betaincinv

    return betaincinv(errors + 1, np.maximum(accepted - errors, 1e-9), 1 - level)


@pytest.mark.slow
def test_a_certified_curve_is_read():
    correct, confidence = example(5000)
    curve = op.certified_curve(Cases.from_correctness(correct, confidence))
    assert (curve.lower <= curve.accuracy).all()
    load = curve.load_at_accuracy(0.9)
    assert 0 < load < 1
    threshold = curve.threshold_at_accuracy(0.9)
    described = op.at_threshold(Cases.from_correctness(correct, confidence), threshold=threshold)
    assert described.expert_load == pytest.approx(load)
    assert curve.load_at_accuracy(1.0) == 1.0
    assert curve.threshold_at_accuracy(1.0) == math.inf
    assert "at every threshold at once" in curve.guarantee
    best = op.certify(Cases.from_correctness(correct, confidence), target_accuracy=0.9)
    assert best.expert_load <= load  # one target costs less than all of them
    with pytest.raises(CorrectnessError):
        op.certified_curve(Cases.from_correctness([0.5, 1], [0, 1]))


@pytest.mark.slow
def test_the_curve_of_predictions_is_that_of_their_correctness():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(3), 300)
    y = rng.integers(0, 3, 300)
    curve = op.certified_curve(Cases.from_predictions(y, proba))
    same = op.certified_curve(Cases.from_correctness(proba.argmax(1) == y, proba.max(1)))
    np.testing.assert_array_equal(curve.lower, same.lower)


@pytest.mark.slow
def test_bounds_near_those_of_the_review():
    """About 0.0014 for the errors and 0.0003 for the cases, at 2,000 cases and 0.05 in all."""
    assert 0.0008 < simultaneous_level(2000, 0.04) < 0.003
    assert 0.0001 < simultaneous_level(2000, 0.01) < 0.0008
