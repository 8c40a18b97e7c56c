"""Combines an expert's answer with the model's, where a manager has turned it on.

A delegated case then closes after one answer only if the probability of that answer, given what the
model said too, reaches what the policy promises. Otherwise a second reader is asked, and an arbiter
if both differ. So a computation never overrules a person, and audits, which must be blind, stay as
they are. How readers err comes from readings whose truth is known, how much to trust the model's
probabilities from blind labels.
"""

from __future__ import annotations

import json
from functools import lru_cache

import numpy as np
from sqlalchemy import select

from expertload.calibrators import TemperatureScaling
from expertload.desk.intake.receiving import classes_of
from expertload.desk.intake.routing import answer_of, read_policy
from expertload.desk.intake.shadows import as_sent
from expertload.desk.store.database import AnyRow, Transaction
from expertload.desk.store.tables import projects
from expertload.desk.watch.policies import find_policy
from expertload.desk.watch.readers import known_readings
from expertload.desk.watch.recertify import blind_labels
from expertload.exceptions import DeskRefusedError
from expertload.team import Combiner
from expertload.team.combine import FEWEST_ANSWERS, confusion_matrix


def start_combining(transaction: Transaction) -> None:
    """Learn how readers and the model err from what is known by now, and combine from now on."""
    classes = list(classes_of(transaction))
    place = {name: number for number, name in enumerate(classes)}
    known = [
        (place[row.truth], place[row.label])
        for row in known_readings(transaction)
        if row.truth in place and row.label in place
    ]
    usable = [
        (place[case.label], [case.probabilities[name] for name in classes])
        for case in blind_labels(transaction).cases
        if case.label in place and {*case.classes} == case.probabilities.keys() == place.keys()
    ]
    for n, what in ((len(known), "readings whose truth is known"), (len(usable), "blind labels")):
        if n < FEWEST_ANSWERS:
            raise DeskRefusedError(
                "too_few",
                f"Combining needs at least {FEWEST_ANSWERS} {what}. There are {n}.",
                "add golden cases, and have more cases read.",
            )
    scaling = TemperatureScaling(input="probabilities")
    scaling.fit(
        np.array([row for _, row in usable]),
        np.array([label for label, _ in usable]),
        labels=range(len(classes)),
    )
    truth, answers = np.array(known).T
    combiner = Combiner()
    combiner.temperature_ = scaling.temperature_
    combiner.confusion_ = confusion_matrix(truth, answers, np.ones(len(known)), len(classes))
    combiner.labels_ = tuple(classes)
    _store(transaction, json.dumps(combiner.to_dict()))


def stop_combining(transaction: Transaction) -> None:
    """Let one answer close a delegated case again, whatever the model said."""
    _store(transaction, None)


def _store(transaction: Transaction, document: str | None) -> None:
    event = transaction.event("combining.stopped" if document is None else "combining.started")
    transaction.update(projects, transaction.project.id, event, combiner=document)


def combiner_of(transaction: Transaction) -> Combiner | None:
    """Return what a project combines answers with; None if it does not."""
    query = select(projects.c.combiner).where(projects.c.id == transaction.project.id)
    document = transaction.value(query)
    return None if document is None else _read(document)


@lru_cache(maxsize=8)
def _read(document: str) -> Combiner:
    return Combiner.from_dict(json.loads(document))


def is_doubtful(transaction: Transaction, case: AnyRow, answer: str) -> bool:
    """Whether an answer, combined with the model's, stays below what the policy promises."""
    combiner = combiner_of(transaction)
    if combiner is None or case.probabilities is None or case.policy_id is None:
        return False
    given = as_sent(case.probabilities)
    if answer not in combiner.labels_ or {*combiner.labels_} != given.keys() or answer_of(given)[0]:
        return False
    (combined,) = combiner.transform([[given[str(name)] for name in combiner.labels_]], [answer])
    promised = read_policy(find_policy(transaction, case.policy_id).document).point.target_accuracy
    return bool(combined[combiner.labels_.index(answer)] < promised)
