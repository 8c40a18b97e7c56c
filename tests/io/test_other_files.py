"""Parquet, JSON, npz and databases: as they are written, or refused; nothing else is reached."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import sys
import zipfile

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expertload import Cases
from expertload.exceptions import DataNotFoundError, ExpertLoadError, FileFormatError
from expertload.io import (
    FileOptions,
    decide_file,
    read_predictions,
    scan_file,
    tally_frame,
)
from expertload.io.source import open_source
from expertload.operating_point import choose
from tests.strategies import examples_in_one_folder

POLICY = choose(Cases.from_predictions(["a", "b"], [[0.9, 0.1], [0.2, 0.8]]), target_accuracy=1)
ROWS = "label,p_a,p_b\na,0.9,0.1\nb,0.2,0.8\nb,0.6,0.4\n"
fuzz = examples_in_one_folder(40)


def column(path, name, **options):
    return open_source(path, FileOptions(**options)).read([name])[name].tolist()


# ------------------------------------------------------------------------- Parquet


@pytest.mark.parametrize("folder", ["confidence=0.99", "label=dog", "p_a=1"])
@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_names_of_folders_are_no_content(tmp_path, folder, kind):
    path = tmp_path / folder / f"x.{kind}"
    path.parent.mkdir()
    table = {"label": ["a", "b"], "p_a": [0.9, 0.2], "p_b": [0.1, 0.8], "confidence": [0.1, 0.2]}
    if kind == "parquet":
        pq.write_table(pa.table(table), path)
    elif kind == "csv":
        path.write_text("label,p_a,p_b,confidence\na,0.9,0.1,0.1\nb,0.2,0.8,0.2\n")
    else:
        rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        path.write_text("\n".join(map(json.dumps, rows)))
    found = open_source(path).read(list(table), ["p_a", "p_b", "confidence"])
    assert {name: values.tolist() for name, values in found.items()} == table
    frame = scan_file(path)
    assert {float(row[0]) for row in frame.project("p_a").fetchall()} == {0.9, 0.2}
    out = path.with_name("out.parquet")
    decide_file(POLICY, path, out=out)
    written = pq.ParquetFile(out).read().to_pydict()
    assert written["confidence"] == [0.9, 0.8]
    assert written["label"] == ["a", "b"]


values = st.one_of(
    st.none(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
)


@pytest.mark.slow
@fuzz
@given(
    st.lists(st.tuples(values, st.floats(), st.integers(-(2**63), 2**63 - 1)), min_size=1),
    st.integers(1, 5),
)
def test_parquet_is_read_as_arrow_reads_it(tmp_path, rows, group):
    text, number, whole = zip(*rows, strict=True)
    table = pa.table({"text": pa.array(text, pa.string()), "x": number, "i": whole})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=group)
    found = open_source(tmp_path / "x.parquet").read(["text", "x", "i"])
    assert found["text"].tolist() == list(text)
    np.testing.assert_array_equal(found["x"], np.array(number))
    assert found["i"].tolist() == list(whole)


def test_files_of_one_name_are_told_apart(tmp_path):
    for folder, name in (("north", "id"), ("south", "other")):
        (tmp_path / folder).mkdir()
        pq.write_table(pa.table({name: [1]}), tmp_path / folder / "x.parquet")
    with pytest.raises(FileFormatError, match="of south/x.parquet differ from those of north/x"):
        open_source(tmp_path)


def test_a_folder_of_parquet_in_the_order_of_names(tmp_path):
    for i in (2, 0, 1):
        pq.write_table(pa.table({"id": [i, i]}), tmp_path / f"part-{i}.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".part-9.parquet.crc").write_text("")
    assert column(tmp_path, "id") == [0, 0, 1, 1, 2, 2]
    assert scan_file(tmp_path).count("id").fetchall() == [(6,)]
    pq.write_table(pa.table({"other": [1]}), tmp_path / "part-3.parquet")
    with pytest.raises(
        FileFormatError, match="columns of part-3.parquet differ from those of part-0"
    ):
        open_source(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileFormatError, match="a folder without Parquet files"):
        open_source(tmp_path / "empty")


@pytest.mark.parametrize("second", ["p_b", "P_B"])
def test_columns_of_one_name_are_refused(tmp_path, second):
    arrays = [pa.array(each) for each in (["a", "b"], [0.9, 0.2], [0.1, 0.8], [0.0, 0.0])]
    path = tmp_path / "x.parquet"
    pq.write_table(pa.Table.from_arrays(arrays, names=["label", "p_a", "p_b", second]), path)
    for read in (open_source, scan_file):
        with pytest.raises(FileFormatError, match=r"x\.parquet has more than one column 'p_b'"):
            read(path)


def test_fields_of_structs_may_have_the_same_names(tmp_path):
    boxes = [{"x": 1, "l": [1]}], [{"x": 2, "l": [2]}]
    pq.write_table(pa.table({"a": boxes[0], "b": boxes[1], "x": [3]}), tmp_path / "x.parquet")
    assert open_source(tmp_path / "x.parquet").columns == ["a", "b", "x"]


def test_a_damaged_file_of_a_folder_is_named(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_text("no Parquet")
    with pytest.raises(FileFormatError, match=r"b\.parquet could not be read"):
        open_source(tmp_path)


def test_what_has_no_type_in_numpy_is_text(tmp_path):
    path = tmp_path / "x.parquet"
    duckdb.sql(
        "SELECT 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::UUID u, 1.50::DECIMAL(9, 2) d, "
        "'2020-01-01 12:00:00+02'::TIMESTAMPTZ t, 123456789012345678901234567890::HUGEINT h, "
        "[0.1, 0.9] l"
    ).write_parquet(str(path))
    source = open_source(path)
    found = source.read(["d", "t", "l"])
    assert found["d"].tolist() == ["1.50"]
    assert found["t"].tolist()[0].startswith("2020-01-01 10:00:00")
    assert source.read(["d"], ["d"])["d"].tolist() == [1.5]


# ------------------------------------------------------------------------- JSON

IDENTIFIERS = ["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "12:30", "2020-01-01", "007", "1e5", "null"]


def test_fractions_in_json_are_kept_by_value(tmp_path):
    path = tmp_path / "x.jsonl"
    numbers = ["1.50", "1.0", "-12.340e-07", "7", "-123456789012345678901"]
    path.write_text("\n".join(f'{{"p": {number}, "list": [{number}]}}' for number in numbers))
    found = column(path, "p")
    assert [float(text) for text in found] == [float(number) for number in numbers]
    assert found[3:] == numbers[3:]
    assert column(path, "list")[0] == "[1.5]"


@pytest.mark.parametrize("kind", ["jsonl", "json"])
def test_json_keeps_what_is_written(tmp_path, kind):
    path = tmp_path / f"x.{kind}"
    whole = 123456789012345678901234567890
    rows = [{"id": text, "n": whole, "b": True} for text in IDENTIFIERS] + [{"n": None}]
    path.write_text(
        json.dumps(rows) if kind == "json" else "\n".join(json.dumps(row) for row in rows)
    )
    assert column(path, "id") == [*IDENTIFIERS, None]
    assert column(path, "n") == [str(whole)] * 6 + [None]
    assert column(path, "b") == ["true"] * 6 + [None]


@pytest.mark.slow
@fuzz
@given(st.lists(st.fixed_dictionaries({"s": values, "n": st.integers(), "x": st.floats(0, 1)})))
def test_json_is_read_as_python_reads_it(tmp_path, rows):
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) or " ", encoding="utf-8")
    if not rows:
        with pytest.raises(FileFormatError, match="no cases"):
            open_source(path)
        return
    found = open_source(path).read(["s", "n", "x"], ["x"])
    assert found["s"].tolist() == [row["s"] for row in rows]
    assert found["n"].tolist() == [str(row["n"]) for row in rows]
    assert found["x"].tolist() == [row["x"] for row in rows]


BROKEN_JSON = {
    "columns": ('{"p_a": [1, 0], "p_b": [0, 1]}', "one object of columns.*orient='records'"),
    "columns of pandas": ('{"p_a": {"0": 1}, "p_b": {"0": 0}}', "one object of columns"),
    "a number": ('[{"a": 1}, 3]', "Row 2 of x.json must be an object"),
    "one key twice": ('[{"a": 1, "a": 2}]', "Row 1 of x.json has more than one column 'a'"),
    "two spellings": ('[{"a": 1}, {"A": 2}]', "more than one column 'a', in upper or lower case"),
    "lists": ('[{"label": "a", "probabilities": [0.9, 0.1]}]', "its own key"),
    "cut short": ('[{"a": 1}, {"a": ', "could not be read as json"),
    "more after it": ('[{"a": 1}] x', "could not be read as json"),
    "no text": (b'[\n{"a": "\xff"}]', "in UTF-8.*--encoding; cp1252"),
    "two bytes a letter": ('[{"a": 1}]'.encode("utf-16"), "in UTF-8"),
}


@pytest.mark.parametrize(("text", "says"), BROKEN_JSON.values(), ids=BROKEN_JSON)
def test_json_that_is_refused(tmp_path, text, says):
    path = tmp_path / "x.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(FileFormatError, match=says) as caught:
        read_predictions(path)
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------- damage


def test_packed_files_that_are_damaged(tmp_path):
    (tmp_path / "good.csv.zst").write_bytes(_zst(ROWS.encode()))
    assert read_predictions(tmp_path / "good.csv.zst").n_cases == 3
    content = ROWS.encode() * 50
    whole = {"x.csv.gz": gzip.compress(content), "x.csv.zst": _zst(content)}
    for name, content in whole.items():
        path = tmp_path / name
        for damaged in (content[: len(content) // 2], content[:-3], b"junk" + content):
            path.write_bytes(damaged)
            with pytest.raises(FileFormatError, match=f"{name} is damaged") as caught:
                read_predictions(path)
            assert "\n" not in str(caught.value)


def test_packed_json_that_is_damaged(tmp_path):
    lines = (json.dumps({"label": "ab"[i % 2], "p_a": i / 7, "p_b": 1 - i / 7}) for i in range(7))
    content = "\n".join(lines).encode()
    packed = gzip.compress(content)
    whole = {"x.jsonl.gz": packed, "x.jsonl.zst": _zst(content)}
    wrong_sum = packed[:-6] + bytes([packed[-6] ^ 255]) + packed[-5:]
    (tmp_path / "sum.jsonl.gz").write_bytes(wrong_sum)
    with pytest.raises(FileFormatError, match=r"sum\.jsonl\.gz is damaged.*CRC"):
        open_source(tmp_path / "sum.jsonl.gz")
    for name, content in whole.items():
        (tmp_path / name).write_bytes(content)
        assert read_predictions(tmp_path / name).n_cases == 7
        (tmp_path / name).write_bytes(content[: len(content) // 2])
        with pytest.raises(FileFormatError, match=f"{name} is damaged"):
            open_source(tmp_path / name)


def test_a_packed_file_whose_name_does_not_say_so(tmp_path):
    (tmp_path / "x.csv").write_bytes(gzip.compress(ROWS.encode() * 9))
    with pytest.raises(FileFormatError, match=r"If it is compressed.*\.gz"):
        open_source(tmp_path / "x.csv")


def _zst(content):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


@pytest.mark.slow
def test_damaged_parquet_is_a_sentence(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(
        pa.table({"label": ["a", "b"] * 50, "p_a": [0.5] * 100, "p_b": [0.5] * 100}), path
    )
    whole = path.read_bytes()
    for cut in range(1, len(whole), 97):
        path.write_bytes(whole[:cut])
        with pytest.raises(ExpertLoadError) as caught:
            read_predictions(path)
        assert "\n" not in str(caught.value)


NPY = io.BytesIO()
np.save(NPY, np.zeros(2))


ARCHIVES = {
    "two of one name": ([("y.npy", NPY.getvalue())] * 2, "two arrays with the same name"),
    "no array": ([("y.npy", b"hello")], "magic string"),
    "a name taken": ([("p_0.npy", NPY.getvalue()), ("P_0.npy", NPY.getvalue())], "column 'p_0'"),
    "objects": ([("y.npy", NPY.getvalue().replace(b"'<f8'", b"'|O' "))], "pickle"),
}


def test_arrays_that_nobody_asks_for_are_not_unpacked(tmp_path):
    """A small archive may hold arrays that fill the memory; here, one that cannot be unpacked."""
    path = tmp_path / "x.npz"
    np.savez(path, correct=[1, 0], confidence=[0.9, 0.2], images=np.zeros((2, 5_000)))
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        begins = archive.getinfo("images.npy").header_offset
    path.write_bytes(content[: begins + 50_000] + b"x" * 100 + content[begins + 50_100 :])
    assert read_predictions(path).n_cases == 2
    with pytest.raises(FileFormatError, match="could not be read as npz"):
        open_source(path).read(["images_0"])


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(("members", "says"), ARCHIVES.values(), ids=ARCHIVES)
def test_an_archive_that_is_refused(tmp_path, members, says):
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members:
            archive.writestr(name, content)
    with pytest.raises(FileFormatError, match=says):
        open_source(path)


def test_a_matrix_and_an_array_may_not_share_a_name(tmp_path):
    np.savez(tmp_path / "x.npz", y_true=[0, 1], y_proba=np.eye(2), p_0=[0.0, 1.0])
    with pytest.raises(FileFormatError, match="more than one column 'p_0'"):
        open_source(tmp_path / "x.npz")


def test_other_members_of_an_archive_are_left_alone(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, label=np.array([b"a", b"b"]), p_a=[0.9, 0.2], p_b=[0.1, 0.8])
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("label", "what is this?")
        archive.writestr("readme.txt", "labels of the test set")
    assert read_predictions(path).y_true.tolist() == ["a", "b"]


@pytest.mark.parametrize("content", [b"hello, world", b"\x80\x04\x95pickled", b"PK\x03\x04cut"])
def test_what_is_no_archive_gets_no_unsafe_advice(tmp_path, content):
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(FileFormatError, match=r"could not be read as npz") as caught:
        open_source(tmp_path / "x.npz")
    assert "pickle" not in str(caught.value)


@pytest.mark.parametrize("values", [[0.9 + 0j, 0.2 + 1j], np.array([1, 2], "M8[D]")])
def test_dates_and_complex_numbers_are_no_confidence(tmp_path, values):
    np.savez(tmp_path / "x.npz", correct=[1, 0], confidence=values)
    with pytest.raises(FileFormatError, match="must hold numbers|Unsupported numpy type"):
        read_predictions(tmp_path / "x.npz")


# ------------------------------------------------------------------------- strangers


@pytest.fixture
def secret(tmp_path):
    (tmp_path / "secret.csv").write_text("word\nopensesame\n")
    return tmp_path / "secret.csv"


def test_a_strangers_database_reaches_no_file(tmp_path, secret):
    path = tmp_path / "x.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE VIEW v AS FROM read_csv('{secret}')")
        connection.execute("CREATE TABLE cases AS SELECT 1 AS a")
    for query in ("FROM v", f"FROM read_text('{secret}')", f"FROM '{secret}'"):
        with pytest.raises(FileFormatError, match="disabled by configuration|not be queried"):
            open_source(path, FileOptions(query=query))
    assert column(path, "a", query="SELECT a FROM cases") == [1]


@pytest.mark.slow
def test_a_query_over_any_file_reads_that_file_alone(tmp_path, secret):
    (tmp_path / "x.csv").write_text(ROWS)
    query = "SELECT label, p_a::DOUBLE AS p_a, p_b::DOUBLE AS p_b FROM file WHERE label = 'b'"
    assert read_predictions(tmp_path / "x.csv", options=FileOptions(query=query)).n_cases == 2
    out = tmp_path / "evil.csv"
    for query in (
        f"FROM '{secret}'",
        f"COPY (FROM file) TO '{out}'",
        f"SELECT 1; COPY (FROM file) TO '{out}'",
        f"SELECT 1) TO '{out}'; --",
        f"ATTACH '{tmp_path / 'new.duckdb'}'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "",
    ):
        with pytest.raises(FileFormatError):
            open_source(tmp_path / "x.csv", FileOptions(query=query))
    assert {file.name for file in tmp_path.iterdir()} == {"x.csv", "secret.csv"}


@pytest.mark.parametrize(
    "address", ["https://example.org/x.csv", "s3://b/x.parquet", "file:///etc/passwd"]
)
def test_addresses_are_refused(address):
    with pytest.raises(FileFormatError, match="is a web address"):
        scan_file(address)
    with pytest.raises(FileFormatError, match="is a web address"):
        read_predictions(address)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "x.csv")
    for read in (read_predictions, scan_file):
        with pytest.raises(FileFormatError, match="pipe or a device.*pass - to read"):
            read(tmp_path / "x.csv")


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ROWS.encode())))
    found = read_predictions("-")
    assert (found.where, found.n_cases) == ("standard input", 3)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(FileFormatError, match="Standard input is empty"):
        read_predictions("-")


@pytest.mark.parametrize("path", ["-", "x.csv"])
def test_a_disk_without_room_for_a_copy(tmp_path, monkeypatch, path):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text(ROWS)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ROWS.encode())))
    monkeypatch.setattr("tempfile.mkdtemp", full)
    with pytest.raises(FileFormatError, match=r"copied.*No space left on device\. Hint.*TMPDIR"):
        open_source(path, FileOptions(encoding="latin-1"))


# ------------------------------------------------------------------------- the same everywhere


def test_a_file_means_the_same_to_frames(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(
        "note,label,p_a,p_b\n'tis fine,a,0.9,0.1\n#7,b,0.2,0.8\nthe boys',a,0.6,0.4\nx,b,0.7,0.3\n"
    )
    table = tally_frame(scan_file(path), probabilities="p_*")
    assert table.n_cases == 4
    assert table.aucoc() == pytest.approx(read_predictions(path).evaluate().aucoc.estimate)
    path.write_text("confidence,correct\n0.5,yes\n1_0,no\n")
    with pytest.raises(ExpertLoadError):
        tally_frame(scan_file(path))
    with pytest.raises(DataNotFoundError, match="No file matches"):
        scan_file(tmp_path / "*.parquet")
    (tmp_path / "y.jsonl").write_text("{}")
    with pytest.raises(FileFormatError, match="must be of one kind"):
        scan_file([path, tmp_path / "y.jsonl"])
