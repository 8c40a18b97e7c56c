"""The state of the desk, and changes of its rules.

The state is read from counters, so that the cost does not grow with the backlog. It says how many
readers are needed (the Erlang C formula for queues), and warns if the expert load differs from what
the policy was certified with. A very different load means that other cases come in, or that another
model answers. That is a reason to look, and has no other effect: only labels tell whether decisions
are right.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from scipy.special import gammaln, pdtr, xlogy
from sqlalchemy import ColumnElement, exists, func, select

from expertload.desk.intake.case import CONTROL
from expertload.desk.intake.golden import PEOPLE
from expertload.desk.intake.receiving import deciders_of
from expertload.desk.intake.routing import OF_NO_MODEL, read_policy
from expertload.desk.settings import Rules
from expertload.desk.store.database import HOUR, Transaction
from expertload.desk.store.tables import (
    answers,
    cases,
    counters,
    in_state,
    monitors,
    policies,
    projects,
    readings,
    seals,
)
from expertload.desk.trail.training import check_nothing_trained
from expertload.desk.watch.policies import active_policy
from expertload.desk.watch.quality import recount
from expertload.desk.watch.readers import second_readings, whole_accuracy
from expertload.exceptions import DeskRefusedError
from expertload.monitoring import LoadMonitor
from expertload.monitoring.load import is_about_clusters

MOST_LOOKED_AT = 500
HOURS = 24  # that tell how many readers are needed
MOST_READERS = 100_000
LONG_WAIT, FEW_WAITING = 60.0, 0.2  # at most this share of readings waits so many seconds
LATEST_CASES = 2_000
FEWEST_CASES = 100


def _counters(transaction: Transaction, which: ColumnElement[bool]) -> Counter[str]:
    """Return the counters of which a condition holds; others are 0."""
    name, n = counters.c.name, func.sum(counters.c.value)
    query = select(name, n).where(transaction.in_project(counters), which).group_by(name)
    return Counter({counter: int(value) for counter, value in transaction.all(query)})


def state_of(transaction: Transaction) -> dict[str, Any]:
    """Return counts, load, backlog, the policy and the state of its promise."""
    counts = _counters(transaction, counters.c.name.not_like("%@%"))
    received, decided = counts["received"], counts["decided"]
    policy, monitor = _policy(transaction), _monitor(transaction)
    second = second_readings(transaction)
    # Under the active policy; everything is delegated under none, and only the past has a load.
    of = "" if policy is None else f" by policy {policy['id']}"
    came, went = counts[f"received{of}"], counts[f"decided{of}"]
    load = (came - went) / came if came else None
    return {
        "project": transaction.project.name,
        "counts": {
            "received": received,
            "decided": decided,
            "delegated": received - decided,
            "closed": counts["cases.closed"],
            "answers": counts["answers.counted"],
            "late": counts["answers.late"],
            "skips": counts["skips"],
        },
        "load": load,
        "backlog": {
            "waiting": counts["readings.waiting"],
            "leased": counts["readings.leased"],
            "disputed": counts["cases.disputed"],
            "oldest_seconds": _oldest(transaction),
            "stuck": _stuck(transaction),
        },
        "sampling_rate": transaction.project.sampling_rate,
        "strict": transaction.project.rules.strict,
        "capacity": capacity_of(transaction),
        "shift": load_shift(transaction),
        "causes": causes_of(transaction),
        "policy": policy,
        "monitor": monitor,
        "whole": whole_accuracy(load, monitor, second),
        "second_readings": {"n": second.n, "agreed": second.agreed},
        "head": transaction.value(select(seals.c.sha256).order_by(seals.c.id.desc()).limit(1)),
    }


def _oldest(transaction: Transaction) -> float:
    """Return the age of the oldest reading that waits; others may be due before it."""
    waiting = transaction.in_project(readings), in_state(readings, "waiting")
    created = transaction.value(select(func.min(readings.c.created)).where(*waiting))
    return 0.0 if created is None else max(0, transaction.now - created) / 1e6


def _stuck(transaction: Transaction) -> int:
    """Return how many of the readings that are due first nobody may take.

    A second reading needs somebody who has not read the case, and a dispute needs an arbiter.
    Readings that nobody may take stay in the queue, so they end up at its front. Looking only there
    is enough, and costs the same however long the queue is.
    """
    looked_at = {"project": transaction.project.id, "now": transaction.now, "most": MOST_LOOKED_AT}
    ((n,),) = transaction.rows(_STUCK, **looked_at)
    return int(n)


_STUCK = f"""
    WITH people AS ({PEOPLE})
    SELECT count(*) FROM (
      SELECT r.case_id, r.why, r.barred FROM readings AS r
      WHERE r.project_id = :project AND r.state = 'waiting'
      ORDER BY r.due, r.id LIMIT :most
    ) AS head
    WHERE head.why <> 'golden' AND NOT EXISTS (
      SELECT 1 FROM people
      WHERE (people.role = 'arbiter' OR head.why <> 'arbiter')
        AND (head.barred IS NULL OR head.barred <> people.id)
        AND NOT EXISTS (
          SELECT 1 FROM readings AS theirs
          WHERE theirs.case_id = head.case_id AND theirs.reader = people.id)
    )
