"""The promises of the desk, checked on its tables from outside: slow, plain, and complete."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest
from sqlalchemy import select

from expertload.desk.intake.routing import read_policy
from expertload.desk.intake.sampling import draw
from expertload.desk.store.tables import (
    answers,
    cases,
    counters,
    decisions,
    monitors,
    policies,
    projects,
    readings,
    shadows,
    users,
)
from expertload.desk.trail.chain import verify
from expertload.desk.trail.export import export_bytes
from expertload.desk.watch.readers import readers_of
from expertload.desk.watch.recertify import blind_labels
from expertload.monitoring import evidence_path

OPEN = ("waiting", "disputed")


def check_all(desk) -> None:
    """Check every invariant that the tables can show."""
    tables = desk.database.read(
        lambda c: {
            table.name: c.execute(select(table)).all()
            for table in (
                answers,
                cases,
                counters,
                decisions,
                monitors,
                policies,
                projects,
                readings,
                shadows,
                users,
            )
        }
    )
    by_case = defaultdict(list)
    for reading in tables["readings"]:
        by_case[reading.case_id].append(reading)
    check_open_cases(tables, by_case)
    check_decisions(tables)
    check_policy_times(tables)
    check_shadows(tables)
    check_readers(tables, by_case)
    check_sample(tables, by_case)
    check_golden(desk, tables)
    check_readers_figures(desk, tables, by_case)
    check_counters(tables)
    check_monitors(tables, by_case)
    verdict = desk.read(verify)
    assert verdict.is_intact, verdict.problems


def check_open_cases(tables, by_case) -> None:
    """1: every case exists once; every open one has an open reading."""
    keys = [(case.project_id, case.key) for case in tables["cases"]]
    assert len(keys) == len(set(keys))
    for case in tables["cases"]:
        is_open = [r for r in by_case[case.id] if r.state in ("waiting", "leased")]
        if case.state in OPEN:
            assert len(is_open) == 1, f"{case.key} is {case.state} with {len(is_open)} readings"
        if case.state in ("closed", "void"):
            assert not is_open, f"{case.key} is {case.state} and still to be read"
        # of a golden case, a reader may undo while the next one reads
        assert len(is_open) <= 1 + (case.state == "golden")


def check_decisions(tables) -> None:
    """2: one live decision, and a chain of those it supersedes."""
    chains = defaultdict(list)
    for decision in sorted(tables["decisions"], key=lambda d: d.version):
        chains[decision.case_id].append(decision)
    states = {case.id: case.state for case in tables["cases"]}
    for case, chain in chains.items():
        assert [d.version for d in chain] == list(range(1, len(chain) + 1))
        assert [d.supersedes for d in chain] == [None, *(d.id for d in chain[:-1])]
        assert all(d.kind != "auto" for d in chain[1:])
        if states[case] in ("auto", "closed"):
            assert chain[-1].label is not None
    for case, state in states.items():
        assert state not in ("auto", "closed") or chains[case]


def check_policy_times(tables) -> None:
    """3: no automatic decision outside its policy's time."""
    lives = {policy.id: policy for policy in tables["policies"]}
    for decision in tables["decisions"]:
        if decision.kind in ("auto", "anew"):
            policy = lives[decision.policy_id]
            assert policy.activated <= decision.made
            assert policy.withdrawn is None or decision.made <= policy.withdrawn
        else:
            assert decision.policy_id is None
    for state in ("active", "trial"):
        deciding = [p.project_id for p in tables["policies"] if p.state == state]
        assert len(deciding) == len(set(deciding))


def check_shadows(tables) -> None:
    """A case is decided by the answer of its policy's model; shadows decide nothing."""
    models = {policy.id: read_policy(policy.document).model for policy in tables["policies"]}
    shadows_of = defaultdict(set)
    for shadow in tables["shadows"]:
        assert shadow.model not in shadows_of[shadow.case_id]
        shadows_of[shadow.case_id].add(shadow.model)
    automatic = {d.case_id: d for d in tables["decisions"] if d.kind in ("auto", "anew")}
    assert len(automatic) == sum(d.kind in ("auto", "anew") for d in tables["decisions"])
    for case in tables["cases"]:
        assert case.model not in shadows_of[case.id]
        if case.id in automatic:
            decision = automatic[case.id]
            assert (decision.policy_id, decision.label) == (case.policy_id, case.predicted)
            assert models[decision.policy_id] in (None, case.model)


