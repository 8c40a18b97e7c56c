"""A case as it was sent: read once, checked, and given a digest; and what readers see of it.

A case of the wrong form is refused with an explanation. A case of the right form that cannot be
decided (a NaN, an unknown class) is not an error here: routing sends it to an expert.

What readers see is never trusted: images are drawn again by another process (`images`), or refused.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from expertload._check import require_extra
from expertload.desk.intake.images import FORMATS, Refused, redrawn
from expertload.exceptions import DeskRefusedError

MOST_CASES = 5_000
LONGEST_NAME = 200
MOST_CLASSES = 10_000
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
MOST_SHADOWS = 20
LATEST_DUE = 253_402_300_799  # the end of the year 9999

MOST_IMAGE_BYTES = 20_000_000
MOST_TEXT = 1_000_000
MOST_CELLS = 100_000
DEEPEST = 50


@dataclass(frozen=True, slots=True)
class Body:
    """A body as it is stored: its kind, its media type and its bytes."""

    kind: str
    media_type: str
    content: bytes = field(repr=False)


class SentCase(NamedTuple):
    """One case whose form has been checked.

    Attributes
    ----------
    key : str
        The sender's name for it; the same key always means the same case.
    digest : str
        SHA-256 of what was sent, without `shadow`: it may be sent again with more shadows.
    probabilities : dict from str to float, optional
        The probability of each class, by its name; NaN is possible.
    confidence, label : float and str, optional
        The model's answer and how sure it is; NaN is possible.
    group, cluster, model : str, optional
        As sent.
    due : int, optional
        Microseconds since 1970.
    body : Body, optional
        What readers see.
    shadow : dict from str to dict, optional
        The probabilities of other models, by the name of the model.
    """

    key: str
    digest: str
    probabilities: dict[str, float] | None = None
    confidence: float | None = None
    label: str | None = None
    group: str | None = None
    cluster: str | None = None
    model: str | None = None
    due: int | None = None
    body: Body | None = None
    shadow: dict[str, dict[str, float]] | None = None


FIELDS = {*SentCase._fields} - {"digest"}


def read_line(line: bytes | str) -> SentCase:
    """Read one case in JSON.

    A fast parser reads nearly all cases. What it refuses, or might read less exactly (NaN, very
    long whole numbers), is read again by the standard parser, whose errors also say what is wrong.
    """
    try:
        content = orjson.loads(line)
        if isinstance(content, dict) and "body" not in content:
            return _read(content, orjson.dumps(_signed(content), option=orjson.OPT_SORT_KEYS))
    except (ValueError, TypeError, DeskRefusedError):
        pass
    return read_case(parsed(line))


def parsed(line: bytes | str) -> Any:
    """Parse JSON with the standard parser, whose errors say what is wrong.

    It would also read UTF-16, in which nobody has looked for images.
    """
    try:
        return json.loads(
            line if isinstance(line, str) else line.decode("utf-8-sig", "surrogatepass")
        )
    except (ValueError, RecursionError) as error:
        raise _refuse(
            f"This is not JSON ({_short(str(error))}).", "send one object per line."
        ) from None


def _signed(content: dict[str, Any]) -> dict[str, Any]:
    """Return what the digest is of: all but the shadows, of which more may come."""
    return {name: value for name, value in content.items() if name != "shadow"}


def read_case(content: Any) -> SentCase:
    """Read one case that was parsed from JSON."""
    if not isinstance(content, dict):
        raise _refuse(f"A case must be an object. Got {_short(content)}.")
    return _read(content, _canonical(_signed(content)))


def _read(content: dict[str, Any], canonical: bytes) -> SentCase:
    if not content.keys() <= FIELDS:
        unknown = sorted(content.keys() - FIELDS)
        raise _refuse(
            f"A case has no field '{_short(unknown[0])}'.", f"its fields are {sorted(FIELDS)}."
        )
    get = content.get
    case = SentCase(
        key=_key(get("key")),
        digest=hashlib.sha256(canonical).hexdigest(),
        probabilities=_probabilities(get("probabilities")),
        confidence=_number(get("confidence"), "confidence"),
        label=_name(get("label"), "label"),
        group=_name(get("group"), "group"),
        cluster=_name(get("cluster"), "cluster"),
        model=_name(get("model"), "model"),
        due=_due(get("due")),
        body=None if get("body") is None else read_body(content["body"]),
        shadow=None if get("shadow") is None else _shadow(content["shadow"]),
    )
    if case.probabilities is None and (case.confidence is None or case.label is None):
        raise _refuse(
            f"The case '{_short(case.key)}' has no prediction.",
            "send 'probabilities', or 'confidence' and 'label'.",
        )
    if case.shadow and case.model in case.shadow:
        raise _refuse(
            f"'shadow' has the case's own model '{_short(case.model)}'.", "name other models there."
        )
    return case


def _shadow(value: Any) -> dict[str, dict[str, float]]:
    if not isinstance(value, dict) or not 1 <= len(value) <= MOST_SHADOWS:
        raise _refuse(
            "'shadow' must be an object from the names of models to their probabilities. "
            f"Got {_short(value)}.",
            f"name 1 to {MOST_SHADOWS} models.",
        )
    return dict(_beside(name, given) for name, given in value.items())


class Shadow(NamedTuple):
    """What a model answered that decides nothing: the case, the model, its probabilities."""

    key: str
    model: str
    probabilities: dict[str, float]


def read_shadow(line: bytes | str) -> Shadow:
    """Read one answer of a model in shadow, in JSON."""
    try:
        content = orjson.loads(line)
    except ValueError:
        content = parsed(line)
    if not isinstance(content, dict) or content.keys() != {"key", "model", "probabilities"}:
        raise _refuse(
            "A shadow must be an object with 'key', 'model' and 'probabilities'. "
            f"Got {_short(content)}."
        )
    return Shadow(_key(content["key"]), *_beside(content["model"], content["probabilities"]))


def _beside(model: Any, probabilities: Any) -> tuple[str, dict[str, float]]:
    """Return the name of a model in shadow, and its answer; it must have both."""
    name, given = _name(model, "model"), _probabilities(probabilities)
    if not name:
        raise _refuse("A model in shadow needs a name.")
    if given is None:
        raise _refuse("A model in shadow must have 'probabilities'.")
    return name, given


def _canonical(content: dict[str, Any]) -> bytes:
    """Write a case in the one form that is hashed, whichever parser has read it."""
    try:
        text = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
        if orjson.loads(text) == content:
            return text
    except (ValueError, TypeError):
        pass  # the fast parser cannot represent it; the standard one writes it below
    try:
        return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    except (ValueError, RecursionError) as error:
        raise _refuse(f"The case cannot be written as JSON ({_short(str(error))}).") from None


def _key(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _refuse(f"A case needs a 'key', a text that names only it. Got {_short(value)}.")
    return _text(value, "key")


def key_of(line: bytes) -> str | None:
    """Return the key of a refused line, if it has one that a case could have."""
    try:
        return _key(parsed(line)["key"])
    except (DeskRefusedError, KeyError, TypeError):
        return None


def _name(value: Any, field: str) -> str | None:
    """Return a name; a whole number is accepted, because classes are often numbered."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _refuse(f"'{field}' must be text or a whole number. Got {_short(value)}.")
    try:
        return _text(str(value), field)
    except ValueError:  # a number with more digits than Python converts to text
        raise _refuse(f"'{field}' must have at most {LONGEST_NAME} characters.") from None


