"""Models in shadow: stored beside a case, counted as evidence, adopted in steps, taken back."""

from __future__ import annotations

import httpx
import numpy as np
import pytest
from sqlalchemy import select

from expertload.desk.intake import shadows as intake_shadows
from expertload.desk.intake.case import Shadow
from expertload.desk.intake.routing import read_policy
from expertload.desk.intake.sampling import draw
from expertload.desk.intake.shadows import receive_shadows
from expertload.desk.store.tables import decisions, events, policies, readings, shadows
from expertload.desk.trail.chain import verify
from expertload.desk.watch import challengers
from expertload.desk.watch.challengers import adopt, challengers_of, find_challenger
from expertload.desk.watch.policies import (
    active_policy,
    decide_all_waiting,
    decide_waiting,
    look_back,
    stored_cases,
    trial_policy,
    withdraw,
)
from expertload.desk.watch.readers import readers_of, second_readings
from expertload.desk.watch.recertify import recertify
from expertload.desk.watch.state import load_shift, state_of
from expertload.exceptions import DeskRefusedError
from tests.desk.invariants import check_all
from tests.desk.people import visit
from tests.desk.test_numbers import text_of
from tests.desk.world import dumps, policy_text, sent
from tests.reference.challenger import load_evidence, promise_evidence

PILOT = 40


@pytest.fixture(autouse=True)
def short_pilot(monkeypatch):
    monkeypatch.setattr(challengers, "PILOT", PILOT)
    monkeypatch.setattr(intake_shadows, "PILOT", PILOT)


def cat(p: float) -> dict[str, float]:
    return {"cat": p, "dog": 1 - p}


def shadowed(key: str, mine: float, theirs: float, **more) -> dict:
    return sent(key, mine, model="A", shadow={"B": cat(theirs)}, **more)


def read_all(world, truth="cat") -> int:
    """Ann reads everything; an arbiter settles what she and a model disagree about."""
    n = 0
    for who in (("ann", "reader"), ("zoe", "arbiter")):
        while (held := world.claim(*who)) is not None:
            label = truth if isinstance(truth, str) else truth[held.key]
            world.answer(held, label, *who)
            n += 1
    return n


def running(world, *, model: str | None = "A"):
    """Model A decides what it is sure of, and everything is read."""
    world.with_rules(quality_rate=1.0, raised_rate=1.0, second_share=0)
    world.activate(policy_text(model_name=model))
    return world


def shown(world, n: int = 130):
    """B is right and sure where A is not, and that has been read; more cases wait."""
    pilot = [shadowed(f"a{i}", 0.6, 0.99 - i / 1000, due=4e9) for i in range(PILOT)]
    counted = [shadowed(f"c{i}", 0.6 if i % 4 else 0.99, 0.999) for i in range(n)]
    world.send(*pilot, *counted)
    for _ in range(n):
        world.answer(world.claim(), "cat")
    return world


# ------------------------------------------------------------------ answers come in


def test_decisions_are_the_same_with_and_without_a_shadow(world):
    world.activate(policy_text(model_name="A"))
    rng = np.random.default_rng(0)
    plain = [sent(f"a{i}", p, model="A") for i, p in enumerate(rng.random(60))]
    shadow = [
        {**case, "key": case["key"] + "s", "shadow": {"B": cat(p), "C": cat(1 - p)}}
        for case, p in zip(plain, rng.random(60), strict=True)
    ]
    before, after = world.send(*plain), world.send(*shadow)
    assert [o[1:] for o in before] == [o[1:] for o in after]
    assert len({o.status for o in before}) == 2
    assert len(world.rows(select(shadows))) == 120
    check_all(world.desk)


