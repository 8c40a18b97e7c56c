"""Every kind of file gives the same arrays; columns are found, or named."""

from __future__ import annotations

import numpy as np
import pytest

from expertload.cases import Cases
from expertload.evaluation import evaluate
from expertload.exceptions import (
    DataNotFoundError,
    FileFormatError,
    LabelError,
    ProbabilityError,
)
from expertload.io import ColumnNames, Columns, FileOptions, read_predictions
from tests.io.files import CLASSES, KINDS, predictions, write


@pytest.fixture
def csv(tmp_path):
    def make(text, name="predictions.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_text(text, encoding=encoding)
        return path

    return make


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_files_agree(tmp_path, kind):
    table = predictions()
    path = tmp_path / f"predictions.{kind}"
    query = write(path, table)
    found = read_predictions(path, options=FileOptions(query=query))
    proba = np.column_stack([table[f"p_{name}"] for name in CLASSES])
    np.testing.assert_array_equal(found.y_true, table["label"])
    np.testing.assert_array_equal(found.cases.proba, proba)
    assert list(found.cases.labels) == list(CLASSES)
    assert found.cases.groups.tolist() == table["group"].tolist()
    assert found.columns == Columns(
        label="label",
        probabilities=("p_cat", "p_dog", "p_owl"),
        classes=CLASSES,
        group="group",
    )
    # Numbers of a file lie column by column in memory. Sums follow that order, and a sum in another
    # order may end in another last digit.
    proba = np.asfortranarray(proba)
    expected = evaluate(
        Cases.from_predictions(table["label"], proba, groups=table["group"], labels=CLASSES)
    )
    assert found.evaluate().to_dict() == expected.to_dict()


@pytest.mark.parametrize("kind", KINDS)
def test_columns_named_as_the_classes_are_their_probabilities(tmp_path, kind):
    """As `pandas.DataFrame(proba, columns=model.classes_)` names them."""
    table = predictions()
    table = {name.removeprefix("p_"): values for name, values in table.items()}
    path = tmp_path / f"predictions.{kind}"
    found = read_predictions(path, options=FileOptions(query=write(path, table)))
    np.testing.assert_array_equal(found.cases.proba, np.column_stack([table[n] for n in CLASSES]))
    assert list(found.cases.labels) == list(CLASSES)
    assert str(found.columns).startswith("label: label, probabilities: cat, dog, owl")


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("label,0,1\n1.0,0.2,0.8\n0.0,0.7,0.3\n", ("0", "1")),
        (",y_true,b,a\n0,a,0.2,0.8\n1,b,0.7,0.3\n", ("b", "a")),
        ("class,class,age\n", None),
        ("label,a,b\na,0.2,0.8\na,0.7,0.3\n", None),  # b does not occur: not complete
        ("label,a,A\na,0.2,0.8\nb,0.7,0.3\n", None),
        ("label,a,c\na,0.2,0.8\nb,0.7,0.3\n", None),
        ("label,1,01,2\n1,0.2,0.1,0.7\n2,0.7,0.2,0.1\n", None),  # which is class 1?
    ],
)
def test_classes_name_columns_only_if_exactly_and_completely(csv, text, columns):
    if columns is None:
        with pytest.raises(FileFormatError):
            read_predictions(csv(text))
    else:
        assert read_predictions(csv(text)).columns.probabilities == columns


def test_a_class_without_a_case_is_missed_in_the_sums(csv):
    text = "label,a,b,c\na,0.5,0.2,0.3\nb,0.1,0.7,0.2\n"
    with pytest.raises(ProbabilityError, match="sum to one"):
        read_predictions(csv(text))


def test_a_confidence_of_its_own_ranks_columns_named_as_classes(csv):
    path = csv("label,a,b,margin\na,0.9,0.1,5\nb,0.3,0.7,2\n")
    found = read_predictions(path, names=ColumnNames(confidence="margin"))
    assert found.cases.confidence.tolist() == [5, 2]
    assert found.columns.probabilities == ("a", "b")


