"""Queries that read CSV, JSON and Parquet with DuckDB, with every option fixed: nothing is guessed.

DuckDB reads more CSV files than programs agree on, so the bytes are checked first: only the dialect
of RFC 4180 is accepted. The check also counts rows, which must agree with what DuckDB returns.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from expertload._check import require_extra
from expertload.exceptions import FileFormatError
from expertload.io.engine import explained_errors, literal_paths, quoted, text_of
from expertload.io.files import FileOptions, OpenedFile

LINE_FEED = 10
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_RECORD = 2_000_000  # DuckDB's limit
DELIMITERS = (",", ";", "\t")
LINE_ENDS = {
    b"\r\n": "both a carriage return and a line feed",
    b"\n": "a line feed",
    b"\r": "a carriage return",
}


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

    def relation(self, connection: Any, query: str | None = None) -> Any:
        """Return the relation of a query built from `sql`, without running it; all by default."""
        return connection.sql(query or self.sql(None, ()), params=self.parameters)


def reader_of(connection: Any, files: Sequence[OpenedFile], options: FileOptions) -> Reader:
    """Return a reader for files that all have the same format."""
    if files[0].kind in ("csv", "tsv"):
        return _csv_reader(files, options)
    paths = [path for file in files for path in file.paths]
    if files[0].kind == "parquet":
        _check_one_schema(connection, paths, files[0].where)
        return Reader.of(f"read_parquet({literal_paths(paths)}, hive_partitioning = false)")
    return _json_reader(connection, files, paths)


def check_distinct_names(
    names: Iterable[str], where: str, hint: str = "give every column a distinct name"
) -> None:
    """Refuse two columns with the same name, which DuckDB compares without regard to case."""
    counts = Counter(name.lower() for name in names)
    repeated = next((name for name, n in counts.items() if n > 1), None)
    if repeated is not None:
        raise FileFormatError(
            f"{where} has more than one column '{repeated}', in upper or lower case. Hint: {hint}."
        )


# ------------------------------------------------------------------ CSV


class _Dialect(NamedTuple):
    """The header, delimiter and number of rows of a CSV."""

    header: tuple[str, ...]
    delimiter: str
    n_rows: int


def _csv_reader(files: Sequence[OpenedFile], options: FileOptions) -> Reader:
    found = [_check_csv(file, options) for file in files]
    header = found[0].header
    for file, dialect in zip(files, found, strict=True):
        if dialect.header != header:
            raise FileFormatError(
                f"The header of {file.where} differs from that of {files[0].where}. Hint: files "
                "that are read together must have the same columns, in the same order."
            )
    # Columns are numbered, because a name may be any text.
    number = {name: f"c{i}" for i, name in enumerate(header)}

    def sql(names: Sequence[str] | None, _numbers: Sequence[str]) -> str:
        # Only the requested columns: planning thousands takes longer than reading them.
        wanted = header if names is None else tuple(dict.fromkeys(names))
        named = ", ".join(f"{number[name]} AS {quoted(name)}" for name in wanted)
        tables = (_csv_table(*pair) for pair in zip(files, found, strict=True))
        return " UNION ALL ".join(f"SELECT {named} FROM {table}" for table in tables)

    return Reader(
        sql=sql,
        parameters={"columns": dict.fromkeys(number.values(), "VARCHAR")},
        columns=header,
        n_rows=sum(dialect.n_rows for dialect in found),
    )


def _csv_table(file: OpenedFile, dialect: _Dialect) -> str:
    return (
        f"read_csv({literal_paths(file.paths)}, columns = $columns, "
        f"delim = {text_of(dialect.delimiter)}, "
        "auto_detect = false, header = true, quote = '\"', escape = '\"', comment = '', skip = 0, "
        "null_padding = false, ignore_errors = false, strict_mode = true, nullstr = '', "
        f"allow_quoted_nulls = true, hive_partitioning = false, "
        f"compression = {text_of(file.compression)})"
    )


def _check_csv(file: OpenedFile, options: FileOptions) -> _Dialect:
    """Refuse a file that programs read in different ways; count its rows."""
    header: tuple[str, ...] = ()
    delimiter, ends = "", set[bytes]()
    n_records = n_delimiters = 0
    for block in _whole_records(file):
        if not header:
            record = re.match(rb'(?:[^"\r\n]|"[^"]*")*+', block)
            first = record[0].decode() if record else ""
            delimiter = options.delimiter or ("\t" if file.kind == "tsv" else _delimiter_of(first))
            header = _names(first, delimiter, file.where, is_given=options.delimiter is not None)
        bare = _without_quoted(block, delimiter.encode(), file.where)
        ends |= _line_ends(bare)
        if len(ends) > 1:
            raise FileFormatError(
                f"All lines of {file.where} must end in the same way. Got lines that end with "
                f"{' and with '.join(LINE_ENDS[end] for end in sorted(ends))}. Hint: save the file "
                "with one kind of line end, and put values that contain a line end in quotes."
            )
        if b"\r" in bare:
            bare = bare.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        letters = np.frombuffer(bare, dtype=np.uint8)
        feeds = np.flatnonzero(letters == LINE_FEED)
        n_empty = int((np.diff(feeds, prepend=-1) == 1).sum())
        if n_empty and len(header) == 1:
            raise FileFormatError(
                f"{file.where} has one column and an empty line. It is not clear whether a value "
                'is missing there. Hint: remove the empty lines, or write "" for a missing value.'
            )
        n_records += len(feeds) - n_empty + int(letters[-1] != LINE_FEED)
        n_delimiters += int(np.count_nonzero(letters == ord(delimiter)))
    if not header:  # nothing but a byte order mark
        _names("", delimiter, file.where, is_given=False)
    if n_delimiters != n_records * (len(header) - 1):
        raise FileFormatError(
            f"Every row of {file.where} must have {len(header)} value(s), one for each name in the "
            "header. Hint: look for a row that is cut short, or for a value that contains a "
            "delimiter and is not in quotes."
        )
    return _Dialect(header, delimiter, n_records - 1)


def _whole_records(file: OpenedFile) -> Iterator[bytes]:
    """Yield the content in blocks that end where a record ends, without a byte order mark."""
    rest, begun = b"", False
    for piece in file.text_pieces():
        block = rest + piece
        if not begun:
            block, begun = block.removeprefix(BYTE_ORDER_MARK), True
        cut = _end_of_records(block)
        if cut:
            yield block[:cut]
        rest = block[cut:]
        if len(rest) > LONGEST_RECORD:
            raise FileFormatError(
                f"{file.where} has a line of more than {LONGEST_RECORD:,} bytes. Hint: check that "
                "it is a CSV, and look for a quote that is not closed."
            )
    if rest:
        yield rest


def _end_of_records(block: bytes) -> int:
    """Return the end of the last line end that is outside quotes; 0 if there is none."""
    end, is_open = len(block), block.count(b'"') % 2 if b'"' in block else 0
    # A carriage return at the very end may be followed by a line feed.
    while (
        cut := max(block.rfind(b"\n", 0, end), block.rfind(b"\r", 0, min(end, len(block) - 1))) + 1
    ):
        is_open ^= block.count(b'"', cut, end) % 2
        if not is_open:
            return cut
        end = cut - 1
    return 0


def _without_quoted(block: bytes, delimiter: bytes, where: str) -> bytes:
    """Return records with a letter for each quoted value; refuse a quote anywhere else."""
    if b'"' not in block:
        return block
    beside = re.escape(delimiter) + rb"\r\n"
    quoted_value = rb'(?<![^%b])"(?:[^"]|"")*+"(?![^%b])' % (beside, beside)
    bare = re.sub(quoted_value, b"q", block)
    if b'"' in bare:
        raise FileFormatError(
            f"{where} has a quote in the middle of a value, or one that is never closed: programs "
            "read it in different ways. Hint: put a value that contains quotes in quotes, and "
            'double those in it, such as "5"" disk".'
        )
    return bare


def _line_ends(bare: bytes) -> set[bytes]:
    """Return the kinds of line ends that occur."""
    if b"\r" not in bare:
        return {b"\n"} if b"\n" in bare else set()
    both = bare.count(b"\r\n")
    counts = {b"\r\n": both, b"\n": bare.count(b"\n") - both, b"\r": bare.count(b"\r") - both}
    return {end for end, n in counts.items() if n}


def _delimiter_of(header: str) -> str:
    """Return the first of comma, semicolon and tab that the header has outside quotes."""
    bare = re.sub(r'"[^"]*"', "", header)
    return next((delimiter for delimiter in DELIMITERS if delimiter in bare), ",")


def _names(text: str, delimiter: str, where: str, *, is_given: bool) -> tuple[str, ...]:
    """Return the names in the first record."""
    if not text or re.fullmatch(r'"?sep=.?"?', text, re.IGNORECASE):
        got = (
            f"'{text}', which is meant for Excel. Hint: remove this line"
            if text
            else "an empty line"
        )
        raise FileFormatError(f"The first line of {where} must name the columns. Got {got}.")
    try:
        header = next(csv.reader(text.splitlines(keepends=True), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise FileFormatError(
            f"The header of {where} could not be read: {error}. Hint: if values are not separated "
            "by a comma, a semicolon or a tab, name the delimiter (--delimiter)."
        ) from error
    # The first name is blank if pandas wrote its index. Blanks around names come from `a, b`.
    names = tuple(name.strip() or f"column{i}" for i, name in enumerate(header))
    if len(names) == 1 and not is_given and "|" in names[0]:
        raise FileFormatError(
            f"The header of {where} has only one name, '{names[0]}'. Hint: if values are separated "
            "by |, pass --delimiter '|'; if not, pass --delimiter ','."
        )
    # A repeated number is not a name: the first line is then a row of values, not a header.
    if not all(re.match(r"[-+.\d]", name) for name in names):
        check_distinct_names(names, f"The header of {where}")
    return names


# ------------------------------------------------------------------ JSON

# DuckDB reads a number as a double and writes 1.50 as 1.5, and -0 as 0, but it does not change
# strings. So while DuckDB splits rows into columns, every number becomes a string that begins with
# a mark, and every string gets a mark at its end. Afterwards the marks show which is which.
MARK = "|"
STRING_OR_NUMBER = r'"((?:[^"\\]|\\.)*)"|(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)'
MARKED = f"regexp_replace(json, {text_of(STRING_OR_NUMBER)}, '\"\\1{MARK}\\2\"', 'g')"
# In lists and objects, a quote inside a string follows a backslash, so it never matches these.
MARKED_NUMBER = r'([\[,:])"[|]([-+.eE0-9]+)"'
END_OF_MARKED_STRING = r'[|]"([],:}])'


def _json_reader(connection: Any, files: Sequence[OpenedFile], paths: Sequence[Path]) -> Reader:
    """Read the keys of all objects; refuse a file that is not one object per case."""
    kind, where = files[0].kind, files[0].where
    for file in files:  # DuckDB silently accepts the readable part of a damaged compressed file
        for _ in file.text_pieces():
            pass
    objects = (
        f"read_json_objects({literal_paths(paths)}, format = '{_layout(files[0])}', "
        f"hive_partitioning = false, compression = {text_of(files[0].compression)})"
    )
    with explained_errors(where, f"read as {kind}", paths):
        found = connection.execute(
            "SELECT json_keys(json), json_type(json), min(row) FROM (SELECT json, "
            f"row_number() OVER () AS row FROM {objects}) GROUP BY ALL ORDER BY min(row)"
        ).fetchall()
        keys = _keys(found, where)
        if kind == "json" and len(found) == 1:
            rows = connection.execute(f"SELECT json FROM {objects} LIMIT 2").fetchall()
            _check_row_wise([row for (row,) in rows], where)

    def sql(names: Sequence[str] | None, numbers: Sequence[str]) -> str:
        wanted = keys if names is None else tuple(dict.fromkeys(names))
        kept = [name for name in wanted if name not in numbers]
        listed = ", ".join(
            f"{_unmarked(name) if name in kept else f'plain.{quoted(name)}'} AS {quoted(name)}"
            for name in wanted
        )
        plain = _texts("json", [name for name in wanted if name in numbers])
        marked = _texts(MARKED, [name + MARK for name in kept])
        return f"SELECT {listed} FROM (SELECT {plain} AS plain, {marked} AS kept FROM {objects})"

    return Reader(sql=sql)


def _texts(row: str, names: Sequence[str]) -> str:
    """Return an SQL struct of some values of an object, as text."""
    if not names:
        return "NULL"
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


def _layout(file: OpenedFile) -> str:
    """Return DuckDB's name for the layout: an array, one object per line, or neither."""
    if file.kind == "jsonl":
        return "newline_delimited"
    start = next(file.pieces(), b"").lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    return "array" if start == b"[" else "unstructured"