def test_a_shadow_may_come_later_and_never_changes(world):
    running(world)
    world.send(sent("a", 0.6, model="A"), sent("b", 0.6, model="A"))
    given = [Shadow("a", "B", cat(0.9)), Shadow("nobody", "B", cat(0.9))]
    stored, unknown = world.desk.write(receive_shadows, given)
    assert stored == {"key": "a", "model": "B", "status": "stored"}
    assert unknown.code == "not_found"
    again, other = world.desk.write(
        receive_shadows, [Shadow("a", "B", cat(0.9)), Shadow("a", "B", cat(0.8))]
    )
    assert again["status"] == "stored"
    assert other.code == "conflict"
    (own,) = world.desk.write(receive_shadows, [Shadow("b", "A", cat(0.7))])
    assert own.code == "conflict", "the case has another answer of this model"
    assert len(world.rows(select(shadows))) == 1
    check_all(world.desk)


def test_a_case_sent_again_may_bring_a_shadow(world):
    running(world)
    first = world.send_one("a", 0.6, model="A")
    assert world.send_one("a", 0.6, model="A", shadow={"B": cat(0.9)}) == first
    (refused,) = world.send(sent("a", 0.6, model="A", shadow={"B": cat(0.8)}))
    assert refused.code == "conflict"
    (row,) = world.rows(select(shadows))
    assert (row.model, row.confidence, row.blind) == ("B", 0.9, True)


@pytest.mark.parametrize(
    "shadow", [[], {}, {"B": None}, {"": {"cat": 1}}, {"B": {"cat": "x"}}, {"A": {"cat": 1}}, 3]
)
def test_a_bad_shadow_is_refused(world, shadow):
    with pytest.raises(DeskRefusedError) as refused:
        world.send(sent("a", 0.9, model="A", shadow=shadow))
    assert refused.value.code == "bad_case"


def test_an_answer_after_the_experts_does_not_count(world):
    running(world)
    world.send(sent("a", 0.6, model="A"))
    world.answer(world.claim(), "cat")
    world.desk.write(receive_shadows, [Shadow("a", "B", cat(0.9))])
    (row,) = world.rows(select(shadows))
    assert not row.blind


# ------------------------------------------------------------------ evidence


@pytest.mark.slow
def test_the_evidence_is_that_of_the_oracle(world):
    """Uneven audits, late labels and patients, against the plain formulas."""
    world.with_rules(quality_rate=0.5, raised_rate=0.5, second_share=0)
    world.activate(policy_text(model_name="A"))
    rng = np.random.default_rng(1)
    theirs = np.where(rng.random(160) < 0.6, 0.97, 0.6)
    mine = np.where(rng.random(160) < 0.5, 0.99, 0.6)
    truth = {f"c{i}": "cat" if rng.random() < 0.97 else "dog" for i in range(160)}
    patients = [f"p{i // 2}" if i > 100 else None for i in range(160)]
    world.send(*(shadowed(f"x{i}", 0.6, 0.5 + i / 90, due=4e9) for i in range(PILOT)))
    for i in range(160):
        named = {} if patients[i] is None else {"cluster": patients[i]}
        world.send(shadowed(f"c{i}", mine[i], theirs[i], **named))
    for _ in range(70):
        held = world.claim()
        world.answer(held, truth[held.key])
    monitor = world.desk.read(find_challenger, "B").monitor

    rows = [world.case(f"c{i}") for i in range(160)]
    labels = [truth[r.key] if r.state == "closed" or r.audit == "right" else None for r in rows]
    project = world.desk.read(lambda transaction: transaction.project)
    apart = [
        patient is None or draw(project.secret, "certify", project.name, f"cluster {patient}") < 0.5
        for patient in patients
    ]
    assert 10 < sum(apart[101:]) < 50, "other patients may have taught the model"
    first = [i for i in range(160) if apart[i] and patients[i] not in {*patients[:i]} - {None}]
    read = [i for i in first if not rows[i].accepted or rows[i].draw < rows[i].rate]
    assert any(labels[i] is None for i in read)
    accepted = {t: np.array([theirs[i] >= t for i in read]) for t in monitor.thresholds}
    wrong = np.array([labels[i] != "cat" for i in read], dtype=float)
    inclusion = np.array([0.5 if rows[i].accepted else 1.0 for i in read])
    for t, highest in zip(monitor.thresholds, monitor._highest, strict=True):
        path = promise_evidence(accepted[t], wrong, inclusion, 0.5, 0.95)
        assert highest == pytest.approx(max(1.0, path.max()))
    a = np.array([bool(rows[i].accepted) for i in first])
    b = monitor._then
    assert monitor.load_evidence == pytest.approx(load_evidence(a, b), rel=1e-6)
    assert monitor.n_cases == len(first)