@pytest.mark.parametrize("label", ["y_true", "Label", "TARGET", "class"])
@pytest.mark.parametrize("prefix", ["p_", "prob_", "Proba_"])
def test_columns_by_convention(csv, label, prefix):
    path = csv(f"{label},{prefix}a,{prefix}b,sample_weight\na,0.9,0.1,1\nb,0.2,0.8,2\n")
    found = read_predictions(path)
    assert found.columns.label == label
    assert found.columns.classes == ("a", "b")
    assert found.cases.weight.tolist() == [1, 2]


def test_columns_by_name(csv):
    path = csv(
        "diagnosis,sick score,well score,site,w,label\n sick,0.9,0.1,x,1,0\nwell,0.2,0.8,y,3,1\n"
    )
    names = ColumnNames(label="diagnosis", probabilities="* score", group="site", weight="w")
    found = read_predictions(path, names=names)
    assert found.columns.classes == ("sick", "well")
    assert found.cases.groups.tolist() == ["x", "y"]
    assert found.y_true.tolist() == ["sick", "well"]
    listed = ColumnNames(label="label", probabilities="well score, sick score", classes="1,0")
    found = read_predictions(path, names=listed)
    assert found.columns.probabilities == ("well score", "sick score")
    assert found.y_true.tolist() == [0, 1]
    assert found.evaluate().accuracy.estimate == 1


def test_confidence_and_correct(csv):
    path = csv("confidence,correct\n0.9,true\n0.2,false\n0.5,true\n")
    found = read_predictions(path)
    expected = evaluate(Cases.from_correctness([1, 0, 1], [0.9, 0.2, 0.5]))
    assert found.evaluate().to_dict() == expected.to_dict()
    graded = csv("dice,certainty\n0.5,-3\n0.25,12\n", "graded.csv")
    names = ColumnNames(correct="dice", confidence="certainty")
    assert read_predictions(graded, names=names).cases.correct.tolist() == [0.5, 0.25]


def test_own_confidence_beside_probabilities(csv):
    path = csv("label,p_0,p_1,energy\n0,0.9,0.1,3\n1,0.6,0.4,1\n")
    assert read_predictions(path).columns.confidence is None
    found = read_predictions(path, names=ColumnNames(confidence="energy"))
    assert found.cases.confidence.tolist() == [3, 1]
    assert found.evaluate().curve.thresholds.tolist() == [1, 3]


def test_one_column_is_the_probability_of_the_second_class(csv):
    found = read_predictions(csv("label,p_sick\n0,0.1\n1,0.7\n"))
    assert found.evaluate().accuracy.estimate == 1
    named = read_predictions(csv("label,proba\nill,0.1\nwell,0.7\n", "named.csv"))
    assert named.evaluate().accuracy.estimate == 1


def test_columns_named_after_numbers_belong_to_those_labels(csv):
    found = read_predictions(csv("label,p_10,p_2\n10,0.9,0.1\n2,0.3,0.7\n"))
    assert list(found.cases.labels) == [10, 2]
    assert found.evaluate().accuracy.estimate == 1


def test_numbers_beside_named_columns_are_refused_unless_their_classes_are_said(csv):
    path = csv("label,p_cat,p_dog\n0,0.9,0.1\n1,0.3,0.7\n")
    with pytest.raises(LabelError, match="names no column: 0. .* cat, dog.*--classes"):
        read_predictions(path)
    for classes, accuracy in (("0,1", 1), ("1, 0", 0)):
        found = read_predictions(path, names=ColumnNames(classes=classes))
        assert found.evaluate().accuracy.estimate == accuracy
    assert str(found.columns) == "label: label, probabilities: p_cat, p_dog (of 1, 0)"


