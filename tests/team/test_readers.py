"""Readings: input, consensus against EM written out, readers' quality at all times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta
from tests.operating_point.populations import limit
from tests.reference import team as reference
from tests.strategies import examples

from expertload import Cases
from expertload.exceptions import InsufficientDataError, LabelError, ParameterError
from expertload.team import Readings, reader_evidence, team_curve
from expertload.team.readers import anytime_interval


def make_readings(n_cases=300, accuracies=(0.95, 0.9, 0.6), seed=0, n_classes=2):
    """Every reader reads every case; also return the truth by the names of cases."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n_cases)
    rows = [(c, r) for c in range(n_cases) for r in range(len(accuracies))]
    case, reader = np.array(rows).T
    errs = rng.random(len(rows)) > np.array(accuracies)[reader]
    other = (truth[case] + rng.integers(1, n_classes, len(rows))) % n_classes
    answer = np.where(errs, other, truth[case])
    frame = {"case": case, "reader": reader, "answer": answer}
    return Readings.from_frame(frame), {str(c): int(t) for c, t in enumerate(truth)}


def accuracy(readings, consensus, truth):
    answers = readings.answers(list(truth), consensus)
    return np.mean([a == t for a, t in zip(answers, truth.values(), strict=True)])


# ------------------------------------------------------------------ consensus


@pytest.mark.parametrize("seed", range(5))
def test_the_consensus_is_em_written_out(seed, monkeypatch):
    monkeypatch.setattr("expertload.team.readers.MOST_ROUNDS", 15)
    readings, _ = make_readings(12, (0.9, 0.7, 0.6), seed, n_classes=3)
    rows = list(zip(readings.case, readings.reader, readings.answer, strict=True))
    n_classes = len(readings.labels)
    expected = reference.dawid_skene(rows, 12, 3, n_classes, rounds=15)
    found = readings.consensus().probabilities
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_quality_pays_where_readers_differ():
    readings, truth = make_readings(600, (0.97, 0.6, 0.6))
    majority, weighed = (readings.consensus(method=m) for m in ("majority", "dawid_skene"))
    assert accuracy(readings, weighed, truth) > accuracy(readings, majority, truth) + 0.1
    diagonal = np.trace(weighed.confusions, axis1=1, axis2=2) / 2
    np.testing.assert_allclose(diagonal, [0.97, 0.6, 0.6], atol=0.08)


def test_a_majority_does_as_well_where_they_do_not():
    readings, truth = make_readings(600, (0.85, 0.85, 0.85))
    majority, weighed = (readings.consensus(method=m) for m in ("majority", "dawid_skene"))
    assert accuracy(readings, weighed, truth) == pytest.approx(
        accuracy(readings, majority, truth), abs=0.02
    )


def test_golden_cases_keep_their_truth_and_help():
    readings, truth = make_readings(300, (0.8, 0.55, 0.55))
    known = dict(list(truth.items())[:150])
    helped = readings.consensus(known=known)
    for case, answer in known.items():
        assert helped.answers[helped.cases.index(case)] == answer
    rest = dict(list(truth.items())[150:])
    assert accuracy(readings, helped, rest) >= accuracy(readings, readings.consensus(), rest)


@given(st.permutations(range(36)))
@examples(10)
def test_the_order_of_readings_does_not_matter(order):
    readings, _ = make_readings(12)
    frame = {
        "case": readings.case[order],
        "reader": readings.reader[order],
        "answer": readings.answer[order],
    }
    again = Readings.from_frame(frame).consensus()
    expected = dict(zip(readings.cases, readings.consensus().probabilities[:, 0], strict=True))
    named = [readings.cases[int(name)] for name in again.cases]
    assert [expected[name] for name in named] == pytest.approx(again.probabilities[:, 0], abs=1e-4)


def test_one_reader_is_drawn_for_the_team():
    readings, truth = make_readings(400, (0.9, 0.9, 0.6))
    answers = readings.draw([*truth, "unknown"])
    assert answers[-1] is None
    right = np.mean([a == t for a, t in zip(answers, truth.values(), strict=False)])
    assert right == pytest.approx(0.8, abs=0.06)
    assert (answers == readings.draw([*truth, "unknown"])).all()
    y_true = list(truth.values())
    proba = np.random.default_rng(0).random(400)
    cases = Cases.from_predictions(y_true, proba, expert_answers=answers[:-1])
    assert team_curve(cases).accuracy[-1] == pytest.approx(right)


