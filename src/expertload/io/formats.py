"""Queries that read CSV, JSON, Parquet and npz with DuckDB, every option fixed: nothing is guessed.

DuckDB reads more CSV files than programs agree on, so the bytes are checked first: only the dialect
of RFC 4180 is accepted. The check also counts rows, which must agree with what DuckDB returns.
"""

from __future__ import annotations

import csv
import json
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from expertload._names import CLASS_LISTS, MATRICES
from expertload._typing import AnyArray
from expertload.exceptions import FileFormatError
from expertload.io.engine import explained_errors, literal_paths, quoted, text_of
from expertload.io.files import FileOptions, OpenedFile

Head = tuple[tuple[int, ...], Any]  # the shape of an array, and its type
# The errors that numpy and zipfile raise for damaged archives.
DAMAGE = (
    *(ValueError, OSError, EOFError, KeyError, SyntaxError, TypeError, MemoryError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)
LINE_FEED, RETURN, QUOTE = b'\n\r"'
DELIMITERS = (",", ";", "\t")
LINE_ENDS = {
    "both": "both a carriage return and a line feed",
    "feeds": "a line feed",
    "returns": "a carriage return",
}


@dataclass(frozen=True, kw_only=True)
class Reader:
    """The query for the columns of one or more files.

    Attributes
    ----------
    sql : callable
        Returns the query for some columns, or for all of them.
    parameters : dict from str to object
        Values for `$name` in the query. DuckDB plans thousands of columns much faster if they are
        a parameter than if they are part of the query text.
    columns : tuple of str or None
        The column names, if known without a query; such columns are all text.
    n_rows : int or None
        The number of rows that the query must return, if known.
    """

    sql: Callable[[Sequence[str] | None], str]
    parameters: dict[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    n_rows: int | None = None

    @classmethod
    def of(cls, table: str) -> Reader:
        """Return a reader for one table; DuckDB supplies its columns."""
        return cls(sql=lambda names: f"SELECT * FROM {table}")

    def relation(self, connection: Any, query: str | None = None) -> Any:
        """Return the relation of a query built from `sql`, without running it; all by default."""
        return connection.sql(query or self.sql(None), params=self.parameters)


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


def _csv_reader(files: Sequence[OpenedFile], options: FileOptions) -> Reader:
    tables, n_rows, header = [], 0, tuple[str, ...]()
    for file in files:
        delimiter, names = _header(file, options)
        header = header or names
        if names != header:
            raise FileFormatError(
                f"The header of {file.where} differs from that of {files[0].where}. Hint: files "
                "that are read together must have the same columns, in the same order."
            )
        n_rows += _count_rows(file, delimiter, len(names))
        tables.append(_csv_table(file, delimiter))
    # Columns are numbered, because a name may be any text.
    number = {name: f"c{i}" for i, name in enumerate(header)}

    def sql(names: Sequence[str] | None) -> str:
        # Only the requested columns: planning thousands takes longer than reading them.
        wanted = header if names is None else tuple(dict.fromkeys(names))
        named = ", ".join(f"{number[name]} AS {quoted(name)}" for name in wanted)
        return " UNION ALL ".join(f"SELECT {named} FROM {table}" for table in tables)

    types = dict.fromkeys(number.values(), "VARCHAR")
    return Reader(sql=sql, parameters={"columns": types}, columns=header, n_rows=n_rows)


def _csv_table(file: OpenedFile, delimiter: str) -> str:
    return (
        f"read_csv({literal_paths(file.paths)}, columns = $columns, delim = {text_of(delimiter)}, "
        "auto_detect = false, header = true, quote = '\"', escape = '\"', comment = '', skip = 0, "
        "null_padding = false, ignore_errors = false, strict_mode = true, nullstr = '', "
        f"allow_quoted_nulls = true, hive_partitioning = false, "
        f"compression = {text_of(file.compression)})"
    )


def _header(file: OpenedFile, options: FileOptions) -> tuple[str, tuple[str, ...]]:
    """Return the delimiter and the names in the first record."""
    start = b""
    for piece in file.text_pieces():
        start += piece
        if re.match(rb'(?:[^"\r\n]|"[^"]*")*+[\r\n]', start):
            break
    record = re.match(rb'(?:[^"\r\n]|"[^"]*")*+', start)
    first = record[0].decode() if record else ""
    delimiter = options.delimiter or ("\t" if file.kind == "tsv" else _delimiter_of(first))
    return delimiter, _names(first, delimiter, file.where, is_given=options.delimiter is not None)


def _count_rows(file: OpenedFile, delimiter: str, n_columns: int) -> int:
    """Return the number of rows; refuse a file that programs read in different ways.

    Quotes may only begin and end a value. A letter is inside quotes after an odd number of them.
    """
    mark, counts, is_open, last = ord(delimiter), Counter[str](), False, ord(delimiter)
    for piece in file.text_pieces():
        letters = np.frombuffer(bytes([last]) + piece, np.uint8)
        is_quote, is_end = letters == QUOTE, (letters == LINE_FEED) | (letters == RETURN)
        is_inside = np.zeros(len(piece), np.bool_)
        if is_open or b'"' in piece:
            is_inside = (np.cumsum(is_quote[1:]) + is_open) % 2 == 1
            is_open, is_border = bool(is_inside[-1]), is_end | (letters == mark) | is_quote
            begins = is_quote[1:] & is_inside & ~is_border[:-1]
            goes_on = is_quote[:-1] & ~is_inside & ~is_border[1:]
            counts["odd quotes"] += int((begins | goes_on).sum())
        ends, before = is_end[1:] & ~is_inside, letters[:-1]
        feeds, returns = ends & (letters[1:] == LINE_FEED), ends & (letters[1:] == RETURN)
        both = feeds & (before == RETURN)
        counts["both"] += int(both.sum())
        counts["feeds"] += int((feeds & ~both).sum())
        counts["returns"] += int(returns.sum())
        counts["empty"] += int((ends & is_end[:-1] & ~both).sum())
        counts["delimiters"] += int(((letters[1:] == mark) & ~is_inside).sum())
        last = piece[-1]
    counts["returns"] -= counts["both"]
    kinds = [name for name in ("both", "feeds", "returns") if counts[name]]
    n_ends = sum(counts[kind] for kind in kinds)
    n_records = n_ends - counts["empty"] + (last not in (LINE_FEED, RETURN))
    if is_open or counts["odd quotes"]:
        raise FileFormatError(
            f"{file.where} has a quote in the middle of a value, or one that is never closed: "
            "programs read it in different ways. Hint: put a value that contains quotes in quotes, "
            'and double those in it, such as "5"" disk".'
        )
    if len(kinds) > 1:
        raise FileFormatError(
            f"All lines of {file.where} must end in the same way. Got lines that end with "
            f"{' and with '.join(LINE_ENDS[kind] for kind in kinds)}. Hint: save the file with one "
            "kind of line end, and put values that contain a line end in quotes."
        )
    if counts["empty"] and n_columns == 1:
        raise FileFormatError(
            f"{file.where} has one column and an empty line. It is not clear whether a value is "
            'missing there. Hint: remove the empty lines, or write "" for a missing value.'
        )
    if counts["delimiters"] != n_records * (n_columns - 1):
        raise FileFormatError(
            f"Every row of {file.where} must have {n_columns} value(s), one for each name in the "
            "header. Hint: look for a row that is cut short, or for a value that contains a "
            "delimiter and is not in quotes."
        )
    return n_records - 1


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

    def sql(names: Sequence[str] | None) -> str:
        wanted = keys if names is None else tuple(dict.fromkeys(names))
        texts = text_of(json.dumps(dict.fromkeys(wanted, "VARCHAR")))
        return f"SELECT unnest(json_transform(json, {texts})) FROM {objects}"

    return Reader(sql=sql)


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
    folder = os.path.commonpath([path.parent for path in paths])
    first: list[tuple[str, str]] = []
    for path in paths:
        name = where if len(paths) == 1 else path.relative_to(folder).as_posix()
        with explained_errors(name, "read as parquet", [path]):
            names = pq.read_schema(path).names
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


# ------------------------------------------------------------------ npz


class Archive:
    """The arrays of an npz file; a matrix becomes one column per column, numbered from 0.

    Nothing in an archive is ever executed, and only the arrays that are asked for are unpacked.

    Attributes
    ----------
    types : dict from str to str
        The DuckDB type of each column, or of one like it.
    numbered : frozenset of str
        The columns of matrices, which have positions but no names.
    halves : frozenset of str
        The columns in half precision, which DuckDB lacks: they are read in single precision.
    """

    def __init__(self, file: OpenedFile) -> None:
        self._where, self._path = file.where, file.paths[0]
        with self._explained_errors(), self._path.open("rb") as opened:
            self._heads = _heads(opened)
        numbered = {name: _numbered(name, shape) for name, (shape, _) in self._heads.items()}
        found = [pair for columns in numbered.values() for pair in columns]
        hint = "the columns of a matrix are numbered, p_0, p_1 and so on; give every array a "
        check_distinct_names((name for name, _ in found), self._where, f"{hint}distinct name")
        self._places, self._unpacked = dict(found), dict[str, AnyArray]()
        self.types = {name: _duckdb_type(self._heads[of][1]) for name, (of, _) in found}
        matrices = (columns for columns in numbered.values() if len(columns) > 1)
        self.numbered = frozenset(name for columns in matrices for name, _ in columns)
        halves = (name for name, (of, _) in found if self._heads[of][1] == np.float16)
        self.halves = frozenset(halves)

    def column(self, name: str) -> AnyArray:
        """Return a column; its array is unpacked once."""
        of, place = self._places[name]
        if of not in self._unpacked:
            with self._explained_errors(), np.load(self._path, allow_pickle=False) as archive:
                self._unpacked[of] = _plain_array(archive[f"{of}.npy"])
        array = self._unpacked[of]
        return array.reshape(len(array)) if place is None else array[:, place]

    def table(self, names: Sequence[str]) -> Any:
        """Return some columns as a table of Arrow."""
        columns = {name: self.column(name) for name in dict.fromkeys(names)}
        if len({len(array) for array in columns.values()}) > 1:
            got = ", ".join(f"{name}: {len(array)}" for name, array in columns.items())
            raise FileFormatError(
                f"The arrays read from {self._where} must all have one row per case. Got rows "
                f"{got}."
            )
        with self._explained_errors():
            return pa.table({name: pa.array(array) for name, array in columns.items()})

    def n_rows(self, name: str) -> int:
        """Return the number of rows of a column, without unpacking it."""
        return self._heads[self._places[name][0]][0][0]

    def classes_of(self, n_columns: int) -> tuple[str, ...] | None:
        """Return the classes of a matrix, if the file lists as many beside it."""
        lists = [self.column(name) for name in self.types if name.lower() in CLASS_LISTS]
        found = {tuple(str(value) for value in one) for one in lists if len(one) == n_columns}
        if len(found) > 1:
            raise FileFormatError(
                f"{self._where} lists the classes of {n_columns} columns in more than one way. "
                "Hint: keep one list, or name the class of each column, in order (--classes)."
            )
        return next(iter(found), None)

    @contextmanager
    def _explained_errors(self) -> Iterator[None]:
        try:
            yield
        except DAMAGE as error:
            reason = str(error).splitlines()[0].strip(". ") if str(error) else "it is damaged"
            raise FileFormatError(f"{self._where} could not be read as npz: {reason}.") from error


def _heads(file: BinaryIO) -> dict[str, Head]:
    """Return the shape and the type of each array of an archive, without unpacking it."""
    start = file.read(6)
    file.seek(0)
    if start.startswith(b"\x93NUMPY"):
        raise ValueError("it holds a single array without a name")
    if not start.startswith(b"PK"):
        raise ValueError("it is not an archive")
    with zipfile.ZipFile(file) as archive:
        members = [name for name in archive.namelist() if name.endswith(".npy")]
        heads = {name.removesuffix(".npy"): _head(archive, name) for name in members}
    if len(heads) < len(members):
        raise ValueError("it holds two arrays with the same name")
    return heads


def _head(archive: zipfile.ZipFile, member: str) -> Head:
    with archive.open(member) as stream:
        if np.lib.format.read_magic(stream) == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        else:
            shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    if dtype.hasobject:
        raise ValueError(f"{member} holds Python objects (pickles), which are never loaded")
    return shape, dtype


def _plain_array(array: AnyArray) -> AnyArray:
    """Return an array in a type that Arrow and DuckDB have."""
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8")
    if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        return array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _duckdb_type(kind: Any) -> str:
    if kind.kind in "SU":
        return "VARCHAR"
    return "DOUBLE" if kind.kind in "biufM" else str(kind)


def _numbered(name: str, shape: tuple[int, ...]) -> list[tuple[str, tuple[str, int | None]]]:
    """Return an array as a column, or a matrix as several: their names, and where they are."""
    if len(shape) == 1 or (len(shape) == 2 and shape[1] == 1):
        return [(name, (name, None))]
    prefix = "p" if name.lower() in MATRICES else name
    n_columns = shape[1] if len(shape) == 2 else 0
    return [(f"{prefix}_{i}", (name, i)) for i in range(n_columns)]