def _text(value: str, field: str) -> str:
    if len(value) > LONGEST_NAME:
        raise _refuse(f"'{field}' must have at most {LONGEST_NAME} characters. Got {len(value)}.")
    if not (value.isascii() and value.isprintable()) and CONTROL.search(value):
        raise _refuse(f"'{field}' must not have control characters. Got {value!a}.")
    return value


def _probabilities(value: Any) -> dict[str, float] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not 1 <= len(value) <= MOST_CLASSES:
        raise _refuse(
            f"'probabilities' must be an object from classes to numbers. Got {_short(value)}."
        )
    _check_classes(tuple(value))
    if {*map(type, value.values())} == {float}:  # nearly always
        return value
    known = {name: _number(p, "probabilities") for name, p in value.items()}
    return {name: math.nan if p is None else p for name, p in known.items()}


@lru_cache(maxsize=8)  # most cases have the same classes
def _check_classes(names: tuple[str, ...]) -> None:
    for name in names:
        _text(name, "probabilities")


def _number(value: Any, field: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refuse(f"'{field}' must be a number. Got {_short(value)}.")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _due(value: Any) -> int | None:
    """Read a time: seconds since 1970, or a date and time with a time zone."""
    if value is None:
        return None
    try:
        if isinstance(value, str):
            when = datetime.fromisoformat(value)
            if when.tzinfo is None:
                raise ValueError(value)
            seconds = when.astimezone(UTC).timestamp()
        else:
            seconds = _number(value, "due") or 0.0
        if not 0 <= seconds <= LATEST_DUE:
            raise ValueError(value)
    except (ValueError, OverflowError):
        raise _refuse(
            f"'due' must be a time. Got {_short(value)}.",
            "send 2026-05-01T12:00:00Z, or seconds since 1970.",
        ) from None
    return int(seconds * 1e6)


def _short(value: Any) -> str:
    """Return a short text of a value, for messages."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    try:
        is_text = isinstance(value, str)
        text = value.encode("ascii", "backslashreplace").decode() if is_text else ascii(value)
    except ValueError:
        return "a very long number"
    return text if len(text) <= 60 else text[:57] + "..."


def _refuse(message: str, hint: str = "") -> DeskRefusedError:
    return DeskRefusedError("bad_case", message, hint)


# ------------------------------------------------------------------ what readers see


def read_body(value: Any) -> Body:
    """Read ``{"kind": "image", "text", "table" or "json", "content": ...}``."""
    if not isinstance(value, dict) or set(value) != {"kind", "content"}:
        raise _refuse_body("A body must be an object with 'kind' and 'content'.")
    kind, content = value["kind"], value["content"]
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise _refuse_body(f"A body's 'kind' must be one of {', '.join(_READERS)}.")
    body = reader(content)
    if kind != "image" and len(body.content) > MOST_TEXT:
        raise _refuse_body(f"A body must have at most {MOST_TEXT} bytes. Got {len(body.content)}.")
    return body


def _image(content: Any) -> Body:
    if isinstance(content, str) and len(content) > MOST_IMAGE_BYTES * 4 // 3:
        raise _refuse_body(f"An image must have at most {MOST_IMAGE_BYTES} bytes.")
    try:
        data = base64.b64decode(content, validate=True)
    except (TypeError, ValueError):
        raise _refuse_body("An image's 'content' must be text in base64.") from None
    require_extra("PIL", "desk", "A body with an image")
    try:
        return Body("image", *redrawn(data))
    except Refused as error:
        kinds = ", ".join(FORMATS)
        raise _refuse_body(str(error), f"send one of {kinds}; SVG is not accepted.") from None


def _text_body(content: Any) -> Body:
    if not isinstance(content, str):
        raise _refuse_body("A text's 'content' must be text.")
    try:
        data = content.encode()
    except UnicodeEncodeError:
        raise _refuse_body("A text's 'content' must be valid Unicode.") from None
    return Body("text", "text/plain; charset=utf-8", data)


def _table(content: Any) -> Body:
    """Read rows of cells; the first row has the names of the columns."""
    rows = content if isinstance(content, list) else None
    if not rows or not all(isinstance(row, list) and row for row in rows):
        raise _refuse_body(
            "A table's 'content' must be a list of rows, the first with column names."
        )
    if any(len(row) != len(rows[0]) for row in rows):
        raise _refuse_body("A table's rows must all have the same length.")
    if len(rows) * len(rows[0]) > MOST_CELLS:
        raise _refuse_body(f"A table must have at most {MOST_CELLS} cells.")
    if any(isinstance(cell, dict | list) for row in rows for cell in row):
        raise _refuse_body("A table's cells must be text, numbers, true, false or null.")
    return _json(rows, "table")


def _json(content: Any, kind: str = "json") -> Body:
    try:
        _check_depth(content)
        data = json.dumps(content, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, UnicodeEncodeError):
        raise _refuse_body(
            "A body must be plain JSON, without NaN or invalid characters."
        ) from None
    return Body(kind, "application/json", data)


def _check_depth(content: Any) -> None:
    level = [content]
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise _refuse_body(f"A body may have at most {DEEPEST} nested levels.")


def _refuse_body(message: str, hint: str = "") -> DeskRefusedError:
    return DeskRefusedError("bad_body", message, hint)


_READERS = {"image": _image, "text": _text_body, "table": _table, "json": _json}
