"""What DuckDB is told to read of a file: never left to its own guesses."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expertload._opening.connection import literal_paths, quoted, saying_errors, text_of
from expertload._opening.files import OpenedFile
from expertload._opening.options import FileOptions
from expertload._opening.survey import Survey, survey_csv
from expertload.exceptions import FileFormatError

__all__ = ["Reader", "reader_of"]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """What DuckDB is to be asked for the columns of some files.

    Attributes
    ----------
    sql : callable
        Return the query for some columns, or for all of them.
    columns : tuple of str or None
        The names, where they are known without asking; such columns are all text.
    n_rows : int or None
        How many rows must come, where that is known.
    """

    sql: Callable[[Sequence[str] | None], str]
    columns: tuple[str, ...] | None = None
    n_rows: int | None = None

    @classmethod
    def of(cls, table: str) -> Reader:
        """Return what reads one table, of which DuckDB knows the columns."""
        return cls(sql=lambda names: f"SELECT * FROM {table}")


def reader_of(connection: Any, files: Sequence[OpenedFile], options: FileOptions) -> Reader:
    """Return how to read some files of one kind."""
    kind = files[0].kind
    if kind in ("csv", "tsv"):
        return _csv(files, options)
    paths = literal_paths([path for file in files for path in file.paths])
    if kind == "parquet":
        _check_one_schema(connection, files)
        return Reader.of(f"read_parquet({paths}, hive_partitioning = false)")
    return _json(connection, files, paths)


# --------------------------------------------------------------------------------- CSV


def _csv(files: Sequence[OpenedFile], options: FileOptions) -> Reader:
    surveys = [survey_csv(file, options) for file in files]
    for file, survey in zip(files, surveys, strict=True):
        if survey.header != surveys[0].header:
            raise FileFormatError(
                f"The header of {file.where} is not that of {files[0].where}. Hint: files that are "
                "read together must have the same columns, in the same order."
            )

    def sql(names: Sequence[str] | None) -> str:
        wanted = surveys[0].header if names is None else tuple(dict.fromkeys(names))
        parts = (_csv_part(file, s, wanted) for file, s in zip(files, surveys, strict=True))
        return " UNION ALL ".join(parts)

    n_rows = sum(survey.n_rows for survey in surveys)
    return Reader(sql=sql, columns=surveys[0].header, n_rows=n_rows)


def _csv_part(file: OpenedFile, survey: Survey, wanted: Sequence[str]) -> str:
    """Return the query for a file; its columns are numbered, because any name may be one.

    Only those that are wanted are named: to plan a query over thousands takes longer than to read.
    """
    columns = ", ".join(f"c{i}: 'VARCHAR'" for i in range(len(survey.header)))
    number = {name: f"c{i}" for i, name in enumerate(survey.header)}
    named = ", ".join(f"{number[name]} AS {quoted(name)}" for name in wanted)
    return (
        f"SELECT {named} FROM read_csv({literal_paths(file.paths)}, columns = {{{columns}}}, "
        f"delim = {text_of(survey.delimiter)}, "
        "auto_detect = false, header = true, quote = '\"', escape = '\"', comment = '', skip = 0, "
        "null_padding = false, ignore_errors = false, strict_mode = true, nullstr = '', "
        f"allow_quoted_nulls = true, hive_partitioning = false, "
        f"compression = {text_of(file.compression)})"
    )


# --------------------------------------------------------------------------------- JSON


def _json(connection: Any, files: Sequence[OpenedFile], paths: str) -> Reader:
    """Return all keys as text, as they are written: to guess types is to change what is there."""
    kind, where = files[0].kind, files[0].where
    fixed = (
        f"format = '{_json_form(files[0])}', hive_partitioning = false, "
        f"compression = {text_of(files[0].compression)}"
    )
    objects = f"read_json_objects({paths}, {fixed})"
    with saying_errors(where, f"read as {kind}", [path for file in files for path in file.paths]):
        found = connection.execute(
            "SELECT json_keys(json) AS keys, json_type(json) AS type, min(row) AS row "
            f"FROM (SELECT json, row_number() OVER () AS row FROM {objects}) "
            "GROUP BY ALL ORDER BY min(row)"
        ).fetchall()
    names = _json_names(found, where)
    if kind == "json" and len(found) == 1:
        with saying_errors(where, f"read as {kind}", files[0].paths):
            rows = connection.execute(f"SELECT json FROM {objects} LIMIT 2").fetchall()
        _check_row_wise([row for (row,) in rows], where)
    columns = ", ".join(f"{quoted(name)}: 'VARCHAR'" for name in names)
    return Reader.of(f"read_json({paths}, {fixed}, records = 'true', columns = {{{columns}}})")


def _json_form(file: OpenedFile) -> str:
    """Return whether rows stand in an array, each in a line, or one after the other."""
    if file.kind == "jsonl":
        return "newline_delimited"
    start = next(file.pieces(), b"").lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    return "array" if start == b"[" else "unstructured"


def _json_names(found: list[tuple[list[str], str, int]], where: str) -> list[str]:
    """Return all keys in the order they appear in; a case is an object that has each once."""
    for keys, kind, row in found:
        if kind != "OBJECT":
            raise FileFormatError(
                f"Row {row} of {where} is no object but {str(kind).lower()}. Hint: predictions in "
                'JSON are objects, {"label": 1, "p_0": 0.1, "p_1": 0.9} for instance.'
            )
        lowered = [key.lower() for key in keys]
        repeated = next((key for key in lowered if lowered.count(key) > 1), None)
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
    import json

    if len(rows) == 1 and all(isinstance(v, list | dict) for v in json.loads(rows[0]).values()):
        raise FileFormatError(
            f"{where} holds columns, and one row a case is wanted. Hint: write a list of objects; "
            "pandas does with to_json(..., orient='records')."
        )


# --------------------------------------------------------------------------------- Parquet


def _check_one_schema(connection: Any, files: Sequence[OpenedFile]) -> None:
    """Refuse files of different columns: DuckDB would take those of the first."""
    paths = [path for file in files for path in file.paths]
    schemas = []
    for path in paths if len(paths) > 1 else ():
        with saying_errors(files[0].where, "read as parquet", [path]):
            found = connection.sql(
                f"SELECT * FROM read_parquet({literal_paths([path])}, hive_partitioning = false)"
            )
            schemas.append(list(zip(found.columns, map(str, found.types), strict=True)))
        if schemas[-1] != schemas[0]:
            raise FileFormatError(
                f"The columns of {_below(path, paths)} are not those of {_below(paths[0], paths)}. "
                "Hint: files that are read together must have the same columns, in the same order "
                "and types."
            )


def _below(path: Path, paths: Sequence[Path]) -> str:
    """Return a path as seen from the folder that all are in: names alone may be the same."""
    return path.relative_to(os.path.commonpath([path.parent for path in paths])).as_posix()
