"""One store for policies, monitors and calibrators: JSON documents that are checked when read.

A document names its kind and its schema, and may carry a digest. The digest protects against
accidents and careless edits. It is not a signature: a forger can compute it too. Files are written
completely or not at all.

A `DocumentKind` also reads the values of a document: objects, lists, arrays of a shape. What does
not fit is refused with one error, which says what is wrong and what to do.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np

from expertload._typing import FloatArray
from expertload.exceptions import FileFormatError

LIST_OF_NUMBERS = re.compile(r"\[\s+([-+.\deE]+(?:,\s+[-+.\deE]+)*)\s+\]")
# Whole numbers with more digits may be too large for a float.
MOST_DIGITS = 300


class Learned(NamedTuple):
    """The form of one learned attribute, such as a calibrator's.

    `shape` names the dimensions of an ``"array"``; the same name stands for the same length in
    all attributes of one object, and ``"classes"`` for its number of classes. ``"arrays"`` is one
    vector of any length for each class.
    """

    kind: Literal["float", "int", "bool", "array", "indices", "arrays"]
    shape: tuple[str, ...] = ()


@dataclass(frozen=True)
class DocumentKind:
    """One kind of document: its name in the file, its latest schema, and a hint for errors.

    Parameters
    ----------
    kind : str
        The name of the kind in the file, such as "expertload monitor".
    schema_version : int
        The latest schema that can be read; older ones can be read too.
    hint : str
        What to do with a file that is refused.
    has_digest : bool, default=True
        Whether the file carries a digest of its content.
    """

    kind: str
    schema_version: int
    hint: str = "use the file as it was saved"
    has_digest: bool = True

    # ------------------------------------------------------------------ the document

    def complete(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return content with its header and, if this kind has one, its digest."""
        document = {"kind": self.kind, "schema_version": self.schema_version, **content}
        return {**document, "sha256": digest(document)} if self.has_digest else document

    def write(self, content: Mapping[str, Any]) -> str:
        """Return the text of a document with this content; lists of numbers are on one line."""
        text = json.dumps(self.complete(content), indent=2, allow_nan=False)
        return LIST_OF_NUMBERS.sub(lambda numbers: f"[{' '.join(numbers[1].split())}]", text) + "\n"

    def read(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Return a file's document; raise unless it is of this kind, readable and unchanged."""
        return self.parse(Path(path).read_bytes(), Path(path).name)

    def parse(self, text: str | bytes, name: str = "The text") -> dict[str, Any]:
        """Return the document in a text; raise unless it is of this kind and unchanged."""
        try:
            document = json.loads(
                text.encode() if isinstance(text, str) else text,
                parse_constant=_refuse_constant,
                parse_float=_finite_float,
                parse_int=_finite_int,
                object_pairs_hook=_distinct,
            )
        except (ValueError, RecursionError) as error:
            raise FileFormatError(
                f"{name} is not valid JSON ({error}). Hint: it may be cut short or be another file."
            ) from error
        document = self.section(document, "document")
        self.check(document)
        return document

    def check(self, document: Mapping[str, Any]) -> None:
        """Raise unless a document is of this kind, of a schema that is known, and unchanged."""
        if document.get("kind") != self.kind:
            self.refuse(f"its 'kind' must be {self.kind!r}, not {document.get('kind')!r}")
        version = document.get("schema_version")
        if type(version) is not int or version < 1:
            wanted = f"a whole number from 1 to {self.schema_version}"
            self.refuse(f"its 'schema_version' must be {wanted}, not {version!r}")
        if version > self.schema_version:
            writer = document.get("library_version")
            self.refuse(
                f"its 'schema_version' {version} is newer than {self.schema_version}",
                f"upgrade expertload to {writer} or newer" if writer else "upgrade expertload",
            )
        if self.has_digest and document.get("sha256") != digest(document):
            self.refuse("its content does not match its digest: it was changed after it was saved")

    def refuse(self, why: str, hint: str | None = None) -> NoReturn:
        """Raise the error for an unusable document."""
        raise FileFormatError(f"This is not a valid {self.kind}: {why}. Hint: {hint or self.hint}.")

    # ------------------------------------------------------------------ its values

    def section(self, value: Any, name: str) -> dict[str, Any]:
        """Return a part of a document that must be an object."""
        if not isinstance(value, dict):
            self.refuse(f"its {name} must be an object, not {type(value).__name__}")
        return value

    def items(self, value: Any, name: str) -> list[Any]:
        """Return a part of a document that must be a list."""
        if not isinstance(value, list):
            self.refuse(f"its {name!r} must be a list")
        return value

    def learned(
        self, state: Mapping[str, Any], table: Mapping[str, Learned], n_classes: int
    ) -> dict[str, Any]:
        """Return learned attributes, each of the form that `table` gives."""
        odd = sorted(set(state) ^ set(table))
        if odd:
            self.refuse(f"its 'state' has missing or unknown entries: {', '.join(map(str, odd))}")
        lengths = {"classes": n_classes}
        return {name: self._learned(name, state[name], table[name], lengths) for name in table}

    def _learned(self, name: str, value: Any, want: Learned, lengths: dict[str, int]) -> Any:
        if want.kind in ("float", "int", "bool"):
            return self._scalar(name, value, want.kind)
        if want.kind == "arrays":
            if not isinstance(value, list) or len(value) != lengths["classes"]:
                self.refuse(f"its {name!r} must be a list of one list per class")
            return [
                self._array(name, row, ("points",), {}) if row else np.empty(0) for row in value
            ]
        array = self._array(name, value, want.shape, lengths)
        if want.kind == "indices":
            if (array != np.floor(array)).any() or array.min() < 0 or array.max() > 2**31:
                self.refuse(f"its {name!r} must hold whole numbers from zero on")
            return array.astype(np.int64)
        return array

    def _scalar(self, name: str, value: Any, kind: str) -> float | int | bool:
        allowed: dict[str, Any] = {"float": (float, int), "int": (int,), "bool": (bool,)}
        if not isinstance(value, allowed[kind]) or isinstance(value, bool) != (kind == "bool"):
            self.refuse(f"its {name!r} must be of type {kind}, not {type(value).__name__}")
        number: float | int | bool = value
        return float(self._finite(name, number)) if kind == "float" else number

    def _array(
        self, name: str, value: Any, shape: tuple[str, ...], lengths: dict[str, int]
    ) -> FloatArray:
        array = self._finite(name, value)
        expected = tuple(
            lengths.setdefault(dimension, length)
            for dimension, length in zip(shape, array.shape, strict=False)
        )
        if array.ndim != len(shape) or array.shape != expected or array.size == 0:
            self.refuse(f"its {name!r} has the wrong shape, {array.shape}")
        return array

    def _finite(self, name: str, value: Any) -> FloatArray:
        try:
            array = np.array(value)
            usable = array.dtype.kind in "fi"
        except (ValueError, TypeError, OverflowError):
            usable = False
        if not usable:
            self.refuse(f"its {name!r} must hold numbers only, in rows of equal length")
        if not np.isfinite(array).all():
            self.refuse(f"its {name!r} must be finite")
        return array.astype(np.float64)


def digest(document: Mapping[str, Any]) -> str:
    """Return the digest of a document, independent of its layout in the file."""
    content = {key: value for key, value in document.items() if key != "sha256"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def plain(value: Any) -> Any:
    """Return arrays and numpy scalars as lists and numbers for JSON."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


# ------------------------------------------------------------------ stricter than json.loads


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


def _finite_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        _refuse_constant(text[:20])
    return number


def _finite_int(text: str) -> int:
    """Return a whole number that a float can hold."""
    if len(text) > MOST_DIGITS:
        _refuse_constant(f"{text[:20]}...")
    return int(text)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an entry given twice: people see the first, and Python takes the last."""
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is given twice")
    return content


# What the desk writes beside cases that teach, and the lab reads before it trains on them.
TRAINING_SET = DocumentKind("expertload training set", 1, hint="export the cases again")
