"""Whatever a file holds: a sentence, never a traceback, and nothing half-written."""

from __future__ import annotations

import io
import string
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expertload import Cases
from expertload.exceptions import ExpertLoadError, FileFormatError
from expertload.io import ColumnNames, decide_file, read_predictions
from expertload.operating_point import choose
from tests.strategies import examples_in_one_folder

GOOD = "label,p_a,p_b\na,0.9,0.1\nb,0.2,0.8\n"

LINE = '{"label":0,"p_0":0.5,"p_1":0.5}\n'

BROKEN = {
    "empty file": ("x.csv", "", "is empty"),
    "blank lines": ("x.csv", "\n\n\n", "line of x.csv must name the columns. Got an empty line"),
    "header alone": ("x.csv", "label,p_a,p_b\n", "no cases"),
    "no header": ("x.csv", "0,0.9,0.1\n1,0.2,0.8\n", "No predictions were found"),
    "other columns": ("x.csv", "a,b\n1,2\n", "It has the columns a, b"),
    "no probabilities": ("x.csv", "label,score\n1,2\n", "No predictions were found"),
    "text for a number": ("x.csv", GOOD + "a,high,0.1\n", "must hold numbers. .*'high' in row 3"),
    "mixed types": ("x.csv", GOOD + "a,[1],true\n", "must hold numbers"),
    "missing probability": ("x.csv", GOOD + "a,,0.1\n", "'p_a' of x.csv lacks 1 value.* row 3"),
    "missing label": ("x.csv", GOOD + ",0.5,0.5\n", "'label' of x.csv lacks"),
    "nan": ("x.csv", GOOD + "a,nan,0.1\n", "'p_a' of x.csv must be finite.* nan in row 3"),
    "infinity": ("x.csv", GOOD + "a,inf,0.1\n", "'p_a' of x.csv must be finite.* inf in row 3"),
    "logits": ("x.csv", "label,p_a,p_b\na,3.1,-2\nb,1,4\n", "softmax"),
    "percent": ("x.csv", "label,p_a,p_b\na,90,10\nb,20,80\n", "percentages"),
    "percent signs": ("x.csv", GOOD + "a,90%,10%\n", "'90%' in row 3. Hint: .* fractions"),
    "not available": ("x.csv", GOOD + "a,NA,1\n", "'NA' in row 3. Hint: remove the cases"),
    "a note for Excel": ("x.csv", "sep=;\n" + GOOD.replace(",", ";"), "'sep=;', .* remove this"),
    "blanks between": ("x.csv", '"label" "p_a"\n"a" 0.9\n', "Hint: .*--delimiter"),
    "rows that do not sum to one": ("x.csv", GOOD + "a,0.9,0.9\n", "one.* 1.8 in row 3.* p_a, p_b"),
    "one case": ("x.csv", "label,p_a,p_b\na,0.9,0.1\n", "At least 2"),
    "short row": ("x.csv", GOOD * 3 + "a\n", "Every row of x.csv must have 3 value"),
    "long row": ("x.csv", GOOD + "a,0.5,0.5,9,9,9\n", "Every row of x.csv must have 3 value"),
    "open quote": ("x.csv", GOOD + '"a,0.5,0.5\n', "or one that is never closed"),
    "duplicated header": ("x.csv", "label,p_a,p_a\na,1,0\nb,0,1\n", "more than one column 'p_a'"),
    "header that differs in case": ("x.csv", "label,p_a,P_A\na,1,0\n", "more than one column"),
    "unknown class": ("x.csv", GOOD + "c,0.5,0.5\n", "'label' .* no column: c"),
    "an identifier": ("x.csv", "label,p_id,p_a\na,1,1\na,2,1\n", "'p_id' .* 2 in row 2.* p_id, p"),
    "negative weight": ("x.csv", "confidence,correct,sample_weight\n1,1,-1\n2,0,1\n", "negative"),
    "correct beyond one": ("x.csv", "confidence,correct\n1,7\n2,0\n", r"in \[0, 1\]"),
    "unknown end": ("x.xlsx", GOOD, "not known from its name.* save spreadsheets"),
    "packed in another way": ("x.csv.bz2", GOOD, "not known from its name"),
    "a table of another kind": ("x.feather", GOOD, "not known from its name.* or Parquet"),
    "no end": ("predictions", GOOD, "not known from its name"),
    "parquet that is none": ("x.parquet", GOOD, "could not be read as parquet"),
    "npz that is none": ("x.npz", GOOD, "could not be read as npz"),
    "database that is none": ("x.duckdb", GOOD, "--query"),
    "json that is none": ("x.jsonl", '{"label": 1,\nnonsense', "could not be read as json"),
    "json of other things": ("x.json", "[1, 2, 3]", "Row 1 of x.json must be an object"),
    "json, lists": ("x.jsonl", '{"label":0,"p_0":[1],"p_1":0}\n' * 2, "must hold numbers"),
    "json, mixed": ("x.jsonl", LINE + '{"label":0,"p_0":"x","p_1":1}\n', "must hold numbers"),
    "json, a key that is missing": ("x.jsonl", LINE + '{"label":0,"p_0":1}\n', "lacks 1 value"),
    "a compressed file that is none": ("x.csv.gz", GOOD, "damaged.* as gzip"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text", "says"), BROKEN.values(), ids=BROKEN)
def test_broken_files_are_refused_in_a_sentence(tmp_path, name, text, says):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ExpertLoadError, match=says) as caught:
        read_predictions(path).evaluate()
    assert "\n" not in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
    assert "y_proba" not in str(caught.value)  # people who typed a command know no parameters
    assert "labels=" not in str(caught.value)
    assert list(tmp_path.iterdir()) == [path]


def test_a_wrong_name_is_told_with_those_there_are(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(GOOD)
    for names in (
        ColumnNames(label="truth"),
        ColumnNames(probabilities="score_*"),
        ColumnNames(probabilities="p_a,p_c"),
        ColumnNames(correct="nope"),
    ):
        with pytest.raises(ExpertLoadError, match="It has the columns label, p_a, p_b"):
            read_predictions(path, names=names)
    with pytest.raises(ExpertLoadError, match="named only once"):
        read_predictions(path, names=ColumnNames(probabilities="p_a,p_a"))


def test_many_and_long_columns_are_listed_in_short(tmp_path):
    path = tmp_path / "wide.csv"
    names = ["x" * 500, *(f"c{i}" for i in range(2000))]
    path.write_text(",".join(names) + "\n" + ",".join("1" * len(names)) + "\n")
    with pytest.raises(ExpertLoadError, match=r"and 1981 more") as caught:
        read_predictions(path)
    assert len(str(caught.value)) < 800


def test_an_archive_with_objects_is_not_unpickled(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, y_true=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ExpertLoadError, match="pickle"):
        read_predictions(path)
    np.save(tmp_path / "bare.npy", np.zeros(3))
    (tmp_path / "bare.npy").rename(tmp_path / "bare.npz")
    with pytest.raises(ExpertLoadError, match="a single array without a name"):
        read_predictions(tmp_path / "bare.npz")


def test_an_archive_of_unequal_rows(tmp_path):
    np.savez(tmp_path / "x.npz", y_true=np.zeros(3), p_0=np.zeros(2))
    with pytest.raises(ExpertLoadError, match="y_true: 3, p_0: 2"):
        read_predictions(tmp_path / "x.npz")


def test_what_is_not_read_may_have_other_rows(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, y_true=[0, 1, 1], y_proba=[0.1, 0.8, 0.9], classes=["a", "b"], seed=np.arange(9))
    assert read_predictions(path).n_cases == 3
    policy = choose(Cases.from_predictions([0, 1], [0.1, 0.9]), target_accuracy=1)
    assert decide_file(policy, path, out=io.StringIO()).n_cases == 3
    with pytest.raises(ExpertLoadError, match="seed: 9"):
        decide_file(policy, path, out=io.StringIO(), keep=("seed",))


def cut_archives():
    stream = io.BytesIO()
    np.savez_compressed(
        stream, y_true=np.arange(50) % 2, p_0=np.full(50, 0.5), p_1=np.full(50, 0.5)
    )
    whole = stream.getvalue()
    for cut in range(0, len(whole), 23):
        yield whole[:cut]
        yield whole[:cut] + b"\0" * 7 + whole[cut + 7 :]
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w") as archive:
        described = b"{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999999,), }"
        archive.writestr("y_true.npy", b"\x93NUMPY\x01\x00v\x00" + described.ljust(118))
    yield bomb.getvalue()


def test_damaged_archives_are_refused_or_read(tmp_path):
    path = tmp_path / "x.npz"
    for content in cut_archives():
        path.write_bytes(content)
        try_to_read(path)


def try_to_read(path):
    """Read and evaluate: either it works, or it is refused on purpose, in one line."""
    assert_one_line(lambda: read_predictions(path).evaluate())


def assert_one_line(act):
    """Return whether something could be done; what could not must be said in one line."""
    sentence = ""
    try:
        act()
    except ExpertLoadError as error:
        sentence = str(error)
    assert "\n" not in sentence
    return not sentence


cells = st.one_of(
    st.sampled_from(
        ["0", "1", "0.5", "", "NaN", "a", "b", "1e999", "-1", "true", "null", '"', "'"]
    ),
    st.text(string.printable, max_size=8),
    st.text(max_size=4),
)
headers = st.one_of(
    st.sampled_from(
        ["label", "p_a", "p_b", "p_0", "p_1", "confidence", "correct", "group", "sample_weight"]
    ),
    st.text(max_size=6),
)
fuzz = examples_in_one_folder(60)


@pytest.mark.slow
@fuzz
@given(
    header=st.lists(headers, max_size=5),
    rows=st.lists(st.lists(cells, max_size=6), max_size=6),
    separator=st.sampled_from([",", ";", "\t", "|"]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    bom=st.booleans(),
)
def test_any_text_as_csv(tmp_path, header, rows, separator, end, bom):
    path = tmp_path / "x.csv"
    text = end.join(separator.join(row) for row in [header, *rows])
    path.write_bytes(("\ufeff" * bom + text).encode("utf-8", "surrogatepass"))
    try_to_read(path)


@fuzz
@given(
    content=st.binary(max_size=200),
    kind=st.sampled_from(["csv", "jsonl", "json", "parquet", "npz"]),
)
def test_any_bytes(tmp_path, content, kind):
    path = tmp_path / f"x.{kind}"
    path.write_bytes(content)
    try_to_read(path)


values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=3)
    ),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(headers, inner, max_size=2),
    max_leaves=3,
)