def test_labels_that_name_no_column_are_refused_not_matched_by_order(csv):
    with pytest.raises(LabelError, match="names no column"):
        read_predictions(csv("label,p_0,p_1\ncat,0.9,0.1\ndog,0.2,0.8\n"))


def test_matrix_in_an_npz(tmp_path):
    table = predictions()
    proba = np.column_stack([table[f"p_{name}"] for name in CLASSES])
    y = np.searchsorted(CLASSES, table["label"])
    path = tmp_path / "m.npz"
    np.savez(path, y_true=y[:, None], y_proba=proba.astype(np.float32), features=np.ones((300, 7)))
    found = read_predictions(path)
    assert found.cases.proba.dtype == np.float32
    assert (
        found.evaluate().aucoc
        == evaluate(Cases.from_predictions(y, proba.astype(np.float32))).aucoc
    )
    renamed = tmp_path / "r.npz"
    np.savez(renamed, y_true=y, softmax=proba)
    found = read_predictions(renamed, names=ColumnNames(probabilities="softmax_*"))
    assert found.cases.proba.tolist() == proba.tolist()


def test_names_with_stars_and_brackets_mean_one_file(tmp_path):
    for name in ("a[1].csv", "a*.csv", "a?.csv", "naïve 🩺 'x'.csv"):
        (tmp_path / name).write_text(f"label,p_{len(name)},p_0\n0,0.1,0.9\n0,0.2,0.8\n")
        (tmp_path / "a1.csv").write_text("unrelated\n1\n")
        assert read_predictions(tmp_path / name).columns.classes[0] == str(len(name))


def test_byte_order_mark_and_line_ends(csv):
    text = "label,p_a,p_b\r\na,0.9,0.1\r\nb,0.2,0.8\r\n"
    assert read_predictions(csv(text, encoding="utf-8-sig")).columns.label == "label"


def test_only_what_is_needed_is_read(csv):
    found = read_predictions(csv("label,p_a,p_b,comment\na,0.9,0.1,\nb,0.2,0.8,x\n"))
    assert "comment" not in found.columns.all


def test_a_query_is_read_only(tmp_path):
    path = tmp_path / "cases.duckdb"
    write(path, predictions())
    found = read_predictions(
        path, options=FileOptions(query="SELECT * FROM cases WHERE id < 50 ORDER BY id;")
    )
    assert found.n_cases == 50
    for query in ("DROP TABLE cases", "SELECT 1; DROP TABLE cases", "SELECT", "SELECT * FROM x"):
        with pytest.raises(FileFormatError, match="could not be|must be one SELECT"):
            read_predictions(path, options=FileOptions(query=query))
    assert read_predictions(path, options=FileOptions(query="FROM cases")).n_cases == 300
    with pytest.raises(FileFormatError, match="--query"):
        read_predictions(path)


def test_what_is_not_there(tmp_path):
    with pytest.raises(DataNotFoundError, match="There is no file"):
        read_predictions(tmp_path / "none.csv")
    with pytest.raises(FileFormatError, match="folder"):
        read_predictions(tmp_path)
    (tmp_path / "x.csv").write_text("a\n1\n")
    with pytest.raises(FileFormatError, match="could not be read as csv: .*other"):
        read_predictions(tmp_path / "x.csv", options=FileOptions(query="SELECT * FROM other"))


def test_missing_groups_in_more_rows_than_are_read_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("expertload.io.source.BATCH", 7)
    table = predictions(50)
    table["group"] = np.where(table["id"] % 5 == 0, "", table["group"])
    write(tmp_path / "gaps.csv", table)
    found = read_predictions(tmp_path / "gaps.csv")
    assert found.cases.groups.tolist() == [each or None for each in table["group"].tolist()]
    assert "(missing)" in {group.name for group in found.evaluate().groups}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("label,probability\nill,0.1\nwell,0.7\n", "probability (of well)"),
        ("label,probability\n0,0.1\n1,0.7\n", "probability (of 1)"),
        ("label,p_ill\nill,0.9\nwell,0.3\n", "p_ill"),
        ("label,p_1\n0,0.1\n1,0.7\n", "p_1"),
        ("label,prob_pos\n0,0.1\n1,0.7\n", "prob_pos (of 1)"),
        ("label,proba\na,0.1\nb,0.7\n", "proba (of b)"),
    ],
)
def test_the_class_of_a_single_column_is_said_unless_its_name_says_it(csv, text, said):
    assert str(read_predictions(csv(text)).columns) == f"label: label, probabilities: {said}"


