"""Operating points as JSON: written completely or not at all, and checked when read.

A file stores where the point comes from (``origin``) and the point itself (``content``). Truncated
and edited files are refused, as for every `DocumentKind`.
"""

from __future__ import annotations

import math
import os
from dataclasses import asdict, fields, replace
from typing import Any, NamedTuple, get_args

import numpy as np

from expertload._documents import DocumentKind
from expertload._files import write_atomically
from expertload.columns.roles import ReadAs
from expertload.operating_point.certification.budget import ErrorBudget
from expertload.operating_point.certification.certified_point import (
    CertifiedPoint,
    ClusterPromise,
    Reason,
)
from expertload.operating_point.certification.certified_thresholds import (
    CertifiedThresholds,
    Stretch,
)
from expertload.operating_point.certification.groups import CertifiedGroups
from expertload.operating_point.certification.promise import METHODS, RISKS
from expertload.operating_point.origin import Label, Origin, RankedBy
from expertload.operating_point.point import OperatingPoint

__all__ = ["load_operating_point"]

DOCUMENT = DocumentKind(
    "expertload operating point", 5, hint="save it again, or certify again; do not edit the file"
)
# Fields that older schemas did not have; in their files, these fields are read as missing.
ORIGIN_SINCE = {
    "probability_columns": 2,
    "confidence_column": 2,
    "confidence_quantiles": 3,
    "read_as": 4,
    "score": 5,
}
CONTENT_SINCE = {"clusters": 3, "passed": 3}
TYPES: dict[str, type[OperatingPoint]] = {
    "described": OperatingPoint,
    "certified": CertifiedPoint,
    "error_budget": ErrorBudget,
}
NOT_SAVED = {"origin", "ladder", "advice", "passed"}
# Saved in addition to the fields of a certified point: advice is computed, thresholds are thinned.
ADVICE = ("sufficient_cases", "target_within_reach")
NOT_TEXT = ("labels", "probability_columns", "confidence_quantiles", "score")

# Allowed values of each saved field; None is allowed if it is the field's default.
NUMBERS = {
    "n_accepted": (0.0, math.inf),
    "n_delegated": (0.0, math.inf),
    "n_errors": (0.0, math.inf),
    "n_errors_spared": (0.0, math.inf),
    "target_accuracy": (0.0, 1.0),
    "confidence_level": (0.0, 1.0),
    "sufficient_cases": (1.0, math.inf),
    "target_within_reach": (0.0, 1.0),
    "max_errors": (0.0, math.inf),
    "next_cases": (1.0, math.inf),
}
WHOLE = {"sufficient_cases", "max_errors", "next_cases"}
WORDS: dict[str, set[str]] = {
    "read_as": {*get_args(ReadAs)},
    "method": {*METHODS},
    "risk": {*RISKS},
    "clusters": {*get_args(ClusterPromise)},
    "reason": {*get_args(Reason)},
    "ranked_by": {*get_args(RankedBy)},
}


# ------------------------------------------------------------------ writing


def save(
    point: OperatingPoint | CertifiedGroups,
    path: str | os.PathLike[str],
    *,
    model_name: str | None = None,
) -> None:
    """Write a point, or the points of all groups."""
    origin = point.origin if model_name is None else replace(point.origin, model_name=model_name)
    document = {
        "origin": {**asdict(origin), "score": origin.score and origin.score.to_dict()},
        "content": _groups(point) if isinstance(point, CertifiedGroups) else _plain(point),
    }
    write_atomically(path, DOCUMENT.write(document))


def _plain(point: OperatingPoint) -> dict[str, Any]:
    values = {f.name: getattr(point, f.name) for f in fields(point) if f.name not in NOT_SAVED}
    if math.isinf(point.threshold):  # infinity, for which JSON has no number
        values["threshold"] = "infinity" if point.threshold > 0 else "-infinity"
    if not isinstance(point, CertifiedPoint):
        return {"type": _type_of(point), **values}
    advice = {name: getattr(point, name) for name in ADVICE}
    return {"type": "certified", **values, **advice, "passed": _passed(point.passed)}


def _type_of(point: OperatingPoint) -> str:
    return next(name for name, kind in TYPES.items() if type(point) is kind)


