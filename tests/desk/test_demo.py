"""The demo: real images, a certified policy, and an end that loses nothing."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from itertools import islice
from typing import NamedTuple

import httpx
import numpy as np
import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from expertload.cli.app import app
from expertload.desk import Desk
from expertload.desk.demo import DEMO_RULES, N_CASES, Round, play, prepare, train
from expertload.desk.intake.case import read_case
from expertload.desk.intake.receiving import receive
from expertload.desk.people.accounts import find_user, roles_of
from expertload.desk.people.sessions import peek_link
from expertload.desk.queue.answers import answer
from expertload.desk.queue.claims import claim
from expertload.desk.trail.chain import verify
from expertload.desk.watch.policies import find_policy
from expertload.desk.watch.state import state_of
from expertload.io import Identity, read_predictions
from tests.desk.people import Visitor


@pytest.fixture(scope="module")
def digits():
    return train()


@pytest.mark.slow
def test_the_promise_of_the_demo_is_certified_and_kept(digits):
    assert digits.point.is_certified
    assert 0.3 < digits.point.expert_load < 0.7, "much is left to learn"
    drawn = list(islice(digits.cases(run="t"), len(digits.images)))
    proba = np.array([list(case["probabilities"].values()) for case, _ in drawn])
    right = np.array([str(p.argmax()) == label for p, (_, label) in zip(proba, drawn, strict=True)])
    accepted = proba.max(axis=1) >= digits.point.threshold
    assert right[accepted].mean() >= 0.93
    assert right.mean() < 0.93, "without experts it would not do"


class Day(NamedTuple):
    """A day at the demo's desk, played to its end."""

    desk: Desk
    readers: list[int]
    played: list[Round]
    switches: list[str]
    state: dict


@pytest.fixture(scope="module")
def day(digits, tmp_path_factory):
    with Desk.open(tmp_path_factory.mktemp("demo"), rules=DEMO_RULES, secret=bytes(32)) as desk:
        _, readers = prepare(desk, digits)
        played = list(play(desk, digits, readers))
        kinds = [row.kind for row in desk.database.read(lambda c: c.execute(_SWITCHES).all())]
        yield Day(desk, readers, played, kinds, desk.read(state_of))


@pytest.mark.slow
def test_experts_answers_lower_the_load_and_the_promise_is_kept(day):
    """A second network learns from the answers, is confirmed in shadow, and takes over in steps."""
    played = day.played
    assert day.desk.read(verify).is_intact
    news = [each.news for each in played if each.news]
    assert [bool(re.search(what, line)) for what, line in zip(NEWS, news, strict=True)] == [
        True
    ] * 3
    begun = next(i for i, each in enumerate(played) if "100%" in each.news) + 1
    assert 0 < begun < len(played)
    before = np.mean([each.load for each in played[:10]])
    after = np.mean([each.load for each in played[begun:]])
    assert after < before - 0.15
    assert np.mean([each.right for each in played]) >= 0.95
    switched = ["policy.activated", "policy.activated", "policy.withdrawn", "policy.shared"]
    assert day.switches == switched
    began, first = (day.desk.database.read(lambda c, q=q: c.execute(q).scalar()) for q in _BEGAN)
    assert began <= first, "the first policy begins before the cases that it decides"
    assert day.state["monitor"]["state"] != "refuted"
    # What two readers agree on, against a sure model, waits for the visitor: an arbiter, too.
    waiting = day.desk.database.read(lambda c: c.execute(_WAITING).scalars().all())
    assert waiting in ([], ["arbiter"])
    assert day.state["backlog"]["waiting"] == len(waiting)


NEWS = ("learnt from", "may take over.* 30%", "may take over.* 100%")
_WAITING = text("SELECT why FROM readings WHERE state = 'waiting'")
_BEGAN = (
    text("SELECT min(activated) FROM policies"),
    text("SELECT min(received) FROM cases"),
)
_SWITCHES = text(
    "SELECT kind FROM events WHERE kind IN ('policy.activated', 'policy.withdrawn', "
    "'policy.shared') ORDER BY id"
)


@pytest.mark.slow
def test_its_drift_ends_in_the_withdrawal_of_the_policy(day):
    """After the day, images come mirrored, as `desk demo` sends them."""
    sent = list(islice(day.played[-1].digits.cases(run="d", first=N_CASES, drift_after=0), 300))
    truth = {case["key"]: label for case, label in sent}
    policy = day.state["policy"]["id"]
    for first in range(0, len(sent), 50):
        outcomes = day.desk.write(receive, [read_case(case) for case, _ in sent[first:][:50]])
        while any(day.desk.write(_read_one, reader, truth) for reader in day.readers):
            pass
    assert {outcome.status for outcome in outcomes} == {"delegated"}, "of the last fifty"
    state = day.desk.read(state_of)
    assert state["policy"] is None
    assert (state["monitor"]["policy"], state["monitor"]["state"]) == (policy, "refuted")
    row = day.desk.read(find_policy, policy)
    assert row.state == "withdrawn"
    assert row.reason.startswith("alarm: audits refute an accuracy of 0.95")
    assert day.desk.read(verify).is_intact


