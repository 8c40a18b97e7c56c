"""Checks the promise: every settled audit updates the evidence, in the same transaction.

Audits are counted in the order in which their cases were decided. An open audit counts as right for
the alarm and as wrong for the bound, so nothing depends on how long readings take. Audits before
the first open one do not change any more. The capital after them is stored, so that an answer costs
the same after a million others.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlalchemy import select

from expertload.desk.intake import read_policy
from expertload.desk.store import AnyRow, Transaction
from expertload.desk.store.tables import cases, monitors, projects
from expertload.desk.trail import announce
from expertload.desk.watch.policies import find_policy, withdraw

__all__ = ["recount", "settle_audit"]

# On PostgreSQL, transactions may commit in another order than their cases are numbered. So only
# audits that are older than any running transaction are stored as settled.
SETTLED_AFTER = 3_600_000_000
# Odds of five to one against the promise: no alarm, but a reason to read more.
WARNING_EVIDENCE = 5.0
MOST_EVIDENCE = 1e300  # JSON has no infinity


@dataclass
class _Capital:
    """The betting capital after the last audit that does not change any more."""

    after: int = 0
    count: int = 0
    errors: int = 0
    peak: float = 0.0
    stakes: list[float] = field(default_factory=list)


def settle_audit(transaction: Transaction, case: AnyRow, label: str | None) -> None:
    """Store what a blind label says about an automatic decision; None opens the audit again."""
    if case.audit is None:
        return
    audit = "open" if label is None else "right" if label == case.predicted else "wrong"
    event = transaction.event("audit.settled", case_id=case.id)
    transaction.update(cases, case.id, event, audit=audit)
    recount(transaction, case.policy_id, changed=case.id)


def recount(transaction: Transaction, policy_id: int, *, changed: int | None = None) -> None:
    """Update a policy's monitor after an audit or a rule has changed, and act on the result."""
    policy = find_policy(transaction, policy_id)
    query = select(monitors).where(monitors.c.policy_id == policy_id)
    if transaction.connection.dialect.name == "postgresql":
        query = query.with_for_update()
    monitor = transaction.connection.execute(query).one()
    values = _values(transaction, policy, monitor, changed)
    event = transaction.event("monitor.moved")
    transaction.update(monitors, monitor.id, event, **values)
    if values["state"] == "refuted":
        _alarm(transaction, policy, monitor, values["evidence"])
    elif values["evidence"] >= WARNING_EVIDENCE:
        _warn(transaction, policy)


def _values(
    transaction: Transaction, policy: AnyRow, monitor: AnyRow, changed: int | None
) -> dict[str, Any]:
    from expertload.monitoring import accuracy_lower_bound
    from expertload.monitoring.capital import accuracy_bets
    from expertload.monitoring.restarts import Capital, advance, start

    target = read_policy(policy.document).point.target_accuracy
    kept = _Capital(**json.loads(monitor.memory))
    if changed is not None and changed <= kept.after:
        # an audit that was stored as settled: count from the beginning
        kept = _Capital()
    rows = _later_audits(transaction, policy.id, kept.after)
    bets = accuracy_bets(target)
    capital = Capital(kept.count, np.array(kept.stakes)) if kept.count else start(bets)
    errors = np.array([row.audit == "wrong" for row in rows], dtype=np.float64)
    settled = _n_settled(rows, transaction.now)
    capital, before = advance(capital, errors[:settled], np.ones(settled), bets=bets, blocks=None)
    memory = _Capital(
        after=rows[settled - 1].id if settled else kept.after,
        count=int(capital.n_audits),
        errors=kept.errors + int(errors[:settled].sum()),
        peak=max([kept.peak, *before.tolist()]),
        stakes=[float(stake) for stake in capital.stakes],
    )
    rest = errors[settled:]
    final, path = advance(capital, rest, np.ones(len(rest)), bets=bets, blocks=None)
    wrong, n_open = memory.errors + int(rest.sum()), sum(row.audit == "open" for row in rows)
    alpha = transaction.project.rules.alarm_level
    total = int(final.n_audits)
    bound = accuracy_lower_bound([wrong + n_open], [total], confidence_level=1 - alpha)
    refuted = monitor.state == "refuted" or max([memory.peak, *path.tolist()]) >= 1 / alpha
    confirmed = total > 0 and float(bound[0]) >= target
    return {
        "state": "refuted" if refuted else "confirmed" if confirmed else "not refuted",
        "evidence": min(float(final.evidence), MOST_EVIDENCE),
        "audited": total,
        "errors": wrong,
        "open": n_open,
        "bound": float(bound[0]),
        "memory": json.dumps(memory.__dict__),
    }


def _later_audits(transaction: Transaction, policy: int, after: int) -> list[AnyRow]:
    return list(
        transaction.connection.execute(
            select(cases.c.id, cases.c.audit, cases.c.received)
            .where(cases.c.policy_id == policy, cases.c.audit.is_not(None), cases.c.id > after)
            .order_by(cases.c.id)
        ).all()
    )


def _n_settled(rows: list[AnyRow], now: int) -> int:
    """Return how many of the first audits are answered and old enough not to change."""
    for number, row in enumerate(rows):
        if row.audit == "open" or row.received > now - SETTLED_AFTER:
            return number
    return len(rows)


def _alarm(transaction: Transaction, policy: AnyRow, monitor: AnyRow, evidence: float) -> None:
    """Withdraw the policy in this transaction, so that nothing is decided after the alarm."""
    if policy.state != "active":
        return
    target = read_policy(policy.document).point.target_accuracy
    reason = f"alarm: audits refute an accuracy of {target:g} (evidence {evidence:.3g})"
    withdraw(transaction, policy.id, reason=reason)
    event = transaction.event("monitor.alarm")
    transaction.update(monitors, monitor.id, event, alarmed=transaction.now)
    announce(transaction, "monitor.alarm", {"policy": policy.id, "evidence": evidence})


def _warn(transaction: Transaction, policy: AnyRow) -> None:
    """Raise the share of cases that experts read; it depends on past cases, never on the next."""
    raised = transaction.project.rules.raised_rate
    if policy.state != "active" or transaction.project.sampling_rate >= raised:
        return
    event = transaction.event("monitor.warning")
    transaction.update(projects, transaction.project.id, event, sampling_rate=raised)
    announce(transaction, "monitor.warning", {"policy": policy.id, "sampling_rate": raised})