def _passed(passed: CertifiedThresholds) -> dict[str, Any]:
    stretches = [
        {f.name: getattr(stretch, f.name).tolist() for f in fields(Stretch)}
        for stretch in passed.thinned().stretches
    ]
    return {"is_continuous": passed.is_continuous, "stretches": stretches}


def _groups(points: CertifiedGroups) -> dict[str, Any]:
    return {
        "type": "groups",
        "target_accuracy": points.target_accuracy,
        "confidence_level": points.confidence_level,
        "groups": [{"group": group, "point": _plain(point)} for group, point in points.items()],
    }


# ------------------------------------------------------------------ reading


def load_operating_point(path: str | os.PathLike[str]) -> OperatingPoint | CertifiedGroups:
    """Read an operating point, or the points of groups, from a file that ``save`` wrote.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    OperatingPoint, CertifiedPoint or CertifiedGroups
        What was saved, with its ``origin`` but without the ladder of tests.

    Raises
    ------
    FileFormatError
        If the file is something else, cut short, changed after saving, or of a newer schema.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from expertload.operating_point import certify_from_correctness, load_operating_point
    >>> point = certify_from_correctness([1] * 60, range(60), target_accuracy=0.95)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "policy.json")
    ...     point.save(path, model_name="forest")
    ...     again = load_operating_point(path)
    >>> again == point, again.origin.model_name
    (True, 'forest')
    """
    document = DOCUMENT.read(path)
    version = document["schema_version"]
    origin = _origin(document.get("origin"), version)
    content = DOCUMENT.section(document.get("content"), "content")
    if content.get("type") == "groups":
        return _load_groups(content, origin, version)
    return _load_point(content, origin, version)


def _load_groups(content: dict[str, Any], origin: Origin, version: int) -> CertifiedGroups:
    entries = content.get("groups")
    if not isinstance(entries, list) or not entries:
        DOCUMENT.refuse("its 'groups' must be a list of at least one")
    points: dict[Label, CertifiedPoint] = {}
    for entry in entries:
        part = DOCUMENT.section(entry, "group")
        point = _load_point(DOCUMENT.section(part.get("point"), "point"), origin, version)
        group = _label(part.get("group"))
        if not isinstance(point, CertifiedPoint) or group in points:
            DOCUMENT.refuse("its groups must be distinct and certified")
        points[group] = point
    return CertifiedGroups(
        points=points,
        target_accuracy=_number(content, "target_accuracy"),
        confidence_level=_number(content, "confidence_level"),
        origin=origin,
    )


class SavedAdvice(NamedTuple):
    """Advice that was read from a file."""

    sufficient_cases: int | None
    target_within_reach: float | None


def _load_point(content: dict[str, Any], origin: Origin, version: int) -> OperatingPoint:
    kind = TYPES.get(str(content.get("type")))
    if kind is None:
        DOCUMENT.refuse(f"its 'type' {content.get('type')!r} is not known")
    names = {f.name: f.default is None for f in fields(kind) if f.name not in NOT_SAVED}
    if kind is CertifiedPoint:
        names |= {**dict.fromkeys(ADVICE, True), "passed": True}
    content = _filled(content, {"type", *names}, CONTENT_SINCE, version, "content")
    values = {name: _value(content, name, optional) for name, optional in names.items()}
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


def _filled(
    content: dict[str, Any], names: set[str], since: dict[str, int], version: int, what: str
) -> dict[str, Any]:
    """Return content with exactly these names; fields that an older schema lacks are None."""
    unknown = {name for name in names if since.get(name, 1) > version}
    if set(content) != names - unknown:
        DOCUMENT.refuse(f"its {what!r} does not have the fields it should")
    return {**dict.fromkeys(unknown), **content}


def _value(content: dict[str, Any], name: str, is_optional: bool) -> Any:
    if content[name] is None and is_optional:
        return None
    if name == "threshold":
        return _threshold(content[name])
    if name == "passed":
        return _load_passed(DOCUMENT.section(content[name], name))
    if name in WORDS:
        return _word(content, name)
    return int(_number(content, name)) if name in WHOLE else _number(content, name)


