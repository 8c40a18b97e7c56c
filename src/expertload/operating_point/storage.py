"""Policies as JSON: operating points and the points of groups, checked when read.

A document stores where the point comes from (``origin``) and the point itself (``content``).
Truncated and edited documents are refused, as for every `DocumentKind`.
"""

from __future__ import annotations

import math
import os
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from expertload._names import METHODS, ReadAs
from expertload._store import DocumentKind, plain
from expertload.operating_point.certified import CertifiedPoint, ClusterPromise, Reason, SavedAdvice
from expertload.operating_point.classes import CertifiedClasses, ClassPromise, Kind
from expertload.operating_point.groups import CertifiedGroups
from expertload.operating_point.ladder import CertifiedThresholds, Risk, Steps
from expertload.operating_point.point import Label, OperatingPoint, Origin, RankedBy
from expertload.operating_point.promises import ErrorBudget

__all__ = ["from_json", "load_operating_point"]

Saved = OperatingPoint | CertifiedGroups | CertifiedClasses

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

# The range of each number, and the words that a field may have.
RANGES = {
    **dict.fromkeys(("n_accepted", "n_delegated", "n_errors", "n_errors_spared"), (0.0, math.inf)),
    **dict.fromkeys(("target_accuracy", "confidence_level", "target_within_reach"), (0.0, 1.0)),
    **dict.fromkeys(("sufficient_cases", "next_cases"), (1.0, math.inf)),
    "max_errors": (0.0, math.inf),
}
WHOLE = {"sufficient_cases", "max_errors", "next_cases"}
WORDS: dict[str, tuple[str, ...]] = {
    "read_as": get_args(ReadAs),
    "method": (*METHODS, "stream", "bonferroni", "sgr"),  # the last two of earlier versions
    "risk": get_args(Risk),
    "clusters": get_args(ClusterPromise),
    "reason": get_args(Reason),
    "ranked_by": get_args(RankedBy),
}


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
    if isinstance(policy, CertifiedGroups):
        return {
            "type": "groups",
            "target_accuracy": policy.target_accuracy,
            "confidence_level": policy.confidence_level,
            "groups": [{"group": name, "point": _point(point)} for name, point in policy.items()],
        }
    return {
        "type": "classes",
        "confidence_level": policy.confidence_level,
        "answers": [{"answer": name, "point": _point(point)} for name, point in policy.items()],
        "promises": [
            {"promise": promise._asdict(), "point": _point(point)}
            for promise, point in policy.promises.items()
        ],
    }


# ------------------------------------------------------------------ reading


def load_operating_point(path: str | os.PathLike[str]) -> Saved:
    """Read an operating point, or those of groups or answers, from a file that ``save`` wrote.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    OperatingPoint, CertifiedPoint, CertifiedGroups or CertifiedClasses
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
    return _policy(DOCUMENT.parse(Path(path).read_bytes(), Path(path).name))


def from_json(text: str) -> Saved:
    """Read an operating point, or those of groups or answers, from what ``to_json`` returned.

    Parameters
    ----------
    text : str
        The whole document.

    Returns
    -------
    OperatingPoint, CertifiedPoint, CertifiedGroups or CertifiedClasses
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
    origin = _read_origin(document.get("origin"), version)
    content = DOCUMENT.section(document.get("content"), "content")
    if content.get("type") == "groups":
        return _read_groups(content, origin, version)
    read = _read_classes if content.get("type") == "classes" else _read_point
    return read(content, origin, version)


def _read_groups(content: dict[str, Any], origin: Origin, version: int) -> CertifiedGroups:
    target, level = (_value(content, name) for name in ("target_accuracy", "confidence_level"))
    entries = _entries(content, "groups", "group", origin, version)
    points = {_label(name): _certified(point) for name, point in entries}
    if len(points) < len(entries):
        DOCUMENT.refuse("its groups must be distinct")
    return CertifiedGroups(
        points=points, target_accuracy=target, confidence_level=level, origin=origin
    )


