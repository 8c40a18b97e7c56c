"""Warns if the expert load differs from what the policy was certified with.

A policy states which share of cases it delegates. A very different share means that other cases
come in, or that another model answers. That is a reason to look, and has no other effect: only
labels tell whether decisions are right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sqlalchemy import func, select

from expertload.desk.intake import read_policy
from expertload.desk.store import Transaction
from expertload.desk.store.tables import cases
from expertload.desk.watch.policies import active_policy

__all__ = ["LoadShift", "load_shift"]

WINDOW = 2_000
ENOUGH = 100
FAR = 4.0  # standard errors: one false warning in many thousand checks


@dataclass(frozen=True, kw_only=True)
class LoadShift:
    """The expected and the observed expert load.

    Attributes
    ----------
    expected, observed : float
        Share of cases delegated: when the policy was certified, and recently.
    n_cases : int
        How many recent cases there are.
    warns : bool
        Whether they differ by more than chance explains.
    """

    expected: float
    observed: float
    n_cases: int
    warns: bool


def load_shift(transaction: Transaction) -> LoadShift | None:
    """Compare the latest cases of the active policy with those it was certified on."""
    policy = active_policy(transaction)
    if policy is None:
        return None
    latest = (
        select(cases.c.accepted)
        .where(cases.c.policy_id == policy.id)
        .order_by(cases.c.received.desc())
        .limit(WINDOW)
        .subquery()
    )
    rows = transaction.connection.execute(
        select(latest.c.accepted, func.count().label("n")).group_by(latest.c.accepted)
    ).all()
    n = sum(row.n for row in rows)
    if n < ENOUGH:
        return None
    point = read_policy(policy.document).point
    expected = point.expert_load
    observed = sum(row.n for row in rows if not row.accepted) / n
    certified_on = _n_cases(point)
    pooled = (expected * certified_on + observed * n) / (certified_on + n)
    error = math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / certified_on))
    return LoadShift(
        expected=expected,
        observed=observed,
        n_cases=n,
        warns=abs(observed - expected) > FAR * error,
    )


def _n_cases(point: object) -> float:
    points = getattr(point, "points", None)
    if points is not None:
        return float(sum(each.n_cases for each in points.values()))
    return float(getattr(point, "n_cases", 0))
