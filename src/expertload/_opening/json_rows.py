"""JSON with one object per case; every value is kept as written."""

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

# DuckDB reads a number as a double and writes 1.50 as 1.5, and -0 as 0, but it does not change
# strings. So while DuckDB splits rows into columns, every number becomes a string that begins with
# a mark, and every string gets a mark at its end. Afterwards the marks show which is which.
STRING_OR_NUMBER = r'"((?:[^"\\]|\\.)*)"|(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)'
MARK = "|"
MARKED = f"regexp_replace(json, {text_of(STRING_OR_NUMBER)}, '\"\\1{MARK}\\2\"', 'g')"
# In lists and objects, a quote inside a string follows a backslash, so it never matches these.
MARKED_NUMBER = r'([\[,:])"[|]([-+.eE0-9]+)"'
END_OF_MARKED_STRING = r'[|]"([],:}])'


@dataclass(frozen=True, kw_only=True)
class JsonRows:
    """The JSON objects of one or more files.

    Attributes
    ----------
    objects : str
        The SQL source of the objects, as text in one column `json`.
    names : tuple of str
        Their keys.
    rewritten : frozenset of str
        Keys whose values DuckDB might rewrite: some numbers, and lists and objects.
    """

    objects: str
    names: tuple[str, ...]
    rewritten: frozenset[str]

    def sql(self, names: Sequence[str] | None, numbers: Sequence[str]) -> str:
        """Return a query for these columns as text, because guessed types would change values."""
        wanted = self.names if names is None else tuple(dict.fromkeys(names))
        kept = [name for name in wanted if name in self.rewritten and name not in numbers]
        plain = [name for name in wanted if name not in kept]
        listed = ", ".join(
            f"{_unmarked(name) if name in kept else f'plain.{quoted(name)}'} AS {quoted(name)}"
            for name in wanted
        )
        rows = [f"{_texts('json', plain)} AS plain"] if plain else []
        rows += [f"{_texts(MARKED, [name + MARK for name in kept])} AS kept"] if kept else []
        return f"SELECT {listed} FROM (SELECT {', '.join(rows)} FROM {self.objects})"


def _texts(row: str, names: Sequence[str]) -> str:
    return f"json_transform({row}, {text_of(json.dumps(dict.fromkeys(names, 'VARCHAR')))})"


def _unmarked(name: str) -> str:
    """Return an SQL expression for a column's text without the marks."""
    text = f"kept.{quoted(name + MARK)}"
    numbers = f"regexp_replace({text}, {text_of(MARKED_NUMBER)}, '\\1\\2', 'g')"
    nested = f"regexp_replace({numbers}, {text_of(END_OF_MARKED_STRING)}, '\"\\1', 'g')"
    return (
        f"CASE WHEN ends_with({text}, '{MARK}') THEN {text}[:-2] "
        f"WHEN starts_with({text}, '{MARK}') THEN {text}[2:] ELSE {nested} END"
    )


def survey_json(connection: Any, files: Sequence[OpenedFile], paths: str) -> JsonRows:
    """Read the keys of all objects; refuse a file that is not one object per case."""
    kind, where = files[0].kind, files[0].where
    for file in files:  # DuckDB silently accepts the readable part of a damaged compressed file
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
            "SELECT key, list(DISTINCT json_type(value)), bool_or(signed) FROM (SELECT "
            "unnest(json_keys(json)) AS key, unnest(json_extract(json, '$.*')) AS value, "
            f"contains(json, '-0') AS signed FROM {objects}) GROUP BY key"
        ).fetchall()
    rewritten = (key for key, found, signed in types if _is_rewritten(set(found), signed))
    return JsonRows(objects=objects, names=tuple(names), rewritten=frozenset(rewritten))


def _is_rewritten(types: set[str], signed: bool) -> bool:
    """Whether DuckDB might rewrite values: fractions, exponents, nested values or -0."""
    return bool(
        types & ({"DOUBLE", "ARRAY", "OBJECT"} | ({"UBIGINT", "BIGINT"} if signed else set()))
    )


def _form(file: OpenedFile) -> str:
    """Return DuckDB's name for the layout: an array, one object per line, or neither."""
    if file.kind == "jsonl":
        return "newline_delimited"
    start = next(file.pieces(), b"").lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    return "array" if start == b"[" else "unstructured"


def _names(found: list[tuple[list[str], str, int]], where: str) -> list[str]:
    """Return all keys in order of appearance; refuse rows that are not objects, or repeat a key."""
    for keys, kind, row in found:
        if kind != "OBJECT":
            raise FileFormatError(
                f"Row {row} of {where} must be an object. Got {str(kind).lower()}. Hint: write "
                'each case as an object such as {"label": 1, "p_0": 0.1, "p_1": 0.9}.'
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
            f"{where} has keys that are empty, or that differ only in upper and lower case. Hint: "
            "give every column a distinct name."
        )
    return names


def _check_row_wise(rows: list[str], where: str) -> None:
    """Refuse a single object of columns, which is what pandas writes by default."""
    if len(rows) == 1 and all(isinstance(v, list | dict) for v in json.loads(rows[0]).values()):
        raise FileFormatError(
            f"{where} must hold one object per case. Got one object of columns. Hint: write a list "
            "of objects; in pandas, use to_json(..., orient='records')."
        )