@pytest.mark.slow
@fuzz
@given(st.lists(st.dictionaries(headers, values, max_size=4), min_size=1, max_size=4))
def test_any_json(tmp_path, rows):
    import json

    path = tmp_path / "x.jsonl"
    text = "\n".join(json.dumps(row) for row in rows)
    path.write_text(text, encoding="utf-8")
    try_to_read(path)


@pytest.mark.slow
@fuzz
@given(
    rows=st.lists(st.tuples(st.one_of(st.floats(0, 1), cells), cells), min_size=1, max_size=6),
    kind=st.sampled_from(["csv", "jsonl", "parquet"]),
)
def test_decisions_are_whole_or_not_there(tmp_path, rows, kind):
    policy = choose(Cases.from_predictions(["a", "b"], [[0.9, 0.1], [0.2, 0.8]]), target_accuracy=1)
    path, out = tmp_path / "new.csv", tmp_path / f"out.{kind}"
    for old in tmp_path.iterdir():
        old.unlink()
    text = "p_a,note\n" + "\n".join(f"{a},{b}" for a, b in rows)
    path.write_text(text, encoding="utf-8", errors="replace")
    done = assert_one_line(lambda: decide_file(policy, path, out=out))
    assert set(tmp_path.iterdir()) == ({path, out} if done else {path})


