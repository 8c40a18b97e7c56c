"""Certifies a new policy from the stream of cases, as often as anybody asks.

A certificate on all labels so far is for one try: tried again with more labels, it certifies by
luck. The evidence over the stream holds at any time (`expertload.monitoring.ChallengerMonitor`).
Cases are counted in the order in which they came, since the last alarm. Those without an answer
count as wrong until it comes. What sets the thresholds is older, and is not counted.

Only cases that are set apart count, because others may have taught the model, and of these the
ones whose draw is below the rate: they were read whatever the policy decided.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from expertload.desk.intake.routing import flaw_of, top_class
from expertload.desk.intake.sampling import is_set_apart
from expertload.desk.intake.shadows import PILOT, classes_digest
from expertload.desk.store.database import Transaction
from expertload.desk.watch.challengers import (
    CASE,
    LIVE,
    USABLE,
    Seen,
    count_cases,
    last_alarm,
    stream_origin,
)
from expertload.desk.watch.policies import add_policy
from expertload.exceptions import DeskRefusedError
from expertload.monitoring import ChallengerMonitor

_OF_MODEL = {True: "", False: "AND c.model = :model"}
_FROM = f"""
    FROM cases AS c {LIVE}
    WHERE c.project_id = :project AND c.probabilities IS NOT NULL
"""


class _Own(NamedTuple):
    """A case with the answer that came with it."""

    seen: Seen
    classes: tuple[str, ...]


def recertify(
    transaction: Transaction,
    *,
    target_accuracy: float,
    confidence_level: float = 0.95,
    model: str | None = None,
) -> int:
    """Certify by the evidence so far and store the policy as a draft; return its number.

    Parameters
    ----------
    transaction : Transaction
        A transaction for writing.
    target_accuracy, confidence_level : float
        What to promise. For all targets together, the probability that one is *ever* certified
        although it is missed is at most one minus the confidence level.
    model : str, optional
        Use only cases of this model. The policy then applies only to this model.
    """
    since = last_alarm(transaction)
    earlier = _own(transaction, model, "c.received <= :since", "c.id DESC", since)
    pilot, after = earlier, 0
    if len(pilot) < PILOT:
        pilot = _own(transaction, model, USABLE, "c.id", since)
        after = pilot[-1].seen.id if pilot else 0
    if len(pilot) < PILOT:
        raise DeskRefusedError(
            "too_few",
            f"{len(pilot)} of the first {PILOT} cases, which set the thresholds, have come.",
            "send more cases, and have them read.",
        )
    monitor = ChallengerMonitor.from_confidences(
        [each.seen.confidence or 0.0 for each in pilot],
        target_accuracy=target_accuracy,
        confidence_level=confidence_level,
        model_name=model,
    )
    rows = _own(transaction, model, f"{USABLE} AND c.id > {after}", "c.id", since, is_pilot=False)
    classes = rows[-1].classes if rows else pilot[-1].classes
    same = classes_digest(classes)
    # With other classes it is another model, of which the cases before say nothing.
    changed = [n for n, each in enumerate(rows, 1) if classes_digest(each.classes) != same]
    count_cases(monitor, [each.seen for each in rows[max(changed, default=0) :]], False)
    if not monitor.is_certified:
        raise DeskRefusedError(
            "not_certified",
            f"It is not shown yet that an accuracy of {target_accuracy:g} is kept: the evidence is "
            f"{monitor.evidence:.3g} of {monitor.needed_evidence:.3g}, from {monitor.n_read} cases "
            f"that were labelled blind, {monitor.n_open} of them still open.",
            "read more cases, then try again: you may try as often as you like.",
        )
    point = monitor.point(stream_origin(tuple(sorted(classes)), model))
    return add_policy(transaction, point.to_json(), source="recertified")


def _own(
    transaction: Transaction,
    model: str | None,
    condition: str,
    order: str,
    since: int,
    *,
    is_pilot: bool = True,
) -> list[_Own]:
    """Return cases with the answers that came with them: a pilot, or all that are set apart."""
    limit = f"LIMIT {PILOT}" if is_pilot else ""
    values: dict[str, Any] = {"project": transaction.project.id, "since": since}
    if model is not None:
        values["model"] = model
    query = (
        f"SELECT {CASE}, NULL, NULL, c.probabilities {_FROM} AND {condition} "
        f"{_OF_MODEL[model is None]} ORDER BY {order} {limit}"
    )
    found = []
    for *row, _, _, written in transaction.rows(query, **values):
        given = {name: p for name, p in orjson.loads(written).items() if p is not None}
        confidence = max(given.values()) if given and not flaw_of(given) else None
        # As if it were accepted: then it counts as read if its draw is below the rate.
        seen = Seen(*(*row, top_class(given), confidence))._replace(accepted=True)
        if is_pilot or is_set_apart(transaction.project, seen):
            found.append(_Own(seen, tuple(given)))
    return found
