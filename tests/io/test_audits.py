"""Audits: what is no answer to an automatic decision is not counted as one."""

from __future__ import annotations

import numpy as np
import pytest

from expertload.exceptions import FileFormatError
from expertload.io import AuditColumns, FileOptions, read_audits


@pytest.fixture
def write(tmp_path):
    def save(text):
        path = tmp_path / "audits.csv"
        path.write_text(text)
        return path

    return save


def test_the_label_of_a_decision_is_not_the_expert_s(write):
    """Decisions as `decide` writes them have a column `label`, too."""
    path = write("decided_label,label,expert_label\ncat,cat,dog\ndog,dog,dog\n")
    with pytest.raises(FileFormatError, match="in the column 'label' .* or in 'expert_label'"):
        read_audits(path)
    named = read_audits(path, names=AuditColumns(label="expert_label"))
    assert named.correct.tolist() == [0, 1]


def test_a_label_is_not_compared_with_itself(write):
    path = write("row,label,confidence\n1,cat,0.9\n")
    with pytest.raises(FileFormatError, match="both what was decided and what the expert said"):
        read_audits(path, names=AuditColumns(decided="label"))


@pytest.mark.parametrize("words", [("true", "false"), ("1", "0"), ("True", "False")])
def test_cases_that_were_left_to_experts_are_not_audits(write, words):
    yes, no = words
    path = write(f"key,accepted,correct\na,{yes},1\nb,{no},0\nc,{yes},1\n")
    with pytest.raises(FileFormatError, match=r"1 case\(s\) that were not decided.*row 2"):
        read_audits(path)
    query = FileOptions(query="SELECT * FROM file WHERE accepted::BOOL")
    assert read_audits(path, options=query).correct.tolist() == [1, 1]


def test_answers_in_other_letters_are_neither_right_nor_wrong(write):
    path = write("decided_label,label\ncat,Cat\ndog,\n")
    with pytest.raises(FileFormatError, match="'Cat' and 'cat' in audits.csv differ"):
        read_audits(path)
    path = write("decided_label,label\n1,01\n1,2\ndog,eel\ncat,\n")
    assert read_audits(path).correct.tolist()[:3] == [1, 0, 0]


@pytest.mark.parametrize("word", ["NA", "nan", "NULL", "n/a", "?"])
def test_words_for_a_missing_answer_are_no_answers(write, word):
    path = write(f"decided_label,label\ncat,cat\ndog,{word}\ndog,dog\n")
    with pytest.raises(FileFormatError, match="missing value. Hint: leave it empty"):
        read_audits(path)
    path = write(f"decided_label,label\ncat,cat\n{word},dog\ndog,dog\n")
    with pytest.raises(
        FileFormatError,
        match=r"in audits.csv looks like a missing value. Hint: leave it empty",
    ):
        read_audits(path)
    path = write(f"decided_label,label\nno,no\n{word},{word}\n")
    assert read_audits(path).correct.tolist() == [1, 1]


def test_a_blank_is_an_open_review(write):
    path = write("decided_label,label\ncat,cat\ndog, \n")
    assert read_audits(path).correct.tolist()[:1] == [1]
    assert np.isnan(read_audits(path).correct[1])


def test_answers_of_another_coding_are_not_wrong(write):
    path = write("decided_label,label\n0,cat\n1,dog\n1,cat\n")
    with pytest.raises(FileFormatError, match="must be among the labels cat, dog. Got 0, 1"):
        read_audits(path)
    for rows in ("True,1\nFalse,1\n", "yes,1\nno,1\n", "1,True\n0,true\n"):
        path = write(f"decided_label,label\n{rows}")
        assert read_audits(path).correct.tolist() == [1, 0]
    path = write("decided_label,label\ncat,dog\n")  # the only case may be wrong
    assert read_audits(path).correct.tolist() == [0]


def test_numbers_have_the_decimal_mark_of_the_file(write):
    path = write("key;correct;inclusion_probability\na;0,75;0,5\nb;;0,25\n")
    found = read_audits(path, options=FileOptions(decimal=","))
    assert found.inclusion_probability.tolist() == [0.5, 0.25]
    assert found.correct.tolist()[0] == 0.75
    assert np.isnan(found.correct[1])
    with pytest.raises(FileFormatError, match="Got '0,5' in row 1. Hint: .*--decimal"):
        read_audits(path)
    for wrong in ("0_5", "\u0660.\u0665"):
        path = write(f"key,correct,inclusion_probability\na,1,{wrong}\n")
        with pytest.raises(FileFormatError, match="must hold numbers"):
            read_audits(path)
        path = write(f"key,correct\na,{wrong}\n")
        with pytest.raises(FileFormatError, match="must hold numbers"):
            read_audits(path)


@pytest.mark.parametrize(
    ("header", "column", "other"),
    [
        ("correct,is_correct", "correct", "is_correct"),
        ("y_pred,prediction,label", "prediction", "y_pred"),
    ],
)
def test_an_audit_has_one_column_for_each_thing(write, header, column, other):
    rows = "1,0\n" if "correct" in header else "cat,dog,dog\n"
    path = write(f"{header}\n{rows}")
    with pytest.raises(FileFormatError, match=f"in the column '{column}' .* or in '{other}'"):
        read_audits(path)
    role = "correct" if "correct" in header else "decided"
    assert read_audits(path, names=AuditColumns(**{role: other})).correct.tolist() == [0]
    path = write("decided_label,prediction,label\ncat,dog,cat\n")  # says what was decided
    assert read_audits(path).correct.tolist() == [1]
