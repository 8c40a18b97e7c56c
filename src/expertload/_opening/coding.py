"""Columns of few distinct values: each value once, and a small number for each row."""

from __future__ import annotations

from typing import Any

import numpy as np

from expertload._opening.connection import quoted
from expertload._opening.source import Coded, Gathered, to_numpy
from expertload._typing import AnyArray, IntArray
from expertload._validation import require_extra
from expertload.exceptions import FileFormatError

__all__ = ["CodedParts", "FewTexts"]

FEW = 255  # as many as one byte tells apart, with a number for each from 1 on
SAMPLE = 20_000  # rows that are looked at first: of a column of many texts, no more are read


class CodedParts:
    """A column of few distinct values that comes in parts; of each, only small codes are kept."""

    def __init__(self, n_promised: int | None) -> None:
        self._n_promised = n_promised
        self._values: list[Any] = []  # the distinct values of each part, as Arrow's arrays
        self._codes: list[IntArray] = []

    def append(self, part: Any) -> None:
        """Take in Arrow's values; a missing one is a value of its own."""
        encoded = part.dictionary_encode(null_encoding="encode")
        codes = to_numpy(encoded.indices)
        self._values.append(encoded.dictionary)
        self._codes.append(codes.astype(np.min_scalar_type(len(encoded.dictionary))))

    def whole(self) -> Coded:
        """Return the column, with one number for each value wherever it stands."""
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
    """A column of few distinct texts that DuckDB numbers, and of which it hands out no text.

    In Parquet files such texts are numbered already. DuckDB asks for the place of each of these
    texts in a list, and not for that of each row.
    """

    def __init__(self, texts: list[str | None], column: str, where: str, n: int | None) -> None:
        self.texts, self._column, self._where = texts, column, where
        self._codes = Gathered(n)

    @classmethod
    def find(cls, connection: Any, table: str, column: str, where: str, n: int) -> FewTexts | None:
        """Look what stands in a column of a table; None if there is too much of it."""
        name, found = quoted(column), []
        for rows in (f"(SELECT {name} FROM ({table}) LIMIT {SAMPLE})", f"({table})"):
            query = f"SELECT DISTINCT {name} FROM {rows} LIMIT {FEW + 1}"
            found = [text for (text,) in connection.execute(query).fetchall()]
            if len(found) > FEW:
                return None
        texts = sorted(text for text in found if text is not None)
        if not texts:
            return None  # DuckDB could not tell what an empty list is a list of
        return cls([*texts, None] if None in found else texts, column, where, n)

    def sql(self, parameter: str) -> str:
        """Return what to ask for, with the texts as a parameter of the query."""
        return f"CAST(list_position(${parameter}, {quoted(self._column)}) AS UTINYINT)"

    def append(self, part: Any) -> None:
        """Take in the places, counted from 1; one is missing where a text is new."""
        if part.null_count:
            raise FileFormatError(
                f"{self._where} has changed while it was read: new text in the column "
                f"'{self._column}'. Hint: try again when nothing writes to it."
            )
        self._codes.append(to_numpy(part))

    def whole(self) -> Coded:
        """Return the column."""
        values = np.empty(len(self.texts), dtype=object)
        values[:] = self.texts
        codes: AnyArray = self._codes.whole()
        codes -= 1
        return Coded(values, codes)
