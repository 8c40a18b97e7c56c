"""A calibrator as JSON: written completely or not at all, and checked when read.

Each calibrator declares its learned attributes once, as a table of `Learned` entries. Writing
follows the table, and so does reading: what is missing, misshapen, not finite or left over is
refused in words. Python prints floats so that reading them back gives the same bits.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np

from expertload.exceptions import FileFormatError

KIND = "expertload calibrator"
SCHEMA_VERSION = 1


class Learned(NamedTuple):
    """What one learned attribute looks like.

    `shape` names the dimensions of an ``"array"``; the same name stands for the same length in
    all of one calibrator's attributes, and ``"classes"`` for its number of classes. ``"arrays"``
    is one vector of any length for each class.
    """

    kind: Literal["float", "int", "bool", "array", "indices", "arrays"]
    shape: tuple[str, ...] = ()


# --------------------------------------------------------------------------- writing


def plain(value: Any) -> Any:
    """Return arrays and numpy scalars as the lists and numbers that JSON knows."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


# --------------------------------------------------------------------------- reading


def read_document(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the JSON object in a file."""
    try:
        document = json.loads(Path(path).read_text("utf-8"), parse_constant=_refuse_constant)
    except FileFormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            f"The file {Path(path).name} is not valid JSON ({error}). "
            "Hint: it may be cut short; save the calibrator again."
        ) from error
    if not isinstance(document, dict):
        refuse("the file must hold one JSON object")
    return document


def check_header(document: Mapping[str, Any]) -> None:
    """Raise unless the document says it is a calibrator of a schema that is understood."""
    if document.get("kind") != KIND:
        refuse(f"its 'kind' must be {KIND!r}, not {document.get('kind')!r}")
    version = document.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        refuse(f"its 'schema_version' must be a whole number from 1 on, not {version!r}")
    if version > SCHEMA_VERSION:
        refuse(
            f"it was written by a newer expertload ({document.get('library_version')}, schema "
            f"{version}; this one reads up to {SCHEMA_VERSION})",
            hint="upgrade expertload",
        )


def section(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return one of the document's objects."""
    value = document.get(name)
    if not isinstance(value, dict):
        refuse(f"its {name!r} must be an object, not {type(value).__name__}")
    return value


def read_learned(
    state: Mapping[str, Any], table: Mapping[str, Learned], n_classes: int
) -> dict[str, Any]:
    """Return the learned attributes that `table` asks for, each as it should be."""
    odd = sorted(set(state) ^ set(table))
    if odd:
        refuse(f"its 'state' has missing or unknown entries: {', '.join(map(str, odd))}")
    lengths = {"classes": n_classes}
    return {name: _read(name, state[name], want, lengths) for name, want in table.items()}


def _read(name: str, value: Any, want: Learned, lengths: dict[str, int]) -> Any:
    if want.kind in ("float", "int", "bool"):
        return _read_scalar(name, value, want.kind)
    if want.kind == "arrays":
        if not isinstance(value, list) or len(value) != lengths["classes"]:
            refuse(f"its {name!r} must be a list of one list a class")
        return [_read_array(name, item, ("points",), {}) if item else np.empty(0) for item in value]
    array = _read_array(name, value, want.shape, lengths)
    if want.kind == "indices":
        if (array != np.floor(array)).any() or array.min() < 0 or array.max() > 2**31:
            refuse(f"its {name!r} must hold whole numbers from zero on")
        return array.astype(np.int64)
    return array


def _read_scalar(name: str, value: Any, kind: str) -> float | int | bool:
    allowed: dict[str, Any] = {"float": (float, int), "int": (int,), "bool": (bool,)}
    if not isinstance(value, allowed[kind]) or isinstance(value, bool) != (kind == "bool"):
        refuse(f"its {name!r} must be of type {kind}, not {type(value).__name__}")
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
        refuse(f"its {name!r} has the wrong shape, {array.shape}")
    return array


def _finite(name: str, value: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    try:
        array = np.array(value)
        usable = array.dtype.kind in "fi"
    except (ValueError, TypeError, OverflowError):
        usable = False
    if not usable:
        refuse(f"its {name!r} must hold numbers only, in rows of equal length")
    if not np.isfinite(array).all():
        refuse(f"its {name!r} must be finite")
    return array.astype(np.float64)


def _refuse_constant(text: str) -> NoReturn:
    refuse(f"it holds {text}, where only finite numbers make sense")


def refuse(
    reason: str, hint: str = "save the calibrator again; the file was changed or damaged"
) -> NoReturn:
    """Raise the error that all unusable files end in."""
    raise FileFormatError(f"This is not a calibrator that can be loaded: {reason}. Hint: {hint}.")
