"""What a language model said about each case, in one column of a file."""

from __future__ import annotations

import csv
import io
import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from expertload import exceptions as ex
from expertload.io import ColumnNames, FileOptions, decide_file, read_cases, read_predictions
from expertload.scores import token_probabilities, vote_probabilities

RNG = np.random.default_rng(3)
N = 300
NAMES = ["A", 'B"s', "C, d"]
LABELS = [NAMES[i] for i in RNG.integers(3, size=N)]
VOTES = [
    [name if RNG.random() < 0.6 else NAMES[RNG.integers(3)] for _ in range(5)] for name in LABELS
]
TOKENS = [
    {name: -abs(float(RNG.normal(-3, 2))) for name in NAMES if name == true or RNG.random() < 0.7}
    for true in LABELS
]


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def judged(path, **columns):
    return lines(
        path, [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    )


def decisions(policy, path, **options):
    stream = io.StringIO()
    decide_file(policy, path, out=stream, **options)
    return list(csv.DictReader(io.StringIO(stream.getvalue())))


@pytest.mark.parametrize("name", ["answers", "votes", "Votes"])
def test_repeated_answers_are_shares(tmp_path, name):
    table = read_predictions(judged(tmp_path / "a.jsonl", label=LABELS, **{name: VOTES}))
    assert table.columns.probabilities == tuple(f"{name}.{one}" for one in NAMES)
    np.testing.assert_allclose(table.cases.proba, vote_probabilities(VOTES, labels=NAMES))
    assert table.y_true.tolist() == LABELS


def test_log_probabilities_of_tokens_become_probabilities(tmp_path):
    table = read_predictions(judged(tmp_path / "a.jsonl", label=LABELS, logprobs=TOKENS))
    expected = token_probabilities(TOKENS, labels=list(table.cases.labels))
    np.testing.assert_allclose(table.cases.proba, expected, atol=1e-12)
    assert table.columns.read_as == "logits"
    assert (table.cases.proba == 0).any()  # a class that is not listed


def test_the_same_judgements_in_other_formats(tmp_path):
    expected = read_cases(judged(tmp_path / "a.jsonl", label=LABELS, answers=VOTES)).sha256
    pq.write_table(pa.table({"label": LABELS, "answers": VOTES}), tmp_path / "a.parquet")
    assert read_cases(tmp_path / "a.parquet").sha256 == expected
    with (tmp_path / "a.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["label", "answers"])
        rows.writerows((one, json.dumps(given)) for one, given in zip(LABELS, VOTES, strict=True))
    assert read_cases(tmp_path / "a.csv").sha256 == expected
    asked = FileOptions(query="SELECT label, said AS votes FROM file")
    renamed = judged(tmp_path / "b.jsonl", label=LABELS, said=VOTES)
    assert read_cases(renamed, options=asked).sha256 == expected


def test_columns_of_log_probabilities(tmp_path):
    (tmp_path / "a.csv").write_text("label,logprob_A,logprob_B\nA,-0.1,-2.4\nB,-1.1,-0.4\n")
    found = read_predictions(tmp_path / "a.csv").cases.proba
    rows = [{"A": -0.1, "B": -2.4}, {"A": -1.1, "B": -0.4}]
    np.testing.assert_allclose(found, token_probabilities(rows, labels=["A", "B"]))


def test_two_kinds_of_judgements_are_told_apart(tmp_path):
    path = judged(tmp_path / "a.jsonl", label=LABELS, answers=VOTES, logprobs=TOKENS)
    tokens = read_predictions(path, names=ColumnNames(logits="logprobs"))
    assert tokens.columns.probabilities[0] == "logprobs.A"
    votes = read_predictions(path, names=ColumnNames(probabilities="answers"))
    assert votes.columns.probabilities[0] == "answers.A"


def test_a_class_that_nobody_answered_is_named(tmp_path):
    path = judged(tmp_path / "a.jsonl", label=["A", "B", "C"], answers=[["A"], ["B", "A"], ["B"]])
    with pytest.raises(ex.LabelError, match="names no column: C"):
        read_cases(path)
    names = ColumnNames(probabilities="answers.A, answers.B, answers.C")
    found = read_predictions(path, names=names).cases.proba
    np.testing.assert_allclose(found, [[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0]])


@pytest.mark.parametrize("column", ["answers", "logprobs"])
def test_a_policy_decides_judgements_that_name_fewer_classes(tmp_path, column):
    given = VOTES if column == "answers" else TOKENS
    table = read_predictions(judged(tmp_path / "a.jsonl", label=LABELS, **{column: given}))
    policy = table.evaluate(target_accuracy=0.5).operating_point
    one = ["A"] * 4 if column == "answers" else {"A": -0.01}
    [row] = decisions(policy, lines(tmp_path / "new.jsonl", [{column: one}]), keep=[column])
    assert (row["accepted"], row["label"], float(row["confidence"])) == ("true", "A", 1.0)
    assert json.loads(row[column]) == one
    other = ["D", "A"] if column == "answers" else {"D": -0.1}
    odd = lines(tmp_path / "odd.jsonl", [{column: one}, {column: other}])
    why = "an answer is none of the classes A" if column == "answers" else "logprobs.A is missing"
    with pytest.raises(ex.FileFormatError, match=f"Row 2 .* cannot be decided: {why}"):
        decisions(policy, odd)
    _, row = decisions(policy, odd, invalid="delegate")
    assert (row["accepted"], row["label"]) == ("false", "")
    assert why in row["why"]


def with_noise(tokens):
    """Return tokens as a language model lists them: with blanks, and others among them."""
    split = {name: value - np.log(2) for name, value in tokens.items()}
    noisy = {f" {name}": value for name, value in split.items()} | split
    return {**noisy, "\nNo": -1.0, "Sorry": -0.3, "zero": -math.inf}


def test_tokens_are_read_as_token_probabilities_reads_them(tmp_path):
    noisy = [with_noise(tokens) for tokens in TOKENS]
    table = read_predictions(judged(tmp_path / "a.jsonl", label=LABELS, logprobs=noisy))
    assert table.cases.labels == tuple(NAMES)
    expected = token_probabilities(noisy, labels=NAMES)
    np.testing.assert_allclose(table.cases.proba, expected, atol=1e-12)
    np.testing.assert_allclose(expected, token_probabilities(TOKENS, labels=NAMES), atol=1e-12)
    policy = table.evaluate(target_accuracy=0.5).operating_point
    made = decisions(policy, judged(tmp_path / "new.jsonl", logprobs=noisy))
    assert [row["label"] for row in made] == policy.decide(expected).labels.tolist()


def test_probabilities_are_no_log_probabilities(tmp_path):
    shares = [{name: math.exp(value) for name, value in tokens.items()} for tokens in TOKENS]
    wrong = judged(tmp_path / "a.jsonl", label=LABELS, logprobs=shares)
    with pytest.raises(ex.FileFormatError, match="must be 0 or less"):
        read_cases(wrong)
    right = read_predictions(judged(tmp_path / "b.jsonl", label=LABELS, logprobs=TOKENS))
    with pytest.raises(ex.FileFormatError, match="must be 0 or less"):
        decisions(right.evaluate(target_accuracy=0.5).operating_point, wrong)


def test_blanks_around_an_answer_do_not_count_and_other_letters_are_refused(tmp_path):
    spaced = [[f" {answer}\n" for answer in given] for given in VOTES]
    table = read_predictions(judged(tmp_path / "a.jsonl", label=LABELS, answers=spaced))
    np.testing.assert_allclose(table.cases.proba, vote_probabilities(VOTES, labels=NAMES))
    policy = table.evaluate(target_accuracy=0.5).operating_point
    assert {row["label"] for row in decisions(policy, tmp_path / "a.jsonl")} == set(NAMES)
    small = [[answer.lower() for answer in given] for given in VOTES]
    with pytest.raises(ex.FileFormatError, match="differ in the case of letters"):
        read_cases(judged(tmp_path / "b.jsonl", label=LABELS, answers=small))
    with pytest.raises(ex.FileFormatError, match="Row 1 .* an answer is none of the classes A"):
        decisions(policy, tmp_path / "b.jsonl")
    mixed = judged(tmp_path / "c.jsonl", answers=[["A"] * 5, ["a"] * 5, ["n/a"] * 5])
    made = decisions(policy, mixed, invalid="delegate")
    assert [row["label"] for row in made] == ["A", "", ""]


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([{"answers": ["A"]}, {"answers": []}, {"answers": ["B"]}], "lacks 1 value"),
        ([{"answers": ["A"]}, {"answers": None}, {"answers": ["B"]}], "lacks 1 value"),
        ([{"answers": ["A"]}, {"answers": ["A", None]}, {"answers": ["B"]}], "sum to one"),
        (
            [{"answers": ["A"]}, {"answers": "A"}, {"answers": ["B"]}],
            "'answers' is read if every row",
        ),
        ([{"logprobs": {"A": -1, "B": "low"}}, {"logprobs": {"A": -1}}], "lacks 1 value"),
        ([{"logprobs": {"A": -1, "B": None}}, {"logprobs": {"A": -1}}], "lacks 1 value"),
        ([{"logprobs": [-1, -2]}, {"logprobs": [-1, -3]}], "No predictions"),
        ([{"logprobs": [{"token": "A", "logprob": -0.1}]}] * 2, "'logprobs' is read if every row"),
    ],
)
def test_odd_judgements_are_refused(tmp_path, rows, wanted):
    path = lines(tmp_path / "a.jsonl", [{"label": "A", **row} for row in rows])
    with pytest.raises(ex.ExpertLoadError, match=wanted):
        read_cases(path)


def test_a_column_of_other_text_is_left_alone(tmp_path):
    (tmp_path / "a.csv").write_text("label,p_A,p_B,answers\nA,0.9,0.1,long text\nB,0.2,0.8,more\n")
    assert read_predictions(tmp_path / "a.csv").columns.probabilities == ("p_A", "p_B")
