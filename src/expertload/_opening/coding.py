"""Columns with few distinct values: a list of the values, and a small code for each row."""

from __future__ import annotations

from typing import Any

import numpy as np

from expertload._opening.connection import quoted
from expertload._opening.source import Coded, Gathered, to_numpy
from expertload._typing import AnyArray, IntArray
from expertload._validation import require_extra
from expertload.exceptions import FileFormatError

__all__ = ["CodedParts", "FewTexts"]

FEW = 255  # codes from 1 on that fit into one byte
SAMPLE = 20_000  # rows to try first, so that a column with many texts is not read whole


class CodedParts:
    """Collects a column with few distinct values that arrives in parts; keeps small codes only."""

    def __init__(self, n_promised: int | None) -> None:
        self._n_promised = n_promised
        self._values: list[Any] = []  # the distinct values of each part, as Arrow arrays
        self._codes: list[IntArray] = []

    def append(self, part: Any) -> None:
        """Add Arrow values; a missing value counts as one more distinct value."""
        encoded = part.dictionary_encode(null_encoding="encode")
        codes = to_numpy(encoded.indices)
        self._values.append(encoded.dictionary)
        self._codes.append(codes.astype(np.min_scalar_type(len(encoded.dictionary))))

    def whole(self) -> Coded:
        """Return the column, with the same code for a value in every part."""
        pa = require_extra("pyarrow", "frames", "Reading files of predictions")
        values = pa.chunked_array(self._values or [pa.array([], pa.string())]).combine_chunks()
        encoded = values.dictionary_encode(null_encoding="encode")
        numbers = to_numpy(encoded.indices)
        numbers = numbers.astype(np.min_scalar_type(len(encoded.dictionary)))
        codes, begin = Gathered(self._n_promised), 0
        for part, own in zip(self._codes, self._values, strict=True):
            codes.append(numbers[begin : begin + len(own)][part])
            begin += len(own)
        return Coded(to_numpy(encoded.dictionary), codes.whole())


class FewTexts:
    """A column with few distinct texts, for which DuckDB returns codes instead of texts.

    Parquet files store such columns as a dictionary. DuckDB then looks up each text of the
    dictionary once, instead of the text of every row.
    """

    def __init__(self, texts: list[str | None], column: str, where: str, n: int | None) -> None:
        self.texts, self._column, self._where = texts, column, where
        self._codes = Gathered(n)

    @classmethod
    def find(cls, connection: Any, table: str, column: str, where: str, n: int) -> FewTexts | None:
        """Find the distinct texts of a column; return None if there are too many."""
        name, found = quoted(column), []
        for rows in (f"(SELECT {name} FROM ({table}) LIMIT {SAMPLE})", f"({table})"):
            query = f"SELECT DISTINCT {name} FROM {rows} LIMIT {FEW + 1}"
            found = [text for (text,) in connection.execute(query).fetchall()]
            if len(found) > FEW:
                return None
        texts = sorted(text for text in found if text is not None)
        if not texts:
            return None  # an empty list would have no type in DuckDB
        return cls([*texts, None] if None in found else texts, column, where, n)

    def sql(self, parameter: str) -> str:
        """Return an SQL expression for the codes; the texts are a parameter of the query."""
        return f"CAST(list_position(${parameter}, {quoted(self._column)}) AS UTINYINT)"

    def append(self, part: Any) -> None:
        """Add codes, which start at 1; a missing code means that the text is new."""
        if part.null_count:
            raise FileFormatError(
                f"{self._where} changed while it was read: the column '{self._column}' has new "
                "text. Hint: try again when no program writes to the file."
            )
        self._codes.append(to_numpy(part))

    def whole(self) -> Coded:
        """Return the column."""
        values = np.empty(len(self.texts), dtype=object)
        values[:] = self.texts
        codes: AnyArray = self._codes.whole()
        codes -= 1
        return Coded(values, codes)
