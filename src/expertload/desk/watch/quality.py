"""Checks the promise with blind labels, and acts if audits refute it.

Every settled audit updates the evidence, in the same transaction. Audits are counted in the order
in which their cases were decided. An open audit counts as right for the alarm and as wrong for the
bound, so nothing depends on how long readings take. Audits before the first open one do not change
any more. The capital after them is stored, so that an answer costs the same after a million others.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from sqlalchemy import func, select

from expertload.desk.intake.routing import read_policy
from expertload.desk.store.database import HOUR, AnyRow, Transaction
from expertload.desk.store.tables import cases, monitors, projects
from expertload.desk.trail.webhooks import announce
from expertload.desk.watch.policies import find_policy, withdraw
from expertload.monitoring import Capital, accuracy_bets, accuracy_lower_bound, advance, start
from expertload.monitoring.accuracy import WARNING_EVIDENCE
from expertload.monitoring.planning import DOUBTFUL_SHARE

# On PostgreSQL, transactions may commit in another order than their cases are numbered. So only
# audits that are older than any running transaction are stored as settled.
SETTLED_AFTER = HOUR
_AUDIT = [
    cases.c[name]
    for name in ("id", "audit", "received", "cluster", "rate", "least", "twice", "weight")
]
KNOWN_AFTER = 100  # decisions that show which are the least confident ones
MOST_EVIDENCE = 1e300  # JSON has no infinity


@dataclass
class _Counted:
    """What the audits that do not change any more come to."""

    after: int = 0  # the last of them
    count: int = 0
    errors: int = 0
    peak: float = 0.0
    stakes: list[float] = field(default_factory=list)
    weight: float = 0.0
    weighted_errors: float = 0.0


def audit_weight(audited: Any, whys: Sequence[str]) -> float:
    """Return how much an audit counts, so that audits stand for all automatic decisions.

    An agreement of the first reader with the model counts only where a second one was asked, for
    both may share a mistake. That happens to a share s of them, so a dispute, which an arbiter
    always settles, counts s. And doubtful decisions are audited more often, so each counts less.

    Parameters
    ----------
    audited : row
        A case: rate, least, twice (the share s).
    whys : sequence of str
        Why each of its answers was asked for; empty if the audit is open, which then counts as much
        as it can.
    """
    weight = 1.0 if audited.least is None else float(audited.least / audited.rate)
    if not audited.twice or not whys or "second" in whys:
        return weight
    return weight * float(audited.twice) if "arbiter" in whys else 0.0


def settle_audit(
    transaction: Transaction, audited: AnyRow, label: str | None, whys: Sequence[str]
) -> None:
    """Store what a blind label says about an automatic decision; None opens the audit again."""
    if audited.audit is None:
        return
    audit = "open" if label is None else "right" if label == audited.predicted else "wrong"
    event = transaction.event("audit.settled", case_id=audited.id)
    weight = None if label is None else audit_weight(audited, whys)
    transaction.update(cases, audited.id, event, audit=audit, weight=weight)
    recount(transaction, audited.policy_id, changed=audited.id)


def recount(transaction: Transaction, policy_id: int, *, changed: int | None = None) -> None:
    """Update a policy's monitor after an audit or a rule has changed, and act on the result."""
    policy = find_policy(transaction, policy_id)
    query = select(monitors).where(monitors.c.policy_id == policy_id).with_for_update()
    monitor = transaction.connection.execute(query).one()
    values = _values(transaction, policy, monitor, changed)
    transaction.update(monitors, monitor.id, transaction.event("monitor.moved"), **values)
    if values["state"] == "refuted":
        _alarm(transaction, policy, monitor, values["evidence"])
    elif values["evidence"] >= WARNING_EVIDENCE:
        _warn(transaction, policy)


def _values(
    transaction: Transaction, policy: AnyRow, monitor: AnyRow, changed: int | None
) -> dict[str, Any]:
    """Return the columns of a monitor, counted on from what it remembers."""
    target = read_policy(policy.document).point.target_accuracy
    alpha, bets = transaction.project.rules.alarm_level, accuracy_bets(target)
    kept = _remembered(monitor, changed)
    rows = later_audits(transaction, policy.id, kept.after)
    is_open = np.array([row.audit == "open" for row in rows], dtype=bool)
    errors = np.array([row.audit == "wrong" for row in rows], dtype=np.float64)
    weights = np.array([weight_of(row) for row in rows])
    n = _n_settled(rows, transaction.now)
    capital = Capital(kept.count, np.array(kept.stakes)) if kept.count else start(bets)
    settled, before = advance(capital, errors[:n], weights[:n], bets=bets, blocks=None)
    final, path = advance(settled, errors[n:], weights[n:], bets=bets, blocks=None)
    memory = _Counted(
        after=rows[n - 1].id if n else kept.after,
        count=int(settled.n_audits),
        errors=kept.errors + int(errors[:n].sum()),
        peak=max([kept.peak, *before.tolist()]),
        stakes=settled.stakes.tolist(),
        weight=kept.weight + float(weights[:n].sum()),
        weighted_errors=kept.weighted_errors + float((weights * errors)[:n].sum()),
    )
    counted = kept.weight + float(weights[~is_open].sum())
    counted_errors = kept.weighted_errors + float((weights * errors).sum())
    unknown = float(weights[is_open].sum())
    sums = [counted_errors + unknown], [counted + unknown]
    bound = float(accuracy_lower_bound(*sums, confidence_level=1 - alpha)[0])
    refuted = monitor.state == "refuted" or max([memory.peak, *path.tolist()]) >= 1 / alpha
    confirmed = final.n_audits > 0 and bound >= target
    known = monitor.doubtful
    return {
        "state": "refuted" if refuted else "confirmed" if confirmed else "not refuted",
        "evidence": min(float(final.evidence), MOST_EVIDENCE),
        "audited": int(final.n_audits),
        "errors": kept.errors + int(errors.sum()),
        "open": int(is_open.sum()),
        "bound": bound,
        "counted": counted,
        "counted_errors": counted_errors,
        "doubtful": _doubtful(transaction, policy.id) if known is None else known,
        "memory": json.dumps(asdict(memory)),
    }


