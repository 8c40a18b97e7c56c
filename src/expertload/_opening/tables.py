"""CSV, Parquet, JSON and databases, read with DuckDB: only the requested columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from expertload._opening.coding import CodedParts, FewTexts
from expertload._opening.connection import (
    check_query,
    connect,
    connect_to,
    connect_to_shared,
    lock,
    quoted,
    saying_errors,
)
from expertload._opening.files import OpenedFile, resolve_files
from expertload._opening.nested import Part, is_known_to_parquet, parts_of
from expertload._opening.numbers import exact_number, number_in_text, why_refused
from expertload._opening.options import FileOptions
from expertload._opening.reading import Reader, reader_of
from expertload._opening.source import (
    Batch,
    Coded,
    Gathered,
    Progress,
    Table,
    check_distinct_names,
    to_numpy,
)
from expertload._typing import AnyArray, BoolArray
from expertload._validation import require_extra
from expertload.exceptions import FileFormatError

__all__ = ["DuckDBSource", "scan"]

WHOLE_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
# Types that numpy has too; other types become text as DuckDB writes it, or doubles.
MOMENTS = ("DATE", "TIMESTAMP")
PLAIN = {*WHOLE_NUMBERS, *MOMENTS, "UBIGINT", "FLOAT", "DOUBLE", "BOOLEAN", "VARCHAR"}
BATCH = 100_000


class DuckDBSource:
    """The columns of a table that DuckDB reads."""

    def __init__(
        self, file: OpenedFile, options: FileOptions, progress: Progress | None = None
    ) -> None:
        self._progress = progress
        self.where, self._file, self._decimal = file.where, file, options.decimal
        require_extra("pyarrow", "frames", "Reading files of predictions")
        with self._saying_errors():
            self._connection = self._connect(options)
        if self._is_database:
            self._reader = Reader.of("")
        else:
            self._reader = reader_of(self._connection, [file], options)
        self.n_rows = self._count()
        if options.query is not None:
            self._put(check_query(options.query, self.where))
        self._parts: dict[str, Part] = {}
        self._portable: frozenset[str] = frozenset()
        self.columns, self.types = self._described()
        self.numbered = frozenset(name for name, part in self._parts.items() if part.is_place)
        self.nested = frozenset(part.column for part in self._parts.values())

    @property
    def _is_database(self) -> bool:
        return self._file.kind == "database"

    def _connect(self, options: FileOptions) -> Any:
        if self._is_database:
            return connect_to(self._file.paths[0])
        return connect_to_shared() if options.query is None else connect()

    def read(self, names: Sequence[str], numbers: Sequence[str] = ()) -> Table:
        """Return some columns whole; text in those of numbers as numbers, if all of it is."""
        return self.read_coded(names, numbers, ())[0]

    def classes_of(self, n_columns: int) -> tuple[str, ...] | None:
        """Return None: a table has no lists beside its rows."""
        return None

    def beside(self, name: str | None, other: str) -> str | None:
        """Return a column if it exists: in a table, all have as many rows."""
        return name

    def read_coded(
        self, names: Sequence[str], numbers: Sequence[str], coded: Sequence[str]
    ) -> tuple[Table, dict[str, Coded]]:
        """Return some columns whole, and those of few distinct values coded."""
        asked = tuple(dict.fromkeys((*names, *coded)))
        few = self._few_texts([name for name in coded if name not in (*names, *numbers)])
        plain = [name for name in asked if name not in numbers]
        chunks: dict[str, list[Any]] = {name: [] for name in names if name not in numbers}
        codes = {name: few.get(name) or CodedParts(self.n_rows) for name in coded}
        rooms = self._rooms([name for name in names if name in numbers])
        gathered = {name: Gathered(self.n_rows, room) for name, room in rooms.items()}
        for some, others in self._batches(plain, numbers, BATCH, (), few):
            for name, column in gathered.items():
                # a damaged file may claim more rows than fit into memory
                with self._saying_errors():
                    column.append(to_numpy(others[name]))
            for name in chunks:
                chunks[name].append(some[name])
            for name in coded:  # while they arrive, so that the text is not kept
                codes[name].append({**some, **others}[name])
        found = {name: self._spelled(name, gathered.pop(name).whole()) for name in tuple(gathered)}
        found |= {name: to_numpy(_joined(chunks.pop(name))) for name in tuple(chunks)}
        return (
            {name: found[name] for name in names},
            {name: codes.pop(name).whole() for name in coded},
        )

    def _spelled(self, name: str, values: AnyArray) -> AnyArray:
        if values.dtype.kind == "O":
            self.check_spelled(name, np.array([value is None for value in values]))
        return values

    def batches(
        self,
        names: Sequence[str],
        numbers: Sequence[str] = (),
        *,
        size: int,
        typed: Sequence[str] = (),
    ) -> Iterator[tuple[Batch, Batch]]:
        """Return Arrow's arrays; that no row was lost is known at the end."""
        return self._batches(names, numbers, size, typed, {})

    def _batches(
        self,
        names: Sequence[str],
        numbers: Sequence[str],
        size: int,
        typed: Sequence[str],
        few: Mapping[str, FewTexts],
    ) -> Iterator[tuple[Batch, Batch]]:
        self._check_whole(numbers)
        only_numbers = [name for name in numbers if name not in names]
        asked = {name: quoted(name) for name in typed if name in self._portable}
        asked |= {name: few[name].sql(f"few{i}") for i, name in enumerate(few)}
        lists = {f"few{i}": texts.texts for i, texts in enumerate(few.values())}
        plain = [asked.get(name) or self._expression(name, False) for name in names]
        wanted = [*plain, *(self._expression(name, True) for name in numbers)]
        n_rows = 0
        selected = self._select(
            wanted, [*names, *numbers], size, numbers=only_numbers, parameters=lists
        )
        for batch in selected:
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
        written = self._select([self._expression(name, False)], [name], BATCH, limit)
        text = _joined([batch.column(0) for batch in written])
        spelled = zip(to_numpy(text), is_none.tolist(), strict=True)
        for row, (written, is_nothing) in enumerate(spelled, first_row):
            if is_nothing and written is not None:
                wanted, hint = why_refused(name, written, self._file.kind)
                raise FileFormatError(
                    f"The column '{name}' of {self.where} {wanted}. Got {shortened(written)} in "
                    f"row {row}.{hint}"
                )

    def _check_lengths(self, part: Part, limit: str, first_row: int) -> None:
        if part.length is None:
            return
        found = self._select([f"len({quoted(part.column)})"], [part.column], BATCH, limit)
        for row, length in enumerate(
            (n for b in found for n in b.column(0).to_pylist()), first_row
        ):
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
        parameters: Mapping[str, Any] | None = None,
    ) -> Iterator[Any]:
        # The results are numbered, because a repeated expression would be merged into one column.
        listed = ", ".join(f"{what} AS c{i}" for i, what in enumerate(wanted))
        with self._saying_errors():
            # a new cursor, because another query may still be in progress
            cursor = self._connection.cursor()
            query = f"SELECT {listed} FROM ({self._reader.sql(names, numbers)}){limit}"
            asked = self._reader.relation(cursor, query, parameters or {})
            reader = asked.to_arrow_reader(size)
        while True:
            with self._saying_errors():
                batch = next(reader, None)
            if batch is None:
                return
            yield batch

    def _expression(self, name: str, is_number: bool) -> str:
        kind = self.types[name]
        column = self._parts[name].sql if name in self._parts else quoted(name)
        if is_number and kind == "VARCHAR":
            return number_in_text(column, self._decimal)
        if kind in PLAIN:
            return column
        if is_number and (kind == "HUGEINT" or kind.startswith(("DECIMAL", "UHUGEINT"))):
            return exact_number(column)
        return f"CAST({column} AS VARCHAR)"

    def _put(self, query: str) -> None:
        """Read the result of a query instead, in which the file is called `file`."""
        if not self._is_database:
            if self._file.kind in ("csv", "tsv"):
                # checked now, because the number of rows of the query is not known in advance
                self._check_rows(self._counted())
            with self._saying_errors():
                self._reader.all_of(self._connection).to_view("file")
                lock(self._connection, self._file.paths)
        with self._saying_errors():  # DuckDB would rename a repeated column
            check_distinct_names(self._connection.sql(query).columns, f"The query of {self.where}")
        self.n_rows = None
        self._reader = Reader.of(f"({query}\n)")

    def _described(self) -> tuple[list[str], dict[str, str]]:
        """Return the columns and their types."""
        if self._reader.columns is not None:
            return list(self._reader.columns), dict.fromkeys(self._reader.columns, "VARCHAR")
        with self._saying_errors():
            found = self._reader.all_of(self._connection)
        return self._spread(dict(zip(found.columns, found.types, strict=True)))

    def _spread(self, kinds: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
        """Return columns and types; columns of several numbers per case are split."""
        nested = parts_of(kinds, self._length)
        self._portable = frozenset(name for name in kinds if is_known_to_parquet(kinds[name]))
        self._parts = {part.name: part for parts in nested.values() for part in parts}
        columns = [name for name in kinds if name not in nested]
        types = {name: str(kind) for name, kind in kinds.items()}
        types |= {name: part.type for name, part in self._parts.items()}
        return [*columns, *self._parts], types

    def _rooms(self, numbers: Sequence[str]) -> dict[str, AnyArray | None]:
        """Return memory for columns of numbers, as rows of one array, which saves a copy later."""
        single = {self.types[name] == "FLOAT" for name in numbers}
        if self.n_rows is None or len(single) != 1:
            return dict.fromkeys(numbers)
        kind = np.dtype(np.float32 if True in single else np.float64)
        with self._saying_errors():  # a damaged file may claim more rows than fit into memory
            return dict(zip(numbers, np.empty((len(numbers), self.n_rows), kind), strict=True))

    def _few_texts(self, names: Sequence[str]) -> dict[str, FewTexts]:
        """Return the text columns for which DuckDB can return codes.

        They are read twice, which is fast only in Parquet files. A query could return something
        different the second time.
        """
        if self._file.kind != "parquet" or self.n_rows is None:
            return {}
        found, table = {}, self._reader.sql(None, ())
        for name in names:
            if self.types[name] == "VARCHAR" and name not in self._parts:
                with self._saying_errors():
                    found[name] = FewTexts.find(
                        self._connection, table, name, self.where, self.n_rows
                    )
        return {name: few for name, few in found.items() if few is not None}

    def _length(self, column: str) -> int | None:
        """Return the length of the first list in a column; None if the column has no list."""
        list_ = quoted(column)
        query = f"SELECT len({list_}) FROM ({self._reader.sql(None, ())}) WHERE {list_} IS NOT NULL"
        with self._saying_errors():
            row = self._connection.execute(f"{query} LIMIT 1").fetchone()
        return None if row is None else int(row[0])

    def _count(self) -> int | None:
        return self._counted() if self._file.kind == "parquet" else self._reader.n_rows

    def _counted(self) -> int:
        with self._saying_errors():
            query = f"SELECT count(*) FROM ({self._reader.sql(None, ())})"
            rows = self._connection.execute(query, self._reader.parameters).fetchall()
        return int(rows[0][0])

    def _check_rows(self, n_rows: int) -> None:
        if self.n_rows is not None and n_rows != self.n_rows:
            raise FileFormatError(
                f"{self.where} has {self.n_rows} rows, but {n_rows} were read. Hint: it may have "
                "changed in the meantime; if not, save it again with plain quotes and line ends."
            )

    def _saying_errors(self) -> Any:
        what = "queried" if self._is_database else f"read as {self._file.kind}"
        return saying_errors(self.where, what, self._file.paths)


def scan(paths: list[str], options: FileOptions, settings: Mapping[str, str]) -> Any:
    """Return files as one DuckDB relation, which is read only when it is used."""
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
    connection = connect(settings)
    reader = reader_of(connection, files, options)
    paths_of_all = [path for file in files for path in file.paths]
    with saying_errors(files[0].where, f"read as {files[0].kind}", paths_of_all):
        if options.query is None:
            return reader.all_of(connection)
        query = check_query(options.query, files[0].where)
        reader.all_of(connection).to_view("file")
        lock(connection, paths_of_all)
        return connection.sql(query)


def shortened(written: str) -> str:
    """Return a text in quotes, shortened if it is long."""
    return repr(written if len(written) <= 60 else written[:57] + "...")


def _joined(parts: list[Any]) -> Any:
    pa = require_extra("pyarrow", "frames", "Reading files of predictions")
    return pa.chunked_array(parts) if parts else pa.array([], pa.string())
