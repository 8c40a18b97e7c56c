"""Documents that are checked when read: JSON that says what it is and carries its own digest.

The digest guards against accidents and careless edits; it is no signature, and a forger can compute
it too.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NoReturn

from expertload.exceptions import FileFormatError

__all__ = ["DocumentKind"]


class DocumentKind:
    """One kind of document: its name in the file, its newest schema, and how it is refused.

    Parameters
    ----------
    kind : str
        What the file says it is, such as "expertload monitor".
    schema_version : int
        The newest that is understood.
    """

    def __init__(self, kind: str, schema_version: int) -> None:
        self.kind, self.schema_version = kind, schema_version

    def write(self, content: dict[str, Any]) -> str:
        """Return the text of a document with this content."""
        document = {"kind": self.kind, "schema_version": self.schema_version, **content}
        document["sha256"] = digest(document)
        return json.dumps(document, indent=1, allow_nan=False) + "\n"

    def read(self, path: Path) -> dict[str, Any]:
        """Return a file's document, if it is of this kind, understood and unchanged."""
        try:
            document = json.loads(path.read_bytes(), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise FileFormatError(
                f"{path.name} is not valid JSON ({error}). Hint: it may be cut short or be "
                "another file."
            ) from error
        if not isinstance(document, dict):
            self.refuse(f"it must be an object, not {type(document).__name__}")
        self._check(document)
        return document

    def _check(self, document: dict[str, Any]) -> None:
        if document.get("kind") != self.kind:
            self.refuse(f"its 'kind' must be {self.kind!r}, not {document.get('kind')!r}")
        version = document.get("schema_version")
        if type(version) is not int or version < 1:
            self.refuse(f"its 'schema_version' must be a whole number, not {version!r}")
        if version > self.schema_version:
            why = f"its schema {version} is newer than {self.schema_version}"
            self.refuse(why, "upgrade expertload")
        if document.get("sha256") != digest(document):
            self.refuse("its content does not match its digest: it was changed after it was saved")

    def refuse(self, why: str, hint: str = "use the file as it was saved") -> NoReturn:
        """Raise the error that all unusable files end in."""
        raise FileFormatError(f"This is no {self.kind} to rely on: {why}. Hint: {hint}.")


def digest(document: dict[str, Any]) -> str:
    """Return the digest of a document, however it is laid out in the file."""
    content = {key: value for key, value in document.items() if key != "sha256"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")