def _read_classes(content: dict[str, Any], origin: Origin, version: int) -> CertifiedClasses:
    answers = _entries(content, "answers", "answer", origin, version)
    points = {_label(name): point for name, point in answers}
    promises = {
        _read_promise(DOCUMENT.section(promise, "promise")): _certified(point)
        for promise, point in _entries(content, "promises", "promise", origin, version)
    }
    if len(points) < len(answers) or not {*points} <= {*(origin.labels or ())}:
        DOCUMENT.refuse("its answers must be distinct classes")
    level = _value(content, "confidence_level")
    return CertifiedClasses(points=points, promises=promises, confidence_level=level, origin=origin)


def _entries(
    content: dict[str, Any], name: str, key: str, origin: Origin, version: int
) -> list[tuple[Any, OperatingPoint]]:
    """Return the keys of a list and the point of each; there must be at least one."""
    parts = [DOCUMENT.section(entry, key) for entry in DOCUMENT.items(content.get(name), name)]
    if not parts:
        DOCUMENT.refuse(f"its {name!r} must be a list of at least one")
    points = [DOCUMENT.section(part.get("point"), "point") for part in parts]
    return [
        (part.get(key), _read_point(point, origin, version))
        for part, point in zip(parts, points, strict=True)
    ]


def _certified(point: OperatingPoint) -> CertifiedPoint:
    if not isinstance(point, CertifiedPoint):
        DOCUMENT.refuse("its points must be certified")
    return point


def _read_promise(content: dict[str, Any]) -> ClassPromise:
    kind = DOCUMENT.word(content.get("kind"), "kind", get_args(Kind))
    share = DOCUMENT.number(content.get("share"), "share", 0.0, 1.0)
    return ClassPromise(kind, _label(content.get("label")), share)  # type: ignore[arg-type]


def _read_point(content: dict[str, Any], origin: Origin, version: int) -> OperatingPoint:
    kind = TYPES.get(str(content.get("type")))
    if kind is None:
        DOCUMENT.refuse(f"its 'type' {content.get('type')!r} is not known")
    is_optional = {f.name: f.default is None for f in fields(kind) if f.name not in NOT_SAVED}
    if kind is CertifiedPoint:
        is_optional |= dict.fromkeys((*ADVICE, "passed"), True)
    content = _filled(content, {"type", *is_optional}, version, "content")
    values: dict[str, Any] = {
        name: None if content[name] is None and may_lack else _value(content, name)
        for name, may_lack in is_optional.items()
    }
    if values["n_accepted"] + values["n_delegated"] <= 0:
        DOCUMENT.refuse("it counts no cases")
    if kind is not CertifiedPoint:
        return kind(**values, origin=origin)
    if (values["reason"] is None) == (values["threshold"] == math.inf):
        DOCUMENT.refuse("it must have either a threshold or a reason why it has none")
    advice = SavedAdvice(*(values.pop(name) for name in ADVICE))
    passed = values.pop("passed") or CertifiedThresholds()
    if len(passed) and values["threshold"] < passed.ranges[-1][0]:
        DOCUMENT.refuse("its threshold is looser than all that passed")
    return CertifiedPoint(**values, origin=origin, advice=advice, passed=passed)


def _filled(content: dict[str, Any], names: set[str], version: int, what: str) -> dict[str, Any]:
    """Return content with exactly these names; fields that an older schema lacks are None."""
    unknown = {name for name in names if SINCE.get(name, 1) > version}
    if set(content) != names - unknown:
        DOCUMENT.refuse(f"its {what!r} does not have the fields it should")
    return {**dict.fromkeys(unknown), **content}


def _value(content: dict[str, Any], name: str) -> Any:
    value = content.get(name)
    if name == "passed":
        return _read_passed(DOCUMENT.section(value, name))
    if name == "threshold" and value in ("infinity", "-infinity"):
        return float(value)
    if name in WORDS:
        return DOCUMENT.word(value, name, WORDS[name])
    number = DOCUMENT.number(value, name, *RANGES.get(name, ()))
    return int(number) if name in WHOLE else number