def test_a_challenger_says_what_is_missing(world):
    running(world)
    assert world.desk.read(challengers_of) == []
    world.send(shadowed("a", 0.6, 0.9))
    (few,) = world.desk.read(challengers_of)
    assert few.summary() == (
        "Not yet: 1 of the first 40 valid answers, which set the thresholds, have come."
    )
    shown(world, n=20)
    assert "it is not shown that an accuracy of 0.95 is kept" in find(world).summary()
    assert "then" not in find(world).summary(), "there is no threshold yet"
    assert (find(world).to_dict()["threshold"], find(world).to_dict()["load_then"]) == (None, None)
    with pytest.raises(DeskRefusedError) as refused:
        world.desk.write(adopt, "B", 0.1)
    assert refused.value.code == "not_shown"
    with pytest.raises(DeskRefusedError) as unknown:
        world.desk.write(adopt, "nobody", 0.1)
    assert unknown.value.code == "not_found"


def find(world, model="B"):
    return world.desk.read(find_challenger, model)


def test_a_challenger_that_skips_cases_must_show_a_lower_load_with_them(world):
    shown(running(world))
    assert find(world).may_switch
    world.send(*(sent(f"m{i}", 0.99, model="A") for i in range(300)))
    skipped = find(world)
    assert not skipped.may_switch
    assert skipped.n_missing == 300
    assert skipped.summary().endswith(
        "It has not answered 300 of 430 cases: these count as delegated."
    )
    late = [Shadow(f"m{i}", "B", cat(0.999)) for i in range(300)]
    world.desk.write(receive_shadows, late)
    assert find(world).n_missing == 0


@pytest.mark.parametrize("n_valid", [0, 20, PILOT])
def test_answers_that_are_not_probabilities_are_no_evidence(world, n_valid):
    """Logits by mistake, then silence: neither may look as if the model decided these cases."""
    running(world)
    logits = {"cat": 7.2, "dog": -1.0}
    given = [cat(0.9)] * n_valid + [logits] * 60
    world.send(*(sent(f"x{i}", 0.6, model="A", shadow={"B": it}) for i, it in enumerate(given)))
    world.send(*(sent(f"s{i}", 0.6, model="A") for i in range(100)))
    read_all(world)
    invalid = find(world)
    assert invalid.n_answers == n_valid
    assert not invalid.may_switch
    if n_valid < PILOT:
        said = f"Not yet: {n_valid} of the first 40 valid answers, which set the thresholds,"
        assert invalid.summary().startswith(said)
    else:
        assert invalid.monitor.load_then == 1
        assert invalid.monitor.load_evidence <= 1
    read_all(shown(world))
    assert find(world).may_switch, "with valid answers"


def test_a_threshold_from_answers_that_are_not_probabilities_accepts_none(world):
    with_logits = [{**sent(f"x{i}"), "probabilities": {"cat": 7.2, "dog": -1}} for i in range(400)]
    running(world)
    world.send(*with_logits)
    read_all(world)
    with pytest.raises(DeskRefusedError, match="It is not shown yet"):
        world.desk.write(recertify, target_accuracy=0.5)


