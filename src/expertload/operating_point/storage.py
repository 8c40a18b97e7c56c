"""Policies as JSON: operating points, and the points of groups and answers.

A document that was cut short or changed is refused by its digest, as for every `DocumentKind`. If
the digest is right, `save` wrote the document, in this version or an older one, so its numbers are
not checked again.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np

from expertload._store import DocumentKind, plain
from expertload.exceptions import FileFormatError
from expertload.operating_point.certified import CertifiedPoint, SavedAdvice
from expertload.operating_point.classes import CertifiedClasses, CertifiedGroupClasses, ClassPromise
from expertload.operating_point.groups import CertifiedGroups
from expertload.operating_point.ladder import CertifiedThresholds, Steps
from expertload.operating_point.point import OperatingPoint, Origin
from expertload.operating_point.promises import ErrorBudget

Saved = OperatingPoint | CertifiedGroups | CertifiedClasses | CertifiedGroupClasses

DOCUMENT = DocumentKind(
    "expertload operating point", 6, hint="save it again, or certify again; do not edit the file"
)
# The schema that first had a field; in older documents it is read as missing.
SINCE = {
    "probability_columns": 2,
    "confidence_column": 2,
    "confidence_quantiles": 3,
    "clusters": 3,
    "passed": 3,
    "read_as": 4,
    "score": 5,
    "group_column": 6,
}
TYPES: dict[str, type[OperatingPoint]] = {
    "described": OperatingPoint,
    "certified": CertifiedPoint,
    "error_budget": ErrorBudget,
}
NOT_SAVED = {"origin", "ladder", "advice", "passed"}
# Saved with the fields of a certified point: advice is computed, and thresholds are thinned.
STRETCH = ("threshold", "n_accepted", "n_errors")
ADVICE = ("sufficient_cases", "target_within_reach")


# ------------------------------------------------------------------ writing


def to_json(policy: Saved, model_name: str | None) -> str:
    """Return the document of a point, or of the points of all groups."""
    origin = policy.origin if model_name is None else replace(policy.origin, model_name=model_name)
    document = {
        "origin": {**asdict(origin), "score": origin.score and origin.score.to_dict()},
        "content": _content(policy),
    }
    return DOCUMENT.write(document)


def _point(point: OperatingPoint) -> dict[str, Any]:
    kind = next(name for name, kind in TYPES.items() if type(point) is kind)
    values = {f.name: getattr(point, f.name) for f in fields(point) if f.name not in NOT_SAVED}
    if math.isinf(point.threshold):  # JSON has no number for it
        values["threshold"] = "infinity" if point.threshold > 0 else "-infinity"
    if isinstance(point, CertifiedPoint):
        values |= {name: getattr(point, name) for name in ADVICE}
        passed = point.passed.thinned()
        stretches = [
            {name: plain(getattr(stretch, name)) for name in STRETCH}
            for stretch in passed.stretches
        ]
        values["passed"] = {"is_continuous": passed.is_continuous, "stretches": stretches}
    return {"type": kind, **values}


def _content(policy: Saved) -> dict[str, Any]:
    if isinstance(policy, OperatingPoint):
        return _point(policy)
    level = {"confidence_level": policy.confidence_level}
    if isinstance(policy, CertifiedGroups):
        target = {"target_accuracy": policy.target_accuracy}
        return {"type": "groups", **target, **level, "groups": _entries("group", policy.items())}
    if isinstance(policy, CertifiedGroupClasses):
        return {"type": "group_classes", **level, "groups": _entries("group", policy.items())}
    answers = _entries("answer", policy.items())
    promised = ((promise._asdict(), point) for promise, point in policy.promises.items())
    promises = _entries("promise", promised)
    return {"type": "classes", **level, "answers": answers, "promises": promises}


def _entries(key: str, points: Iterable[tuple[Any, Saved]]) -> list[dict[str, Any]]:
    return [{key: name, "point": _content(point)} for name, point in points]


# ------------------------------------------------------------------ reading


def load_operating_point(path: str | os.PathLike[str]) -> Saved:
    """Read an operating point, or those of groups or answers, from a file that ``save`` wrote.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    OperatingPoint, CertifiedPoint, CertifiedGroups, CertifiedClasses or CertifiedGroupClasses
        What was saved, with its ``origin`` but without the ladder of tests.

    Raises
    ------
    FileFormatError
        If the file is something else, cut short, changed after saving, or of a newer schema.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from expertload import Cases, certify
    >>> from expertload.operating_point import load_operating_point
    >>> point = certify(Cases.from_correctness([1] * 60, range(60)), target_accuracy=0.95)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "policy.json")
    ...     point.save(path, model_name="forest")
    ...     again = load_operating_point(path)
    >>> again == point, again.origin.model_name
    (True, 'forest')
    """
    return _policy(DOCUMENT.read(path))


def from_json(text: str) -> Saved:
    """Read an operating point, or those of groups or answers, from what ``to_json`` returned.

    Parameters
    ----------
    text : str
        The whole document.

    Returns
    -------
    OperatingPoint, CertifiedPoint, CertifiedGroups, CertifiedClasses or CertifiedGroupClasses
        As in `load_operating_point`, with the same errors.

    Examples
    --------
    >>> from expertload import Cases, certify, operating_point
    >>> point = certify(Cases.from_correctness([1] * 60, range(60)), target_accuracy=0.95)
    >>> operating_point.from_json(point.to_json(model_name="forest")).origin.model_name
    'forest'
    """
    return _policy(DOCUMENT.parse(text))


def _policy(document: dict[str, Any]) -> Saved:
    version = document["schema_version"]
    try:
        origin = _read_origin(document["origin"], version)
        return _read_content(document["content"], origin, version)
    except FileFormatError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        DOCUMENT.refuse(f"its content cannot be read ({error!r})")


def _read_content(content: dict[str, Any], origin: Origin, version: int) -> Saved:
    def points(name: str, key: str) -> list[tuple[Any, Any]]:
        entries = content[name]
        return [(entry[key], _read_content(entry["point"], origin, version)) for entry in entries]

    if content["type"] not in ("groups", "classes", "group_classes"):
        return _read_point(content, origin, version)
    common = {"confidence_level": content["confidence_level"], "origin": origin}
    if content["type"] == "groups":
        parts, target = dict(points("groups", "group")), content["target_accuracy"]
        return CertifiedGroups(points=parts, target_accuracy=target, **common)
    if content["type"] == "group_classes":
        return CertifiedGroupClasses(points=dict(points("groups", "group")), **common)
    promises = {ClassPromise(**name): point for name, point in points("promises", "promise")}
    return CertifiedClasses(points=dict(points("answers", "answer")), promises=promises, **common)


def _read_point(content: dict[str, Any], origin: Origin, version: int) -> OperatingPoint:
    kind = TYPES[content["type"]]
    names = {field.name for field in fields(kind)} - NOT_SAVED
    if kind is CertifiedPoint:
        names |= {*ADVICE, "passed"}
    values = _filled(content, {"type", *names}, version)
    del values["type"]
    values["threshold"] = float(values["threshold"])  # infinity is text
    if kind is CertifiedPoint:
        values["advice"] = SavedAdvice(*(values.pop(name) for name in ADVICE))
        values["passed"] = _read_passed(values["passed"])
    return kind(**values, origin=origin)


def _read_passed(content: dict[str, Any] | None) -> CertifiedThresholds:
    if content is None:
        return CertifiedThresholds()
    stretches = (
        Steps(*(np.array(stretch[name], dtype=np.float64) for name in STRETCH))
        for stretch in content["stretches"]
    )
    return CertifiedThresholds(tuple(stretches), content["is_continuous"])


def _read_origin(content: dict[str, Any], version: int) -> Origin:
    values = _filled(content, {field.name for field in fields(Origin)}, version)
    for name in ("labels", "probability_columns", "confidence_quantiles"):
        values[name] = None if values[name] is None else tuple(values[name])
    if (values["score"] is None) == (values["ranked_by"] == "score"):
        DOCUMENT.refuse("it must have a score if, and only if, cases are ranked by one")
    if values["score"] is not None:
        from expertload.calibrators import ConfidenceScore  # few policies need it

        values["score"] = ConfidenceScore.from_dict(values["score"])
    return Origin(**values)


def _filled(content: dict[str, Any], names: set[str], version: int) -> dict[str, Any]:
    """Return content with exactly these names; fields that an older schema lacks are None."""
    unknown = {name for name in names if SINCE.get(name, 1) > version}
    if set(content) != names - unknown:
        DOCUMENT.refuse("it does not have the fields it should")
    return {**dict.fromkeys(unknown), **content}
