"""A monitor as JSON: its promise and its audits, written completely or not at all.

The evidence is not stored. It is recounted from the audits when the file is read, so both always
agree.
"""

from __future__ import annotations

import math
import os
import re
from typing import TYPE_CHECKING, Any, TypeVar

from expertload._files import write_atomically
from expertload._store import DocumentKind
from expertload.exceptions import InvalidInputError
from expertload.monitoring.inputs import iso_time

if TYPE_CHECKING:
    from expertload.monitoring.monitor import AccuracyMonitor

    Monitor = TypeVar("Monitor", bound=AccuracyMonitor)

__all__ = ["load", "save"]

DOCUMENT = DocumentKind("expertload accuracy monitor", 2)
PROMISE = (
    "target_accuracy",
    "confidence_level",
    "blocks",
    "least_inclusion_probability",
    "order",
)
AUDITS = (
    "correct",
    "inclusion_probability",
    "least_inclusion_probability",
    "decided_at",
    "key",
)


def save(monitor: AccuracyMonitor, path: str | os.PathLike[str]) -> None:
    """Write a monitor.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from expertload.monitoring import AccuracyMonitor
    >>> from expertload.monitoring.storage import load, save
    >>> monitor = AccuracyMonitor(target_accuracy=0.95).update([1, None], key=["a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "monitor.json"
    ...     save(monitor, file)
    ...     again = load(AccuracyMonitor, file)
    >>> again.update([0], key=["b"]).n_errors
    1.0
    """
    content = {
        "promise": monitor._promise,
        "policy": monitor._policy,
        "audits": _audits(monitor),
    }
    write_atomically(path, DOCUMENT.write(content))


def _audits(monitor: AccuracyMonitor) -> dict[str, Any]:
    """Return the audits as columns; None for a column that was never given."""
    records = monitor._records
    times = records.clock == "time"
    moments = [iso_time(int(m)) for m in records.moments] if times else records.moments
    return {
        "correct": [_plain(grade) for grade in records.correct],
        "inclusion_probability": _said([_plain(each) for each in records.inclusion]),
        "least_inclusion_probability": _said([_plain(each) for each in records.least]),
        "decided_at": moments or None,
        "key": _said(records.keys),
    }


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value


def _said(column: list[Any]) -> list[Any] | None:
    return column if any(value is not None for value in column) else None


def load(cls: type[Monitor], path: str | os.PathLike[str]) -> Monitor:
    """Read a monitor.

    Examples
    --------
    >>> from expertload.monitoring.storage import load
    >>> from expertload.monitoring import AccuracyMonitor
    >>> load(AccuracyMonitor, "nowhere.json")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.json'
    """
    document = DOCUMENT.read(path)
    promise = _columns(document.get("promise"), PROMISE, "promise")
    audits = _columns(document.get("audits"), AUDITS, "audits")
    _check_lists(audits)
    try:
        monitor = cls(**promise)
        monitor._policy = _policy_digest(document)
        monitor._restore(audits)
    except InvalidInputError as error:
        DOCUMENT.refuse(f"its audits cannot be counted ({error})")
    return monitor


def _policy_digest(document: dict[str, Any]) -> str | None:
    """Return the digest of the policy; the first schema did not have it."""
    digest = document.get("policy")
    if digest is not None and not (
        isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest)
    ):
        DOCUMENT.refuse("its 'policy' must be a digest")
    return digest


def _columns(value: Any, names: tuple[str, ...], what: str) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != set(names):
        DOCUMENT.refuse(f"its {what!r} must have the fields {', '.join(names)}")
    return value


def _check_lists(audits: dict[str, Any]) -> None:
    lists = [column for column in audits.values() if column is not None]
    if not all(isinstance(column, list) for column in lists) or audits["correct"] is None:
        DOCUMENT.refuse("its audits must be lists")
    if len({len(column) for column in lists}) != 1:
        DOCUMENT.refuse("its lists of audits must have the same length")