@pytest.mark.parametrize("model", ["A", None])
def test_loads_after_a_way_back_are_of_the_same_cases(world, model):
    """What a challenger decided is compared with today's policy, as are other models' answers."""

    def both(name, mine, theirs, **more):
        beside = {"B": cat(theirs), "C": cat(0.7)}
        named = {} if model is None else {"model": model}
        return sent(name, mine, **named, shadow=beside, **more)

    def cards():
        named = world.desk.read(challengers_of)
        return {it.model: (it.monitor.load_now, it.monitor.n_cases) for it in named}

    running(world, model=model)
    world.send(*(both(f"a{i}", 0.6, 0.99 - i / 1000, due=4e9) for i in range(PILOT)))
    world.send(*(both(f"c{i}", 0.6 if i % 4 else 0.99, 0.999) for i in range(130)))
    for _ in range(130):
        world.answer(world.claim(), "cat")
    world.send(*(both(f"w{i}", 0.6 if i % 2 else 0.99, 0.999) for i in range(40)))
    before = cards()
    assert before["B"] == before["C"]
    evidence, threshold = find(world).monitor.evidence, find(world).monitor.threshold
    for n, share in enumerate((0.5, 1, 0)):
        world.desk.write(adopt, "B", share)
        assert decide_all_waiting(world.desk) > 0 or share == 0
        world.send(*(both(f"n{n}-{i}", 0.6 if i % 5 else 0.99, 0.9999) for i in range(10)))
        now = cards()
        assert now["B"] == now["C"], share
        assert now["B"][1] == before["B"][1] + 10 * (n + 1)
    n_now = before["B"][0] * before["B"][1] + 3 * 8
    assert now["B"][0] == pytest.approx(n_now / now["B"][1])
    assert find(world).n_missing == 0
    assert find(world).monitor.threshold == threshold, "the same answers set the thresholds"
    assert find(world).monitor.evidence >= evidence
    check_all(world.desk)


def test_cases_under_an_earlier_policy_are_judged_in_parts(world, monkeypatch):
    """A statement takes 65,535 values at most, so however many cases came before, parts are few."""
    shown(running(world))
    before = find(world).to_dict()
    world.activate(policy_text(model_name="A"))
    monkeypatch.setattr(challengers, "AT_ONCE", 7)
    assert find(world).to_dict() == before


def test_a_case_is_judged_once_for_all_models(world, monkeypatch):
    """Of two policies, the first is the same as today's: what it decided need not be judged."""
    running(world)
    for n, model in enumerate(("A", "Z", "A")):
        world.activate(policy_text(model_name=model))
        beside = {name: cat(0.9) for name in "BC"}
        world.send(*(sent(f"a{n}-{i}", 0.9, model="A", shadow=beside) for i in range(PILOT)))
    judged = []

    def counted(transaction, numbers, **more):
        judged.extend(numbers)
        return stored_cases(transaction, numbers, **more)

    monkeypatch.setattr(challengers, "stored_cases", counted)
    loads = [(it.monitor.load_now, it.monitor.n_cases) for it in world.desk.read(challengers_of)]
    assert loads == [(0, 2 * PILOT)] * 2
    assert len(judged) == PILOT


def test_other_classes_are_another_model(world):
    shown(running(world))
    assert find(world).may_switch
    three = {"cat": 0.9, "dog": 0.05, "cow": 0.05}
    world.send(sent("n", 0.6, model="A", shadow={"B": three}))
    anew = find(world)
    assert anew.monitor is None
    assert anew.n_answers == 1


def test_after_an_alarm_the_evidence_starts_anew(world):
    shown(running(world))
    world.clock.turn(10)
    alarm(world)
    assert world.desk.read(active_policy) is None
    anew = find(world)
    assert anew.monitor is not None
    assert anew.monitor.n_read == 0
    assert anew.monitor.load_now in (None, 1.0)


def alarm(world):
    """A is wrong until the desk stops it."""
    number = world.desk.read(active_policy).id
    world.send(*(sent(f"w{i}", 0.99, model="A", due=1e9) for i in range(30)))
    while world.desk.read(active_policy) is not None:
        for who in (("ann", "reader"), ("zoe", "arbiter")):
            held = world.claim(*who)
            if held is not None:
                world.answer(held, "dog", *who)
    return number


