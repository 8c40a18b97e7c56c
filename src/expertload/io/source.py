"""Opens every file: its name determines the format, fixed rules determine its content.

Files of predictions and frames on disk are both opened here, so a file has the same meaning
everywhere. Nothing is guessed from the content: the dialect of a CSV is fixed, and its values stay
text until numbers are requested. A file that breaks a rule is refused.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from expertload._check import require_extra
from expertload._typing import BoolArray
from expertload.exceptions import FileFormatError
from expertload.io.arrays import (
    BATCH,
    Batch,
    NpzSource,
    Progress,
    Source,
    Table,
    coded_column,
    joined,
    to_numpy,
)
from expertload.io.engine import (
    Part,
    check_query,
    connect,
    connect_to,
    exact_number,
    explained_errors,
    is_known_to_parquet,
    lock,
    number_in_text,
    parts_of,
    quoted,
    why_refused,
)
from expertload.io.files import FileOptions, OpenedFile, resolve_file, resolve_files
from expertload.io.formats import Reader, check_distinct_names, reader_of
from expertload.io.judgements import Judgements
from expertload.io.values import Coded

QUERY_SECONDS = 3_600.0
# Types that numpy has too; other types become text as DuckDB writes it, or doubles.
PLAIN = {
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
    *("FLOAT", "DOUBLE", "BOOLEAN", "VARCHAR", "DATE", "TIMESTAMP"),
}


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
    if file.kind != "npz":
        return TableSource(file, options, progress)
    if options.query is not None:
        raise FileFormatError(
            f"A query cannot read {file.where}, because an npz file is not a table. Hint: leave "
            "out --query, or save the arrays as Parquet."
        )
    return NpzSource(file)


def scan(paths: list[str], options: FileOptions, settings: Mapping[str, str]) -> Any:
    """Return files as one DuckDB relation, which is read only when it is used."""
    files = resolve_files(paths, options)
    kind, where = files[0].kind, files[0].where
    if kind in ("npz", "database"):
        raise FileFormatError(
            f"{where} cannot be scanned. Hint: scan_file takes .csv, .tsv, .parquet, .jsonl and "
            ".json; read_predictions takes the other formats."
        )
    if options.decimal != ".":
        raise FileFormatError(
            "scan_file keeps text as written, so it does not support decimal commas. Hint: convert "
            "the numeric columns in a query, for example with replace(p_cat, ',', '.')."
        )
    connection = connect(settings)
    reader = reader_of(connection, files, options)
    paths_of_all = [path for file in files for path in file.paths]
    with explained_errors(where, f"read as {kind}", paths_of_all):
        if options.query is None:
            return reader.relation(connection)
        query = check_query(options.query, where)
        reader.relation(connection).to_view("file")
        lock(connection, paths_of_all)
        return connection.sql(query)


class TableSource(Source):
    """The columns of a table that DuckDB reads."""

    def __init__(
        self, file: OpenedFile, options: FileOptions, progress: Progress | None = None
    ) -> None:
        require_extra("pyarrow", "frames", "Reading files of predictions")
        self.where, self._file, self._decimal = file.where, file, options.decimal
        self._progress = progress
        self._is_database, self._has_query = file.kind == "database", options.query is not None
        with self._explained_errors():
            self._connection = connect_to(file.paths[0]) if self._is_database else connect()
        self._reader = Reader.of("")
        if not self._is_database:
            self._reader = reader_of(self._connection, [file], options)
        self.n_rows = self._counted() if file.kind == "parquet" else self._reader.n_rows
        if options.query is not None:
            self._put(check_query(options.query, self.where))
        self._parts: dict[str, Part] = {}
        self._judged: dict[str, Judgements] = {}
        self._portable: frozenset[str] = frozenset()
        self._describe()

    def _describe(self) -> None:
        """Find the columns and their types; columns of several numbers per case are split."""
        if self._reader.columns is not None:
            self.columns = list(self._reader.columns)
            self.types = dict.fromkeys(self.columns, "VARCHAR")
            self._find_judgements()
            return
        with self._explained_errors():
            found = self._reader.relation(self._connection)
        kinds = dict(zip(found.columns, found.types, strict=True))
        self._parts = {part.name: part for part in parts_of(kinds, self._length)}
        self._portable = frozenset(name for name in kinds if is_known_to_parquet(kinds[name]))
        self.nested = frozenset(part.column for part in self._parts.values())
        self.numbered = frozenset(name for name, part in self._parts.items() if part.is_place)
        self.columns = [*(name for name in kinds if name not in self.nested), *self._parts]
        self.types = {name: str(kind) for name, kind in kinds.items()}
        self.types |= {name: part.type for name, part in self._parts.items()}
        self._find_judgements()

    def _find_judgements(self) -> None:
        """Give each class in a column of judgements a column of its own."""
        for judged in Judgements.among(self.types):
            with self._explained_errors():
                cursor = self._connection.cursor()
                table = self._reader.sql([judged.column], [judged.column])
                found = judged.classes(cursor, table, self._reader.parameters)
            if found:
                self._judged[judged.column] = judged
                self.nested |= {judged.column}
                self.columns.remove(judged.column)
                self.offer(f"{judged.column}.{name}" for name in found)

    def offer(self, names: Iterable[str]) -> None:
        """Add columns of classes that nobody named, such as `answers.C`, if they are asked for."""
        for name in names:
            column, _, of = name.strip().partition(".")
            if column in self._judged and of and name.strip() not in self.columns:
                part = self._judged[column].part(of)
                self._parts[part.name], self.types[part.name] = part, part.type
                self.columns.append(part.name)

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
                self.check_spelled(name, np.array([value is None for value in table[name]]))
        return table, {name: coded_column(codes.pop(name)) for name in coded}

    def batches(
        self,
        names: Sequence[str],
        numbers: Sequence[str] = (),
        *,
        size: int = BATCH,
        typed: Sequence[str] = (),
    ) -> Iterator[tuple[Batch, Batch]]:
        """Yield Arrow arrays; that no row was lost is known at the end."""
        self._check_whole(numbers)
        own = {name: quoted(name) for name in typed if name in self._portable}
        plain = [own.get(name) or self._expression(name, False) for name in names]
        wanted = [*plain, *(self._expression(name, True) for name in numbers)]
        only_numbers = [name for name in numbers if name not in names]
        n_rows = 0
        for batch in self._select(wanted, [*names, *numbers], size, numbers=only_numbers):
            n_rows += len(batch)
            if self._progress is not None:
                self._progress(n_rows, self.n_rows)
            columns = batch.columns
            yield (
                dict(zip(names, columns[: len(plain)], strict=True)),
                dict(zip(numbers, columns[len(plain) :], strict=True)),
            )
        self._check_rows(n_rows)

    def check_spelled(self, name: str, is_none: BoolArray, first_row: int = 1) -> None:
        """Refuse what is not a number, and quote it; missing values are reported elsewhere.

        `is_none` marks the rows, from `first_row` on, in which no number was found. A list whose
        length differs from the first one is refused too.
        """
        limit = f" LIMIT {len(is_none)} OFFSET {first_row - 1}"
        if name in self._parts:
            self._check_lengths(self._parts[name], limit, first_row)
        if self.types[name] in PLAIN - {"VARCHAR"}:
            return
        texts = self._select([self._expression(name, False)], [name], BATCH, limit)
        written = to_numpy(joined([batch.column(0) for batch in texts]))
        for i in np.flatnonzero(is_none):
            if written[i] is not None:
                wanted, hint = why_refused(name, written[i], self._file.kind)
                text = written[i] if len(written[i]) <= 60 else written[i][:57] + "..."
                raise FileFormatError(
                    f"The column '{name}' of {self.where} {wanted}. Got {text!r} in row "
                    f"{first_row + i}.{hint}"
                )

    def _check_lengths(self, part: Part, limit: str, first_row: int) -> None:
        if part.length is None:
            return
        found = self._select([f"len({quoted(part.column)})"], [part.column], BATCH, limit)
        lengths = [length for batch in found for length in batch.column(0).to_pylist()]
        for row, length in enumerate(lengths, first_row):
            if length not in (None, part.length):
                raise FileFormatError(
                    f"The lists in the column '{part.column}' of {self.where} must have the same "
                    f"length. Got {length} number(s) in row {row}, and {part.length} in the first "
                    "list. Hint: give every case one number per class."
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
        self,
        wanted: Sequence[str],
        names: Sequence[str],
        size: int,
        limit: str = "",
        numbers: Sequence[str] = (),
    ) -> Iterator[Any]:
        # The results are numbered, because a repeated expression would be merged into one column.
        listed = ", ".join(f"{what} AS c{i}" for i, what in enumerate(wanted))
        whole = [self._parts[name].column if name in self._parts else name for name in names]
        plain = [one for one, name in zip(whole, names, strict=True) if name in numbers]
        kept = [name for name in names if name not in numbers]
        source = self._reader.sql(whole, [name for name in plain if name not in kept])
        query = f"SELECT {listed} FROM ({source}){limit}"
        cursor = self._connection.cursor()  # a new one: another query may still be in progress
        with self._limited(cursor):
            with self._explained_errors():
                reader = self._reader.relation(cursor, query).to_arrow_reader(size)
            while True:
                with self._explained_errors():
                    batch = next(reader, None)
                if batch is None:
                    return
                yield batch

    @contextmanager
    def _limited(self, cursor: Any) -> Iterator[None]:
        """Interrupt a query of the user that takes too long: some never end."""
        timer = threading.Timer(QUERY_SECONDS, cursor.interrupt)
        timer.daemon = True
        if self._has_query:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()

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
                self._reader.relation(self._connection).to_view("file")
                lock(self._connection, self._file.paths)
        with self._explained_errors():  # DuckDB would rename a repeated column
            check_distinct_names(self._connection.sql(query).columns, f"The query of {self.where}")
        self.n_rows = None
        self._reader = Reader.of(f"({query}\n)")

    def _length(self, column: str) -> int | None:
        """Return the length of the first list in a column; None if the column has no list."""
        list_ = quoted(column)
        query = f"SELECT len({list_}) FROM ({self._reader.sql(None, ())}) WHERE {list_} IS NOT NULL"
        with self._explained_errors():
            row = self._connection.execute(f"{query} LIMIT 1").fetchone()
        return None if row is None else int(row[0])

    def _counted(self) -> int:
        with self._explained_errors():
            query = f"SELECT count(*) FROM ({self._reader.sql(None, ())})"
            rows = self._connection.execute(query, self._reader.parameters).fetchall()
        return int(rows[0][0])

    def _check_rows(self, n_rows: int) -> None:
        if self.n_rows is not None and n_rows != self.n_rows:
            raise FileFormatError(
                f"{self.where} has {self.n_rows} rows, but {n_rows} were read. Hint: it may have "
                "changed in the meantime; if not, save it again with plain quotes and line ends."
            )

    def _explained_errors(self) -> AbstractContextManager[None]:
        what = "queried" if self._is_database else f"read as {self._file.kind}"
        return explained_errors(self.where, what, self._file.paths)
