"""CSV: every cell is what Python's csv reads, or the file is refused."""

from __future__ import annotations

import codecs
import csv
import gzip
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expertload.exceptions import ExpertLoadError, FileFormatError
from expertload.io import FileOptions, read_predictions
from expertload.io.source import open_source
from tests.strategies import examples_in_one_folder

fuzz = examples_in_one_folder(150)


def by_python(content, delimiter=","):
    """Rows as Python's csv reads them, None where it finds them damaged or ragged."""
    text = io.StringIO(content.decode("utf-8-sig"), newline="")
    try:
        header, *rows = [row for row in csv.reader(text, delimiter=delimiter, strict=True) if row]
    except (csv.Error, ValueError):
        return None
    if any(len(row) != len(header) for row in rows):
        return None
    return [tuple(cell or None for cell in row) for row in rows]


def by_us(path, **options):
    """Rows as they are opened, None where the file is refused."""
    try:
        source = open_source(path, FileOptions(**options))
        table = source.read(source.columns)
    except ExpertLoadError:
        return None
    return list(zip(*table.values(), strict=True))


def quoted(cell):
    return '"' + cell.replace('"', '""') + '"'


tokens = st.sampled_from(
    ["a", "1", '"', '""', ",", "\n", "\r\n", "\r", "#", "'", " ", "\\", "é", '"x"', ',"', '",', ";"]
)
plain = st.text(st.sampled_from("ab1#' \\é;\t."), max_size=4)
cells = st.one_of(plain, st.text(st.sampled_from("ab,\"'\n\r #é"), max_size=5).map(quoted))


@pytest.mark.slow
@fuzz
@given(st.integers(1, 3), st.sampled_from(["\n", "\r\n", "\r"]), st.lists(tokens, max_size=14))
def test_any_characters_are_read_as_python_does_or_refused(tmp_path, n_columns, end, body):
    content = (",".join("xyz"[:n_columns]) + end + "".join(body)).encode()
    (tmp_path / "x.csv").write_bytes(content)
    ours = by_us(tmp_path / "x.csv")
    assert ours is None or ours == by_python(content)


@pytest.mark.slow
@fuzz
@given(st.data(), st.integers(2, 4), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_sound_files_are_read_and_not_refused(tmp_path, data, n_columns, end, mark):
    rows = data.draw(st.lists(st.lists(cells, min_size=n_columns, max_size=n_columns), max_size=6))
    lines = [",".join("wxyz"[:n_columns]), *(",".join(row) for row in rows)]
    content = codecs.BOM_UTF8 * mark + (end.join(lines) + end).encode()
    (tmp_path / "x.csv").write_bytes(content)
    ours = by_us(tmp_path / "x.csv")
    assert ours == by_python(content)
    assert ours is not None
    assert len(ours) == len(rows)


@fuzz
@given(st.lists(st.lists(cells, min_size=2, max_size=2), min_size=1, max_size=8), st.integers(3, 9))
def test_the_check_is_the_same_in_any_pieces(tmp_path, rows, size):
    """A quote, a line end, a letter of two bytes may fall anywhere between two pieces."""
    content = ("x,y\n" + "".join(",".join(row) + "\n" for row in rows)).encode()
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("expertload.io.files.PIECE", size)
        assert by_us(tmp_path / "x.csv") == by_python(content)


@pytest.mark.slow
def test_files_larger_than_a_piece(tmp_path):
    """Quoted line ends on both sides of every boundary, and more threads than one."""
    rng = np.random.default_rng(0)
    notes = np.array(["plain", '"a\nb"', '"c ""d"", e"', "it's", '""', "#"])[
        rng.integers(0, 6, 200_000)
    ]
    lines = [f"{i},{note},{i / 7}" for i, note in enumerate(notes)]
    content = ("id,note,score\n" + "\n".join(lines)).encode()
    (tmp_path / "x.csv").write_bytes(content)
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(content, 1))
    expected = by_python(content)
    assert by_us(tmp_path / "x.csv") == expected
    assert by_us(tmp_path / "x.csv.gz") == expected
    source = open_source(tmp_path / "x.csv")
    assert source.n_rows == 200_000
    found = source.read(["score"], ["score"])["score"]
    np.testing.assert_array_equal(found, [float(row[2]) for row in expected])


# ------------------------------------------------------------------------- what was misread


def test_apostrophes_are_no_quotes(tmp_path):
    path = tmp_path / "x.csv"
    rows = ["'tis fine,a,0.9,0.1", "plain,b,0.2,0.8", "the boys',a,0.6,0.4", "x,b,0.3,0.7"]
    path.write_text("note,label,p_a,p_b\n" + "\n".join(rows) + "\n")
    assert read_predictions(path).cases.proba[:, 0].tolist() == [0.9, 0.2, 0.6, 0.3]


