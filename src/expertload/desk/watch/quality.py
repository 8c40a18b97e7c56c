"""Checks the promise with blind labels, and certifies new policies from them.

Every settled audit updates the evidence, in the same transaction. Audits are counted in the order
in which their cases were decided. An open audit counts as right for the alarm and as wrong for the
bound, so nothing depends on how long readings take. Audits before the first open one do not change
any more. The capital after them is stored, so that an answer costs the same after a million others.

To certify a new policy, all labels must have been drawn with the same probability. Delegated cases
have labels because the model was unsure of them, so certifying on all labels would mean certifying
on hard cases. But a case whose draw u is below q, the smallest rate of a period, was labelled
whatever the policy decided. These cases are a fair sample of all that came in. Those of them that
are set apart certify (`is_set_apart`), because the others may have taught the model. Cases counted
by a monitor that raised the alarm are left out: using them after the alarm would mean selecting
cases by their labels.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Column, ColumnElement, Select, case, exists, func, literal, select

from expertload.desk.intake.routing import read_policy
from expertload.desk.intake.sampling import is_set_apart
from expertload.desk.store.database import AnyRow, Transaction
from expertload.desk.store.tables import answers, cases, decisions, monitors, projects
from expertload.desk.trail.webhooks import announce
from expertload.desk.watch.policies import find_policy, withdraw
from expertload.monitoring import Capital, accuracy_bets, accuracy_lower_bound, advance, start
from expertload.monitoring.planning import DOUBTFUL_SHARE

# On PostgreSQL, transactions may commit in another order than their cases are numbered. So only
# audits that are older than any running transaction are stored as settled.
SETTLED_AFTER = 3_600_000_000
_AUDIT = [
    cases.c[name]
    for name in (
        "id",
        "audit",
        "received",
        "cluster",
        "predicted",
        "rate",
        "least",
        "twice",
        "weight",
    )
]
KNOWN_AFTER = 100  # decisions that show which are the least confident ones
# Odds of five to one against the promise: no alarm, but a reason to read more.
WARNING_EVIDENCE = 5.0
MOST_EVIDENCE = 1e300  # JSON has no infinity
NO_CLASS = ""  # a label that no model gives


@dataclass
class _Capital:
    """The betting capital after the last audit that does not change any more."""

    after: int = 0
    count: int = 0
    errors: int = 0
    peak: float = 0.0
    stakes: list[float] = field(default_factory=list)
    weight: float | None = None  # as `count` and `errors`, weighted; None before there were weights
    weighted_errors: float | None = None


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
    event = transaction.event("monitor.moved")
    transaction.update(monitors, monitor.id, event, **values)
    if values["state"] == "refuted":
        _alarm(transaction, policy, monitor, values["evidence"])
    elif values["evidence"] >= WARNING_EVIDENCE:
        _warn(transaction, policy)


def _values(
    transaction: Transaction, policy: AnyRow, monitor: AnyRow, changed: int | None
) -> dict[str, Any]:
    target = read_policy(policy.document).point.target_accuracy
    kept = _Capital(**json.loads(monitor.memory))
    if changed is not None and changed <= kept.after:
        # an audit that was stored as settled: count from the beginning
        kept = _Capital()
    sums = (kept.weight or 0.0, kept.weighted_errors or 0.0)
    if kept.weight is None:  # every audit counted 1
        sums = (float(kept.count), float(kept.errors))
    rows = _later_audits(transaction, policy.id, kept.after)
    bets = accuracy_bets(target)
    capital = Capital(kept.count, np.array(kept.stakes)) if kept.count else start(bets)
    errors = np.array([row.audit == "wrong" for row in rows], dtype=np.float64)
    weights = np.array([weight_of(row) for row in rows])
    settled = _n_settled(rows, transaction.now)
    parts = slice(None, settled), slice(settled, None)
    capital, before = advance(capital, errors[parts[0]], weights[parts[0]], bets=bets, blocks=None)
    memory = _Capital(
        after=rows[settled - 1].id if settled else kept.after,
        count=int(capital.n_audits),
        errors=kept.errors + int(errors[:settled].sum()),
        peak=max([kept.peak, *before.tolist()]),
        stakes=[float(stake) for stake in capital.stakes],
        weight=sums[0] + float(weights[:settled].sum()),
        weighted_errors=sums[1] + float((weights * errors)[:settled].sum()),
    )
    final, path = advance(capital, errors[parts[1]], weights[parts[1]], bets=bets, blocks=None)
    is_open = np.array([row.audit == "open" for row in rows], dtype=bool)
    wrong, n_open = kept.errors + int(errors.sum()), int(is_open.sum())
    counted = sums[0] + float(weights[~is_open].sum())
    counted_errors = sums[1] + float((weights * errors).sum())
    alpha = transaction.project.rules.alarm_level
    total = int(final.n_audits)
    unknown = float(weights[is_open].sum())
    bound = accuracy_lower_bound(
        [counted_errors + unknown], [counted + unknown], confidence_level=1 - alpha
    )
    refuted = monitor.state == "refuted" or max([memory.peak, *path.tolist()]) >= 1 / alpha
    confirmed = total > 0 and float(bound[0]) >= target
    return {
        "state": "refuted" if refuted else "confirmed" if confirmed else "not refuted",
        "evidence": min(float(final.evidence), MOST_EVIDENCE),
        "audited": total,
        "errors": wrong,
        "open": n_open,
        "bound": float(bound[0]),
        "counted": counted,
        "counted_errors": counted_errors,
        "doubtful": _doubtful(transaction, policy.id)
        if monitor.doubtful is None
        else (monitor.doubtful),
        "memory": json.dumps(asdict(memory)),
    }


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


def _later_audits(transaction: Transaction, policy: int, after: int) -> list[AnyRow]:
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


# ------------------------------------------------------------------ certifying anew


@dataclass(frozen=True, kw_only=True)
class BlindLabels:
    """Cases to certify on.

    Attributes
    ----------
    keys, labels : list of str
        The cases, and the experts' final answers.
    probabilities : list of dict
        The model's probability for each class, by the name of the class.
    clusters : list of str, or None
        The cluster of each case; a case without one is its own. None if no case has one.
    rate : float
        The probability of being labelled, the same for every case.
    n_open : int
        Cases of the sample that still wait for a reading. Certifying needs 0.
    """

    keys: list[str]
    labels: list[str]
    probabilities: list[dict[str, float]]
    clusters: list[str] | None
    rate: float
    n_open: int


@dataclass(frozen=True, kw_only=True)
class SampleSize:
    """How many blind labels there are: as in `BlindLabels`, but only counted."""

    n_labels: int
    n_open: int
    rate: float


def blind_labels(
    transaction: Transaction, *, since: int = 0, until: int | None = None, model: str | None = None
) -> BlindLabels:
    """Return what is set apart of the fair sample of a period."""
    fair = _fair_sample(transaction, since, until, model)
    rows = fair.rows(transaction, cases.c.id, cases.c.probabilities)
    settled = [row for row in rows if row.label is not None]
    has_clusters = any(row.cluster is not None for row in settled)
    own = (f"c:{row.cluster}" if row.cluster is not None else f"k:{row.key}" for row in settled)
    return BlindLabels(
        keys=[row.key for row in settled],
        labels=[str(row.label) for row in settled],
        probabilities=[json.loads(row.probabilities) for row in settled],
        clusters=list(own) if has_clusters else None,
        rate=fair.rate,
        n_open=len(rows) - len(settled),
    )


def blind_sample_size(transaction: Transaction) -> SampleSize:
    """Return how much of the fair sample is set apart, over the whole time of the desk."""
    fair = _fair_sample(transaction, 0, None, None)
    labels = [row.label for row in fair.rows(transaction)]
    n_open = labels.count(None)
    return SampleSize(n_labels=len(labels) - n_open, n_open=n_open, rate=fair.rate)


class _FairSample(NamedTuple):
    """The cases of a period that were labelled with the same probability.

    Attributes
    ----------
    conditions : tuple
        Which cases are of the period and may be used.
    rate : float
        The probability of being labelled.
    """

    conditions: tuple[ColumnElement[bool], ...]
    rate: float

    def rows(self, transaction: Transaction, *columns: Column[Any]) -> list[AnyRow]:
        """Return those of the cases that are set apart, with their labels, in order."""
        drawn = (cases.c.key, cases.c.cluster, cases.c.draw, cases.c.rate)
        found = transaction.all(self._select(*columns, *drawn).order_by(cases.c.id))
        return [row for row in found if is_set_apart(transaction.project, row)]

    def _select(self, *columns: Column[Any]) -> Select[*tuple[Any, ...]]:
        """Return the query for all cases; the label is the experts' final answer, if any."""
        live, later = decisions.alias("live"), decisions.alias("later")
        is_live = ~exists().where(later.c.supersedes == live.c.id)
        label = case(
            (cases.c.audit == "right", cases.c.predicted),
            (cases.c.state == "void", literal(NO_CLASS)),
            else_=live.c.label,
        )
        return (
            select(*columns, case((_SETTLED, label)).label("label"))
            .select_from(cases.outerjoin(live, (live.c.case_id == cases.c.id) & is_live))
            .where(*self.conditions, cases.c.draw < self.rate)
        )


_SETTLED = (cases.c.audit == "right") | cases.c.state.in_(("closed", "void"))
# A case that was voided after somebody had answered it stays in the sample, and counts as wrong.
_NEVER_ANSWERED = ~exists().where(answers.c.case_id == cases.c.id)


def _fair_sample(
    transaction: Transaction, since: int, until: int | None, model: str | None
) -> _FairSample:
    """Return the fair sample of a period, without cases of policies that ended in an alarm."""
    alarmed = select(monitors.c.policy_id).where(monitors.c.alarmed.is_not(None))
    conditions = [
        transaction.in_project(cases),
        cases.c.received >= since,
        cases.c.probabilities.is_not(None),
        (cases.c.state != "void") | ~_NEVER_ANSWERED,
        cases.c.policy_id.is_(None) | cases.c.policy_id.not_in(alarmed),
    ]
    if until is not None:
        conditions.append(cases.c.received < until)
    if model is not None:
        conditions.append(cases.c.model == model)
    rate = transaction.connection.execute(select(func.min(cases.c.rate)).where(*conditions))
    return _FairSample(tuple(conditions), rate.scalar() or 0.0)