def check_readers(tables, by_case) -> None:
    """4: one live lease a reader; the readers of a case are distinct people."""
    holders = [r.reader for r in tables["readings"] if r.state == "leased"]
    assert len(holders) == len(set(holders))
    assert all(r.lease for r in tables["readings"] if r.state == "leased")
    for case, its in by_case.items():
        people = [r.reader for r in its if r.state in ("leased", "done")]
        assert len(people) == len(set(people)), f"case {case} was read twice by one person"
    given = {a.id: a for a in tables["answers"]}
    for reading in tables["readings"]:
        assert (reading.state == "done") == (reading.answer_id is not None)
        if reading.answer_id is not None:
            first = corrected_first(given, reading.answer_id)
            assert (first.reader, first.standing) == (reading.reader, "counted")
    superseded = [a.supersedes for a in tables["answers"] if a.supersedes is not None]
    assert len(superseded) == len(set(superseded)), "an answer was corrected twice"
    current = {r.answer_id for r in tables["readings"]}
    assert not current & set(superseded), "a corrected answer still counts"
    for answer in tables["answers"]:
        assert (answer.standing == "correction") == (answer.supersedes is not None)
        assert (answer.standing == "correction") == bool(answer.reason)
    submissions = [(a.reader, a.submission) for a in tables["answers"]]
    assert len(submissions) == len(set(submissions))


def corrected_first(given, number):
    """The answer at the beginning of a chain of corrections."""
    while given[number].supersedes is not None:
        assert given[number].reading_id == given[given[number].supersedes].reading_id
        number = given[number].supersedes
    return given[number]


def check_golden(desk, tables) -> None:
    """Golden cases are neither decided, nor counted, nor used to certify or to train."""
    golden = {case.id: case for case in tables["cases"] if case.truth is not None}
    assert {case.state for case in golden.values()} <= {"golden", "void"}
    assert not [d for d in tables["decisions"] if d.case_id in golden]
    assert not [c for c in golden.values() if c.audit is not None or c.policy_id is not None]
    keys = {case.key for case in golden.values()}
    assert not keys & {case.key for case in desk.read(blind_labels).cases}
    for which in ("all", "labelled", "audited"):
        lines = b"".join(export_bytes(desk, "jsonl", which=which)).splitlines()
        exported = {json.loads(line)["key"] for line in lines}
        assert not keys & exported


def check_readers_figures(desk, tables, by_case) -> None:
    """Readers' figures are a recount from the answers."""
    live = {d.case_id: d.label for d in sorted(tables["decisions"], key=lambda d: d.version)}
    right, known = defaultdict(int), defaultdict(int)
    for case in tables["cases"]:
        if case.state not in ("golden", "closed") or case.accepted:
            continue
        truth = case.truth if case.state == "golden" else live[case.id]
        done = [r for r in by_case[case.id] if r.state == "done"]
        twice = {r.root for r in done if r.why == "second"}
        for reading in done:
            if reading.why == "golden" or (
                reading.why in ("delegated", "second") and reading.root in twice
            ):
                own = [
                    a
                    for a in tables["answers"]
                    if (a.reading_id, a.reader) == (reading.id, reading.reader)
                    and a.standing != "late"
                ]
                known[reading.reader] += 1
                right[reading.reader] += max(own, key=lambda a: a.id).label == truth
    names = {user.id: user.name for user in tables["users"]}
    said = {each["name"]: each for each in desk.read(readers_of)}
    for user, n in known.items():
        assert said[names[user]]["known"] == n
        if n >= 10:
            assert said[names[user]]["accuracy"] == right[user] / n
    assert sum(each["known"] for each in said.values()) == sum(known.values())


