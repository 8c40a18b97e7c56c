"""JSON: one object a case, every value as it is written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from expertload._opening.connection import quoted, saying_errors, text_of
from expertload._opening.contents import check_whole_text
from expertload._opening.files import OpenedFile
from expertload.exceptions import FileFormatError

__all__ = ["JsonRows", "survey_json"]

# A string, of which the inside is taken, or a number: both become a string. DuckDB reads a number
# with a point or an exponent as a double and writes 1.50 as 1.5, but it leaves strings alone.
STRING_OR_NUMBER = r'"((?:[^"\\]|\\.)*)"|(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)'
NUMBERS_AS_STRINGS = f"regexp_replace(json, {text_of(STRING_OR_NUMBER)}, '\"\\1\\2\"', 'g')"


@dataclass(frozen=True, kw_only=True)
class JsonRows:
    """The objects of some files.

    Attributes
    ----------
    objects : str
        What DuckDB selects them from, as text in one column `json`.
    names : tuple of str
        Their keys.
    rewritten : frozenset of str
        The keys with numbers that DuckDB may write in another way. Lists and objects are not among
        them: 1.50 in a list becomes 1.5.
    """

    objects: str
    names: tuple[str, ...]
    rewritten: frozenset[str]

    def sql(self, names: Sequence[str] | None, numbers: Sequence[str]) -> str:
        """Return the query for some columns as text: to guess types is to change what is there."""
        wanted = self.names if names is None else tuple(dict.fromkeys(names))
        kept = [name for name in wanted if name in self.rewritten and name not in numbers]
        plain = [name for name in wanted if name not in kept]
        listed = ", ".join(
            f"{'kept' if name in kept else 'plain'}.{quoted(name)} AS {quoted(name)}"
            for name in wanted
        )
        rows = [f"{_texts('json', plain)} AS plain"] if plain else []
        rows += [f"{_texts(NUMBERS_AS_STRINGS, kept)} AS kept"] if kept else []
        return f"SELECT {listed} FROM (SELECT {', '.join(rows)} FROM {self.objects})"


def _texts(row: str, names: Sequence[str]) -> str:
    return f"json_transform({row}, {text_of(json.dumps(dict.fromkeys(names, 'VARCHAR')))})"


def survey_json(connection: Any, files: Sequence[OpenedFile], paths: str) -> JsonRows:
    """Read the keys of all objects, and refuse what is no table."""
    kind, where = files[0].kind, files[0].where
    for file in files:  # DuckDB takes what a packed file still gives where it is damaged
        check_whole_text(file.pieces(), file.where)
    objects = (
        f"read_json_objects({paths}, format = '{_form(files[0])}', hive_partitioning = false, "
        f"compression = {text_of(files[0].compression)})"
    )
    numbered = f"(SELECT json, row_number() OVER () AS row FROM {objects})"
    with saying_errors(where, f"read as {kind}", [path for file in files for path in file.paths]):
        found = connection.execute(
            "SELECT json_keys(json) AS keys, json_type(json) AS type, min(row) AS row "
            f"FROM {numbered} GROUP BY ALL ORDER BY min(row)"
        ).fetchall()
        names = _names(found, where)
        if kind == "json" and len(found) == 1:
            rows = connection.execute(f"SELECT json FROM {objects} LIMIT 2").fetchall()
            _check_row_wise([row for (row,) in rows], where)
        types = connection.execute(
            "SELECT key, list(DISTINCT json_type(value)) FROM (SELECT unnest(json_keys(json)) "
            f"AS key, unnest(json_extract(json, '$.*')) AS value FROM {objects}) GROUP BY key"
        ).fetchall()
    rewritten = (key for key, found in types if _is_rewritten(set(found)))
    return JsonRows(objects=objects, names=tuple(names), rewritten=frozenset(rewritten))


def _is_rewritten(types: set[str]) -> bool:
    """Whether there are fractions or exponents, and nothing nested."""
    return "DOUBLE" in types and not types & {"ARRAY", "OBJECT"}


def _form(file: OpenedFile) -> str:
    """Return whether rows stand in an array, each in a line, or one after the other."""
    if file.kind == "jsonl":
        return "newline_delimited"
    start = next(file.pieces(), b"").lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    return "array" if start == b"[" else "unstructured"


def _names(found: list[tuple[list[str], str, int]], where: str) -> list[str]:
    """Return all keys in the order they appear in; a case is an object that has each once."""
    for keys, kind, row in found:
        if kind != "OBJECT":
            raise FileFormatError(
                f"Row {row} of {where} is no object but {str(kind).lower()}. Hint: predictions in "
                'JSON are objects, {"label": 1, "p_0": 0.1, "p_1": 0.9} for instance.'
            )
        lowered = Counter(key.lower() for key in keys)
        repeated = next((key for key, n in lowered.items() if n > 1), None)
        if repeated is not None:
            raise FileFormatError(f"Row {row} of {where} has more than one key '{repeated}'.")
    names = list(dict.fromkeys(key for keys, _, _ in found for key in keys))
    spellings = dict.fromkeys(name.lower() for name in names)
    if not names:
        raise FileFormatError(f"{where} holds no cases.")
    if len(spellings) < len(names) or "" in spellings:
        raise FileFormatError(
            f"{where} has keys that differ in case alone, or are empty. Hint: give every column a "
            "name of its own."
        )
    return names


def _check_row_wise(rows: list[str], where: str) -> None:
    """Refuse one object of lists: pandas writes columns unless it is told otherwise."""
    if len(rows) == 1 and all(isinstance(v, list | dict) for v in json.loads(rows[0]).values()):
        raise FileFormatError(
            f"{where} holds columns, and one row per case is wanted. Hint: write a list of "
            "objects; pandas does with to_json(..., orient='records')."
        )