"""


def _policy(transaction: Transaction) -> dict[str, Any] | None:
    row = active_policy(transaction)
    if row is None:
        return None
    point = read_policy(row.document).point
    return {
        "id": row.id,
        "target_accuracy": point.target_accuracy,
        "expert_load": point.expert_load,
        "activated": row.activated / 1e6,
    }


def _monitor(transaction: Transaction) -> dict[str, Any] | None:
    """Return the monitor of the active policy, or else of the latest one."""
    is_active = exists().where(policies.c.id == monitors.c.policy_id, in_state(policies, "active"))
    row = transaction.first(
        select(monitors)
        .where(transaction.in_project(monitors))
        .order_by(is_active.desc(), monitors.c.id.desc())
        .limit(1)
    )
    if row is None:
        return None
    return {
        "policy": row.policy_id,
        "state": row.state,
        "evidence": row.evidence,
        "alarm_at": 1 / transaction.project.rules.alarm_level,
        "audited": row.audited,
        "errors": row.errors,
        # A monitor that an older version wrote has no weights: there, every audit counted 1.
        "counted": row.audited - row.open if row.counted is None else row.counted,
        "counted_errors": row.errors if row.counted is None else row.counted_errors,
        "open": row.open,
        "bound": row.bound,
        "alarmed": None if row.alarmed is None else row.alarmed / 1e6,
    }


# ------------------------------------------------------------------ how many readers are needed


def waiting_probability(readers: int, load: float) -> float:
    """Return the probability that a reading has to wait (Erlang C).

    Parameters
    ----------
    readers : int
        How many work at the same time.
    load : float
        Arrivals per hour times hours per reading. From `readers` on, every reading waits.
    """
    if load >= readers:
        return 1.0
    log_share = xlogy(readers, load) - load - gammaln(readers + 1)
    blocked = math.exp(log_share) / float(pdtr(readers, load))  # Erlang B, by the Poisson law
    return blocked / (1 - load / readers * (1 - blocked))


def readers_needed(arrivals_an_hour: float, seconds_a_reading: float) -> int:
    """Return the smallest number of readers with which few readings wait for long.

    Parameters
    ----------
    arrivals_an_hour, seconds_a_reading : float
        How many readings arrive, and how long one takes on average.
    """
    load = arrivals_an_hour * seconds_a_reading / 3_600
    if load <= 0:
        return 0
    readers = math.floor(load) + 1
    while readers < MOST_READERS:
        rate = (readers - load) / seconds_a_reading
        if waiting_probability(readers, load) * math.exp(-rate * LONG_WAIT) <= FEW_WAITING:
            break
        readers += 1
    return readers


def hourly_counts(transaction: Transaction, kind: str, hours: range) -> dict[int, int]:
    """Return the counters of a kind by the hour; hours without any are left out."""
    counts = _counters(transaction, counters.c.name.in_([f"{kind}@{hour}" for hour in hours]))
    return {int(name.partition("@")[2]): n for name, n in counts.items()}


def capacity_of(transaction: Transaction) -> dict[str, Any]:
    """Return how much work the last hours brought for experts, and how many readers it needs.

    Returns
    -------
    dict
        "readings_an_hour"; "seconds_a_reading", the mean, None until there are five answers;
        "hours_needed", the hours of work that arrive per hour; "readers_needed", with which at
        most one reading in five waits for a minute or longer.
    """
    this_hour = transaction.now // HOUR
    arrived = hourly_counts(transaction, "readings", range(this_hour - HOURS, this_hour + 1))
    first = min(arrived, default=this_hour)
    arrivals = sum(arrived.values()) / max((transaction.now - first * HOUR) / HOUR, 1.0)
    mean, n = transaction.connection.execute(
        select(func.avg(answers.c.seconds), func.count()).where(
            answers.c.standing == "counted", answers.c.given > transaction.now - HOURS * HOUR
        )
    ).one()
    seconds = float(mean) if n >= 5 and mean else None
    return {
        "readings_an_hour": arrivals,
        "seconds_a_reading": seconds,
        "hours_needed": None if seconds is None else arrivals * seconds / 3_600,
        "readers_needed": None if seconds is None else readers_needed(arrivals, seconds),
    }


# ------------------------------------------------------------------ has the load changed


def load_shift(transaction: Transaction) -> dict[str, Any] | None:
    """Compare the latest cases of the active policy with those it was certified on.

    Returns
    -------
    dict or None
        "expected" and "observed", the share delegated when the policy was certified and among
        the latest cases; "n_cases", how many these are; "warns", whether `LoadMonitor` finds a
        change in the first case of each cluster, and never for a policy about clusters: cases of
        one are alike, and would be taken for a change. None if no policy is active, or too few
        cases came.
    """
    policy = active_policy(transaction)
    if policy is None:
        return None
    rows = transaction.all(
        select(cases.c.id, cases.c.accepted, cases.c.cluster)
        # What came without the policy's model says nothing about the cases of that model.
        .where(cases.c.policy_id == policy.id, cases.c.cause.not_in(OF_NO_MODEL))
        .order_by(cases.c.received.desc())
        .limit(LATEST_CASES)
    )
    if len(rows) < FEWEST_CASES:
        return None
    first: dict[str | int, float] = {}
    for row in reversed(rows):  # the newest is the last
        first.setdefault(row.cluster or row.id, float(row.accepted))
    point = read_policy(policy.document).point
    # Whether the policy accepted a case is all that counts here, so that is the "confidence": the
    # groups of a policy have several thresholds, and some cases have no confidence.
    monitor = LoadMonitor(
        threshold=0.5,
        expected_load=point.expert_load,
        n_cases=int(point.n_cases),
        confidence_level=0.99,
    ).update([*first.values()])
    return {
        "expected": point.expert_load,
        "observed": 1 - sum(bool(row.accepted) for row in rows) / len(rows),
        "n_cases": len(rows),
        "warns": monitor.warns and not is_about_clusters(point),
    }


def causes_of(transaction: Transaction) -> dict[str, int]:
    """Return why the latest cases went to experts: how many for each cause, the most first."""
    latest = (
        select(cases.c.cause)
        .where(transaction.in_project(cases))
        .order_by(cases.c.received.desc())
        .limit(LATEST_CASES)
        .subquery()
    )
    n = func.count()
    delegated = select(latest.c.cause, n).where(latest.c.cause != "above_threshold")
    ordered = delegated.group_by(latest.c.cause).order_by(n.desc(), latest.c.cause)
    return {cause: int(count) for cause, count in transaction.all(ordered)}


# ------------------------------------------------------------------ rules


def edit_rules(transaction: Transaction, changes: dict[str, Any]) -> Rules:
    """Change some rules and keep the others; everything follows them at once. Return all rules."""
    transaction.require_alone()  # somebody else may change the others
    before = transaction.project
    rules = _changed(before.rules, changes)
    if rules.classes != before.rules.classes:
        _check_classes(transaction, rules.classes)
    if {"quality_rate", "raised_rate"} & changes.keys() and rules.raised_rate < rules.quality_rate:
        raise DeskRefusedError(
            "bad_rule",
            f"'raised_rate' is {rules.raised_rate:g}, below 'quality_rate' {rules.quality_rate:g}.",
            "after a warning, experts must not read less: change both in one command.",
        )
    if rules.certify_share != before.rules.certify_share:
        check_nothing_trained(transaction)
    is_new = rules.quality_rate != before.rules.quality_rate
    rate = rules.quality_rate if is_new else before.sampling_rate
    values = {"rules": rules.model_dump_json(), **({"sampling_rate": rate} if is_new else {})}
    transaction.update(projects, before.id, transaction.event("rules.changed"), **values)
    transaction.project = replace(before, rules=rules, sampling_rate=rate)
    if rules.alarm_level != before.rules.alarm_level:
        _judge_anew(transaction)
    return rules


def _changed(rules: Rules, changes: dict[str, Any]) -> Rules:
    """Return rules of which some are changed; refuse unknown names and wrong values."""
    if unknown := sorted(changes.keys() - Rules.model_fields.keys()):
        raise DeskRefusedError(
            "bad_rule",
            f"There is no rule '{unknown[0]}'.",
            f"choose one of {', '.join(Rules.model_fields)}.",
        )
    try:
        return Rules.model_validate({**rules.model_dump(), **changes})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        hint = "use a point: 0.1." if "," in str(first["input"]) else ""
        raise DeskRefusedError(
            "bad_rule", f"The rule '{name}' is not valid: {first['msg']}.", hint
        ) from error


def _check_classes(transaction: Transaction, names: tuple[str, ...]) -> None:
    """Refuse names that no model has, and names without one that a policy decides.

    An answer counts as right only if it has the same name.
    """
    if len(set(names)) < len(names) or not all(
        name.strip() == name != "" and not CONTROL.search(name) for name in names
    ):
        raise DeskRefusedError(
            "bad_rule",
            "'classes' must be different names, without blanks around them. "
            f"Got {', '.join(map(ascii, names))}.",
            "separate them by commas; 'classes=' takes those of the policy.",
        )
    for decider in deciders_of(transaction) if names else ():
        if missing := sorted({*decider.policy.classes} - {*names}):
            raise DeskRefusedError(
                "bad_rule",
                f"'classes' lack {', '.join(map(ascii, missing[:5]))} of policy {decider.id}.",
                "add what is missing; 'classes=' takes those of the policy.",
            )


def _judge_anew(transaction: Transaction) -> None:
    """Update the latest monitor, whose bound and alarm depend on the level."""
    has_audits = transaction.in_project(monitors), monitors.c.audited > 0
    latest = select(monitors.c.policy_id).where(*has_audits).order_by(monitors.c.id.desc())
    audited = transaction.value(latest.limit(1))
    if audited is not None:
        recount(transaction, audited)