@pytest.mark.parametrize(
    ("inside", "said", "more"),
    [
        ('{"cat": 0.9, "dog": 0.1}', "SELECT *, s->>'cat' AS p_cat, ...", "s->>'dog' AS p_dog"),
        ("[0.9, 0.1]", "SELECT *, s->>0 AS p_0, ...", "s->>1 AS p_1"),
    ],
)
def test_numbers_inside_json_are_picked_as_the_hint_says(tmp_path, inside, said, more):
    """Services send them so; the message tells how to read them without writing another file."""
    path = tmp_path / "service.jsonl"
    label = '"cat"' if inside.startswith("{") else "0"
    path.write_text(f'{{"label": {label}, "s": {inside}}}\n' * 3)
    with pytest.raises(FileFormatError) as refused:
        read_predictions(path, names=ColumnNames(probabilities="s"))
    assert f'--query "{said} FROM file"' in str(refused.value)
    query = FileOptions(query=f"{said.replace('...', more)} FROM file")
    assert read_predictions(path, options=query).cases.proba.tolist() == [[0.9, 0.1]] * 3


def test_logits_inside_json_are_picked_as_logits(tmp_path):
    path = tmp_path / "service.jsonl"
    path.write_text('{"label": 0, "logits": [2.0, -1.0]}\n' * 3)
    with pytest.raises(
        FileFormatError, match=r"SELECT \*, logits->>0 AS logit_0, \.\.\. FROM file"
    ):
        read_predictions(path, names=ColumnNames(logits="logits"))
    picked = "SELECT *, logits->>0 AS logit_0, logits->>1 AS logit_1 FROM file"
    assert read_predictions(path, options=FileOptions(query=picked)).columns.is_logits


def test_grades_have_the_decimal_mark_of_the_file(csv):
    path = csv("confidence;correct\n0,9;0,75\n0,5;1\n")
    found = read_predictions(path, options=FileOptions(decimal=","))
    assert found.cases.correct.tolist() == [0.75, 1]
    with pytest.raises(FileFormatError, match="Got '0,75' in row 1. Hint: .*--decimal"):
        read_predictions(
            path, options=FileOptions(query="SELECT * REPLACE ('1' AS confidence) FROM file")
        )


def test_text_in_an_npz_is_a_number_only_as_everywhere(tmp_path):
    for wrong in ("0_9", "\u0660.\u0669"):
        np.savez(tmp_path / "x.npz", correct=[1, 0], confidence=["0.5", wrong])
        with pytest.raises(FileFormatError, match=f"must hold numbers. Got '{wrong}' in row 2"):
            read_predictions(tmp_path / "x.npz")
    np.savez(tmp_path / "x.npz", correct=[1, 0], confidence=["0.5", " 1e-1"])
    assert read_predictions(tmp_path / "x.npz").cases.confidence.tolist() == [0.5, 0.1]


@pytest.mark.parametrize("repeated", ["*, logit_0", "*, label AS LABEL"])
def test_a_query_that_repeats_a_column_is_refused(csv, repeated):
    """A second logit_0 would become logit_0_1, the logit of one more class."""
    path = csv("label,logit_0,logit_1\n0,2,1\n1,-1,3\n")
    options = FileOptions(query=f"SELECT {repeated} FROM file")
    with pytest.raises(FileFormatError, match=r"The query of .* has more than one column 'l"):
        read_predictions(path, options=options)