def _remembered(monitor: AnyRow, changed: int | None) -> _Counted:
    """Return what a monitor has counted; nothing if that has changed, or has no weights yet."""
    memory = json.loads(monitor.memory)
    if memory.get("weight") is None or (changed is not None and changed <= memory["after"]):
        return _Counted()
    return _Counted(**memory)


def weight_of(row: AnyRow) -> float:
    """Return how much an audit counts; an open one as much as it can."""
    if row.audit == "open":
        return audit_weight(row, ())
    return 1.0 if row.weight is None else float(row.weight)


def _doubtful(transaction: Transaction, policy: int) -> float | None:
    """Return the confidence below which the least confident fifth lies, once that is known."""
    accepted = (cases.c.policy_id == policy, cases.c.accepted, cases.c.confidence.is_not(None))
    first = select(cases.c.confidence).where(*accepted).order_by(cases.c.id).limit(KNOWN_AFTER)
    confidences = transaction.values(first)
    if len(confidences) < KNOWN_AFTER:
        return None
    return float(np.quantile(confidences, DOUBTFUL_SHARE))


def drawn_audits(transaction: Transaction, policy: int) -> tuple[int, int]:
    """Return how many audits count, also those drawn since the last answer, and how many wait."""
    query = select(monitors).where(monitors.c.policy_id == policy)
    kept = _remembered(transaction.connection.execute(query).one(), None)
    rows = later_audits(transaction, policy, kept.after)
    return kept.count + len(rows), sum(row.audit == "open" for row in rows)


def later_audits(transaction: Transaction, policy: int, after: int) -> list[AnyRow]:
    """Return audits to count: of each cluster the first one, because others depend on it."""
    rows = transaction.all(
        select(*_AUDIT)
        .where(cases.c.policy_id == policy, cases.c.audit.is_not(None), cases.c.id > after)
        .order_by(cases.c.id)
    )
    named = {row.cluster for row in rows if row.cluster is not None}
    if not named:
        return rows
    first = dict(
        transaction.connection.execute(
            select(cases.c.cluster, func.min(cases.c.id))
            .where(cases.c.policy_id == policy, cases.c.audit.is_not(None))
            .where(cases.c.cluster.in_(named))
            .group_by(cases.c.cluster)
        ).all()
    )
    return [row for row in rows if first.get(row.cluster, row.id) == row.id]


def _n_settled(rows: list[AnyRow], now: int) -> int:
    """Return how many of the first audits are answered and old enough not to change."""
    for number, row in enumerate(rows):
        if row.audit == "open" or row.received > now - SETTLED_AFTER:
            return number
    return len(rows)


def _alarm(transaction: Transaction, policy: AnyRow, monitor: AnyRow, evidence: float) -> None:
    """Record the alarm, and withdraw the policy so that nothing is decided after it.

    The alarm of a policy that was replaced before is recorded too: late audits say what it decided.
    """
    if monitor.alarmed is not None:
        return
    if policy.state in ("active", "trial"):
        target = read_policy(policy.document).point.target_accuracy
        reason = f"alarm: audits refute an accuracy of {target:g} (evidence {evidence:.3g})"
        withdraw(transaction, policy.id, reason=reason)
    event = transaction.event("monitor.alarm")
    transaction.update(monitors, monitor.id, event, alarmed=transaction.now)
    announce(transaction, "monitor.alarm", {"policy": policy.id, "evidence": evidence})


def _warn(transaction: Transaction, policy: AnyRow) -> None:
    """Raise the share of cases that experts read; it depends on past cases, never on the next."""
    raised = transaction.project.rules.raised_rate
    if policy.state == "withdrawn" or transaction.project.sampling_rate >= raised:
        return
    event = transaction.event("monitor.warning")
    transaction.update(projects, transaction.project.id, event, sampling_rate=raised)
    announce(transaction, "monitor.warning", {"policy": policy.id, "sampling_rate": raised})