def test_a_difference_from_a_sure_challenger_is_settled(world):
    running(world)
    world.send(*(shadowed(f"a{i}", 0.6, 0.9, due=4e9) for i in range(PILOT)))
    world.send(shadowed("b", 0.6, 0.95), shadowed("c", 0.6, 0.7))
    for _ in range(2):
        world.answer(world.claim(), "dog")
    assert world.case("b").state == "disputed", "B is sure that it is a cat"
    assert world.case("c").state == "closed", "B is not sure"
    world.answer(world.claim("zoe", "arbiter"), "cat", "zoe", "arbiter")
    assert world.case("b").state == "closed"


def test_a_sure_challenger_hides_no_error_of_a_reader(world):
    """Cases drawn for a second reading get one, whether or not the first agrees with a model."""
    running(world).with_rules(second_share=1.0)
    world.send(*(shadowed(f"a{i}", 0.6, 0.9, due=4e9) for i in range(PILOT)))
    world.send(*(shadowed(f"b{i}", 0.6, 0.95) for i in range(10)))
    for _ in range(10):
        held = world.claim("ann")
        world.answer(held, "dog" if held.key in ("b1", "b4", "b7") else "cat", "ann")
        world.answer(world.claim("bob"), "cat", "bob")
    for _ in range(3):
        world.answer(world.claim("zoe", "arbiter"), "cat", "zoe", "arbiter")
    accuracy = {reader["name"]: reader["accuracy"] for reader in world.desk.read(readers_of)}
    assert (accuracy["ann"], accuracy["bob"]) == (0.7, 1.0)
    assert world.desk.read(second_readings)[:3] == (10, 7, 10)


# ------------------------------------------------------------------ taking over


def test_a_model_takes_over_in_steps_and_the_queue_empties(world):
    shown(running(world))
    before = world.desk.read(active_policy)
    number = world.desk.write(adopt, "B", 0.3)
    decide_all_waiting(world.desk)
    trial = world.desk.read(trial_policy)
    assert (trial.id, trial.share, trial.source) == (number, 0.3, "challenger")
    assert world.desk.read(active_policy).id == before.id
    check_all(world.desk)
    project = world.desk.read(lambda t: t.project)
    keys = [f"t{i}" for i in range(60)]
    chosen = {
        key
        for key in keys
        if draw(project.secret, f"share of policy {number}", project.name, key) < 0.3
    }
    assert 5 < len(chosen) < 30
    outcomes = world.send(*(shadowed(key, 0.6, 0.999) for key in keys))
    assert {o.key for o in outcomes if o.status == "decided"} == chosen
    assert {o.policy for o in outcomes if o.status == "decided"} == {number}
    row = world.case(next(iter(chosen)))
    assert (row.model, row.policy_id, row.confidence) == ("B", number, 0.999)
    kept = world.rows(select(shadows).where(shadows.c.case_id == row.id))
    assert [(each.model, each.confidence) for each in kept] == [("A", 0.6)], "A's answer is kept"

    waiting = world.counts()["readings.waiting"]
    assert world.desk.write(adopt, "B", 1.0) == number
    assert decide_all_waiting(world.desk) > 30
    assert world.desk.read(active_policy).id == number
    assert world.desk.read(trial_policy) is None
    (old,) = world.rows(select(policies).where(policies.c.id == before.id))
    assert old.reason == f"replaced by policy {number}"
    left = world.counts()["readings.waiting"]
    anew = world.rows(select(decisions).where(decisions.c.kind == "anew"))
    assert anew
    # With a rate of 1, all of them are audited: they wait, but as checks.
    assert left == waiting
    why = {r.why for r in world.rows(select(readings).where(readings.c.state == "waiting"))}
    assert why == {"quality"}
    assert world.desk.read(verify).is_intact
    check_all(world.desk)


