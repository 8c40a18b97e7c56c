"""CSV, Parquet, JSON and databases, through DuckDB: only the columns asked for are read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from expertload._typing import AnyArray
from expertload._validation import require_extra
from expertload.exceptions import FileFormatError
from expertload.predictions._source import Table

__all__ = ["DuckDBSource"]

# Types are told from all rows: one bad value in a million must be found, not cut off. CSV has none,
# and to guess them is to change what is there: 12E4 is a code, 12:30 a ward's name, yes a label.
READERS = {
    "csv": "read_csv(?, header = true, all_varchar = true, sample_size = -1)",
    "parquet": "read_parquet(?)",
    "json": "read_json(?, sample_size = -1)",
    "json lines": "read_json(?, format = 'newline_delimited', sample_size = -1)",
}
FIRST_ROW = "read_csv(?, header = false, all_varchar = true, sample_size = -1) LIMIT 1"
# Nothing is fetched from anywhere: what is not built in is not there.
SETTINGS = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}


class DuckDBSource:
    """A table that DuckDB reads."""

    def __init__(self, path: Path, where: str, kind: str, query: str | None) -> None:
        self._duckdb = require_extra("duckdb", "frames", "Reading predictions")
        self.where, self._kind, self._path = where, kind, path
        with self._saying_errors():
            if query is None:
                self._connection = self._duckdb.connect(config=SETTINGS)
                self._from, self._values = READERS[kind], [_literally(path)]
            else:
                self._connection = self._duckdb.connect(path, read_only=True, config=SETTINGS)
                self._from, self._values = f"({query.rstrip().rstrip(';')}\n)", []
            self._connection.execute("SET enable_progress_bar = false")
            self.columns = self._names()
        if kind == "csv":
            self._check_header()

    def read(self, names: Sequence[str], numbers: Sequence[str] = ()) -> Table:
        """Return some columns whole; those of numbers in text as numbers, if all of them are."""
        cast = set(numbers) if self._kind == "csv" else set()
        found = self._fetch([_as_double(name) if name in cast else _quoted(name) for name in names])
        table = dict(zip(names, map(_unmasked, found), strict=True))
        for name in (name for name in names if name in cast and table[name].dtype.kind == "O"):
            table[name] = _unmasked(self._fetch([_quoted(name)])[0])  # as text, to say what is not
        return table

    def chunks(self, names: Sequence[str], size: int) -> Iterator[Table]:
        """Return some columns, so many rows at a time; what is done with is let go."""
        with self._saying_errors():
            result = self._select([_quoted(name) for name in names])
        while True:
            with self._saying_errors():
                rows = result.fetchmany(size)
            if not rows:
                return
            columns = zip(*rows, strict=True)
            yield {name: _objects(list(v)) for name, v in zip(names, columns, strict=True)}

    def _fetch(self, wanted: Sequence[str]) -> list[Any]:
        with self._saying_errors():
            # Names of the results, because the same expression twice would be one column.
            named = [f"{what} AS c{i}" for i, what in enumerate(wanted)]
            return list(self._select(named).fetchnumpy().values())

    def _select(self, wanted: Sequence[str]) -> Any:
        return self._connection.execute(
            f"SELECT {', '.join(wanted)} FROM {self._from}", self._values
        )

    def _names(self) -> list[str]:
        self._connection.execute(f"DESCRIBE SELECT * FROM {self._from}", self._values)
        return [row[0] for row in self._connection.fetchall()]

    def _check_header(self) -> None:
        """Refuse what DuckDB would mend in silence: ragged rows, and a header that repeats itself.

        Rows of unequal length make it fall back to one wide column; of two columns of one name it
        would rename the second, and a class would double.
        """
        if len(self.columns) == 1 and re.search(r"[,;\t|]", self.columns[0]):
            raise FileFormatError(
                f"The rows of {self.where} do not all have as many values as its header has names. "
                "Hint: look for a row that is cut short, or a quote that is not closed."
            )
        with self._saying_errors():
            header = self._connection.execute(f"SELECT * FROM {FIRST_ROW}", self._values).fetchone()
        names = [str(name).strip().lower() for name in header or () if name is not None]
        # A number twice is no name: then a row of values stands where the header should.
        repeated = sorted({n for n in names if names.count(n) > 1 and not re.match(r"[-+.\d]", n)})
        if repeated:
            raise FileFormatError(
                f"The header of {self.where} names more than one column '{repeated[0]}'. "
                "Hint: give every column a name of its own."
            )

    @contextmanager
    def _saying_errors(self) -> Iterator[None]:
        try:
            yield
        except (self._duckdb.Error, UnicodeError, RuntimeError, OSError, MemoryError) as error:
            what = "queried" if self._kind == "database" else f"read as {self._kind}"
            why = _first_sentence(error)
            for spelling in (_literally(self._path), str(self._path.absolute()), str(self._path)):
                why = why.replace(spelling, self.where)
            raise FileFormatError(f"{self.where} could not be {what}: {why}") from error


def _literally(path: Path) -> str:
    """Return a path that means one file: DuckDB takes stars and brackets for patterns."""
    return re.sub(r"([*?\[])", r"[\1]", str(path.absolute()))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _as_double(name: str) -> str:
    # Trimmed, because a bare cast is pushed down into the reader, which refuses what this forgives.
    return f"TRY_CAST(trim({_quoted(name)}) AS DOUBLE)"


def _unmasked(values: Any) -> AnyArray:
    """Return missing values as None: numpy's masks do not survive most operations."""
    if isinstance(values, np.ma.MaskedArray):
        if np.ma.getmaskarray(values).any():
            return _objects([None if v is np.ma.masked else v for v in values.tolist()])
        return np.asarray(values)
    return np.asarray(values)


def _objects(values: list[Any]) -> AnyArray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _first_sentence(error: BaseException) -> str:
    """Return the first line of DuckDB's message, without its kind and what may follow."""
    text = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    text = re.sub(r"^[A-Za-z ]*(Error|Exception): ", "", text.strip())
    return text if text.endswith((".", "!", "?")) else f"{text}."
