"""Columns of few texts, which DuckDB numbers: the same values as without."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expertload._opening import FileOptions, coding, open_source
from expertload._opening.coding import CodedParts, FewTexts
from expertload.exceptions import FileFormatError

TEXTS = st.one_of(
    st.none(), st.sampled_from(["", "cat", "Cat", "cat ", "é", "e\u0301", "a'b", "$few0", "NULL"])
)


def write(path, values, **more):
    pq.write_table(pa.table({"label": pa.array(values, pa.string()), **more}), path)
    return path


def decoded(coded):
    return coded.values[coded.codes].tolist()


@given(values=st.lists(TEXTS, min_size=1, max_size=60))
def test_values_stay_where_they_were(values, tmp_path_factory):
    path = write(tmp_path_factory.mktemp("coding") / "x.parquet", values)
    _, codes = open_source(path).read_coded((), (), ("label",))
    assert decoded(codes["label"]) == values


@pytest.mark.parametrize("n_texts", [1, 254, 255, 256, 1000])
def test_one_byte_is_enough_or_arrow_does_it(tmp_path, n_texts):
    values = [f"class {i % n_texts}" for i in range(3000)]
    path = write(tmp_path / "x.parquet", values)
    source = open_source(path)
    assert bool(source._few_texts(["label"])) == (n_texts <= coding.FEW)
    _, codes = source.read_coded((), (), ("label",))
    assert decoded(codes["label"]) == values


def test_many_texts_after_the_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(coding, "SAMPLE", 10)
    values = ["a"] * 100 + [f"{i}" for i in range(300)]
    source = open_source(write(tmp_path / "x.parquet", values))
    assert not source._few_texts(["label"])
    assert decoded(source.read_coded((), (), ("label",))[1]["label"]) == values


def test_only_missing_values(tmp_path):
    source = open_source(write(tmp_path / "x.parquet", [None, None]))
    assert decoded(source.read_coded((), (), ("label",))[1]["label"]) == [None, None]


def test_a_query_is_put_once(tmp_path):
    """What it returns the second time may be something else."""
    path = write(tmp_path / "x.parquet", ["a", "b"] * 50)
    source = open_source(path, FileOptions(query="SELECT * FROM file USING SAMPLE 50"))
    assert not source._few_texts(["label"])


def test_text_that_came_in_the_meantime_is_refused(tmp_path):
    path = write(tmp_path / "x.parquet", ["a", "b"])
    source = open_source(path)
    few = FewTexts(["a"], "label", "x.parquet", 2)
    parameters = {"few0": few.texts}
    query = f"SELECT {few.sql('few0')} AS c FROM read_parquet('{path}')"
    part = source._connection.sql(query, params=parameters).to_arrow_table()["c"]
    with pytest.raises(FileFormatError, match=r"changed while it was read.*'label'"):
        few.append(part)


def test_arrow_and_duckdb_number_the_same_rows_alike():
    values = pa.array(["b", None, "a", "b"])
    parts = CodedParts(4)
    parts.append(values)
    few = FewTexts(["a", "b", None], "label", "x", 4)
    few.append(pa.array([2, 3, 1, 2], pa.uint8()))
    assert decoded(parts.whole()) == decoded(few.whole()) == ["b", None, "a", "b"]


def test_numbers_lie_side_by_side(tmp_path):
    rng = np.random.default_rng(0)
    numbers = {name: rng.random(1000) for name in ("a", "b", "c")}
    path = write(tmp_path / "x.parquet", ["x"] * 1000, **numbers)
    found = open_source(path).read(tuple(numbers), tuple(numbers))
    assert found["a"].base is found["b"].base
    for name, values in numbers.items():
        np.testing.assert_array_equal(found[name], values)