def test_blanks_around_the_names_of_a_csv_are_no_part_of_them(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("label, p_a, p_b\na, 0.9, 0.1\nb, 0.2, 0.8\n")
    assert read_predictions(path).columns.probabilities == ("p_a", "p_b")
    assert read_predictions(path).cases.target.tolist() == [0, 1]
    path.write_text("p_a, p_b, label\n0.9, 0.1, a\n0.2, 0.8, b\n")
    assert read_predictions(path, names=ColumnNames(probabilities="p_a,p_b")).n_cases == 2
    path.write_text("label, label \na, a\n")
    with pytest.raises(ExpertLoadError, match="more than one column 'label'"):
        read_predictions(path)


def test_blanks_around_names_are_pointed_at(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, **{"label": ["a", "b"], " p_a": [0.9, 0.2], " p_b": [0.1, 0.8]})
    with pytest.raises(ExpertLoadError, match="The name ' p_a' starts or ends with a blank"):
        read_predictions(path)
    with pytest.raises(ExpertLoadError, match="The name ' p_a' starts or ends with a blank"):
        read_predictions(path, names=ColumnNames(probabilities="p_a,p_b"))
    evaluated = tmp_path / "y.csv"
    evaluated.write_text("label,p_a,p_b\n" + "a,0.9,0.1\nb,0.2,0.8\n" * 40)
    policy = read_predictions(evaluated).evaluate().operating_point
    with pytest.raises(
        ExpertLoadError, match="lacks p_a.*The name ' p_a' starts or ends with a blank"
    ):
        decide_file(policy, path, out=io.StringIO())


def test_predictions_that_differ_from_a_label_in_the_case_of_letters(tmp_path):
    """They may mean the same class; if both are labels and predicted, they are two."""
    path = tmp_path / "x.csv"
    path.write_text("label,prediction,confidence\nCat,cat,0.5\nDog,Dog,0.6\n")
    with pytest.raises(FileFormatError, match="'Cat' and 'cat' in x.csv differ"):
        read_predictions(path)
    path.write_text("label,prediction,confidence\nA,a,0.5\nB,B,0.6\na,A,0.7\n")
    assert read_predictions(path).cases.correct.tolist() == [False, True, False]
    path.write_text("label,prediction,confidence\nCat,bird,0.5\nDog,Dog,0.6\n")
    assert read_predictions(path).cases.correct.tolist() == [False, True]
