"""A switch of models under bad conditions: a killed server, two managers at once, and luck."""

from __future__ import annotations

import contextlib
import math
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import httpx
import numpy as np
import pytest
from scipy.stats import binom
from sqlalchemy import insert, select

from expertload.desk import Desk, Rules
from expertload.desk.client import DeskClient
from expertload.desk.intake import shadows as intake_shadows
from expertload.desk.intake.case import read_case
from expertload.desk.intake.receiving import receive
from expertload.desk.intake.shadows import classes_digest
from expertload.desk.queue.answers import answer
from expertload.desk.queue.claims import claim
from expertload.desk.store.tables import cases, decisions, policies, shadows
from expertload.desk.watch import challengers
from expertload.desk.watch.challengers import adopt, find_challenger
from expertload.desk.watch.policies import (
    activate,
    active_policy,
    add_policy,
    decide_all_waiting,
    trial_policy,
)
from expertload.exceptions import DeskRefusedError
from tests.desk.invariants import check_all
from tests.desk.processes import Server, free_port, together
from tests.desk.world import Clock, World, policy_text, sent

RULES = Rules(quality_rate=1.0, raised_rate=1.0, second_share=0, audit_second_share=0)
SHOWN = 150  # cases that are enough to show that a model which is always right may take over


def cat(p: float) -> dict[str, float]:
    return {"cat": p, "dog": 1 - p}


def shadowed(key: str, *, mine: float = 0.6, theirs: float = 0.999, models=("B",)) -> dict:
    return sent(key, mine, model="A", shadow={name: cat(theirs) for name in models})


def read_cats(transaction, reader: int, n: int) -> None:
    """Read cases in one commit: all of them are cats."""
    for _ in range(n):
        held = claim(transaction, reader)
        answer(transaction, reader, held.lease, "cat", held.lease)


@pytest.fixture
def short_pilot(monkeypatch):
    for module in (challengers, intake_shadows):
        monkeypatch.setattr(module, "PILOT", 40)