def check_sample(tables, by_case) -> None:
    """5: who is in the quality sample recomputes from the secret, the key and the rate."""
    names = {project.id: project for project in tables["projects"]}
    for case in tables["cases"]:
        project = names[case.project_id]
        u = draw(project.secret, "quality", project.name, case.key)
        assert u == case.draw
        assert (case.audit is not None) == (case.accepted and u < case.rate)
        if case.state == "auto":
            read = [r for r in by_case[case.id] if r.why == "quality"]
            assert len(read) == (u < case.rate)


def check_counters(tables) -> None:
    """Counters are what a count gives."""
    said = defaultdict(int)
    for row in tables["counters"]:
        said[row.name] += row.value
    for table in ("cases", "readings", "policies"):
        states = defaultdict(int)
        for row in tables[table]:
            states[f"{table}.{row.state}"] += 1
        assert {k: v for k, v in said.items() if k.startswith(f"{table}.") and v} == dict(states)
    assert said["received"] == sum(case.truth is None for case in tables["cases"])
    assert said["decided"] == sum(d.kind == "auto" for d in tables["decisions"])
    for standing in ("counted", "late"):
        n = sum(a.standing == standing for a in tables["answers"])
        assert said[f"answers.{standing}"] == n


def settled_label(case, its, given, second):
    """What the answers to a case say, told as people would: None while it is open."""
    rounds = defaultdict(list)
    why = {reading.id: reading.why for reading in its}
    for reading in sorted(its, key=lambda r: r.id):
        if reading.state == "done" and why[reading.root] != "reopened":
            rounds[reading.root].append((reading.why, given[reading.answer_id].label))
    for answers_of_round in rounds.values():
        if answers_of_round[-1][0] == "arbiter":
            return answers_of_round[-1][1]
        labels = [label for _, label in answers_of_round]
        if set(labels) != {case.predicted}:
            return None
        if len(labels) < 1 + second:
            return None
        return labels[0]
    return None


def slow_weight(case, its, label):
    """How much an audit counts: see `expertload.desk.watch.quality.audit_weight`."""
    weight = case.least / case.rate
    why = {reading.id: reading.why for reading in its}
    asked = {r.why for r in its if r.state == "done" and why[r.root] != "reopened"}
    if label is None or case.twice == 0 or "second" in asked:
        return weight
    return weight * case.twice * ("arbiter" in asked)


def check_monitors(tables, by_case) -> None:
    """8: the monitor is a recount from the answers."""
    given = {a.id: a for a in tables["answers"]}
    project = tables["projects"][0]
    for monitor in tables["monitors"]:
        audits, weights = [], []
        for case in sorted(tables["cases"], key=lambda c: c.id):
            if case.policy_id != monitor.policy_id or not case.accepted or case.draw >= case.rate:
                continue
            second = draw(project.secret, "second", project.name, case.key) < case.twice
            label = settled_label(case, by_case[case.id], given, second)
            audits.append(None if label is None else float(label == case.predicted))
            weights.append(slow_weight(case, by_case[case.id], label))
        if not any(audit is not None for audit in audits):
            continue  # it moves with answers
        settled = [(a, w) for a, w in zip(audits, weights, strict=True) if a is not None]
        assert monitor.errors == sum(a == 0 for a, _ in settled)
        assert monitor.counted == pytest.approx(sum(w for _, w in settled))
        assert monitor.counted_errors == pytest.approx(sum(w * (1 - a) for a, w in settled))
        if monitor.alarmed is None:
            # Cases that came after the last answer are open ones, which the monitor adds later.
            assert monitor.audited <= len(audits)
            assert monitor.audited - monitor.open == len(settled)
        elif not any(a.supersedes for a in tables["answers"]):  # an alarm stays
            right = [1.0 if a is None else a for a in audits]
            tiny = [max(w, 1e-12) for w in weights]
            assert evidence_path(right, target_accuracy=0.95, weight=tiny).max() >= 20
