"""JSON documents that are checked when read: they name their kind, and may have a digest.

Policies, monitors and calibrators are such documents. The digest protects against accidents and
careless edits. It is not a signature: a forger can compute it too.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from expertload.exceptions import FileFormatError

__all__ = ["MOST_DIGITS", "DocumentKind"]

LIST_OF_NUMBERS = re.compile(r"\[\s+([-+.\deE]+(?:,\s+[-+.\deE]+)*)\s+\]")
# Whole numbers of more digits may be beyond floats.
MOST_DIGITS = 300


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

    def __init__(
        self,
        kind: str,
        schema_version: int,
        *,
        hint: str = "use the file as it was saved",
        has_digest: bool = True,
    ) -> None:
        self.kind, self.schema_version = kind, schema_version
        self.hint, self.has_digest = hint, has_digest

    def complete(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """Return content with its header and, if this kind has one, its digest."""
        document = {"kind": self.kind, "schema_version": self.schema_version, **content}
        return {**document, "sha256": digest(document)} if self.has_digest else document

    def write(self, content: Mapping[str, Any]) -> str:
        """Return the text of a document with this content; lists of numbers are on one line."""
        text = json.dumps(self.complete(content), indent=2, allow_nan=False)
        return LIST_OF_NUMBERS.sub(_on_one_line, text) + "\n"

    def read(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Return a file's document; raise unless it is of this kind, readable and unchanged."""
        path = Path(path)
        try:
            document = json.loads(
                path.read_bytes(),
                parse_constant=_refuse_constant,
                parse_float=_finite_float,
                parse_int=_finite_int,
                object_pairs_hook=_distinct,
            )
        except (ValueError, RecursionError) as error:
            raise FileFormatError(
                f"{path.name} is not valid JSON ({error}). Hint: it may be cut short or be "
                "another file."
            ) from error
        document = self.section(document, "document")
        self.check(document)
        return document

    def check(self, document: Mapping[str, Any]) -> int:
        """Return the schema of a document; raise unless it is of this kind and unchanged."""
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
        return version

    def section(self, value: Any, name: str) -> dict[str, Any]:
        """Return a part of a document that must be an object."""
        if not isinstance(value, dict):
            self.refuse(f"its {name} must be an object, not {type(value).__name__}")
        return value

    def refuse(self, why: str, hint: str | None = None) -> NoReturn:
        """Raise the error for an unusable document."""
        raise FileFormatError(f"This is not a valid {self.kind}: {why}. Hint: {hint or self.hint}.")


def digest(document: Mapping[str, Any]) -> str:
    """Return the digest of a document, independent of its layout in the file."""
    content = {key: value for key, value in document.items() if key != "sha256"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _on_one_line(found: re.Match[str]) -> str:
    return f"[{' '.join(found[1].split())}]"


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
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is given twice")
    return found