def _load_passed(content: dict[str, Any]) -> CertifiedThresholds:
    stretches = content.get("stretches")
    if not isinstance(stretches, list) or not isinstance(content.get("is_continuous"), bool):
        DOCUMENT.refuse("its 'passed' does not have the fields it should")
    passed = CertifiedThresholds(
        tuple(_load_stretch(DOCUMENT.section(stretch, "stretch")) for stretch in stretches),
        content["is_continuous"],
    )
    threshold, accepted, errors, _ = passed.steps
    in_order = (np.diff(threshold) < 0).all() and (np.diff(accepted) >= 0).all()
    if not in_order or (errors > accepted).any() or (errors < 0).any():
        DOCUMENT.refuse("its 'passed' thresholds are not in order, from strict to loose")
    return passed


def _load_stretch(content: dict[str, Any]) -> Stretch:
    columns = [_numbers(content, f.name) or [] for f in fields(Stretch)]
    if not columns[0] or len({len(column) for column in columns}) > 1:
        DOCUMENT.refuse("its 'passed' must have as many thresholds as counts, and at least one")
    return Stretch(*(np.array(column) for column in columns))


def _numbers(content: dict[str, Any], name: str) -> list[float] | None:
    values = _list(content, name)
    return None if values is None else [_number({name: each}, name) for each in values]


def _threshold(value: Any) -> float:
    if value in ("infinity", "-infinity"):
        return float(value)
    return _number({"threshold": value}, "threshold")


def _number(content: dict[str, Any], name: str) -> float:
    value = content.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        DOCUMENT.refuse(f"its {name!r} must be a number, not {value!r}")
    low, high = NUMBERS.get(name, (-math.inf, math.inf))
    if not low <= value <= high or math.isinf(value):
        DOCUMENT.refuse(f"its {name!r} is out of range: {value!r}")
    return float(value)


def _word(content: dict[str, Any], name: str) -> str:
    value = content.get(name)
    if not isinstance(value, str) or value not in WORDS[name]:
        DOCUMENT.refuse(f"its {name!r} is not known: {value!r}")
    return value


def _origin(value: Any, version: int) -> Origin:
    names = {f.name for f in fields(Origin)}
    content = _filled(DOCUMENT.section(value, "origin"), names, ORIGIN_SINCE, version, "origin")
    for f in fields(Origin):
        text = content[f.name]
        missing_is_fine = f.default is None
        if f.name not in NOT_TEXT and not (
            isinstance(text, str) or (text is None and missing_is_fine)
        ):
            DOCUMENT.refuse(f"its {f.name!r} must be text, not {text!r}")
    _word(content, "ranked_by")
    if content["read_as"] is not None:
        _word(content, "read_as")
    labels, columns = _list(content, "labels"), _list(content, "probability_columns")
    quantiles = _numbers(content, "confidence_quantiles")
    if quantiles is not None and (len(quantiles) < 2 or quantiles != sorted(quantiles)):
        DOCUMENT.refuse("its 'confidence_quantiles' must be two or more, ascending")
    lists = {
        "labels": None if labels is None else tuple(_label(each) for each in labels),
        "probability_columns": _columns(columns, labels or []),
        "confidence_quantiles": None if quantiles is None else tuple(quantiles),
    }
    if (content["score"] is None) == (content["ranked_by"] == "score"):
        DOCUMENT.refuse("it must have a score if, and only if, cases are ranked by one")
    if content["score"] is not None:
        from expertload.calibrators import ConfidenceScore  # few policies need it

        content["score"] = ConfidenceScore.from_dict(DOCUMENT.section(content["score"], "score"))
    return Origin(**{**content, **lists})


def _list(content: dict[str, Any], name: str) -> list[Any] | None:
    value = content.get(name)
    if value is not None and not isinstance(value, list):
        DOCUMENT.refuse(f"its {name!r} must be a list")
    return value


def _columns(columns: list[Any] | None, labels: list[Any]) -> tuple[str | None, ...] | None:
    """Return one column per class; one of two classes may have None."""
    if columns is None:
        return None
    named = [column for column in columns if isinstance(column, str)]
    one_of_two = len(columns) == 2 and len(named) == 1 and None in columns
    if len(columns) != len(labels) or not (len(named) == len(columns) or one_of_two):
        DOCUMENT.refuse("its 'probability_columns' must name one column per class")
    return tuple(columns)


def _label(value: Any) -> Label:
    if isinstance(value, bool) or not isinstance(value, str | int):
        DOCUMENT.refuse(f"a label must be text or a whole number, not {value!r}")
    return value
