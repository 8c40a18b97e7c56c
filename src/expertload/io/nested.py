"""Columns of several numbers for each case: lists, structs, matrices, language models' answers."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from expertload._names import CLASS_LISTS, MATRICES, TOKENS, VOTES
from expertload._typing import AnyArray
from expertload.exceptions import FileFormatError
from expertload.io.files import OpenedFile, check_distinct_names, explained_errors
from expertload.io.formats import quoted, text_of

NUMBERS = ("tinyint", "smallint", "integer", "bigint", "hugeint", "float", "double", "decimal")
# The log probability of a token that is not listed: its exponential is zero, and it is finite.
UNLISTED = -1000.0


@dataclass(frozen=True, kw_only=True)
class Part:
    """One number of a column that holds several: lists, or structs of named fields.

    Each number becomes a separate column, `probabilities.cat` or `probabilities.0`. If a list
    differs in length from the first one, all its numbers are missing, so that none ends up in a
    wrong column.

    Attributes
    ----------
    column : str
        The column that holds this number.
    name, type : str
        The name of the part, and its DuckDB type.
    sql : str
        The SQL expression that selects this number.
    length : int or None
        The length of the lists; None for structs, whose fields have names.
    """

    column: str
    name: str
    type: str
    sql: str
    length: int | None = None

    @property
    def is_place(self) -> bool:
        """Whether this is an element of a list, which has a position but no name."""
        return self.length is not None and self.length > 1


def parts_of(types: dict[str, Any], length_of: Callable[[str], int | None]) -> list[Part]:
    """Return the parts of every column that holds several numbers.

    `length_of` returns the length of a column's first list. A column is not split if a part would
    have the same name as another column.
    """
    taken = {name.lower() for name in types}
    candidates = [list(_parts(name, kind, length_of)) for name, kind in types.items()]
    return [part for parts in candidates if not _clash(parts, taken) for part in parts]


def _parts(column: str, kind: Any, length_of: Callable[[str], int | None]) -> Iterator[Part]:
    if kind.id == "struct" and all(_is_number(child) for _, child in kind.children):
        for field, child in kind.children:
            sql = f"struct_extract({quoted(column)}, {text_of(field)})"
            yield Part(column=column, name=f"{column}.{field}", type=str(child), sql=sql)
    if kind.id in ("list", "array") and _is_number(kind.children[0][1]):
        length, child = length_of(column) or 0, str(kind.children[0][1])
        for i in range(length):
            sql = f"CASE WHEN len({quoted(column)}) = {length} THEN {quoted(column)}[{i + 1}] END"
            name = f"{column}.{i}" if length > 1 else column
            yield Part(column=column, name=name, type=child, sql=sql, length=length)


def _is_number(kind: Any) -> bool:
    return kind.id.removeprefix("u") in NUMBERS


def _clash(parts: list[Part], taken: set[str]) -> bool:
    names = [part.name.lower() for part in parts]
    others = [name for name in names if name != parts[0].column.lower()]
    return len(set(names)) < len(names) or any(name in taken for name in others)


@dataclass(frozen=True, kw_only=True)
class Judgements:
    """A column with what a language model says about a case, as one number per class.

    A column ``logprobs`` holds the log probability of each token, ``{"A": -0.1, "B": -2.3}``, a
    column ``answers`` or ``votes`` holds repeated answers, ``["A", "A", "B"]``. Each class becomes
    a column, ``logprobs.A`` or ``answers.A``, as do the fields of a struct. As in
    `expertload.scores`, blanks around a token or answer do not count. The classes are those that
    occur. The column of another class can still be asked for: with three certified classes, new
    cases may be such that the model named only two of them.

    Attributes
    ----------
    column : str
        The name of the column.
    sql : str
        The SQL expression for its content as JSON.
    is_votes : bool
        Whether it holds repeated answers; else log probabilities of tokens.
    tokens : tuple of str
        The tokens that are classes, if they are known. A case without any of them has no numbers.
    """

    column: str
    sql: str
    is_votes: bool
    tokens: tuple[str, ...] = ()

    @classmethod
    def among(cls, types: dict[str, str]) -> Iterable[Judgements]:
        """Yield the columns that may hold judgements, by their names and DuckDB types."""
        for column, kind in list(types.items()):  # columns are added meanwhile
            is_votes = column.lower() in VOTES
            if kind == "VARCHAR" and column.lower() in (*TOKENS, *VOTES):
                yield cls(column=column, sql=quoted(column), is_votes=is_votes)
            if kind == "VARCHAR[]" and is_votes:
                yield cls(column=column, sql=f"to_json({quoted(column)})", is_votes=True)

    def classes(self, connection: Any, table: str, parameters: dict[str, Any]) -> list[str]:
        """Return the classes that occur; none if the column holds anything but judgements."""
        kind, names = "OBJECT", f"json_keys({self.sql})"
        if self.is_votes:
            kind, names = "ARRAY", self._answers
        fits = f"CASE WHEN json_valid({self.sql}) THEN json_type({self.sql}) = '{kind}' END"
        rows = f"FROM ({table}) WHERE {self.sql} IS NOT NULL"
        query = f"SELECT bool_and(coalesce({fits}, false)) {rows}"
        if not connection.execute(query, parameters).fetchone()[0]:
            return []
        names = f"SELECT unnest({names}) AS name {rows}"
        query = f"SELECT DISTINCT {_bare('name')} AS bare FROM ({names}) ORDER BY bare"
        return [name for (name,) in connection.execute(query, parameters).fetchall() if name]

    def part(self, name: str) -> Part:
        """Return the column of a class: its share of the answers, or its log probability."""
        if self.is_votes:
            is_own = f"lambda answer: {_bare('answer')} = {text_of(name)}"
            own = f"list_filter({self._answers}, {is_own})"
            number = f"len({own}) / nullif(len({self._answers}), 0)"
        else:
            number = self._log_probability(name)
        sql = f"CASE WHEN {self.sql} IS NOT NULL THEN {number} END"
        return Part(column=self.column, name=f"{self.column}.{name}", type="DOUBLE", sql=sql)

    def _log_probability(self, name: str) -> str:
        """Return the SQL for the log of the sum over all tokens that are this class."""
        entries = f"map_entries(TRY_CAST(TRY_CAST({self.sql} AS JSON) AS MAP(VARCHAR, DOUBLE)))"

        def of(names: Iterable[str]) -> str:
            wanted = ", ".join(map(text_of, names))
            test = f"lambda entry: list_contains([{wanted}], {_bare('entry.key')})"
            return f"list_transform(list_filter({entries}, {test}), lambda entry: entry.value)"

        values, top = of([name]), f"list_max({of([name])})"
        # Relative to the largest, so that nothing underflows, and a lone number stays as it is.
        total = f"list_reduce({values}, lambda sum, value: sum + exp(value - {top}), 0.0)"
        is_unlisted = f"len({values}) = 0 OR {top} = '-inf'"
        number = f"CASE WHEN {is_unlisted} THEN {UNLISTED} ELSE {top} + ln({total}) END"
        is_answered = f"list_max({of(self.tokens)}) > '-inf'" if self.tokens else "true"
        return f"CASE WHEN {is_answered} THEN {number} END"

    @property
    def _answers(self) -> str:
        return f"from_json({self.sql}, '[\"VARCHAR\"]')"


def _bare(name: str) -> str:
    """Return the SQL for a name without blanks around it."""
    return f"trim({name}, E' \\t\\r\\n')"


# ------------------------------------------------------------------ the arrays of npz files


Head = tuple[tuple[int, ...], Any]  # the shape of an array, and its type


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
        pairs = [pair for name, (shape, _) in self._heads.items() for pair in _columns(name, shape)]
        hint = "the columns of a matrix are numbered, p_0, p_1 and so on; give every array a "
        check_distinct_names((name for name, _ in pairs), self._where, f"{hint}distinct name")
        self._places, self._unpacked = dict(pairs), dict[str, AnyArray]()
        kinds = {name: self._heads[of][1] for name, (of, _) in pairs}
        self.types = {name: _duckdb_type(kind) for name, kind in kinds.items()}
        self.numbered = frozenset(name for name, (_, place) in pairs if place is not None)
        self.halves = frozenset(name for name, kind in kinds.items() if kind == np.float16)

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
        distinct = {tuple(str(value) for value in one) for one in lists if len(one) == n_columns}
        if len(distinct) > 1:
            raise FileFormatError(
                f"{self._where} lists the classes of {n_columns} columns in more than one way. "
                "Hint: keep one list, or name the class of each column, in order (--classes)."
            )
        return next(iter(distinct), None)

    def _explained_errors(self) -> AbstractContextManager[None]:
        return explained_errors(self._where, "read as npz", [self._path])


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


def _columns(name: str, shape: tuple[int, ...]) -> list[tuple[str, tuple[str, int | None]]]:
    """Return an array as a column, or a matrix as several: their names, and where they are."""
    if len(shape) == 1 or (len(shape) == 2 and shape[1] == 1):
        return [(name, (name, None))]
    prefix = "p" if name.lower() in MATRICES else name
    n_columns = shape[1] if len(shape) == 2 else 0
    return [(f"{prefix}_{i}", (name, i)) for i in range(n_columns)]