def _keys(found: list[tuple[list[str], str, int]], where: str) -> tuple[str, ...]:
    """Return all keys in order of appearance; refuse rows that are not objects, or repeat a key."""
    for keys, kind, row in found:
        if kind != "OBJECT":
            raise FileFormatError(
                f"Row {row} of {where} must be an object. Got {str(kind).lower()}. Hint: write "
                'each case as an object such as {"label": 1, "p_0": 0.1, "p_1": 0.9}.'
            )
        repeated = next((k for k, n in Counter(key.lower() for key in keys).items() if n > 1), None)
        if repeated is not None:
            raise FileFormatError(f"Row {row} of {where} has more than one key '{repeated}'.")
    names = tuple(dict.fromkeys(key for keys, _, _ in found for key in keys))
    spellings = {name.lower() for name in names}
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


# ------------------------------------------------------------------ Parquet


def _check_one_schema(connection: Any, paths: Sequence[Path], where: str) -> None:
    """Refuse files with different columns, and columns with the same name.

    DuckDB would use only the columns of the first file, and rename the second of two columns.
    """
    parquet = require_extra("pyarrow.parquet", "frames", "Reading Parquet")
    folder = os.path.commonpath([path.parent for path in paths])
    first: list[tuple[str, str]] = []
    for path in paths:
        name = where if len(paths) == 1 else path.relative_to(folder).as_posix()
        with explained_errors(name, "read as parquet", [path]):
            names = parquet.read_schema(path).names
            check_distinct_names(names, name)
            query = f"FROM read_parquet({literal_paths([path])}, hive_partitioning = false)"
            schema = list(zip(names, map(str, connection.sql(query).types), strict=True))
        first = first or schema
        if schema != first:
            raise FileFormatError(
                f"The columns of {name} differ from those of "
                f"{paths[0].relative_to(folder).as_posix()}. Hint: files that are read together "
                "must have the same columns, in the same order and types."
            )
