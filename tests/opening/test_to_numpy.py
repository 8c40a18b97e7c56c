"""From Arrow's memory to numpy's: chunks, slices, missing values, and codes for text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from expertload._opening.coding import CodedParts
from expertload._opening.source import NUMBERS, Gathered, to_numpy

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


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us")], ids=str)
def test_moments_that_python_cannot_spell(kind):
    beyond = 2**31 - 2 if kind == pa.date32() else 2**62
    found = to_numpy(pa.array([0, None, beyond], kind))
    assert found.tolist() == [found[0], None, beyond]
    assert str(found[0]).startswith("1970-01-01")


def coded(parts, kind):
    found = CodedParts(3)
    for part in parts:
        found.append(pa.array(part, kind))
    return found.whole()


def test_codes_of_parts_share_their_numbers():
    values, codes = coded([["b", "a", None], ["c", "b"], [], [None]], pa.string())
    assert values[codes].tolist() == ["b", "a", None, "c", "b", None]
    assert len(values) == 4
    assert codes.dtype == np.uint8


def test_codes_of_numbers_and_of_nothing():
    values, codes = coded([[3, 1], [1, 2]], pa.int16())
    assert values.dtype == np.int16
    assert values[codes].tolist() == [3, 1, 1, 2]
    assert len(coded([], pa.string()).codes) == 0


def test_codes_of_many_values():
    values, codes = coded([range(200), range(100, 300)], pa.int64())
    assert values[codes].tolist() == [*range(200), *range(100, 300)]


@pytest.mark.parametrize("promised", [None, 2, 5, 9])
def test_values_are_gathered_whatever_length_was_promised(promised):
    gathered = Gathered(promised)
    assert gathered.whole().tolist() == []
    for part in ([1, 2], [], [3], [4, 5]):
        gathered.append(np.array(part, dtype=np.int32))
    assert gathered.whole().tolist() == [1, 2, 3, 4, 5]
    assert gathered.whole().dtype == np.int32
    gathered.append(np.array([None], dtype=object))
    assert gathered.whole().tolist() == [1, 2, 3, 4, 5, None]
