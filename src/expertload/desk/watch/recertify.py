"""Certifies a new policy from the stream of cases, as often as anybody asks.

A certificate on all labels so far is for one try: tried again with more labels, it certifies by
luck. The evidence over the stream holds at any time (`expertload.monitoring.ChallengerMonitor`).
Cases are counted in the order in which they came, since the last alarm. Those without an answer
count as wrong until it comes. What sets the thresholds is older, and is not counted.

Delegated cases have labels because the model was unsure of them, so certifying on all labels would
mean certifying on hard cases. But a case whose draw is below the rate was labelled whatever the
policy decided: these are a fair sample of all that came in. Those of them that are set apart
certify (`is_set_apart`), because the others may have taught the model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from expertload.desk.intake.routing import answer_of
from expertload.desk.intake.sampling import is_set_apart
from expertload.desk.intake.shadows import PILOT, classes_digest
from expertload.desk.store.database import Transaction
from expertload.desk.store.tables import LIVE
from expertload.desk.watch.challengers import (
    CASE,
    USABLE,
    Seen,
    count_cases,
    last_alarm,
    stream_origin,
)
from expertload.desk.watch.policies import add_policy
from expertload.exceptions import DeskRefusedError
from expertload.monitoring import ChallengerMonitor


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
    now: dict[str, Any] = {"since": last_alarm(transaction), "model": model}
    most = f"LIMIT {PILOT}"
    pilot, after = _own(transaction, "c.received <= :since", f"DESC {most}", **now), 0
    if len(pilot) < PILOT:
        pilot = _own(transaction, USABLE, most, **now)
        after = pilot[-1].id if pilot else 0
    if len(pilot) < PILOT:
        raise DeskRefusedError(
            "too_few",
            f"{len(pilot)} of the first {PILOT} cases, which set the thresholds, have come.",
            "send more cases, and have them read.",
        )
    monitor = ChallengerMonitor.from_confidences(
        [case.confidence or 0.0 for case in pilot],
        target_accuracy=target_accuracy,
        confidence_level=confidence_level,
        model_name=model,
    )
    later = _own(transaction, f"{USABLE} AND c.id > {after}", **now)
    rows = [case for case in later if is_set_apart(transaction.project, case)]
    classes = (rows or pilot)[-1].classes
    same = classes_digest(classes)
    # With other classes it is another model, of which the cases before say nothing.
    changed = [n for n, case in enumerate(rows, 1) if classes_digest(case.classes) != same]
    count_cases(monitor, rows[max(changed, default=0) :], False)
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
    condition: str,
    order: str = "",
    *,
    model: str | None = None,
    **values: Any,
) -> list[Seen]:
    """Return cases of a model with the answers that came with them."""
    if model is not None:
        condition, values = f"{condition} AND c.model = :model", {**values, "model": model}
    query = f"""
        SELECT {CASE}, c.probabilities FROM cases AS c {LIVE}
        WHERE c.project_id = :project AND c.probabilities IS NOT NULL AND {condition}
        ORDER BY c.id {order}
    """
    cases = []
    for *row, written in transaction.rows(query, project=transaction.project.id, **values):
        given = orjson.loads(written)
        known = {name: p for name, p in given.items() if p is not None}
        flaw, top = answer_of(known)
        confidence = None if flaw or top is None else known[top]
        # As if it were accepted: then it counts as read if its draw is below the rate.
        cases.append(Seen(*(*row, top, confidence, given))._replace(accepted=True))
    return cases


# ------------------------------------------------------------------ blind labels


class BlindLabels(NamedTuple):
    """What is set apart of the fair sample, over the whole time of the desk.

    Attributes
    ----------
    cases : list of Seen
        The cases, with the experts' final answers.
    rate : float
        The probability of being labelled, the same for every case.
    n_open : int
        Cases of the sample that still wait for a reading.
    """

    cases: list[Seen]
    rate: float
    n_open: int


# A monitor that raised the alarm has selected its cases by their labels.
_NO_ALARM = f"""
    {USABLE} AND c.probabilities IS NOT NULL AND (c.policy_id IS NULL OR c.policy_id NOT IN (
      SELECT policy_id FROM monitors WHERE alarmed IS NOT NULL))
"""
_RATE = f"SELECT min(c.rate) FROM cases AS c WHERE c.project_id = :project AND {_NO_ALARM}"


def blind_labels(transaction: Transaction) -> BlindLabels:
    """Return the labels of cases that were read whatever the policy decided, and never train."""
    ((rate,),) = transaction.rows(_RATE, project=transaction.project.id, since=0)
    drawn = _own(transaction, f"{_NO_ALARM} AND c.draw < :rate", since=0, rate=rate or 0.0)
    apart = [case for case in drawn if is_set_apart(transaction.project, case)]
    labelled = [case for case in apart if case.label is not None]
    return BlindLabels(labelled, rate or 0.0, n_open=len(apart) - len(labelled))
