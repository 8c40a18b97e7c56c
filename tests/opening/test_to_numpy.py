"""From Arrow's memory to numpy's: chunks, slices, missing values, and codes for text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from expertload._opening.source import NUMBERS, encoded_values, to_codes, to_numpy

TYPES = [pa.type_for_alias(name) for name in NUMBERS]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_numbers_in_chunks_and_slices(kind):
    first, second, none = (pa.array(v, kind) for v in ([1, 2, 3, 4], [7], []))
    found = to_numpy(pa.chunked_array([first.slice(1, 2), second, none]))
    assert found.tolist() == [2, 3, 7]
    assert found.dtype == np.dtype(kind.to_pandas_dtype())
    assert to_numpy(first).tolist() == [1, 2, 3, 4]
    assert to_numpy(none).tolist() == []


def test_missing_values_are_none():
    assert to_numpy(pa.array([1, None])).tolist() == [1, None]
    assert to_numpy(pa.array(["a", None])).tolist() == ["a", None]


def test_codes_of_chunks_share_one_dictionary():
    parts = [["b", "a", None], ["c", "b"], [], [None]]
    chunks = [encoded_values(pa.array(part, pa.string())) for part in parts]
    values, codes = to_codes(pa.chunked_array(chunks))
    assert values[codes].tolist() == ["b", "a", None, "c", "b", None]
    assert len(values) == 4
    assert codes.dtype == np.uint8