# ------------------------------------------------------------------ readers


def test_quality_counts_what_was_read():
    readings, truth = make_readings(200, (0.95, 0.9, 0.7))
    known = dict(list(truth.items())[:100])
    for number, reader in enumerate(readings.quality(known)):
        own = (readings.reader == number) & (readings.case < len(readings.cases))
        pairs = [
            (known[readings.cases[c]], a)
            for c, a in zip(readings.case[own], readings.answer[own], strict=True)
            if readings.cases[c] in known
        ]
        right = sum(t == a for t, a in pairs)
        assert reader.n_readings == 100 == reader.confusion.sum()
        assert np.trace(reader.confusion) == right
        assert reader.accuracy.estimate == right / 100
        assert reader.accuracy.low < right / 100 < reader.accuracy.high
    evidence = [reader.evidence for reader in readings.quality(known)]
    assert evidence[2] > 20 > max(evidence[:2])


@given(st.integers(0, 40), st.integers(1, 40))
@examples(40)
def test_an_interval_at_all_times_is_wider_than_one_at_a_time(right, more):
    n = right + more
    found = anytime_interval(right, n, 0.95)
    assert 0 <= found.low <= right / n <= found.high <= 1
    once = beta.ppf([0.025, 0.975], [right, right + 1], [more + 1, more])  # Clopper and Pearson's
    assert found.low <= np.nan_to_num(once[0]) + 1e-9
    assert found.high >= once[1] - 1e-9


@pytest.mark.simulation
@pytest.mark.parametrize("rate", [0.6, 0.9])
def test_intervals_hold_at_all_times_together(rate):
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(300):
        right = np.cumsum(rng.random(300) < rate)
        ends = [anytime_interval(int(right[n - 1]), n, 0.95) for n in range(5, 301, 5)]
        missed += any(not e.low <= rate <= e.high for e in ends)
    assert missed <= limit(0.05, 300) * 300


@pytest.mark.simulation
def test_an_equally_good_reader_is_rarely_accused():
    rng = np.random.default_rng(0)
    accused = found = 0
    for _ in range(1000):
        for error in (0.1, 0.2):
            wrong = np.cumsum(rng.random(300) < error)
            looks = range(10, 301, 10)
            ever = max(reader_evidence(int(wrong[n - 1]), n, others_error=0.1) for n in looks)
            accused += ever >= 20 and error == 0.1
            found += ever >= 20 and error == 0.2
    assert accused <= limit(0.05, 1000) * 1000
    assert found > 900


# ------------------------------------------------------------------ input


def frame(**changes):
    usual = {"case": ["a", "a", "b"], "reader": ["x", "y", "x"], "answer": ["cat", "dog", "cat"]}
    return {**usual, **changes}


@pytest.mark.parametrize(
    ("readings", "error", "words"),
    [
        (frame(reader=["x", "x", "x"]), ParameterError, "two of a by x"),
        (frame(answer=["cat", None, "cat"]), LabelError, "row 1"),
        (frame(answer=["cat", "cow", "cat"]), LabelError, "cow"),
        ({"case": ["a"], "reader": ["x"]}, ParameterError, "answer"),
    ],
)
def test_bad_readings_are_refused(readings, error, words):
    with pytest.raises(error, match=words):
        Readings.from_frame(readings, labels=["cat", "dog"])


def test_frames_and_names_of_columns():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"image": [1, 1, 2], "who": ["x", "y", "x"], "said": [0, 1, 10]})
    readings = Readings.from_frame(table, case="image", reader="who", answer="said")
    assert readings.labels == (0, 1, 10)
    assert readings.cases == ("1", "2")
    assert len(readings) == 3


def test_readers_with_too_few_readings():
    readings, truth = make_readings(30)
    with pytest.raises(InsufficientDataError, match="golden"):
        readings.quality(dict(list(truth.items())[:5]))
    few = readings.quality(dict(list(truth.items())[:5]), fewest_readings=5)
    assert [reader.n_readings for reader in few] == [5, 5, 5]
    with pytest.raises(ParameterError, match="known"):
        readings.quality({"no such case": 0})
    with pytest.raises(ParameterError, match="cases"):
        readings.draw(["no such case"])
    with pytest.raises(ParameterError, match="n_wrong"):
        reader_evidence(3, 2, others_error=0.1)
