"""A calibrator as JSON: written completely or not at all, and checked when read.

Each calibrator declares its learned attributes once, as a table of `Learned` entries. Writing
follows the table, and so does reading: attributes that are missing, unknown, not finite or of the
wrong shape are refused. Python prints floats so that reading them gives the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from expertload._documents import DocumentKind

DOCUMENT = DocumentKind(
    "expertload calibrator",
    1,
    hint="save the calibrator again; the file was changed or damaged",
    has_digest=False,  # without a digest: it may be part of another document, which has one
)


class Learned(NamedTuple):
    """The form of one learned attribute.

    `shape` names the dimensions of an ``"array"``; the same name stands for the same length in
    all of one calibrator's attributes, and ``"classes"`` for its number of classes. ``"arrays"``
    is one vector of any length for each class.
    """

    kind: Literal["float", "int", "bool", "array", "indices", "arrays"]
    shape: tuple[str, ...] = ()


# --------------------------------------------------------------------------- writing


def plain(value: Any) -> Any:
    """Return arrays and numpy scalars as lists and numbers for JSON."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


# --------------------------------------------------------------------------- reading


def read_learned(
    state: Mapping[str, Any], table: Mapping[str, Learned], n_classes: int
) -> dict[str, Any]:
    """Return the learned attributes of `table`, checked."""
    odd = sorted(set(state) ^ set(table))
    if odd:
        DOCUMENT.refuse(f"its 'state' has missing or unknown entries: {', '.join(map(str, odd))}")
    lengths = {"classes": n_classes}
    return {name: _read(name, state[name], want, lengths) for name, want in table.items()}


def read_names(value: Any, n_columns: int) -> list[str]:
    """Return the names of columns; of two classes, one column may be enough."""
    is_list = isinstance(value, list) and all(isinstance(each, str) for each in value)
    if not is_list or len(value) not in ((1, 2) if n_columns == 2 else (n_columns,)):
        DOCUMENT.refuse(f"its 'column_names' must be a list of {n_columns} names, not {value!r}")
    return list(value)


def _read(name: str, value: Any, want: Learned, lengths: dict[str, int]) -> Any:
    if want.kind in ("float", "int", "bool"):
        return _read_scalar(name, value, want.kind)
    if want.kind == "arrays":
        if not isinstance(value, list) or len(value) != lengths["classes"]:
            DOCUMENT.refuse(f"its {name!r} must be a list of one list per class")
        return [_read_array(name, item, ("points",), {}) if item else np.empty(0) for item in value]
    array = _read_array(name, value, want.shape, lengths)
    if want.kind == "indices":
        if (array != np.floor(array)).any() or array.min() < 0 or array.max() > 2**31:
            DOCUMENT.refuse(f"its {name!r} must hold whole numbers from zero on")
        return array.astype(np.int64)
    return array


def _read_scalar(name: str, value: Any, kind: str) -> float | int | bool:
    allowed: dict[str, Any] = {"float": (float, int), "int": (int,), "bool": (bool,)}
    if not isinstance(value, allowed[kind]) or isinstance(value, bool) != (kind == "bool"):
        DOCUMENT.refuse(f"its {name!r} must be of type {kind}, not {type(value).__name__}")
    number: float | int | bool = value
    return float(_finite(name, number)) if kind == "float" else number


def _read_array(
    name: str, value: Any, shape: tuple[str, ...], lengths: dict[str, int]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    array = _finite(name, value)
    expected = tuple(
        lengths.setdefault(dimension, length)
        for dimension, length in zip(shape, array.shape, strict=False)
    )
    if array.ndim != len(shape) or array.shape != expected or array.size == 0:
        DOCUMENT.refuse(f"its {name!r} has the wrong shape, {array.shape}")
    return array


def _finite(name: str, value: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    try:
        array = np.array(value)
        usable = array.dtype.kind in "fi"
    except (ValueError, TypeError, OverflowError):
        usable = False
    if not usable:
        DOCUMENT.refuse(f"its {name!r} must hold numbers only, in rows of equal length")
    if not np.isfinite(array).all():
        DOCUMENT.refuse(f"its {name!r} must be finite")
    return array.astype(np.float64)
