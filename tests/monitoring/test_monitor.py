"""The monitor: late labels, open reviews, merging, bad input."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import monitoring as reference
from tests.strategies import examples

from expertload import Cases, exceptions, operating_point
from expertload.monitoring import AccuracyMonitor, evidence_path

TARGET = {"target_accuracy": 0.95}


def monitor(**options):
    return AccuracyMonitor(**{**TARGET, **options})


def contents(one):
    """All that a monitor says, to compare two of them."""
    return (
        one.state,
        one.n_audits,
        one.n_open,
        one.n_errors,
        one.evidence,
        one.highest_evidence,
        one.refuted_at,
        one.lower_bound,
        one.labels,
    )


def stream(n, accuracy, seed=0):
    return (np.random.default_rng(seed).random(n) < accuracy).astype(float)


# ------------------------------------------------------------------ states


def test_a_monitor_is_confirmed_not_refuted_or_refuted():
    assert monitor().state == "not refuted"
    assert monitor().update([1] * 82).state == "confirmed"
    assert monitor().update([1] * 81).state == "not refuted"
    fallen = monitor().update(stream(500, 0.8))
    assert fallen.state == "refuted"
    path = evidence_path(stream(500, 0.8), target_accuracy=0.95)
    assert fallen.refuted_at == int((path >= 20).argmax()) + 1
    assert fallen.highest_evidence == pytest.approx(path.max())


def test_what_was_refuted_stays_refuted():
    fallen = monitor().update(stream(200, 0.8)).update(np.ones(3000))
    assert fallen.evidence < 20 <= fallen.highest_evidence
    assert fallen.state == "refuted"
    assert fallen.lower_bound > 0.95


def test_evidence_five_warns():
    doubtful = monitor()
    while doubtful.evidence < 5:
        doubtful.update([1, 1, 0])
    assert doubtful.warns
    assert doubtful.state == "not refuted"
    assert "Audit more cases" in doubtful.summary()


@pytest.mark.parametrize(
    ("audits", "words"),
    [
        ([], "no audits yet"),
        ([1] * 10, "neither shown nor ruled out after 10 audits, 0 of them wrong"),
        ([1], "after 1 audit, 0 of them wrong"),
        ([1] * 100, "Confirmed: an accuracy of 0.95 is reached on average"),
        ([0] * 10, "Refuted: the accuracy of automatic decisions has been below 0.95"),
        ([1, None], "after 2 audits, 0 of them wrong and 1 still open, which the bound counts as"),
        ([None, None], "every audit is still open, so nothing is known"),
    ],
)
def test_a_monitor_in_words(audits, words):
    watched = monitor()
    if audits:
        watched.update(audits)
    assert words in str(watched)


@examples(20)
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from([0.0, 1.0, None]), st.floats(0.1, 1)),
        min_size=1,
        max_size=120,
    ),
    st.sampled_from([0.8, 0.95]),
)
def test_the_verdict_is_that_of_the_plain_loop(audits, target):
    watched = AccuracyMonitor(target_accuracy=target, least_inclusion_probability=0.1)
    watched.update(
        [grade for _, grade, _ in audits],
        decided_at=[when for when, _, _ in audits],
        inclusion_probability=[pi for _, _, pi in audits],
    )
    weighted = [(when, grade, 0.1 / pi) for when, grade, pi in audits]
    assert watched.state == reference.verdict(weighted, target, 0.95)


# ------------------------------------------------------------------ batches, late labels


@examples(20)
@given(
    st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=150),
    st.lists(st.integers(0, 150), max_size=6),
    st.randoms(use_true_random=False),
)
def test_batches_and_delays_do_not_matter_in_the_end(correct, cuts, random):
    keys = list(range(len(correct)))
    at_once = monitor().update(correct, key=keys, decided_at=keys)
    slow = monitor()
    edges = sorted({0, len(correct), *(c for c in cuts if c < len(correct))})
    for first, last in pairwise(edges):
        part = slice(first, last)
        slow.update([None] * (last - first), key=keys[part], decided_at=keys[part])
        _ = slow.state  # looking must not change anything
    random.shuffle(keys)
    for key in keys:
        slow.update(correct[key], key=key)
        _ = slow.evidence
    assert contents(slow)[:4] == contents(at_once)[:4]
    assert contents(slow)[4:8] == pytest.approx(contents(at_once)[4:8])
    assert slow.labels == at_once.labels


def test_an_open_review_is_right_for_the_alarm_and_wrong_for_the_bound():
    doubtful = monitor().update([None] * 100, key=range(100))
    assert doubtful.evidence == monitor().update(np.ones(100)).evidence
    assert doubtful.lower_bound == monitor().update(np.zeros(100)).lower_bound
    assert doubtful.n_errors == 0


@examples(20)
@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=150), st.data())
def test_open_reviews_only_hold_back(correct, data):
    """Whatever is open, neither verdict is nearer than with all labels there."""
    known = [None if data.draw(st.booleans()) else grade for grade in correct]
    some, everything = monitor().update(known), monitor().update(correct)
    assert (some.history().evidence <= everything.history().evidence + 1e-12).all()
    assert (some.history().lower_bound <= everything.history().lower_bound + 1e-12).all()


def test_a_late_wrong_label_counts_where_its_case_stands():
    late = monitor().update([None, 1, 0], key=["a", "b", "c"]).update([0], key=["a"])
    assert contents(late) == contents(monitor().update([0, 1, 0], key=["a", "b", "c"]))


def test_an_open_review_may_be_given_again():
    twice = monitor().update([None], key=["a"]).update([None, 1], key=["a", "b"])
    assert (twice.n_audits, twice.n_open) == (2, 1)


def test_new_cases_and_late_labels_come_in_one_batch():
    both = monitor().update([None], key=["a"], decided_at=[1])
    both.update([0, 1], key=["a", "b"], decided_at=[1, 2])
    assert both.labels == {"a": 0.0, "b": 1.0}


def test_grades_count():
    assert monitor().update([0.5, 0.25]).n_errors == 1.25


# ------------------------------------------------------------------ moments


@pytest.mark.parametrize(
    "moments",
    [
        ["2026-03-01", "2026-03-02T10:00", "2026-03-02T10:00:00.5Z"],
        [date(2026, 3, 1), date(2026, 3, 2), date(2026, 3, 3)],
        [datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 1, 5, tzinfo=UTC), "2026-03-02"],
        np.array(["2026-03-01", "2026-03-02", "2026-03-03"], dtype="datetime64[ns]"),
        [1, 2.5, 3],
    ],
    ids=["text", "dates", "mixed", "numpy", "numbers"],
)
def test_moments_of_every_kind_order_the_cases(moments):
    backwards = monitor().update([0, 1, 1], decided_at=moments[::-1])
    assert backwards.history().evidence[-1] == evidence_path([1, 1, 0], target_accuracy=0.95)[-1]
    assert len(backwards.history().decided_at) == 3


def test_time_zones_are_one_time():
    zone = timezone(timedelta(hours=5))
    watched = monitor().update([1], decided_at=[datetime(2026, 3, 1, 12, tzinfo=zone)])
    assert watched.history().decided_at == ("2026-03-01T07:00:00+00:00",)


@pytest.mark.parametrize(
    "moments", [["yesterday"], [None], [math.nan], [True], [np.datetime64("NaT")]]
)
def test_what_is_no_moment_is_refused(moments):
    with pytest.raises(exceptions.DataTypeError, match="decided_at"):
        monitor().update([1], decided_at=moments)


# ------------------------------------------------------------------ bad input, nothing lost

BEFORE = {"key": ["a", "b"], "decided_at": [1, 2], "inclusion_probability": 0.5}
NEXT = {"key": ["c", "d"], "decided_at": [3, 4], "inclusion_probability": 0.5}


@pytest.mark.parametrize(
    ("correct", "change", "error", "words"),
    [
        ([1, 0], {"inclusion_probability": 0}, "ProbabilityError", "in \\(0, 1\\]"),
        ([1, 0], {"inclusion_probability": [0.5, -1]}, "ProbabilityError", "Got -1"),
        ([1, 0], {"inclusion_probability": [0.5, math.nan]}, "ProbabilityError", "Got nan"),
        ([1, 0], {"inclusion_probability": 5}, "ProbabilityError", "pass 0.05 for 5 %"),
        ([1, 0], {"inclusion_probability": None}, "ParameterError", "every case or for none"),
        ([1, 0], {"inclusion_probability": [0.5, 0.2]}, "ParameterError", "Got 0.2 and 0.5"),
        ([1, 0], {"inclusion_probability": 0.2}, "ParameterError", "least_inclusion_probability"),
        ([1, 0], {"least_inclusion_probability": 0.1}, "ParameterError", "every case or for none"),
        ([1, 0], {"inclusion_probability": [0.5] * 3}, "ShapeError", "one value per case"),
        ([1, 0], {"key": ["c", "a"]}, "RepeatedCaseError", "'a' again: it already has its label"),
        ([1, 0], {"key": ["c", "c"]}, "RepeatedCaseError", "'c' again: it is given twice"),
        ([1, 0], {"key": ["c"]}, "ShapeError", "one value per case"),
        ([1, 0], {"key": ["c", 1.5]}, "DataTypeError", "text or whole numbers"),
        ([1, 0], {"key": None}, "ParameterError", "'key' is needed for every case or for none"),
        ([1, 0], {"decided_at": [1.5, 3]}, "DecisionOrderError", "decided at 1.5, before the"),
        ([1, 0], {"decided_at": None}, "DecisionOrderError", "for every case or for none"),
        ([1, 0], {"decided_at": ["2026-01-01"] * 2}, "DecisionOrderError", "dates and times after"),
        ([1, 0], {"decided_at": [3]}, "ShapeError", "one value per case"),
        ([1, 2], {}, "CorrectnessError", "Got 2"),
        ([1, "right"], {}, "DataTypeError", "real numbers"),
        ([], {"key": None, "decided_at": None}, "EmptyInputError", "at least one case"),
        ([[1, 0]], {}, "ShapeError", "1 dimension"),
    ],
)
def test_an_update_happens_whole_or_not_at_all(correct, change, error, words):
    watched = monitor().update([1, 0], **BEFORE)
    before = contents(watched)
    with pytest.raises(getattr(exceptions, error), match=words):
        watched.update(correct, **{**NEXT, **change})
    assert contents(watched) == before
    watched.update([1, 0], **NEXT)
    assert contents(watched) == contents(
        monitor().update(
            [1, 0, 1, 0],
            key=["a", "b", "c", "d"],
            decided_at=[1, 2, 3, 4],
            inclusion_probability=0.5,
        )
    )


def test_a_late_label_must_not_move_its_case():
    watched = monitor().update([None], key=["a"], decided_at=["2026-03-01"])
    with pytest.raises(exceptions.DecisionOrderError, match="'a' was decided at 2026-03-01"):
        watched.update([1], key=["a"], decided_at=["2026-03-02"])
    assert watched.n_open == 1
    assert watched.update([1], key=["a"]).n_open == 0


def test_arrival_order_takes_labels_as_they_come():
    watched = monitor(order="arrival").update([1], decided_at=[5]).update([0], decided_at=[3])
    assert watched.evidence == evidence_path([1, 0], target_accuracy=0.95)[-1]


def test_the_least_probability_makes_the_weights():
    watched = monitor(least_inclusion_probability=0.1)
    watched.update([1, 0], inclusion_probability=[0.1, 0.4])
    wanted = evidence_path([1, 0], target_accuracy=0.95, weight=[1, 0.25])
    assert watched.evidence == pytest.approx(wanted[-1])
    with pytest.raises(exceptions.ParameterError, match=r"0.05 below the smallest, 0.1"):
        watched.update([1], inclusion_probability=[0.05])
    with pytest.raises(exceptions.ParameterError, match="if least_inclusion_probability is given"):
        monitor(least_inclusion_probability=0.1).update([1])


def test_a_rate_for_all_may_be_raised():
    watched = monitor()
    for rate in (0.05, 0.2):
        watched.update([0], inclusion_probability=rate, least_inclusion_probability=rate)
    assert watched.evidence == evidence_path([0, 0], target_accuracy=0.95)[-1]


def test_a_later_month_may_have_another_least_probability(tmp_path):
    april = monitor(least_inclusion_probability=0.02)
    april.update([1, 0], inclusion_probability=[0.02, 0.1], key=["a", "b"])
    both = monitor(least_inclusion_probability=0.0125).merge(april)
    both.update([0, 1], inclusion_probability=[0.0125, 0.1], key=["c", "d"])
    weight = [1, 0.2, 1, 0.125]
    wanted = evidence_path([1, 0, 0, 1], target_accuracy=0.95, weight=weight)
    assert both.history().evidence == pytest.approx(wanted)
    both.save(tmp_path / "state.json")
    again = AccuracyMonitor.load(tmp_path / "state.json")
    assert again.evidence == both.evidence
    kept = monitor().merge(again)  # without another one, the last is used
    with pytest.raises(exceptions.ParameterError, match=r"0.01 below the smallest, 0.0125"):
        kept.update([1], inclusion_probability=[0.01], key=["e"])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"target_accuracy": 1}, "ParameterError"),
        ({"target_accuracy": 95}, "ParameterError"),
        ({"confidence_level": 0}, "ParameterError"),
        ({"blocks": 1.5}, "ParameterError"),
        ({"least_inclusion_probability": 0}, "ProbabilityError"),
        ({"least_inclusion_probability": 2}, "ParameterError"),
        ({"order": "random"}, "ParameterError"),
    ],
)
def test_options_are_checked(options, error):
    with pytest.raises(getattr(exceptions, error)):
        monitor(**options)


# ------------------------------------------------------------------ merging


@examples(20)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1.0, None]), st.integers(0, 2), st.floats(0.2, 1)),
        min_size=1,
        max_size=200,
    )
)
def test_merged_monitors_are_one_that_saw_all(audits):
    parts = [monitor(least_inclusion_probability=0.2) for _ in range(3)]
    whole = monitor(least_inclusion_probability=0.2)
    for when, (grade, where, pi) in enumerate(audits):
        for one in (parts[where], whole):
            one.update(grade, key=f"case {when}", decided_at=when, inclusion_probability=pi)
    merged = parts[0].merge(*parts[1:])
    assert contents(merged)[:7] == contents(whole)[:7]
    assert merged.lower_bound == whole.lower_bound
    assert merged.labels == whole.labels


def test_merging_refuses_what_has_no_order_or_another_promise():
    one = monitor().update([1], key=["a"], decided_at=[1])
    with pytest.raises(exceptions.RepeatedCaseError, match="'a' again: more than one"):
        one.merge(monitor().update([1], key=["a"], decided_at=[2]))
    with pytest.raises(exceptions.DecisionOrderError, match="without 'decided_at'"):
        one.merge(monitor().update([1], key=["b"]))
    with pytest.raises(exceptions.ParameterError, match="0.95 and 0.9"):
        one.merge(monitor(target_accuracy=0.9))
    with pytest.raises(exceptions.ParameterError, match="for every case or for none"):
        one.merge(monitor().update([1], decided_at=[2]))
    often = monitor().update([1], decided_at=[1], inclusion_probability=0.5)
    with pytest.raises(exceptions.ParameterError, match=r"Got 0.1 and 0.5"):
        often.merge(monitor().update([1], decided_at=[2], inclusion_probability=0.1))
    assert one.merge(monitor()).n_audits == 1


# ------------------------------------------------------------------ policies


def policy(n=200, **options):
    return operating_point.certify(
        Cases.from_correctness([1] * n, range(n)), **{"target_accuracy": 0.95, **options}
    )


def test_a_policy_names_its_promise():
    watched = AccuracyMonitor.from_policy(policy(confidence_level=0.9), blocks=24)
    assert (watched.target_accuracy, watched.confidence_level) == (0.95, 0.9)
    groups = operating_point.certify_groups(
        Cases.from_correctness([1] * 300, range(300), groups=["a", "b"] * 150), target_accuracy=0.9
    )
    assert AccuracyMonitor.from_policy(groups).target_accuracy == 0.9


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: policy(n=20), "delegates everything"),
        (
            lambda: operating_point.choose(
                Cases.from_correctness([1, 1], [1, 2]), target_accuracy=0.9
            ),
            "promises nothing",
        ),
        (lambda: policy(risk="joint"), "risk='joint'"),
        (
            lambda: operating_point.certify_groups(
                Cases.from_correctness([1, 1], [1, 2], groups=["a", "b"]), target_accuracy=0.9
            ),
            "delegates everything",
        ),
    ],
    ids=["not certified", "described", "joint", "groups"],
)
def test_a_policy_that_was_not_certified_is_refused(made, words):
    with pytest.raises(exceptions.NotCertifiedError, match=words):
        AccuracyMonitor.from_policy(made())