def test_a_switch_empties_the_queue(world):
    shown(running(world))
    world.with_rules(quality_rate=0.0)
    world.send(*(shadowed(f"q{i}", 0.6, 0.999) for i in range(20)), shadowed("hard", 0.6, 0.55))
    held = world.claim()
    number = world.desk.write(adopt, "B", 1)
    # Activating sets the rate to that of the rules: no waiting case is audited.
    assert decide_all_waiting(world.desk) >= 19
    left = world.rows(select(readings).where(readings.c.state == "waiting"))
    assert {r.case_id for r in left} <= {world.case("hard").id} | {
        world.case(f"a{i}").id for i in range(PILOT)
    }
    assert world.case(held.key).state == "waiting", "a reader holds it"
    assert world.send_one("q3", 0.6, model="A", shadow={"B": cat(0.999)}).status == "delegated"
    assert world.case("q3").policy_id == number
    check_all(world.desk)
    # It can be undone: experts read what it decided.
    world.desk.write(withdraw, number, reason="test")
    assert world.desk.write(look_back, number) >= 19
    check_all(world.desk)


def test_there_is_a_way_back(world):
    shown(running(world))
    before = world.desk.read(active_policy)
    world.desk.write(adopt, "B", 0.1)
    world.desk.write(adopt, "B", 0)
    assert world.desk.read(trial_policy) is None
    assert world.desk.read(active_policy).id == before.id
    number = world.desk.write(adopt, "B", 1)
    decide_all_waiting(world.desk)
    assert world.desk.read(active_policy).id == number
    restored = world.desk.write(adopt, "B", 0)
    active = world.desk.read(active_policy)
    assert (active.id, active.source, active.document) == (restored, "restored", before.document)
    check_all(world.desk)


def test_the_page_of_policies_says_where_each_came_from(served):
    shown(running(served))
    with visit(served, "boss", "manager") as client:
        for share, state, origin in (
            (0.1, "Trial", "of a new model"),
            (1, "Active", "of a new model"),
            (0, "Active", "restored"),
        ):
            served.desk.write(adopt, "B", share)
            page = client.get("/manage/policies")
            assert page.status_code == 200
            newest = page.text.partition('<section class="card policy')[2]
            assert newest.index(state) < newest.index(origin) < newest.index("Withdraw for good")


def test_the_page_says_what_is_automated_once_there_are_cases(served):
    served.activate(policy_text(model_name="A"))
    served.send(*(shadowed(f"a{i}", 0.6, 0.9, due=4e9) for i in range(PILOT)))
    with visit(served, "boss", "manager") as client:
        page = client.get("/manage/challengers")  # thresholds are set, and no case has come since
        assert page.status_code == 200
        assert "automated" not in page.text
        served.send(*(shadowed(f"b{i}", 0.6 if i % 4 else 0.99, 0.9) for i in range(8)))
        assert "25.0 % automated now" in text_of(client.get("/manage/challengers").text)


def test_of_two_managers_one_wins(world):
    shown(running(world))
    world.desk.write(adopt, "B", 0.1)
    for share, seen in ((0.1, None), (0.5, 0.0)):
        with pytest.raises(DeskRefusedError, match="decides a share of 0.1 now") as refused:
            world.desk.write(adopt, "B", share, seen=seen)
        assert refused.value.code == "conflict"
    world.desk.write(adopt, "B", 0.5, seen=0.1)
    assert world.desk.read(trial_policy).share == 0.5


def test_an_alarm_ends_a_trial(world):
    shown(running(world))
    number = world.desk.write(adopt, "B", 0.9)
    world.send(*(shadowed(f"w{i}", 0.6, 0.999, due=1e9) for i in range(60)))
    for _ in range(200):
        if world.desk.read(trial_policy) is None:
            break
        for who in (("ann", "reader"), ("zoe", "arbiter")):
            held = world.claim(*who)
            if held is not None:
                world.answer(held, "dog", *who)
    (ended,) = world.rows(select(policies).where(policies.c.id == number))
    assert ended.state == "withdrawn"
    assert world.desk.read(active_policy) is not None, "A goes on"
    check_all(world.desk)


