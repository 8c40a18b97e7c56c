"""A model in shadow: the evidence against a slow oracle, what may be passed, and files."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.integrate import quad

from expertload import Cases
from expertload.exceptions import FileFormatError, InvalidInputError, ParameterError
from expertload.exceptions import RepeatedCaseError as Repeated
from expertload.monitoring import ChallengerMonitor, certify_stream
from expertload.operating_point import from_json

TARGET, RATE = 0.9, 0.2
LOST = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)


def stream(seed=0, n=600):
    """Cases of two models: what `update` takes."""
    rng = np.random.default_rng(seed)
    confidence = rng.random(n)
    now = confidence + 0.2 * rng.standard_normal(n) > 0.5
    inclusion = np.where(now, np.where(confidence < 0.7, 0.6, RATE), 1.0)
    correct = (rng.random(n) < 0.85 + 0.15 * confidence).astype(float)
    return {
        "confidence": confidence,
        "correct": np.where(rng.random(n) < inclusion, correct, np.nan),
        "accepted_now": now,
        "inclusion_probability": inclusion,
    }


def monitor(thresholds=0.4, **options):
    options = {"target_accuracy": TARGET, "least_inclusion_probability": RATE, **options}
    return ChallengerMonitor(thresholds=thresholds, **options)


# ------------------------------------------------------------------ a slow oracle


def slow_evidence(cases, threshold):
    """The highest evidence at a threshold, one case and one bet after the other."""
    capital, highest = [1 / len(LOST)] * len(LOST), 1.0
    columns = (cases[name] for name in ("confidence", "correct", "inclusion_probability"))
    rows = zip(*columns, strict=True)
    for confidence, correct, inclusion in rows:
        if math.isnan(correct) or confidence < threshold:
            continue
        step = RATE / inclusion * ((1 - correct) - (1 - TARGET))
        capital = [c * (1 - lost / TARGET * step) for c, lost in zip(capital, LOST, strict=True)]
        highest = max(highest, sum(capital))
    return highest


def slow_load_evidence(cases, threshold):
    gained = lost = 0
    for confidence, now in zip(cases["confidence"], cases["accepted_now"], strict=True):
        then = confidence >= threshold
        gained += then and not now
        lost += now and not then
    return quad(lambda p: 2 * (2 * p) ** gained * (2 - 2 * p) ** lost, 0.5, 1)[0]


def slow_certified(cases, thresholds, alpha):
    """Fallback: every threshold has its part of the level, and inherits it while none fails."""
    parts = {4: 0.5, 9: 0.3, 14: 0.2}
    passed, level = [], 0.0
    for place, threshold in enumerate(sorted(thresholds, reverse=True)):
        level += parts.get(place, 0) * alpha
        if 1 / slow_evidence(cases, threshold) <= level:
            passed.append(threshold)
        else:
            level = 0.0
    return passed


@pytest.mark.parametrize("seed", range(5))
def test_one_threshold_is_the_oracles(seed):
    cases = stream(seed)
    seen = monitor().update(**cases)
    assert seen.evidence == pytest.approx(slow_evidence(cases, 0.4))
    assert seen.load_evidence == pytest.approx(slow_load_evidence(cases, 0.4))
    assert seen.history()[-1] == pytest.approx(seen.evidence)
    assert seen.load_now == pytest.approx(1 - cases["accepted_now"].mean())
    assert seen.load_then == pytest.approx(np.mean(cases["confidence"] < 0.4))
    assert seen.is_certified == (seen.evidence >= 20)
    assert seen.may_switch == (seen.evidence >= 20 and seen.load_evidence >= 20)


@pytest.mark.parametrize("seed", range(5))
def test_twenty_thresholds_are_the_oracles(seed):
    cases = stream(seed, n=2000)
    thresholds = np.linspace(0, 0.95, 20)
    seen = monitor(thresholds).update(**cases)
    assert seen.certified.tolist() == slow_certified(cases, thresholds, 0.05)
    assert seen.is_certified
    assert seen.threshold == seen.certified[-1]
    shown = min(slow_load_evidence(cases, seen.threshold), math.exp(460))  # kept finite
    assert seen.load_evidence == pytest.approx(shown)


def test_how_often_one_updates_does_not_matter():
    cases = stream()
    whole = monitor().update(**cases)
    parts = monitor()
    for rows in np.array_split(np.arange(600), 37):
        parts.update(**{name: values[rows] for name, values in cases.items()})
    assert parts.to_dict() == whole.to_dict()
    assert parts.history().tolist() == whole.history().tolist()


def test_a_looser_threshold_shows_more_for_the_load():
    cases = stream()
    shown = [monitor(each).update(**cases).load_evidence for each in (0.8, 0.6, 0.4, 0.2)]
    assert shown == sorted(shown)


# ------------------------------------------------------------------ late labels and clusters


def test_an_open_case_counts_as_wrong_and_then_as_its_label():
    keys = list(range(40))
    late = monitor(0.0).update(np.ones(40), np.r_[np.ones(20), [np.nan] * 20], key=keys)
    wrong = monitor(0.0).update(np.ones(40), np.r_[np.ones(20), np.zeros(20)])
    assert (late.n_open, late.n_read) == (20, 40)
    assert late.evidence == wrong.evidence > 1  # what was shown before stays shown
    late.answer(np.ones(20), key=keys[20:])
    assert late.evidence == monitor(0.0).update(np.ones(40), np.ones(40)).evidence
    assert late.n_open == 0


def test_an_audit_may_be_open():
    seen = monitor().update(
        [0.9, 0.9], accepted_now=True, inclusion_probability=RATE, is_read=[1, 0], key=["a", "b"]
    )
    assert (seen.n_cases, seen.n_read, seen.n_open) == (2, 1, 1)


def test_the_first_case_of_a_cluster_counts():
    cases = stream()
    patients = np.arange(600) // 3
    first = {name: values[::3] for name, values in cases.items()}
    seen = monitor().update(**cases, clusters=patients)
    assert seen.to_dict() == monitor().update(**first).to_dict()
    assert seen.update(**cases, clusters=patients).n_cases == 200
    assert seen.point().clusters == "one_case_each"


def test_a_new_model_starts_anew():
    seen = monitor([0.2, 0.4]).update(**stream())
    again = seen.restarted(model_name="second")
    assert (again.n_cases, again.model_name) == (0, "second")
    assert again.thresholds.tolist() == [0.4, 0.2]
    assert "there are no cases" in str(again)


# ------------------------------------------------------------------ what follows


def test_the_policy_is_saved_and_read():
    cases = stream(n=2000)
    seen = monitor(np.linspace(0, 0.95, 20), model_name="second").update(**cases)
    point = from_json(seen.point().to_json())
    assert (point.threshold, point.method) == (seen.threshold, "stream")
    assert point.origin.model_name == "second"
    assert point.expert_load == pytest.approx(seen.load_then)
    accepted = cases["confidence"] >= seen.threshold
    wrong = np.nansum((1 - cases["correct"]) / cases["inclusion_probability"] * accepted)
    assert point.n_errors == pytest.approx(wrong)
    assert "accuracy" in point.guarantee


def test_nothing_certified_delegates_everything():
    point = monitor().update([0.5, 0.9], [1, 0]).point()
    assert (point.threshold, point.expert_load, point.is_certified) == (math.inf, 1, False)


def test_the_sentence_says_what_is_missing():
    right = np.ones(400)
    assert "it is not shown that an accuracy of 0.9 is kept" in str(monitor().update([0.9], [1]))
    assert "not shown that the load is lower" in str(
        monitor().update(right, right, accepted_now=True)
    )
    assert "may take over at confidence >= 0.4" in str(monitor().update(right, right))


def test_a_stream_is_certified_as_it_grows():
    cases = stream(n=2000)
    rows = ~np.isnan(cases["correct"])
    grown = Cases.from_correctness(cases["correct"][rows], cases["confidence"][rows])
    thresholds = np.linspace(0, 0.95, 20)
    point = certify_stream(grown, target_accuracy=TARGET, thresholds=thresholds, model_name="a")
    seen = ChallengerMonitor(target_accuracy=TARGET, thresholds=thresholds)
    seen.update(grown.confidence, grown.correct)
    assert point == seen.point()
    assert point.origin.model_name == "a"
    assert point.origin.data_sha256 == grown.sha256


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"correct": [2, 0]}, "correct"),
        ({"correct": [1]}, "correct"),
        ({"accepted_now": [1, 0, 0]}, "accepted_now"),
        ({"accepted_now": [0.5, 1]}, "accepted_now"),
        ({"inclusion_probability": [0.1, 1]}, "inclusion_probability"),
        ({"inclusion_probability": 0}, "inclusion_probability"),
        ({"is_read": [True, False]}, "is_read"),
        ({"clusters": [1.5, 2]}, "key"),
        ({"key": ["a"]}, "key"),
    ],
)
def test_an_invalid_case_changes_nothing(given, name):
    seen = monitor().update([0.9], [1])
    with pytest.raises(InvalidInputError, match=name):
        seen.update(**{"confidence": [0.5, 0.6], "correct": [1, 0], **given})
    assert seen.to_dict() == monitor().update([0.9], [1]).to_dict()


def test_a_case_counts_once():
    seen = monitor().update([0.9], key=["a"])
    for keys in (["a", "b"], ["c", "c"]):
        with pytest.raises(Repeated, match="answer"):
            seen.update([0.5, 0.6], key=keys)
    with pytest.raises(ParameterError, match="'key'"):
        seen.answer([1, 1], key=["a", "z"])
    with pytest.raises(ParameterError, match="'key'"):
        seen.answer([1], key=["a"]).answer([0], key=["a"])
    assert seen.n_cases == 1


def test_clusters_are_given_always_or_never():
    with pytest.raises(ParameterError, match="'clusters'"):
        monitor().update([0.9], [1]).update([0.9], [1], clusters=["a"])


# ------------------------------------------------------------------ files


@pytest.mark.parametrize("with_clusters", [False, True])
def test_what_is_saved_is_read(tmp_path, with_clusters):
    cases = stream()
    keys = [f"case {i}" for i in range(600)]
    clusters = np.arange(600) // 2 if with_clusters else None
    seen = monitor([0.2, 0.4], model_name="b").update(**cases, key=keys, clusters=clusters)
    seen.save(tmp_path / "shadow.json")
    again = ChallengerMonitor.load(tmp_path / "shadow.json")
    assert again.to_dict() == seen.to_dict()
    new = {"clusters": [1000]} if with_clusters else {}
    with pytest.raises(Repeated):
        again.update([0.5], [1], key=["case 0"], **new)
    assert again.update([0.5], [1], **new).to_dict() == seen.update([0.5], [1], **new).to_dict()


def test_an_empty_monitor_is_saved(tmp_path):
    monitor().save(tmp_path / "shadow.json")
    assert ChallengerMonitor.load(tmp_path / "shadow.json").n_cases == 0


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-40],
        lambda text: text.replace('"correct": [1.0', '"correct": [0.0'),
        lambda text: json.dumps({**json.loads(text), "kind": "expertload accuracy monitor"}),
        lambda text: text.replace('"confidence": ', '"confidences": '),
    ],
)
def test_a_changed_file_is_refused(tmp_path, damage):
    path = tmp_path / "shadow.json"
    monitor().update([0.9, 0.8], [1, 0]).save(path)
    damaged = damage(path.read_text())
    assert damaged != path.read_text()
    path.write_text(damaged)
    with pytest.raises(FileFormatError):
        ChallengerMonitor.load(path)
