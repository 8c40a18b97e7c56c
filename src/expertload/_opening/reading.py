"""Queries that read a file with DuckDB, with every option fixed so that DuckDB guesses nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from expertload._opening.connection import (
    connect_to_shared,
    literal_paths,
    quoted,
    saying_errors,
    text_of,
)
from expertload._opening.files import OpenedFile
from expertload._opening.json_rows import survey_json
from expertload._opening.options import FileOptions
from expertload._opening.source import check_distinct_names
from expertload._opening.survey import Survey, survey_csv
from expertload.exceptions import FileFormatError

__all__ = ["Reader", "reader_of"]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """The query for the columns of one or more files.

    Attributes
    ----------
    sql : callable
        Returns the query for some columns, or for all of them. Columns that are also requested as
        numbers need not be returned as written.
    parameters : dict from str to object
        Values for `$name` in the query. DuckDB plans thousands of columns much faster if they are
        a parameter than if they are part of the query text.
    columns : tuple of str or None
        The column names, if known without a query; such columns are all text.
    n_rows : int or None
        The number of rows that the query must return, if known.
    """

    sql: Callable[[Sequence[str] | None, Sequence[str]], str]
    parameters: dict[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    n_rows: int | None = None

    @classmethod
    def of(cls, table: str) -> Reader:
        """Return a reader for one table; DuckDB supplies its columns."""
        return cls(sql=lambda names, numbers: f"SELECT * FROM {table}")

    def relation(
        self, connection: Any, query: str, parameters: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the relation of a query built from `sql`, without running it."""
        return connection.sql(query, params={**self.parameters, **(parameters or {})})

    def all_of(self, connection: Any) -> Any:
        """Return a relation of all columns, without running it."""
        return self.relation(connection, self.sql(None, ()))


def reader_of(connection: Any, files: Sequence[OpenedFile], options: FileOptions) -> Reader:
    """Return a reader for files that all have the same format."""
    kind = files[0].kind
    if kind in ("csv", "tsv"):
        return _csv(files, options)
    paths = literal_paths([path for file in files for path in file.paths])
    if kind == "parquet":
        _check_one_schema(connection, files)
        return Reader.of(f"read_parquet({paths}, hive_partitioning = false)")
    rows = survey_json(connection, files, paths)
    return Reader(sql=rows.sql)


# --------------------------------------------------------------------------------- CSV


def _csv(files: Sequence[OpenedFile], options: FileOptions) -> Reader:
    surveys = [survey_csv(file, options) for file in files]
    for file, survey in zip(files, surveys, strict=True):
        if survey.header != surveys[0].header:
            raise FileFormatError(
                f"The header of {file.where} differs from that of {files[0].where}. Hint: files "
                "that are read together must have the same columns, in the same order."
            )

    def sql(names: Sequence[str] | None, _numbers: Sequence[str]) -> str:
        wanted = surveys[0].header if names is None else tuple(dict.fromkeys(names))
        parts = (_csv_part(file, s, wanted) for file, s in zip(files, surveys, strict=True))
        return " UNION ALL ".join(parts)

    header = surveys[0].header
    return Reader(
        sql=sql,
        parameters={"columns": {f"c{i}": "VARCHAR" for i in range(len(header))}},
        columns=header,
        n_rows=sum(survey.n_rows for survey in surveys),
    )


def _csv_part(file: OpenedFile, survey: Survey, wanted: Sequence[str]) -> str:
    """Return the query for one file; columns are numbered, because a name may be any text.

    Only the requested columns are named: planning thousands takes longer than reading them.
    """
    number = {name: f"c{i}" for i, name in enumerate(survey.header)}
    named = ", ".join(f"{number[name]} AS {quoted(name)}" for name in wanted)
    return (
        f"SELECT {named} FROM read_csv({literal_paths(file.paths)}, columns = $columns, "
        f"delim = {text_of(survey.delimiter)}, "
        "auto_detect = false, header = true, quote = '\"', escape = '\"', comment = '', skip = 0, "
        "null_padding = false, ignore_errors = false, strict_mode = true, nullstr = '', "
        f"allow_quoted_nulls = true, hive_partitioning = false, "
        f"compression = {text_of(file.compression)})"
    )


# --------------------------------------------------------------------------------- Parquet


def _check_one_schema(connection: Any, files: Sequence[OpenedFile]) -> None:
    """Refuse files with different columns; DuckDB would use only the columns of the first."""
    paths = [path for file in files for path in file.paths]
    unlimited = connect_to_shared()  # the user's limits apply to reading rows only
    first = None
    for path in paths:
        where = files[0].where if len(paths) == 1 else _below(path, paths)
        with saying_errors(where, "read as parquet", [path]):
            _check_names(unlimited, path, where)
            found = connection.sql(
                f"SELECT * FROM read_parquet({literal_paths([path])}, hive_partitioning = false)"
            )
            schema = list(zip(found.columns, map(str, found.types), strict=True))
        first = first or schema
        if schema != first:
            raise FileFormatError(
                f"The columns of {where} differ from those of {_below(paths[0], paths)}. "
                "Hint: files that are read together must have the same columns, in the same order "
                "and types."
            )


def _check_names(connection: Any, path: Path, where: str) -> None:
    """Refuse two columns with the same name, because DuckDB would rename the second."""
    query = f"SELECT name, coalesce(num_children, 0) FROM parquet_schema({literal_paths([path])})"
    (_, *tree) = connection.execute(query).fetchall()  # the root comes first
    check_distinct_names(_top_level(tree), where)


def _top_level(tree: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Return the names of top-level columns; in a schema, each comes before its own parts."""
    n_parts = 0
    for name, n_children in tree:
        if n_parts == 0:
            yield name
        n_parts += n_children - (n_parts > 0)


def _below(path: Path, paths: Sequence[Path]) -> str:
    """Return a path relative to the common folder, because file names alone may repeat."""
    return path.relative_to(os.path.commonpath([path.parent for path in paths])).as_posix()
