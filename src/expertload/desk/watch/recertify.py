"""A new policy from the desk's own labels: blind ones, with one inclusion probability for all.

Delegated cases have labels because the model was unsure of them; certifying on those would be
certifying on the hard ones. But a case whose draw u lies below the smallest rate q of a period was
labelled whatever the policy said of it: these are a fair sample of everything that came. Cases
that fed a monitor which raised the alarm are left out: choosing them after the alarm would be
choosing by their labels.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sqlalchemy import func, select

from expertload.desk.intake import draw
from expertload.desk.store import AnyRow, Transaction
from expertload.desk.store.tables import cases, decisions, monitors
from expertload.desk.watch.policies import add_policy
from expertload.exceptions import DeskRefusedError
from expertload.operating_point import CertifiedPoint, certify

__all__ = ["BlindLabels", "blind_labels", "recertify"]


@dataclass(frozen=True, kw_only=True)
class BlindLabels:
    """Cases to certify on.

    Attributes
    ----------
    keys, labels : list of str
        The cases, and what experts settled on.
    probabilities : list of dict
        The model's, a class's name to its probability.
    rate : float
        The one probability with which each was labelled.
    n_open : int
        Cases of the sample whose reading is not finished; none may be.
    """

    keys: list[str]
    labels: list[str]
    probabilities: list[dict[str, float]]
    rate: float
    n_open: int


def blind_labels(
    transaction: Transaction, *, since: int = 0, until: int | None = None, model: str | None = None
) -> BlindLabels:
    """Return the fair sample of a period, one case per cluster."""
    rows = _period(transaction, since, until, model)
    rate = min((row.rate for row in rows), default=0.0)
    sample = _one_a_cluster(transaction, [row for row in rows if row.draw < rate])
    settled = [row for row in sample if _label(row) is not None]
    return BlindLabels(
        keys=[row.key for row in settled],
        labels=[str(_label(row)) for row in settled],
        probabilities=[json.loads(row.probabilities) for row in settled],
        rate=rate,
        n_open=len(sample) - len(settled),
    )


def _period(
    transaction: Transaction, since: int, until: int | None, model: str | None
) -> list[AnyRow]:
    """Return the cases of a period with their live decision, without those of an alarm."""
    alarmed = select(monitors.c.policy_id).where(monitors.c.alarmed.is_not(None))
    newest = (
        select(decisions.c.case_id, func.max(decisions.c.version).label("version"))
        .group_by(decisions.c.case_id)
        .subquery()
    )
    live = decisions.alias("live")
    query = (
        select(cases, live.c.label.label("decision"))
        .select_from(
            cases.outerjoin(newest, newest.c.case_id == cases.c.id).outerjoin(
                live,
                (live.c.case_id == cases.c.id) & (live.c.version == newest.c.version),
            )
        )
        .where(
            cases.c.project_id == transaction.project.id,
            cases.c.received >= since,
            cases.c.probabilities.is_not(None),
            cases.c.state != "void",
            cases.c.policy_id.is_(None) | cases.c.policy_id.not_in(alarmed),
        )
        .order_by(cases.c.id)
    )
    if until is not None:
        query = query.where(cases.c.received < until)
    if model is not None:
        query = query.where(cases.c.model == model)
    return list(transaction.connection.execute(query).all())


def _label(row: AnyRow) -> str | None:
    """Return what experts settled on, None if they have not."""
    if row.audit == "right":
        return str(row.predicted)
    return row.decision if row.state == "closed" else None


def _one_a_cluster(transaction: Transaction, rows: list[AnyRow]) -> list[AnyRow]:
    """Keep one random case a cluster: cases of one patient are not independent."""
    project = transaction.project

    def lot(row: AnyRow) -> float:
        return draw(project.secret, "cluster", project.name, row.key)

    chosen: dict[str, AnyRow] = {}
    alone = []
    for row in rows:
        if row.cluster is None:
            alone.append(row)
        elif row.cluster not in chosen or lot(row) < lot(chosen[row.cluster]):
            chosen[row.cluster] = row
    return sorted([*alone, *chosen.values()], key=lambda row: int(row.id))


def recertify(
    transaction: Transaction,
    *,
    target_accuracy: float,
    confidence_level: float = 0.95,
    since: int = 0,
    until: int | None = None,
    model: str | None = None,
) -> int:
    """Certify on the fair sample of a period and keep the policy as a draft; return its number.

    Parameters
    ----------
    transaction : Transaction
        One that writes.
    target_accuracy, confidence_level : float
        As in `expertload.operating_point.certify`.
    since, until : int
        The period, in microseconds since 1970.
    model : str, optional
        Only cases of this model; the policy is then for it alone.
    """
    sample = blind_labels(transaction, since=since, until=until, model=model)
    if sample.n_open:
        raise DeskRefusedError(
            "still_open",
            f"{sample.n_open} case(s) of the sample wait for their reading, and leaving them out "
            "would not be fair.",
            "finish them, or let the period end before the first of them.",
        )
    point = _certified(sample, target_accuracy, confidence_level, model)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "policy.json")
        point.save(file)
        return add_policy(transaction, file.read_text(), source="recertified")


def _certified(
    sample: BlindLabels, target: float, level: float, model: str | None
) -> CertifiedPoint:
    classes = sorted({name for each in sample.probabilities for name in each})
    rows = [
        (label, [each.get(name) for name in classes])
        for label, each in zip(sample.labels, sample.probabilities, strict=True)
    ]
    # What has no probability for a class is never decided by such a policy, whatever its label.
    usable = [(label, row) for label, row in rows if None not in row]
    if len(usable) < 2 or len(classes) < 2:
        raise DeskRefusedError(
            "too_few",
            f"Only {len(usable)} case(s) have a blind label and probabilities.",
            "read more cases, or take a longer period.",
        )
    proba = np.array([row for _, row in usable], dtype=np.float64)
    known = set(classes)
    # An answer that is none of the model's classes: the model is wrong, whichever it would name.
    labels = [
        label if label in known else classes[int(row.argmin())]
        for (label, _), row in zip(usable, proba, strict=True)
    ]
    point = certify(
        np.array(labels),
        proba,
        target_accuracy=target,
        confidence_level=level,
        labels=classes,
        model_name=model,
    )
    if not point.is_certified:
        raise DeskRefusedError("not_certified", point.guarantee)
    return point