def _read_one(transaction, reader, truth):
    held = claim(transaction, reader, arbiter=True)
    if held is not None:
        answer(transaction, reader, held.lease, truth[held.key], held.lease[:60])
    return held is not None


def test_its_cases_are_cases(digits):
    for case, label in islice(digits.cases(run="t", drift_after=2), 4):
        read = read_case(case)
        assert read.key.startswith("t-")
        assert label in case["probabilities"]


def run(*arguments):
    done = CliRunner().invoke(app, ["desk", *arguments])
    assert done.exit_code == 0, done.output
    return done


def test_people_are_added_from_the_command_line(tmp_path):
    place = ["--data", str(tmp_path / "desk")]
    said = run("user", "add", "Ada", "--role", "reader", "--role", "arbiter", *place).output
    secret = re.search(r"http://127\.0\.0\.1:8765/welcome/(\S+)", said).group(1)
    again = run("user", "link", "Ada", *place, "--address", "https://desk.test/").output
    assert "https://desk.test/welcome/" in again
    with Desk.open(tmp_path / "desk") as desk:
        ada = desk.read(find_user, "Ada").id
        assert desk.read(roles_of, ada) == {"reader", "arbiter"}
        with pytest.raises(Exception, match="already used"):
            desk.read(peek_link, secret)
        newer = again.rpartition("/welcome/")[2].strip()
        assert desk.read(peek_link, newer).name == "Ada"
    run("user", "disable", "Ada", *place)
    assert CliRunner().invoke(app, ["desk", "user", "link", "Bob", *place]).exit_code != 0


@pytest.mark.parametrize("command", [["verify"], ["restore", "copy.sqlite"]])
@pytest.mark.parametrize(
    ("options", "variable", "got"),
    [([], "", "neither"), (["--data", "desk"], "postgresql://user@host/desk", "both")],
)
def test_a_command_is_for_one_desk(monkeypatch, command, options, variable, got):
    if variable:
        monkeypatch.setenv("EXPERTLOAD_DESK_DATABASE", variable)
    done = CliRunner().invoke(app, ["desk", *command, *options])
    assert done.exit_code != 0
    said = f"{done.output} {done.exception}"
    assert f"Got {got}" in said
    assert "EXPERTLOAD_DESK_DATABASE" in said


@pytest.mark.processes
def test_the_demo_runs_until_ctrl_c_and_what_was_reviewed_evaluates(tmp_path):
    folder = tmp_path / "desk"
    command = [sys.executable, "-u", "-m", "expertload", "desk", "demo", "--no-browser"]
    process = subprocess.Popen(
        [*command, "--data", str(folder), "--rate", "10"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        lines = iter(process.stdout.readline, "")
        link = next(line for line in lines if "/welcome/" in line).split()[-1]
        address, _, secret = link.partition("/welcome/")
        with Visitor(address) as client:
            _wait_for(client, "/healthz")
            assert client.form(f"/welcome/{secret}").status_code == 303
            _review_some(client, 12)
            assert "was promised" in client.get("/manage").text
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    assert "decided automatically" in said
    assert errors == ""
    with Desk.open(folder) as desk:
        assert desk.read(state_of)["counts"]["answers"] >= 12
    file = tmp_path / "reviewed.csv"
    run("export", str(file), "--data", str(folder), "--cases", "labelled")
    # What disagrees with the model waits for an arbiter; what was delegated has its label.
    labelled = read_predictions(file, identity=Identity(model="none"))
    assert len(labelled.y_true) == len(file.read_text().splitlines()) - 1 >= 1


def _wait_for(client, path):
    for _ in range(200):
        with contextlib.suppress(httpx.TransportError):
            if client.get(path).status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError("the demo does not answer")


def _review_some(client, n):
    for _ in range(400):
        page = client.get("/review").text
        lease = re.search(r'name="lease" value="([^"]*)"', page)
        if lease is None:
            client.form("/review/next")
            time.sleep(0.1)
            continue
        submission = re.search(r'id="answer".*?name="submission" value="([^"]*)"', page, re.S)
        fields = {"lease": lease.group(1), "submission": submission.group(1)}
        assert client.form("/review/answer", **fields, label="3").status_code == 303
        n -= 1
        if not n:
            return
    raise AssertionError("no case came")
