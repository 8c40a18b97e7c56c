"""From Arrow's memory to numpy's: chunks, slices, missing values, and codes for text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expertload.io.source import open_source
from expertload.io.values import to_numpy

NUMBERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
TYPES = [pa.type_for_alias(name) for name in (*NUMBERS, "float", "double")]
TEXTS = st.one_of(
    st.none(), st.sampled_from(["", "cat", "Cat", "cat ", "é", "e\u0301", "a'b", "NULL"])
)


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


def coded(path, values, kind=None):
    pq.write_table(pa.table({"label": pa.array(values, kind)}), path)
    return open_source(path).read_coded((), (), ("label",))[1]["label"]


@given(values=st.lists(TEXTS, min_size=1, max_size=60))
def test_coded_values_stay_where_they_were(values, tmp_path_factory):
    found = coded(tmp_path_factory.mktemp("coding") / "x.parquet", values, pa.string())
    assert found.values[found.codes].tolist() == values
    assert len(found.values) == len(set(values))


@pytest.mark.parametrize("n_texts", [1, 255, 256, 1000])
def test_codes_of_many_batches(tmp_path, n_texts, monkeypatch):
    monkeypatch.setattr("expertload.io.source.BATCH", 2048)
    values = [f"class {i % n_texts}" for i in range(6000)]
    found = coded(tmp_path / "x.parquet", values)
    assert found.values[found.codes].tolist() == values
    assert len(found.values) == n_texts


def test_codes_of_numbers_and_of_nothing(tmp_path):
    found = coded(tmp_path / "x.parquet", [3, 1, 1, 2], pa.int16())
    assert found.values.dtype == np.int16
    assert found.values[found.codes].tolist() == [3, 1, 1, 2]
    assert len(coded(tmp_path / "y.parquet", [], pa.string()).codes) == 0
    missing = coded(tmp_path / "z.parquet", [None, None], pa.string())
    assert missing.values[missing.codes].tolist() == [None, None]
