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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Column, ColumnElement, Select, case, exists, func, select

from expertload.desk.intake import draw
from expertload.desk.store import AnyRow, Transaction
from expertload.desk.store.tables import cases, decisions, monitors
from expertload.desk.watch.policies import add_policy
from expertload.exceptions import DeskRefusedError
from expertload.operating_point import CertifiedPoint, certify

__all__ = ["BlindLabels", "SampleSize", "blind_labels", "blind_sample_size", "recertify"]


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


@dataclass(frozen=True, kw_only=True)
class SampleSize:
    """How many blind labels there are; as in `BlindLabels`, counted and not read."""

    n_labels: int
    n_open: int
    rate: float


def blind_labels(
    transaction: Transaction, *, since: int = 0, until: int | None = None, model: str | None = None
) -> BlindLabels:
    """Return the fair sample of a period, one case per cluster."""
    fair = _fair(transaction, since, until, model)
    wanted = (cases.c.id, cases.c.key, cases.c.cluster, cases.c.probabilities)
    rows = transaction.connection.execute(fair.select(*wanted).order_by(cases.c.id)).all()
    sample = _one_a_cluster(transaction, rows)
    settled = [row for row in sample if row.label is not None]
    return BlindLabels(
        keys=[row.key for row in settled],
        labels=[str(row.label) for row in settled],
        probabilities=[json.loads(row.probabilities) for row in settled],
        rate=fair.rate,
        n_open=len(sample) - len(settled),
    )


def blind_sample_size(transaction: Transaction) -> SampleSize:
    """Return how large the fair sample of all time is."""
    fair = _fair(transaction, 0, None, None)
    alone = fair.select().where(cases.c.cluster.is_(None)).subquery()
    n, n_labels = transaction.connection.execute(
        select(func.count(), func.count(alone.c.label)).select_from(alone)
    ).one()
    in_clusters = fair.select(cases.c.id, cases.c.key, cases.c.cluster).where(
        cases.c.cluster.is_not(None)
    )
    chosen = _one_a_cluster(transaction, transaction.connection.execute(in_clusters).all())
    n_labels += sum(row.label is not None for row in chosen)
    return SampleSize(n_labels=n_labels, n_open=n + len(chosen) - n_labels, rate=fair.rate)


class _Fair(NamedTuple):
    """The cases of a period that had one chance of a label, whatever the policy said of them."""

    conditions: tuple[ColumnElement[bool], ...]
    rate: float

    def select(self, *columns: Column[Any]) -> Select[*tuple[Any, ...]]:
        """Return the query for them, with what experts settled on, or nothing, as their label."""
        live, later = decisions.alias("live"), decisions.alias("later")
        is_live = ~exists().where(later.c.supersedes == live.c.id)
        label = case((cases.c.audit == "right", cases.c.predicted), else_=live.c.label)
        return (
            select(*columns, case((_SETTLED, label)).label("label"))
            .select_from(cases.outerjoin(live, (live.c.case_id == cases.c.id) & is_live))
            .where(*self.conditions, cases.c.draw < self.rate)
        )


_SETTLED = (cases.c.audit == "right") | (cases.c.state == "closed")


def _fair(transaction: Transaction, since: int, until: int | None, model: str | None) -> _Fair:
    """Return the fair sample of a period, without what fed a monitor that raised the alarm."""
    alarmed = select(monitors.c.policy_id).where(monitors.c.alarmed.is_not(None))
    conditions = [
        cases.c.project_id == transaction.project.id,
        cases.c.received >= since,
        cases.c.probabilities.is_not(None),
        cases.c.state != "void",
        cases.c.policy_id.is_(None) | cases.c.policy_id.not_in(alarmed),
    ]
    if until is not None:
        conditions.append(cases.c.received < until)
    if model is not None:
        conditions.append(cases.c.model == model)
    rate = transaction.connection.execute(select(func.min(cases.c.rate)).where(*conditions))
    return _Fair(tuple(conditions), rate.scalar() or 0.0)


def _one_a_cluster(transaction: Transaction, rows: Sequence[AnyRow]) -> list[AnyRow]:
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
