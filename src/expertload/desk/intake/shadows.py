"""Answers of models in shadow: they are stored beside a case, and decide nothing.

An answer is never changed: sent again, it must be the same. It counts as evidence only if it came
before any expert's answer to the case. A model that was trained on that answer would otherwise
certify itself.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import orjson

from expertload.desk.intake.case import Shadow
from expertload.desk.intake.routing import answer_of
from expertload.desk.store.database import Transaction
from expertload.desk.store.tables import shadows
from expertload.exceptions import DeskRefusedError

Columns = dict[str, Any]
Stored = dict[str, str]
PILOT = 200  # valid answers of a model that set its thresholds, and are not counted
SURE = 0.75  # the surer three quarters of its answers are opinions: others it could never decide


def as_json(probabilities: dict[str, float] | None) -> str | None:
    """Write probabilities as JSON. JSON has no NaN, so NaN becomes null."""
    return None if probabilities is None else orjson.dumps(probabilities).decode()


def as_sent(stored: bytes | str) -> dict[str, float]:
    """Return probabilities that were stored as JSON; null is NaN again."""
    known = orjson.loads(stored)
    return {name: math.nan if value is None else value for name, value in known.items()}


@lru_cache(maxsize=256)
def classes_digest(names: tuple[str, ...]) -> str:
    """Return a short digest of the names of classes, in any order."""
    return hashlib.sha256("\x1f".join(sorted(names)).encode()).hexdigest()[:16]


def answer_row(model: str, probabilities: dict[str, float], **more: Any) -> Columns:
    """Return the columns of a model's answer, without a confidence if it is not valid."""
    flaw, top = answer_of(probabilities)
    return {
        "model": model,
        "classes": classes_digest(tuple(probabilities)),
        "predicted": top,
        "confidence": None if flaw or top is None else probabilities[top],
        "probabilities": as_json(probabilities),
        **more,
    }


def receive_shadows(
    transaction: Transaction, sent: Sequence[Shadow]
) -> list[Stored | DeskRefusedError]:
    """Store answers to known cases; return what became of each. The others are stored."""
    project, keys = transaction.project.id, list({shadow.key for shadow in sent})
    rows = transaction.rows(_CASES, project=project, keys=keys)
    case_of = {key: number for key, number, *_ in rows}
    numbers = list(case_of.values())
    known = {(number, model or ""): written for _, number, model, written in rows}
    known |= {(n, m): written for n, m, written in transaction.rows(_KNOWN, numbers=numbers)}
    answered = {number for (number,) in transaction.rows(_ANSWERED, numbers=numbers)}
    common = {"project_id": project, "received": transaction.now}
    new = []
    for key, model, probabilities in sorted(sent, key=lambda shadow: shadow[:2]):
        case = case_of.get(key)
        if case is None or (case, model) in known:
            continue
        known[case, model] = as_json(probabilities)
        event = transaction.event("shadow.received", case_id=case)
        blind = case not in answered  # before any expert's answer
        new.append((event, answer_row(model, probabilities, case_id=case, blind=blind, **common)))
    transaction.insert_all(shadows, new)
    return [_result(shadow, case_of.get(shadow.key), known) for shadow in sent]


def _result(
    sent: Shadow, case: int | None, known: dict[tuple[int, str], str | None]
) -> Stored | DeskRefusedError:
    if case is None:
        return DeskRefusedError(
            "not_found", f"There is no case '{sent.key}'.", "send the case first."
        )
    stored = known[case, sent.model]
    if stored is None or orjson.loads(stored) != orjson.loads(as_json(sent.probabilities) or ""):
        return DeskRefusedError(
            "conflict",
            f"The model '{sent.model}' has answered the case '{sent.key}' with other numbers.",
            "the first answer stays; give a model that has changed another name.",
        )
    return {"key": sent.key, "model": sent.model, "status": "stored"}


def opinions_of(transaction: Transaction, case: int) -> list[str]:
    """Return what models in shadow say about a case where they are sure.

    If readers differ from one of them, an arbiter settles the case. Otherwise labels would favour
    the model that decides today, from which every difference is settled.
    """
    opinions = []
    for model, classes, predicted, confidence in transaction.rows(_BESIDE, case=case):
        values = {"project": transaction.project.id, "model": model, "classes": classes}
        pilot = sorted(first for (first,) in transaction.rows(_FIRST, **values, n=PILOT))
        if len(pilot) == PILOT and (confidence or 0.0) >= pilot[round((1 - SURE) * PILOT)]:
            opinions.append(predicted)
    return opinions


_BESIDE = (
    "SELECT model, classes, predicted, confidence FROM shadows "
    "WHERE case_id = :case AND model <> '' AND blind"
)
_FIRST = (
    "SELECT confidence FROM shadows WHERE project_id = :project AND model = :model "
    "AND classes = :classes AND confidence IS NOT NULL ORDER BY id LIMIT :n"
)
_CASES = (
    "SELECT key, id, model, probabilities FROM cases WHERE project_id = :project AND key IN :keys"
)
_KNOWN = "SELECT case_id, model, probabilities FROM shadows WHERE case_id IN :numbers"
_ANSWERED = "SELECT DISTINCT case_id FROM answers WHERE case_id IN :numbers"