def test_rows_that_begin_with_a_hash_are_rows(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("note,label,p_a,p_b\n" + "#7,a,0.9,0.1\n" * 3 + "8,b,0.2,0.8\n")
    assert read_predictions(path).n_cases == 4


def test_the_header_is_the_first_line(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\nlabel,p_a,p_b\na,0.9,0.1\nb,0.2,0.8\n")
    with pytest.raises(FileFormatError, match=r"Every row of x.csv must have 2 value\(s\)"):
        read_predictions(path)


A_QUOTE = "x.csv has a quote in the middle of a value, or one that is never closed"
REFUSED = {
    "a quote in a value": (b'x,y\na,5" disk\n', A_QUOTE),
    "a space before a quote": (b'x,y\na, "b"\n', A_QUOTE),
    "a quote never closed": (b'x,y\n1,2\na,"b\n3,4\n', A_QUOTE),
    "line ends of two kinds": (b"x,y\n1,2\r\n", "must end in the same way.*both a carriage"),
    "a bare carriage return": (b"x,y\n1,a\rb\n", "must end in the same way.*a carriage return"),
    "another end late": (b"x,y\r\n" + b"1,2\r\n" * 500_000 + b"3,4\n", "end in the same way"),
    "after a quoted line": (b'x,y\n1,"a\r\nb"\n3,4\r\n', "end in the same way"),
    "bars": (b"label|p_a|p_b\na|0.9|0.1\n", "'label|p_a|p_b'.*--delimiter '|'".replace("|", r"\|")),
    "one value more, empty": (b"x,y\n1,2,\n", "must have 2 value"),
    "one value more at the end": (b"x,y\n1,2,", "must have 2 value"),
    "an empty line of one column": (b"x\n1\n\n2\n", "one column and an empty line"),
    "latin-1": ("x,y\n1,Größe\n".encode("latin-1"), "in UTF-8.*--encoding"),
    "utf-16": ("x,y\n1,2\n".encode("utf-16"), "in UTF-8"),
    "a NUL": (b"x,y\n1,\x00\n", "text file"),
    "half a letter at the end": ("x,y\n1,é".encode()[:-1], "in UTF-8"),
    "a line without end": (b"x,y\n1," + b"a" * 3_000_000, "could not be read as csv"),
    "two columns of one name": (b"x,X\n1,2\n", "more than one column 'x'"),
    "nothing but a mark": (codecs.BOM_UTF8, "must name the columns"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("content", "says"), REFUSED.values(), ids=REFUSED)
def test_what_may_be_read_in_two_ways_is_refused(tmp_path, content, says):
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(FileFormatError, match=says):
        rows_of(tmp_path / "x.csv")


# ------------------------------------------------------------------------- what can be said


def rows_of(path, **options):
    source = open_source(path, FileOptions(**options))
    return source.columns, list(zip(*source.read(source.columns).values(), strict=True))


@pytest.mark.parametrize(
    ("name", "header", "delimiter"),
    [
        ("x.csv", "a,b;c\td", ","),
        ("x.csv", "a;b\tc", ";"),
        ("x.csv", '"a,b";c', ";"),
        ("x.csv", "a\tb", "\t"),
        ("x.txt", "a;b", ";"),
        ("x.tsv", "a,b\tc", "\t"),
    ],
)
def test_the_delimiter_is_told_by_a_rule(tmp_path, name, header, delimiter):
    (tmp_path / name).write_text(header + "\n")
    names, rows = rows_of(tmp_path / name)
    assert (names, rows) == (next(csv.reader([header], delimiter=delimiter)), [])
    (tmp_path / name).write_text("p|q\n1|2\n")
    assert rows_of(tmp_path / name, delimiter="|") == (["p", "q"], [("1", "2")])


def test_encodings(tmp_path):
    for encoding in ("latin-1", "cp1252", "utf-16", "utf-8-sig", "shift_jis"):
        text = "ä,b\nÖ,1\n" if encoding != "shift_jis" else "日,b\n本,1\n"
        path = tmp_path / "x.csv"
        path.write_bytes(text.encode(encoding))
        header, (row,) = rows_of(path, encoding=encoding)
        assert ",".join(header) + "\n" + ",".join(row) + "\n" == text
    path.write_bytes("é,b\n".encode("latin-1"))
    with pytest.raises(FileFormatError, match="in UTF-8"):
        open_source(path, FileOptions(encoding="ascii"))
    with pytest.raises(ExpertLoadError, match="must name an encoding"):
        FileOptions(encoding="base64")


def test_decimal_commas(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("label;p_a;p_b\na;0,9;0,1\nb;2e-1;8E-1\n")
    found = read_predictions(path, options=FileOptions(decimal=","))
    assert found.cases.proba.tolist() == [[0.9, 0.1], [0.2, 0.8]]
    path.write_text("label;p_a;p_b\na;0,9;0,1\nb;0.2;0,8\n")
    with pytest.raises(
        FileFormatError, match="'p_a' of x.csv must hold numbers. Got '0.2' in row 2.$"
    ):
        read_predictions(path, options=FileOptions(decimal=","))
    with pytest.raises(FileFormatError, match="Got '0,9' in row 1. Hint: .* --decimal ','"):
        read_predictions(path)


@pytest.mark.parametrize("text", ["1_0", "0x1", "1e", "--1", "1 0", "true", "\u0661"])
def test_what_spells_no_number(tmp_path, text):
    path = tmp_path / "x.csv"
    path.write_text(f"confidence,correct\n0.5,1\n{text},0\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match="must hold numbers.* in row 2"):
        read_predictions(path)
