"""After the alarm: looking back, certifying anew, how many readers, has the load shifted."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom
from sqlalchemy import event, select

from expertload import Cases, certify
from expertload.desk.queue.managing import void_case
from expertload.desk.store.tables import cases, decisions, monitors, policies, readings
from expertload.desk.watch import policies as watch_policies
from expertload.desk.watch import recertify as recertifying
from expertload.desk.watch.policies import activate, look_back, withdraw
from expertload.desk.watch.recertify import blind_labels, recertify
from expertload.desk.watch.state import (
    capacity_of,
    load_shift,
    readers_needed,
    state_of,
    waiting_probability,
)
from expertload.exceptions import DeskRefusedError
from expertload.monitoring import ChallengerMonitor
from expertload.operating_point import from_json
from tests.desk.invariants import check_all
from tests.desk.test_watch import read_all
from tests.desk.world import policy_text, sent

# ------------------------------------------------------------------ look-back


@pytest.mark.slow
def test_looking_back_reads_what_was_decided_and_corrects_it(world):
    number = world.activate()
    world.send(*(sent(f"case-{i}") for i in range(30)))
    with pytest.raises(DeskRefusedError, match="not withdrawn"):
        world.desk.write(look_back, number)
    world.desk.write(withdraw, number, reason="alarm")
    assert world.desk.write(look_back, number, share=0.5) == sum(
        row.draw < 0.5 for row in world.rows(select(cases))
    )
    world.desk.write(look_back, number)
    assert world.desk.write(look_back, number) == 0
    check_all(world.desk)
    read_all(world, lambda key: "dog" if key == "case-3" else "cat")
    assert {row.state for row in world.rows(select(cases))} == {"closed"}
    check_all(world.desk)
    made = select(decisions).where(decisions.c.case_id == world.case("case-3").id)
    chain = world.rows(made.order_by(decisions.c.version))
    assert [(d.kind, d.label) for d in chain] == [("auto", "cat"), ("correction", "dog")]


def test_looking_back_at_many_takes_no_more_statements_than_at_few(world):
    """Whoever writes waits meanwhile: a hundred thousand decisions took minutes."""
    number = world.activate()
    world.send(*(sent(f"case-{i}") for i in range(200)))
    world.desk.write(withdraw, number, reason="test")
    asked, engine = [], world.desk.database.engine
    event.listen(engine, "before_cursor_execute", lambda *given: asked.append(given[2]))
    assert world.desk.write(look_back, number, share=0.9) > 150
    assert len(asked) < 20, "by SQLAlchemy; the driver's own statements are a few for all"
    check_all(world.desk)


def test_a_case_that_is_closed_while_somebody_looks_back_stays_closed(world, monkeypatch):
    """On PostgreSQL an answer may be stored between the choice of cases and their opening."""
    world.with_rules(quality_rate=1.0)
    number = world.activate()
    world.send(sent("a", due=0), sent("b"))
    held = world.claim()
    world.answer(held, "dog")
    judge = world.claim("judge", "arbiter")
    assert judge.key == held.key
    world.desk.write(withdraw, number, reason="test")
    opening = watch_policies._reopen

    def late(transaction, numbers):
        if world.case(held.key).state == "auto":
            world.answer(judge, "dog", "judge", "arbiter")
        return opening(transaction, numbers)

    if world.desk.database.engine.dialect.name == "sqlite":  # whose one writer is busy now
        world.answer(judge, "dog", "judge", "arbiter")
    else:
        monkeypatch.setattr(watch_policies, "_reopen", late)
    assert world.desk.write(look_back, number) == 1
    assert (world.case(held.key).state, world.case(held.key).audit) == ("closed", "wrong")
    check_all(world.desk)


def test_what_was_audited_is_not_read_again(world):
    world.with_rules(quality_rate=1.0)
    number = world.activate()
    world.send(sent("a"), sent("b"))
    world.answer(world.claim(), "cat")
    world.desk.write(withdraw, number, reason="test")
    assert world.desk.write(look_back, number) == 1
    assert len(world.rows(select(readings))) == 2, "the reading that waits serves for it"
    check_all(world.desk)


def test_a_void_case_is_read_by_nobody(world):
    world.send(sent("a"), sent("b"))
    world.claim()
    world.desk.write(void_case, "a", reason="sent twice")
    assert world.case("a").state == "void"
    assert world.claim("bob").key == "b"
    check_all(world.desk)
    with pytest.raises(DeskRefusedError, match="is void"):
        world.desk.write(void_case, "a", reason="again")
    with pytest.raises(DeskRefusedError, match="no case"):
        world.desk.write(void_case, "z", reason="?")


# ------------------------------------------------------------------ certifying anew


def stream(world, n, rng, prefix="case", wrong_below=0.8, **more):
    """Cases of a model that is good above 0.8; returns what is true."""
    truth, batch = {}, []
    for i in range(n):
        p = float(rng.uniform(0.5, 1))
        wrong = rng.random() < (0.4 if p < wrong_below else 0.002)
        key = f"{prefix}-{i}"
        truth[key] = "dog" if wrong else "cat"
        batch.append(sent(key, p, **more))
    world.send(*batch)
    return truth


@pytest.fixture(autouse=True)
def short_pilot(monkeypatch):
    monkeypatch.setattr(recertifying, "PILOT", 20)


@pytest.mark.slow
def test_a_policy_is_certified_from_blind_labels(world):
    world.with_rules(certify_share=1.0)
    truth = stream(world, 150, np.random.default_rng(0))
    with pytest.raises(DeskRefusedError, match="from 130 cases .*, 130 of them still open"):
        world.desk.write(recertify, target_accuracy=0.85)
    read_all(world, truth.__getitem__)
    with pytest.raises(DeskRefusedError, match="not shown yet that an accuracy of 0.9999 is kept"):
        world.desk.write(recertify, target_accuracy=0.9999)
    with pytest.raises(DeskRefusedError, match="0 of the first 20 cases"):
        world.desk.write(recertify, target_accuracy=0.85, model="another")
    number = world.desk.write(recertify, target_accuracy=0.85)
    (policy,) = world.rows(select(policies))
    assert (policy.state, policy.source) == ("draft", "recertified")
    world.desk.write(activate, number)
    assert world.send_one("later", 0.999).status == "decided"


@pytest.mark.slow
def test_the_sample_is_fair_whatever_the_policy_delegated(world):
    world.with_rules(quality_rate=0.4, certify_share=1.0)
    world.activate()
    truth = stream(world, 150, np.random.default_rng(1))
    read_all(world, truth.__getitem__)
    sample = world.desk.read(blind_labels)
    rows = world.rows(select(cases).order_by(cases.c.id))
    assert sample.rate == 0.4
    assert [case.key for case in sample.cases] == [row.key for row in rows if row.draw < 0.4]
    assert all(case.label == truth[case.key] for case in sample.cases)
    confident = np.mean([row.confidence > 0.8 for row in rows])
    chosen = np.mean([max(case.probabilities.values()) > 0.8 for case in sample.cases])
    assert abs(confident - chosen) < 0.15, "not only what was hard"


@pytest.mark.slow
def test_cases_that_raised_the_alarm_certify_nothing(world):
    world.with_rules(quality_rate=1.0, certify_share=1.0)
    world.activate()
    world.send(*(sent(f"bad-{i}") for i in range(30)))
    read_all(world, lambda key: "dog")
    assert world.desk.read(blind_labels).cases == []
    truth = stream(world, 60, np.random.default_rng(2))
    read_all(world, truth.__getitem__)
    assert {case.key for case in world.desk.read(blind_labels).cases} == truth.keys()


@pytest.mark.slow
def test_cases_of_a_cluster_are_certified_together(world):
    """All cases are labelled, so the promise is about one case of each patient."""
    world.with_rules(certify_share=1.0)
    pilot = [sent(f"a-{i}", cluster=f"patient-{i % 40}") for i in range(20)]
    batch = [sent(f"case-{i}", cluster=f"patient-{i % 40}") for i in range(100)]
    world.send(*pilot, *batch, sent("alone"))
    read_all(world, lambda key: "cat")
    sample = world.desk.read(blind_labels)
    units = {case.unit for case in sample.cases}
    assert (sample.rate, len(sample.cases), len(units)) == (1.0, 121, 41)
    number = world.desk.write(recertify, target_accuracy=0.8)
    (policy,) = world.rows(select(policies))
    point = from_json(policy.document)
    assert (number, point.clusters, point.n_cases) == (1, "one_case_each", 41)
    assert "one case drawn at random from each new cluster" in point.guarantee


@pytest.mark.slow
def test_large_clusters_count_for_all_their_cases(world):
    """Patients of one case are right and those of twenty wrong: nothing is certified."""
    truth = {}
    for i in range(60):
        truth[f"small-{i}"] = ("cat", f"s{i}")
    for i in range(60):
        truth[f"large-{i}"] = ("dog" if i % 5 == 0 else "cat", f"l{i % 3}")
    world.with_rules(quality_rate=0.5, certify_share=1.0)
    world.activate()
    world.send(*(sent(key, cluster=cluster) for key, (_, cluster) in truth.items()))
    read_all(world, lambda key: truth[key][0])
    with pytest.raises(DeskRefusedError, match="not shown yet"):
        world.desk.write(recertify, target_accuracy=0.9)


def test_a_monitor_counts_the_first_audit_of_a_cluster(world):
    world.with_rules(quality_rate=1.0)
    world.activate()
    world.send(*(sent(f"case-{i}", cluster=f"patient-{i % 3}") for i in range(12)), sent("alone"))
    read_all(world, lambda key: "dog" if key == "case-5" else "cat")
    (monitor,) = world.rows(select(monitors))
    assert (monitor.audited, monitor.errors, monitor.open) == (4, 0, 0), "case-5 is not the first"
    assert world.case("case-5").audit in ("open", "wrong")


@pytest.mark.slow
def test_the_alarm_of_a_replaced_policy_is_recorded(world):
    world.with_rules(quality_rate=1.0)
    first = world.activate()
    world.send(*(sent(f"bad-{i}") for i in range(30)))
    second = world.activate()
    read_all(world, lambda key: "dog")
    alarmed = {row.policy_id: row.alarmed for row in world.rows(select(monitors))}
    assert alarmed[first] is not None
    assert alarmed[second] is None
    states = {row.id: row.state for row in world.rows(select(policies))}
    assert states == {first: "withdrawn", second: "active"}
    assert world.desk.read(blind_labels).cases == [], "its cases certify nothing"


def test_a_voided_dispute_stays_in_the_sample_and_counts_as_wrong(world):
    world.with_rules(second_share=1.0, certify_share=1.0)
    world.send(sent("disputed", due=0))
    world.answer(world.claim("ann"), "cat")
    world.answer(world.claim("bob"), "dog", "bob")
    world.send(sent("mistake"))
    assert world.case("disputed").state == "disputed"
    for key in ("disputed", "mistake"):
        world.desk.write(void_case, key, reason="inconvenient")
    sample = world.desk.read(blind_labels)
    (case,) = sample.cases
    assert (case.key, case.label, sample.n_open) == ("disputed", "", 0)


@pytest.mark.slow
def test_an_answer_outside_the_models_classes_is_an_error_of_the_model(world):
    world.with_rules(certify_share=1.0)
    rng = np.random.default_rng(3)
    truth = stream(world, 150, rng)
    read_all(world, lambda key: "cow" if truth[key] == "dog" else "cat")
    number = world.desk.write(recertify, target_accuracy=0.75)
    assert number == 1


@pytest.mark.simulation
def test_tried_again_and_again_it_certifies_no_more_often_than_it_may():
    """One-shot certificates of the same streams, tried as often, are the control: they fail."""
    rng = np.random.default_rng(5)
    streams, tries, n = 120, 12, 600
    wrong = rng.random((streams, n)) < 0.1001
    confidence = rng.random((streams, n))
    thresholds = np.arange(0.05, 1, 0.05)
    looks = np.linspace(50, n, tries).astype(int)
    by_stream = one_shot = 0
    for errors, scores in zip(wrong, confidence, strict=True):
        monitor = ChallengerMonitor(target_accuracy=0.9, thresholds=thresholds)
        shown = [monitor.update(*part).is_certified for part in parts(scores, ~errors, looks)]
        by_stream += any(shown)
        one_shot += any(
            certify(
                Cases.from_correctness(~errors[:k], scores[:k]), target_accuracy=0.9
            ).is_certified
            for k in looks
        )
    assert by_stream <= binom.ppf(0.999, streams, 0.05)
    assert one_shot > binom.ppf(0.999, streams, 0.05)


def parts(scores, correct, looks):
    edges = [0, *looks]
    return [(scores[a:b], correct[a:b]) for a, b in pairwise(edges)]


# ------------------------------------------------------------------ capacity


def slow_erlang_c(readers, load):
    """The formula as books print it."""
    top = load**readers / math.factorial(readers) * readers / (readers - load)
    below = sum(load**k / math.factorial(k) for k in range(readers))
    return top / (below + top)


@pytest.mark.parametrize(("readers", "load"), [(1, 0.5), (2, 1.5), (5, 4.9), (10, 3.0), (30, 25.0)])
def test_erlang_c(readers, load):
    assert waiting_probability(readers, load) == pytest.approx(slow_erlang_c(readers, load))


def test_a_queue_with_too_few_readers_grows():
    assert waiting_probability(3, 3.0) == 1
    assert waiting_probability(1000, 990.0) < 1


@pytest.mark.slow
def test_readers_needed_by_simulation():
    """Nine readings an hour of five minutes: the waits of a simulated queue are as promised."""
    arrivals, seconds = 30.0, 300.0
    readers = readers_needed(arrivals, seconds)
    rng = np.random.default_rng(0)

    def share_waiting(n):
        free, now, waits = [0.0] * n, 0.0, 0
        for _ in range(40_000):
            now += rng.exponential(3600 / arrivals)
            first = min(range(n), key=free.__getitem__)
            start = max(now, free[first])
            waits += start - now > 60
            free[first] = start + rng.exponential(seconds)
        return waits / 40_000

    assert share_waiting(readers) <= 0.21
    assert share_waiting(readers - 1) > 0.2
    assert readers_needed(0, 60) == 0


def test_what_the_last_hours_need(world):
    assert world.desk.read(capacity_of)["readers_needed"] is None
    world.send(*(sent(f"case-{i}") for i in range(10)))
    for _ in range(10):
        held = world.claim()
        world.clock.turn(30)
        world.answer(held, "cat")
    capacity = world.desk.read(capacity_of)
    assert capacity["seconds_a_reading"] == pytest.approx(30)
    assert capacity["readings_an_hour"] == pytest.approx(10, rel=0.2)
    assert capacity["readers_needed"] == 1
    assert world.desk.read(state_of)["capacity"]["readers_needed"] == 1


# ------------------------------------------------------------------ shift


def test_a_shifted_load_warns_and_does_no_more(world):
    number = world.activate()
    rng = np.random.default_rng(0)
    stream(world, 300, rng)
    shift = world.desk.read(load_shift)
    assert not shift["warns"]
    assert shift["n_cases"] == 300
    world.send(*(sent(f"strange-{i}", 0.55) for i in range(300)))
    shift = world.desk.read(load_shift)
    assert shift["warns"]
    assert shift["observed"] > shift["expected"]
    (policy,) = world.rows(select(policies))
    assert (policy.id, policy.state) == (number, "active")


def test_cases_of_a_few_patients_are_no_shift(world):
    """Six hundred doubtful cases of ten patients are ten, and ten are too few to tell."""
    world.activate()
    stream(world, 300, np.random.default_rng(0))
    world.send(*(sent(f"x-{i}", 0.55, cluster=f"patient-{i % 10}") for i in range(600)))
    shift = world.desk.read(load_shift)
    assert shift["n_cases"] == 900
    assert shift["observed"] > shift["expected"] + 0.1
    assert not shift["warns"]


def test_a_policy_for_clusters_has_no_test_of_its_load(world):
    sure = np.repeat(0.5 + np.arange(1000) / 2000, 2)
    known = Cases.from_correctness(sure > 0.75, sure, clusters=np.arange(2000) // 2)
    for in_clusters in (True, False):
        point = certify(
            known if in_clusters else replace(known, clusters=None), target_accuracy=0.9
        )
        origin = replace(point.origin, ranked_by="top_probability", labels=("cat", "dog"))
        world.activate(replace(point, origin=origin).to_json())
        world.send(*(sent(f"{in_clusters}-{i}", 0.55) for i in range(300)))
        shift = world.desk.read(load_shift)
        assert shift["observed"] == 1 > shift["expected"] + 0.3
        assert shift["warns"] is not in_clusters


def test_a_few_cases_say_nothing_of_the_load(world):
    assert world.desk.read(load_shift) is None
    world.activate()
    world.send(*(sent(f"case-{i}", 0.55) for i in range(50)))
    assert world.desk.read(load_shift) is None


def test_cases_without_the_policys_model_do_not_shift_the_load(world):
    world.activate(policy_text(model_name="model-1"))
    sure = [sent(f"case-{i}", 0.99 if i % 5 < 2 else 0.6, model="model-1") for i in range(300)]
    world.send(*sure, *(sent(f"unnamed-{i}") for i in range(300)))
    shift = world.desk.read(load_shift)
    assert (shift["n_cases"], shift["observed"], shift["warns"]) == (300, 0.6, False)


def test_a_case_without_any_number_is_no_blind_label(world):
    world.with_rules(quality_rate=1.0, certify_share=1.0)
    nothing = {"cat": math.nan, "dog": math.nan}
    world.send({"key": "broken", "probabilities": nothing}, sent("sound"))
    read_all(world, lambda key: "cat")
    assert "sound" in [case.key for case in world.desk.read(blind_labels).cases]