def ready(desk, *, models=("B",)) -> World:
    """Model A decides little, and for others it is shown that they may decide more."""
    n_pilot = challengers.PILOT
    world = World(desk, Clock(time.time_ns() // 1000))
    world.activate(policy_text(model_name="A"))
    pilot = [shadowed(f"a{i}", theirs=0.99 - i / 1e4, models=models) for i in range(n_pilot)]
    counted = [shadowed(f"c{i}", models=models) for i in range(SHOWN)]
    world.send(*pilot, *counted)
    desk.write(read_cats, world.user("ann"), n_pilot + SHOWN)
    for model in models:
        assert desk.read(find_challenger, model).may_switch
    return world


# ------------------------------------------------------------------ killed


def behind(desk) -> list:
    """The places of policies that have not looked at the whole queue yet."""
    query = select(policies.c.caught_up).where(
        policies.c.caught_up.is_not(None), policies.c.state.in_(("active", "trial"))
    )
    return [row[0] for row in desk.database.read(lambda c: c.execute(query).all())]


def wait_until(happens) -> None:
    deadline = time.monotonic() + 300
    while not happens():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


@pytest.mark.processes
def test_a_server_killed_while_a_model_takes_over_goes_on_where_it_was(place):
    """Killed before the switch is stored, or while waiting cases are decided anew."""
    with Desk.open(place, rules=RULES, secret=b"test") as desk:
        world = ready(desk).with_rules(quality_rate=0.2, raised_rate=0.2)
        waiting = [shadowed(f"w{i}") for i in range(1_500)]
        world.send(*waiting)
        tokens = {role: world.token(role, role) for role in ("api", "manager")}
        server = Server(place, free_port())
        server.wait()
        acknowledged: dict[str, str | None] = {}
        stop, was_behind = threading.Event(), []

        def sender():
            number = 0
            with DeskClient(server.address, tokens["api"], attempts=1) as client:
                while not stop.is_set():
                    batch = [shadowed(f"n{number + i}") for i in range(10)]
                    known = [each for each in client.send_many(batch) if each.is_acknowledged]
                    acknowledged.update((each.key, each.label) for each in known)
                    number += 5  # half of every batch is sent twice
                    time.sleep(0.05)

        def press(share):
            """Ask for a share; return None if the server was killed meanwhile."""
            headers = {"Authorization": f"Bearer {tokens['manager']}"}
            path = f"{server.address}/api/challengers/B/adopt"
            with contextlib.suppress(httpx.HTTPError):
                return httpx.post(path, headers=headers, json={"share": share}, timeout=300)

        def killed_at(share, moment):
            pressed = threading.Thread(target=press, args=(share,))
            pressed.start()
            moment(pressed)
            server.kill()
            pressed.join()
            was_behind.append(bool(behind(desk)))
            server.start()
            server.wait()

        def at_work(pressed):
            wait_until(lambda: behind(desk) or not pressed.is_alive())

        def manager():
            delay = random.Random(2).uniform(0, 0.2)
            try:
                for share, moment in (
                    (0.4, at_work),
                    (0.7, lambda _: time.sleep(delay)),
                    (1, at_work),
                ):
                    killed_at(share, moment)
                    again = press(share)  # it was stored before the kill, or is now
                    assert again.status_code in (200, 409), again.text
                    wait_until(lambda: not behind(desk))
            finally:
                stop.set()

        try:
            together(sender, manager)
        except BaseException:
            server.kill()
            raise
        server.end()
        assert any(was_behind), "no kill came while waiting cases were decided"
        check_all(desk)
        model = desk.read(find_challenger, "B")
        assert model.share == 1
        assert desk.read(trial_policy) is None
        anew = world.rows(select(decisions).where(decisions.c.kind == "anew"))
        assert {row.case_id for row in anew} >= {world.case(c["key"]).id for c in waiting[::50]}
        assert acknowledged.keys() <= {row.key for row in world.rows(select(cases.c.key))}
        again = [read_case(shadowed(key)) for key in list(acknowledged)]
        for outcome in desk.write(receive, again):
            assert outcome.label == acknowledged[outcome.key], "the first answer stands"


# ------------------------------------------------------------------ at once


def at_once(monkeypatch, *works) -> list:
    """Run works that all look before one of them acts, if the desk lets them; return what came."""
    all_looked = threading.Barrier(len(works))
    called = challengers._check

    def look_together(*args):
        with contextlib.suppress(threading.BrokenBarrierError):
            all_looked.wait(timeout=0.5)
        return called(*args)

    monkeypatch.setattr(challengers, "_check", look_together)
    with ThreadPoolExecutor(len(works)) as threads:
        futures = [threads.submit(work) for work in works]
    return [future.exception() or future.result() for future in futures]


@pytest.mark.slow
def test_of_two_managers_who_adopt_at_once_one_wins(place, short_pilot, monkeypatch):
    """Each at a server of their own, with connections of its own."""
    with (
        Desk.open(place, rules=RULES, secret=b"test") as mine,
        Desk.open(place) as other,
    ):
        world = ready(mine, models=("B", "C"))
        max_, mia = (mine.acting(world.user("max", "manager")), other.acting(world.user("mia")))
        rivals = [
            # what each of them presses, and what is said to who comes second
            (("B", 0.1), ("B", 0.5), "somebody was faster"),
            (("B", 0.2), ("C", 0.2), "is on trial"),
            (("B", 0.3), ("B", 0.3), "somebody was faster"),
            (("B", 1), ("B", 0.5), "somebody was faster"),
        ]
        for one, two, refusal in rivals:
            said = at_once(
                monkeypatch,
                lambda one=one: max_.write(adopt, *one, seen=0.0),
                lambda two=two: mia.write(adopt, *two, seen=0.0),
            )
            refused = [each for each in said if isinstance(each, DeskRefusedError)]
            assert [each.code for each in refused] == ["conflict"], said
            assert refusal in str(refused[0])
            (winner,) = [
                which for which, each in zip((one, two), said, strict=True) if each not in refused
            ]
            assert mine.read(find_challenger, winner[0]).share == winner[1]
            decide_all_waiting(other)
            check_all(mine)
            mine.write(adopt, winner[0], 0)
        assert mine.read(trial_policy) is None
        assert mine.read(active_policy).document == policy_text(model_name="A")
        check_all(mine)


@pytest.mark.slow
def test_a_model_is_adopted_while_another_policy_is_activated(place, short_pilot, monkeypatch):
    """Both orders are possible, and in both one policy is active."""
    with Desk.open(place, rules=RULES, secret=b"test") as mine, Desk.open(place) as other:
        world = ready(mine)
        world.send(*(shadowed(f"w{i}") for i in range(50)))
        draft = mine.write(add_policy, policy_text(model_name="A"))
        said = at_once(
            monkeypatch,
            lambda: mine.write(adopt, "B", 1),
            lambda: other.write(activate, draft),
            lambda: decide_all_waiting(other),
        )
        assert not [each for each in said if isinstance(each, Exception)], said
        decide_all_waiting(mine)
        states = {row.id: row.state for row in world.rows(select(policies))}
        assert [*states.values()].count("active") == 1
        assert states[1] == "withdrawn"
        check_all(mine)


# ------------------------------------------------------------------ by luck

N_DESKS, N_LOOKS, AT_ONCE = 160, 10, 60
PROMISED, ALPHA = 0.95, 0.05
LIMIT = ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / N_DESKS)


class Batch(NamedTuple):
    """Cases: whether A and B accept each, whether B errs, whether an expert has read it."""

    now: np.ndarray
    then: np.ndarray
    wrong: np.ndarray
    read: np.ndarray


def store_read_cases(transaction, rng, n: int, error: float, gained: float) -> Batch:
    """Store cases as intake and readers leave them, many at once.

    A decides half of them, of which half are audited; experts read all others. B accepts seven in
    ten of what A decides and the share `gained` of what A delegates; of what it does not accept, it
    errs in half.
    """
    now, draw = rng.random(n) < 0.5, rng.random(n)
    then = rng.random(n) < np.where(now, 0.7, gained)
    wrong = rng.random(n) < np.where(then, error, 0.5)
    read = ~now | (draw < 0.5)
    numbers, project = transaction.new_ids(cases, n), {"project_id": transaction.project.id}
    case = {"digest": "", "cause": "", "due": 0, "rate": 0.5, "model": "A", **project}
    case |= {"policy_id": active_policy(transaction).id, "received": transaction.now}
    answer = {"model": "B", "classes": classes_digest(("cat", "dog")), "predicted": "cat"}
    answer |= {"blind": True, "received": transaction.now, **project}
    decision = {"version": 1, "kind": "expert", "made": transaction.now}
    each = list(zip(numbers, now.tolist(), then.tolist(), wrong.tolist(), strict=True))
    rows = {
        cases: [
            {**case, "id": i, "key": str(i), "accepted": a, "draw": u, "state": state}
            for (i, a, *_), u, state in zip(
                each, draw.tolist(), np.where(read, "closed", "auto").tolist(), strict=True
            )
        ],
        shadows: [{**answer, "case_id": i, "confidence": 0.5 + 0.4 * b} for i, _, b, _ in each],
        decisions: [
            {**decision, "case_id": i, "label": "dog" if x else "cat"}
            for (i, _, _, x), is_read in zip(each, read.tolist(), strict=True)
            if is_read
        ],
    }
    for table, its in rows.items():
        transaction.connection.execute(insert(table), its)
    return Batch(now, then, wrong, read)


def says_switch_naively(batch: Batch) -> bool:
    """Whether tests for one look, made again after every case, both reject at one of them."""
    counted = batch.then & batch.read
    errors = (counted & batch.wrong).cumsum()
    keeps = binom.cdf(errors, counted.cumsum(), 1 - PROMISED) <= ALPHA
    differ, gains = batch.now != batch.then, batch.then & ~batch.now
    saves = binom.sf(gains.cumsum() - 1, differ.cumsum(), 0.5) <= ALPHA
    return bool((keeps & saves).any())


def switches(place, *, error: float, gained: float) -> tuple[float, float]:
    """The shares of small desks that ever say "may switch": by their evidence, and naively."""
    found = []
    with Desk.open(place, rules=RULES) as first:
        for number in range(N_DESKS):
            rng = np.random.default_rng([5, number])
            desk = Desk(first.database, project=f"desk {number}", rules=RULES)
            desk.write(activate, desk.write(add_policy, policy_text(model_name="A")))
            desk.write(store_read_cases, rng, challengers.PILOT, error, gained)
            batches, may_switch = [], False
            for _ in range(N_LOOKS):
                batches.append(desk.write(store_read_cases, rng, AT_ONCE, error, gained))
                may_switch = may_switch or desk.read(find_challenger, "B").may_switch
            seen = Batch(*map(np.concatenate, zip(*batches, strict=True)))
            found.append((may_switch, says_switch_naively(seen)))
    by_evidence, naively = np.mean(found, axis=0)
    return float(by_evidence), float(naively)


@pytest.mark.simulation
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("error", "gained"),
    [
        pytest.param(1 - PROMISED, 0.9, id="errs as often as it may"),
        pytest.param(0.0, 0.3, id="saves nothing"),
    ],
)
def test_desks_hardly_ever_let_a_model_take_over_by_luck(place, short_pilot, error, gained):
    """Both nulls at their edge; the naive way of looking again and again is the control."""
    by_evidence, naively = switches(place, error=error, gained=gained)
    assert by_evidence <= LIMIT < naively


@pytest.mark.simulation
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_desks_let_a_good_model_take_over(place, short_pilot, monkeypatch):
    monkeypatch.setattr("tests.desk.test_switches.N_DESKS", 20)
    by_evidence, _ = switches(place, error=0.0, gained=0.9)
    assert by_evidence == 1