def test_a_killed_server_goes_on_where_it_was(world, monkeypatch):
    shown(running(world))
    monkeypatch.setattr("expertload.desk.watch.policies.AT_ONCE", 10)
    number = world.desk.write(adopt, "B", 1)
    assert world.desk.write(decide_waiting) == 10
    (behind,) = world.rows(select(policies.c.caught_up).where(policies.c.id == number))
    assert behind[0] is not None
    check_all(world.desk)
    assert decide_all_waiting(world.desk) >= 10
    assert decide_all_waiting(world.desk) == 0
    check_all(world.desk)


def test_the_load_is_counted_since_the_policy_began(world):
    shown(running(world))
    assert world.desk.read(state_of)["load"] > 0.7
    world.desk.write(adopt, "B", 1)
    assert world.desk.read(state_of)["load"] is None
    world.send(*(shadowed(f"n{i}", 0.6, 0.999 if i else 0.51) for i in range(10)))
    assert world.desk.read(state_of)["load"] == pytest.approx(0.1)


# ------------------------------------------------------------------ the interface


def test_the_whole_story_by_http(served):
    world = running(served)
    tokens = {role: world.token(role, role) for role in ("api", "manager", "auditor")}

    def call(role, method, path, **more):
        headers = {"Authorization": f"Bearer {tokens[role]}"}
        return httpx.request(method, world.address + path, headers=headers, **more)

    world.send(*(sent(f"c{i:03}", 0.6, model="A") for i in range(PILOT + 130)))
    lines = [
        {
            "key": f"c{i:03}",
            "model": "B",
            "probabilities": cat(0.99 if i > PILOT else 0.9 + i / 1000),
        }
        for i in range(PILOT + 130)
    ]
    answer = call("api", "POST", "/api/shadow", content=dumps(*lines, {"key": "c001"}))
    results = [httpx.Response(200, content=line).json() for line in answer.content.splitlines()]
    assert [r.get("status") for r in results] == ["stored"] * (PILOT + 130) + [None]
    assert results[-1]["error"]["code"] == "bad_case"
    assert (
        call("auditor", "GET", "/api/challengers").json()["challengers"][0]["may_switch"] is False
    )
    for _ in range(PILOT + 120):
        world.answer(world.claim(), "cat")
    (b,) = call("manager", "GET", "/api/challengers").json()["challengers"]
    assert b["may_switch"] is True
    assert (b["model"], b["load_now"], b["load_then"], b["share"]) == ("B", 1.0, 0.0, 0.0)
    assert b["summary"].startswith("The new model may take over")
    path = "/api/challengers/B/adopt"
    assert call("auditor", "POST", path, json={"share": 0.1}).status_code == 403
    assert call("manager", "POST", path, json={"share": 2}).status_code == 422
    assert call("manager", "POST", path, json={"share": 0.1}).json()["share"] == 0.1
    assert call("manager", "POST", path, json={"share": 0.1}).status_code == 409
    done = call("manager", "POST", path, json={"share": 1, "from": 0.1}).json()
    assert done["decided_anew"] >= 8
    assert world.desk.read(active_policy).id == done["policy"]
    kinds = {row.kind for row in world.rows(select(events))}
    assert {"shadow.received", "policy.shared", "case.decided_anew"} <= kinds
    check_all(world.desk)


@pytest.mark.parametrize("patient", [None, "patient"])
def test_an_adopted_policy_speaks_of_clusters_only_if_there_are_some(world, patient):
    shown(running(world))
    if patient:
        world.send(shadowed("of-a-patient", 0.6, 0.999, cluster=patient))
    world.desk.write(adopt, "B", 1)
    point = read_policy(world.desk.read(active_policy).document).point
    assert point.clusters == (patient and "one_case_each")
    world.send(*(sent(f"z{i}", 0.55 if i % 10 else 0.999, model="B") for i in range(400)))
    shift = world.desk.read(load_shift)
    assert shift["observed"] == 0.9 > shift["expected"] + 0.3
    assert shift["warns"] is (patient is None)