def _read_passed(content: dict[str, Any]) -> CertifiedThresholds:
    stretches = content.get("stretches")
    if not isinstance(stretches, list) or not isinstance(content.get("is_continuous"), bool):
        DOCUMENT.refuse("its 'passed' does not have the fields it should")
    passed = CertifiedThresholds(
        tuple(_read_stretch(DOCUMENT.section(stretch, "stretch")) for stretch in stretches),
        content["is_continuous"],
    )
    threshold, accepted, errors, _ = passed.steps
    in_order = (np.diff(threshold) < 0).all() and (np.diff(accepted) >= 0).all()
    if not in_order or (errors > accepted).any() or (errors < 0).any():
        DOCUMENT.refuse("its 'passed' thresholds are not in order, from strict to loose")
    return passed


def _read_stretch(content: dict[str, Any]) -> Steps:
    columns = [_numbers(content.get(name) or [], name) for name in STRETCH]
    if not columns[0] or len({len(column) for column in columns}) > 1:
        DOCUMENT.refuse("its 'passed' must have as many thresholds as counts, and at least one")
    return Steps(*(np.array(column) for column in columns))


def _numbers(values: Any, name: str) -> list[float]:
    low_high = RANGES.get(name, ())
    return [DOCUMENT.number(value, name, *low_high) for value in DOCUMENT.items(values, name)]


# ------------------------------------------------------------------ the origin


def _read_origin(value: Any, version: int) -> Origin:
    names = {f.name: f.default is None for f in fields(Origin)}
    content = _filled(DOCUMENT.section(value, "origin"), {*names}, version, "origin")
    readers = {
        "ranked_by": lambda word: DOCUMENT.word(word, "ranked_by", WORDS["ranked_by"]),
        "read_as": lambda word: DOCUMENT.word(word, "read_as", WORDS["read_as"]),
        "labels": lambda labels: tuple(map(_label, DOCUMENT.items(labels, "labels"))),
        "probability_columns": lambda columns: _read_columns(columns, content["labels"] or []),
        "confidence_quantiles": _read_quantiles,
        "score": _read_score,
    }
    if (content["score"] is None) == (content["ranked_by"] == "score"):
        DOCUMENT.refuse("it must have a score if, and only if, cases are ranked by one")
    values: dict[str, Any] = {}
    for name, may_lack in names.items():
        given = content[name]
        if given is None and may_lack:
            values[name] = None
        elif name in readers:
            values[name] = readers[name](given)
        elif isinstance(given, str):
            values[name] = given
        else:
            DOCUMENT.refuse(f"its {name!r} must be text, not {given!r}")
    return Origin(**values)


def _read_columns(columns: Any, labels: list[Any]) -> tuple[str | None, ...]:
    """Return one column per class; one of two classes may have None."""
    columns = DOCUMENT.items(columns, "probability_columns")
    named = [column for column in columns if isinstance(column, str)]
    one_of_two = len(columns) == 2 and len(named) == 1 and None in columns
    if len(columns) != len(labels) or not (len(named) == len(columns) or one_of_two):
        DOCUMENT.refuse("its 'probability_columns' must name one column per class")
    return tuple(columns)


def _read_quantiles(values: Any) -> tuple[float, ...]:
    quantiles = _numbers(values, "confidence_quantiles")
    if len(quantiles) < 2 or quantiles != sorted(quantiles):
        DOCUMENT.refuse("its 'confidence_quantiles' must be two or more, ascending")
    return tuple(quantiles)


def _read_score(content: Any) -> Any:
    from expertload.calibrators import ConfidenceScore  # few policies need it

    return ConfidenceScore.from_dict(DOCUMENT.section(content, "score"))


def _label(value: Any) -> Label:
    if isinstance(value, bool) or not isinstance(value, str | int):
        DOCUMENT.refuse(f"a label must be text or a whole number, not {value!r}")
    return value
