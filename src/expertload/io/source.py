"""Opens every file: its name determines the format, fixed rules determine its content.

Files of predictions and frames on disk are both opened here, so a file has the same meaning
everywhere. Nothing is guessed from the content: the dialect of a CSV is fixed, and its values stay
text until numbers are requested. A file that breaks a rule is refused.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb

from expertload._check import check_count, parameter_error
from expertload._names import FileOptions
from expertload._typing import AnyArray
from expertload.exceptions import FileFormatError
from expertload.io.columns import Header
from expertload.io.files import (
    OpenedFile,
    check_distinct_names,
    explained_errors,
    resolve_file,
    resolve_files,
)
from expertload.io.formats import (
    Reader,
    check_query,
    connect,
    connect_to,
    exact_number,
    number_in_text,
    quoted,
    reader_of,
    why_refused,
)
from expertload.io.nested import Archive, Judgements, Part, parts_of
from expertload.io.values import (
    Coded,
    class_keys,
    coded_column,
    joined,
    to_numpy,
)

Table = dict[str, AnyArray]
Batch = dict[str, Any]  # pyarrow arrays, for which the type checker has no types
Progress = Callable[[int, int | None], None]

BATCH = 100_000  # rows that are read at once by default
# Types that numpy has too; other types become text as DuckDB writes it, or doubles.
PLAIN = {
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
    *("FLOAT", "DOUBLE", "BOOLEAN", "VARCHAR", "DATE", "TIMESTAMP"),
}
# Types that Parquet lacks, also in lists and structs.
NOT_IN_PARQUET = (
    *("HUGEINT", "BIGNUM", "UUID", "ENUM", "BIT", "INTERVAL", "UNION", "TIME WITH TIME ZONE"),
    *("VARIANT", "GEOMETRY"),
)


def open_source(
    path: str | os.PathLike[str],
    options: FileOptions | None = None,
    progress: Progress | None = None,
) -> Source:
    """Open a file by the ending of its name; a database needs a query.

    `progress` is called with the number of rows read so far, and the total if known.
    """
    options = options or FileOptions()
    file = resolve_file(path, options)
    if file.kind == "database" and options.query is None:
        raise FileFormatError(
            f"{file.where} is a database. Hint: select the rows to read with --query 'SELECT ...'."
        )
    if file.kind == "npz" and options.query is not None:
        raise FileFormatError(
            f"A query cannot read {file.where}, because an npz file is not a table. Hint: leave "
            "out --query, or save the arrays as Parquet."
        )
    return Source(file, options, progress)


def scan_file(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    options: FileOptions | None = None,
    memory_limit: str | None = None,
    temp_directory: str | os.PathLike[str] | None = None,
    threads: int | None = None,
) -> Any:
    r"""Open Parquet, CSV or JSON files as a DuckDB relation, without loading them into memory.

    Parameters
    ----------
    path : path-like, or sequence of them
        A file, a pattern such as ``"predictions/*.parquet"``, a folder of Parquet files, or
        several of these.
    options : FileOptions, optional
        How to open the files: a format, a delimiter, an encoding, a query.
    memory_limit : str, optional
        The memory that DuckDB may use, such as ``"1GB"``; beyond it, DuckDB works on disk. Its
        default is most of the machine's memory.
    temp_directory : path-like, optional
        The folder for work on disk; by default a folder for temporary files of the system. It is
        emptied afterwards.
    threads : int, optional
        The number of cores that DuckDB may use; all by default.

    Returns
    -------
    duckdb.DuckDBPyRelation
        A frame for `tally_frame` and `tally_groups`. The columns of CSV and JSON are text, as
        written; `tally_frame` converts those it needs to numbers. Rows come in any order, which
        saves memory: if you need an order, also read an identifier.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from expertload.io import scan_file, tally_frame
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "predictions.csv"
    ...     _ = path.write_text("confidence,correct\n0.9,true\n0.6,false\n")
    ...     print(tally_frame(scan_file(path)).accuracy)
    0.5
    """
    paths = [os.fspath(one) for one in ([path] if isinstance(path, str | os.PathLike) else path)]
    if not paths:
        raise parameter_error("path", "must name a file", "none")
    # DuckDB creates the folder for work on disk when needed, and removes it.
    work = temp_directory or Path(tempfile.gettempdir()) / f"expertload-{uuid4().hex}"
    settings = {"preserve_insertion_order": "false", "temp_directory": os.fspath(work)}
    if memory_limit is not None:
        settings["memory_limit"] = memory_limit
    if threads is not None:
        settings["threads"] = str(check_count(threads, "threads"))
    options = options or FileOptions()
    files = _scannable(paths, options)
    try:
        connection = connect(settings)
    except duckdb.Error as error:
        got, hint = repr(memory_limit), "pass, for example, '1GB'"
        raise parameter_error("memory_limit", "must be a size", got, hint) from error
    reader = reader_of(connection, files, options)
    every = [one for file in files for one in file.paths]
    with explained_errors(files[0].where, f"read as {files[0].kind}", every):
        if options.query is None:
            return reader.relation(connection)
        query = check_query(options.query, files[0].where)
        reader.restrict(connection, every)
        return connection.sql(query)


def _scannable(paths: list[str], options: FileOptions) -> list[OpenedFile]:
    """Find files that can stay on disk; refuse others."""
    files = resolve_files(paths, options)
    if files[0].kind in ("npz", "database"):
        raise FileFormatError(
            f"{files[0].where} cannot be scanned. Hint: scan_file takes .csv, .tsv, .parquet, "
            ".jsonl and .json; read_predictions takes the other formats."
        )
    if options.decimal != ".":
        raise FileFormatError(
            "scan_file keeps text as written, so it does not support decimal commas. Hint: convert "
            "the numeric columns in a query, for example with replace(p_cat, ',', '.')."
        )
    return files


class Source:
    """Columns of cases that are read on request, by DuckDB.

    Attributes
    ----------
    where : str
        The file's name, for messages.
    columns : list of str
        The names of the columns.
    types : dict from str to str
        The DuckDB type of each column; `VARCHAR` for text.
    numbered : frozenset of str
        The columns of a matrix or list, which have positions but no names.
    nested : frozenset of str
        The columns of the file that hold several numbers per case, and were split.
    n_rows : int or None
        The number of rows, if it is known without reading them.
    halves : frozenset of str
        The columns whose numbers were in half precision.
    """

    def __init__(
        self, file: OpenedFile, options: FileOptions, progress: Progress | None = None
    ) -> None:
        self.where, self._file, self._decimal = file.where, file, options.decimal
        self._progress, self._is_database = progress, file.kind == "database"
        self._archive = Archive(file) if file.kind == "npz" else None
        self.halves = frozenset() if self._archive is None else self._archive.halves
        with self._explained_errors():
            self._connection = connect_to(file.paths[0]) if self._is_database else connect()
        self._reader = Reader.of("arrays", None if self._archive is None else self._archive.types)
        if self._archive is None and not self._is_database:
            self._reader = reader_of(self._connection, [file], options)
        self.n_rows = self._counted() if file.kind == "parquet" else self._reader.n_rows
        if options.query is not None:
            self._put(check_query(options.query, self.where))
        self._parts: dict[str, Part] = {}
        self._judged: dict[str, Judgements] = {}
        self.numbered: frozenset[str] = frozenset()
        self.nested: frozenset[str] = frozenset()
        self._describe()
        self._find_judgements()

    def _describe(self) -> None:
        """Find the columns and their types; columns of several numbers per case are split."""
        if self._reader.types is not None:
            self.types, self.columns = self._reader.types, list(self._reader.types)
            self.numbered = frozenset() if self._archive is None else self._archive.numbered
            return
        with self._explained_errors():
            relation = self._reader.relation(self._connection)
        kinds = dict(zip(relation.columns, relation.types, strict=True))
        self._parts = {part.name: part for part in parts_of(kinds, self._length)}
        self.nested = frozenset(part.column for part in self._parts.values())
        self.numbered = frozenset(name for name, part in self._parts.items() if part.is_place)
        self.columns = [*(name for name in kinds if name not in self.nested), *self._parts]
        self.types = {name: str(kind) for name, kind in kinds.items()}
        self.types |= {name: part.type for name, part in self._parts.items()}

    def _find_judgements(self) -> None:
        """Give each class in a column of judgements a column of its own."""
        for judged in Judgements.among(self.types):
            with self._explained_errors():
                cursor, table = self._cursor([judged.column]), self._reader.sql([judged.column])
                classes = judged.classes(cursor, table, self._reader.parameters)
            if classes:
                self._judged[judged.column] = judged
                self.nested |= {judged.column}
                self.columns.remove(judged.column)
                self.offer(f"{judged.column}.{name}" for name in classes)

    def offer(self, names: Iterable[str]) -> None:
        """Add the columns of these classes, such as `answers.C`, even if they never occur."""
        for name in names:
            column, _, of = name.strip().partition(".")
            if column in self._judged and of and name.strip() not in self.columns:
                part = self._judged[column].part(of)
                self._parts[part.name], self.types[part.name] = part, part.type
                self.columns.append(part.name)

    def match_tokens(self, classes_of: Callable[[], Iterable[object]]) -> None:
        """Leave out tokens of a language model that are no class, as `token_probabilities` does."""
        for column, judged in self._judged.items():
            if judged.is_votes:
                continue
            wanted = class_keys(map(str, classes_of()))
            own = [name for name, part in self._parts.items() if part.column == column]
            known = class_keys(name.removeprefix(f"{column}.") for name in own)
            tokens = [name for name, key in known.items() if key in wanted.values()]
            others = [name for name, key in wanted.items() if key not in known.values()]
            if tokens and len(wanted) > 1:
                self._judged[column] = replace(judged, tokens=tuple(tokens))
                self.columns = [name for name in self.columns if name not in own]
                self.offer(f"{column}.{name}" for name in (*tokens, *others))

    @property
    def header(self) -> Header:
        """The columns, to find those that have a role."""
        return Header(self.columns, self.where)

    def classes_of(self, n_columns: int) -> tuple[str, ...] | None:
        """Return the classes of a matrix, if the file lists as many beside it."""
        return None if self._archive is None else self._archive.classes_of(n_columns)

    def beside(self, name: str | None, other: str) -> str | None:
        """Return a column if it exists and has as many rows as another one."""
        if name is None or self._archive is None:
            return name
        return name if self._archive.n_rows(name) == self._archive.n_rows(other) else None

    # ------------------------------------------------------------------ reading

    def read(self, names: Sequence[str], numbers: Sequence[str] = ()) -> Table:
        """Return some columns whole; text in those of numbers as numbers, if all of it is."""
        return self.read_coded(names, numbers, ())[0]

    def read_coded(
        self, names: Sequence[str], numbers: Sequence[str], coded: Sequence[str]
    ) -> tuple[Table, dict[str, Coded]]:
        """Return some columns whole, and those of few distinct values coded."""
        asked = tuple(dict.fromkeys((*names, *coded)))
        parts: dict[str, list[Any]] = {name: [] for name in names}
        codes: dict[str, list[Any]] = {name: [] for name in coded}
        texts = [n for n in asked if n not in numbers]
        for some, others in self.batches(texts, numbers):
            batch = {**some, **others}
            for name in names:
                parts[name].append(batch[name])
            for name in coded:  # as they arrive, so that the text is not kept
                codes[name].append(batch[name].dictionary_encode())
        with self._explained_errors():  # a damaged file may claim more rows than fit into memory
            table = {name: to_numpy(joined(parts.pop(name))) for name in names}
        for name in numbers:
            if name in table and table[name].dtype.kind == "O":
                self._check_spelled(name, table[name])
        return table, {name: coded_column(codes.pop(name)) for name in coded}

    def batches(
        self,
        names: Sequence[str],
        numbers: Sequence[str] = (),
        *,
        size: int | None = None,
        typed: Sequence[str] = (),
    ) -> Iterator[tuple[Batch, Batch]]:
        """Yield Arrow arrays of some rows each: some columns unchanged, some as numbers.

        Text in numeric columns is converted to numbers; a value that is not a number is missing.
        Values without a numpy type (decimals, times with a zone, lists) are converted to text,
        except in the columns `typed`, if Parquet has a type for them. Lost rows are noticed at the
        end.
        """
        self._check_whole(numbers)
        portable = [n for n in typed if not any(kind in self.types[n] for kind in NOT_IN_PARQUET)]
        own = {name: quoted(name) for name in portable if name not in self._parts}
        plain = [own.get(name) or self._expression(name, False) for name in names]
        wanted = [*plain, *(self._expression(name, True) for name in numbers)]
        n_rows = 0
        for batch in self._select(wanted, [*names, *numbers], size):
            n_rows += len(batch)
            if self._progress is not None:
                self._progress(n_rows, self.n_rows)
            columns = batch.columns
            yield (
                dict(zip(names, columns[: len(plain)], strict=True)),
                dict(zip(numbers, columns[len(plain) :], strict=True)),
            )
        self._check_rows(n_rows)

    def _check_spelled(self, name: str, values: AnyArray) -> None:
        """Refuse what is not a number, and quote it; missing values are reported elsewhere."""
        if self.types[name] in PLAIN - {"VARCHAR"}:
            return
        texts = self._select([self._expression(name, False)], [name])
        written = to_numpy(joined([batch.column(0) for batch in texts]))
        for row, (value, text) in enumerate(zip(values, written, strict=True), 1):
            if value is None and text is not None:
                wanted, hint = why_refused(name, text, self._file.kind)
                shown = text if len(text) <= 60 else text[:57] + "..."
                raise FileFormatError(
                    f"The column '{name}' of {self.where} {wanted}. Got {shown!r} in row {row}."
                    f"{hint}"
                )

    def _check_whole(self, numbers: Sequence[str]) -> None:
        """Refuse a selection of only some numbers of a list, because positions would shift."""
        parts = [self._parts[name] for name in dict.fromkeys(numbers) if name in self._parts]
        taken = Counter(part.column for part in parts)
        for part in parts:
            if part.length not in (None, taken[part.column]):
                raise FileFormatError(
                    f"All {part.length} numbers of the lists in the column '{part.column}' of "
                    f"{self.where} must be used. Got {taken[part.column]} of them. Hint: use all "
                    "of them, one per class, or select some with --query 'SELECT ... FROM file'."
                )

    def _select(
        self, wanted: Sequence[str], names: Sequence[str], size: int | None = None
    ) -> Iterator[Any]:
        # The results are numbered, because a repeated expression would be merged into one column.
        listed = ", ".join(f"{what} AS c{i}" for i, what in enumerate(wanted))
        whole = [self._parts[name].column if name in self._parts else name for name in names]
        query = f"SELECT {listed} FROM ({self._reader.sql(whole)})"
        with self._explained_errors():
            cursor = self._cursor(whole)
            reader = self._reader.relation(cursor, query).to_arrow_reader(size or BATCH)
        while True:
            with self._explained_errors():
                batch = next(reader, None)
            if batch is None:
                return
            if len(batch):
                yield batch

    def _cursor(self, names: Sequence[str]) -> Any:
        """Return a new cursor, because another query may still be in progress."""
        cursor = self._connection.cursor()
        if self._archive is not None:
            cursor.register("arrays", self._archive.table(names))
        return cursor

    def _expression(self, name: str, is_number: bool) -> str:
        kind = self.types[name]
        column = self._parts[name].sql if name in self._parts else quoted(name)
        if is_number and kind == "VARCHAR":
            return number_in_text(column, self._decimal)
        if kind in PLAIN:
            return column
        if is_number and kind.startswith(("DECIMAL", "HUGEINT", "UHUGEINT")):
            return exact_number(column)
        return f"CAST({column} AS VARCHAR)"

    def _put(self, query: str) -> None:
        """Read the result of a query instead, in which the file is called `file`."""
        if not self._is_database:
            if self._file.kind in ("csv", "tsv"):
                # checked now, because the number of rows of the query is not known in advance
                self._check_rows(self._counted())
            with self._explained_errors():
                self._reader.restrict(self._connection, self._file.paths)
        with self._explained_errors():  # DuckDB would rename a repeated column
            check_distinct_names(self._connection.sql(query).columns, f"The query of {self.where}")
        self.n_rows = None
        self._reader = Reader.of(f"({query}\n)")

    def _length(self, column: str) -> int | None:
        """Return the length of the first list in a column; None if the column has no list."""
        list_ = quoted(column)
        query = f"SELECT len({list_}) FROM ({self._reader.sql(None)}) WHERE {list_} IS NOT NULL"
        rows = self._rows(f"{query} LIMIT 1")
        return int(rows[0][0]) if rows else None

    def _counted(self) -> int:
        return int(self._rows(f"SELECT count(*) FROM ({self._reader.sql(None)})")[0][0])

    def _rows(self, query: str) -> Any:
        with self._explained_errors():  # all rows: an open result would block the next query
            return self._connection.execute(query, self._reader.parameters).fetchall()

    def _check_rows(self, n_rows: int) -> None:
        if self.n_rows is not None and n_rows != self.n_rows:
            raise FileFormatError(
                f"{self.where} has {self.n_rows} rows, but {n_rows} were read. Hint: it may have "
                "changed in the meantime; if not, save it again with plain quotes and line ends."
            )

    def _explained_errors(self) -> AbstractContextManager[None]:
        what = "queried" if self._is_database else f"read as {self._file.kind}"
        return explained_errors(self.where, what, self._file.paths)
