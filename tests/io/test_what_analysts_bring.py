"""Rounded probabilities, predictions with a confidence, logits: what was taken is said."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from scipy.special import softmax
from typer.testing import CliRunner

import expertload as el
from expertload import Cases
from expertload import exceptions as ex
from expertload.cli.app import app
from expertload.evaluation import evaluate
from expertload.io import ColumnNames, decide_file, read_predictions
from expertload.operating_point import choose, load_operating_point

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(0, 2, (200, 3))
PROBA = softmax(LOGITS, axis=1)
NAMES = np.array(["cat", "dog", "owl"])
TRUE = np.where(RNG.random(200) < 0.8, PROBA.argmax(axis=1), RNG.integers(0, 3, 200))


def write(path, header, *columns):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header.split(","), *zip(*columns, strict=True)])
    return path


def decide(policy, path, **names):
    stream = io.StringIO()
    counts = decide_file(policy, path, out=stream, names=ColumnNames(**names))
    return counts, list(csv.DictReader(io.StringIO(stream.getvalue())))


# ------------------------------------------------------------------ rounded probabilities


@pytest.mark.parametrize("digits", [2, 3])
def test_rounded_probabilities_are_divided_by_their_sum_if_asked(tmp_path, digits):
    rounded = PROBA.round(digits)
    path = write(tmp_path / "x.csv", "label,p_cat,p_dog,p_owl", NAMES[TRUE], *rounded.T)
    if digits == 2:
        with pytest.raises(ex.ProbabilityError, match="sum to one .*--normalize"):
            read_predictions(path)
    found = read_predictions(path, names=ColumnNames(normalize=True))
    np.testing.assert_allclose(found.cases.proba.sum(axis=1), 1, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(found.cases.proba, rounded / rounded.sum(axis=1, keepdims=True))
    assert str(found.columns).endswith("p_cat, p_dog, p_owl (divided by their sum)")
    policy = found.evaluate(target_accuracy=0.9).operating_point
    counts, _ = decide(policy, path, normalize=True)
    assert counts.n_accepted == policy.n_accepted > 0


def test_only_what_rounding_can_do_is_forgiven(tmp_path):
    path = tmp_path / "x.csv"
    for miss, forgiven in ((0.015, True), (-0.015, True), (0.016, False), (-0.2, False)):
        write(path, "label,p_a,p_b,p_c", ["a", "b"], [0.5, 0.5], [0.3, 0.3], [0.2 + miss, 0.2])
        if forgiven:
            read_predictions(path, names=ColumnNames(normalize=True))
            continue
        with pytest.raises(
            ex.ProbabilityError, match="--normalize allows an error of 0.015, as from rounding"
        ):
            read_predictions(path, names=ColumnNames(normalize=True))
        with pytest.raises(ex.ProbabilityError, match="--normalize allows an error of 0.015"):
            read_predictions(path)  # so that nobody is sent from one refusal to the next


# ------------------------------------------------------------------ predictions with a confidence


@pytest.mark.parametrize(
    ("labels", "predictions", "right"),
    [
        (["cat", "dog", "cat"], ["cat", "cat", " cat"], [1, 0, 1]),
        (["0", "1", "01"], ["0.0", "0", "1"], [1, 0, 1]),
        (["no", "yes", "yes"], ["0", "0", "1"], [1, 0, 1]),
        (["cat", "dog", "dog"], ["cat", "cow", "dog"], [1, 0, 1]),
    ],
)
@pytest.mark.parametrize("header", ["y_true,y_pred,confidence", "truth,answer,sure"])
def test_a_prediction_is_right_where_it_is_the_label(tmp_path, labels, predictions, right, header):
    path = write(tmp_path / "x.csv", header, labels, predictions, [0.9, 0.5, 0.7])
    y, guess, sure = header.split(",")
    own = {"label": y, "prediction": guess, "confidence": sure} if y == "truth" else {}
    found = read_predictions(path, names=ColumnNames(**own))
    assert found.cases.correct.tolist() == right
    assert str(found.columns) == f"label: {y}, confidence: {sure}, prediction: {guess}"
    expected = evaluate(Cases.from_correctness(right, [0.9, 0.5, 0.7]))
    assert found.evaluate().to_dict() == expected.to_dict()


def test_predictions_that_name_no_label_are_refused(tmp_path):
    path = write(tmp_path / "x.csv", "y_true,y_pred,confidence", ["cat", "dog"], [0, 1], [1, 1])
    with pytest.raises(
        ex.FileFormatError, match="predictions of x.csv must be among the labels cat, dog"
    ):
        read_predictions(path)


@pytest.mark.parametrize(
    ("labels", "predictions", "says"),
    [
        (["cat", "dog"], ["Cat", "dog"], "'cat' and 'Cat' in x.csv differ"),
        (["cat", "Cat"], ["cat", "cat"], "'Cat' and 'cat' in x.csv differ"),
        (["cat", "NA"], ["cat", "cat"], "'NA' in x.csv looks like a missing value.* rename it"),
        (["cat", "cat"], ["nan", "cat"], "'nan' in x.csv looks like a missing value"),
        (["0", "1", "1"], ["0", "1.0", "0.93"], "'0.93' in x.csv.* looks like a score"),
    ],
)
def test_predictions_that_are_neither_right_nor_wrong_are_refused(
    tmp_path, labels, predictions, says
):
    columns = labels, predictions, [0.9] * len(labels)
    path = write(tmp_path / "x.csv", "y_true,y_pred,confidence", *columns)
    with pytest.raises(ex.FileFormatError, match=says):
        read_predictions(path)


def test_classes_may_differ_in_letters_alone_and_be_called_na(tmp_path):
    columns = ["a", "A", "NA"], ["A", "a", "NA"], [0.9, 0.8, 0.7]
    path = write(tmp_path / "x.csv", "y_true,y_pred,confidence", *columns)
    assert read_predictions(path).cases.correct.tolist() == [0, 0, 1]


# ------------------------------------------------------------------ logits


@pytest.mark.parametrize("prefix", ["logit_", "Logits_", "z_"])
def test_the_softmax_of_logits_is_taken_and_said(tmp_path, prefix):
    header = ",".join(["label", *(prefix + name for name in NAMES)])
    path = write(tmp_path / "x.csv", header, NAMES[TRUE], *LOGITS.T)
    own = {"logits": "z_*"} if prefix == "z_" else {}
    found = read_predictions(path, names=ColumnNames(**own))
    np.testing.assert_allclose(found.cases.proba, PROBA, rtol=1e-14)
    assert "probabilities: softmax of " + prefix + "cat" in str(found.columns)
    expected = evaluate(Cases.from_predictions(TRUE, PROBA))
    assert found.evaluate().aucoc.estimate == pytest.approx(expected.aucoc.estimate, abs=1e-12)
    policy = found.evaluate(target_accuracy=0.9).operating_point
    counts, rows = decide(policy, path, **own)
    assert counts.n_accepted == policy.n_accepted > 0
    assert [row["label"] for row in rows] == NAMES[PROBA.argmax(axis=1)].tolist()
    with pytest.raises(ex.ExpertLoadError, match="softmax"):
        read_predictions(path, names=ColumnNames(probabilities=f"{prefix}*"))
    with pytest.raises(ex.FileFormatError, match="as probabilities or as logits. Got both"):
        read_predictions(path, names=ColumnNames(probabilities="p_*", logits="z_*"))


def test_one_logit_is_a_log_odds(tmp_path):
    z = LOGITS[:, 0]
    y = np.where(z + RNG.normal(0, 1, 200) > 0, "ill", "well")
    for name, sign in (("ill", 1), ("well", -1)):
        path = write(tmp_path / "x.csv", f"label,logit_{name}", y, sign * z)
        found = read_predictions(path)
        assert list(found.cases.labels) == ["ill", "well"]
        np.testing.assert_allclose(found.cases.proba[:, 0], 1 / (1 + np.exp(-z)), rtol=1e-12)


def test_probabilities_come_before_logits(tmp_path):
    header = "label,logit_cat,logit_dog,p_cat,p_dog"
    path = write(tmp_path / "x.csv", header, ["cat", "dog"], [9, 9], [1, 1], [0.6, 0.3], [0.4, 0.7])
    assert read_predictions(path).columns.probabilities == ("p_cat", "p_dog")


def test_the_logits_of_a_lab_run(tmp_path):
    path = tmp_path / "test.npz"
    np.savez_compressed(path, logits=LOGITS, labels=TRUE)
    found = read_predictions(path)
    np.testing.assert_allclose(found.cases.proba, PROBA, rtol=1e-14)
    assert found.columns.label == "labels"
    assert found.evaluate().aucoc.estimate == pytest.approx(el.aucoc_score(TRUE, PROBA), abs=1e-12)


# ------------------------------------------------------------------ what a policy remembers


def saved(policy, path):
    policy.save(path)
    return load_operating_point(path)


def test_a_policy_of_logits_takes_the_softmax_by_itself(tmp_path):
    path = write(tmp_path / "x.csv", "label,z_cat,z_dog,z_owl", NAMES[TRUE], *LOGITS.T)
    found = read_predictions(path, names=ColumnNames(logits="z_*")).evaluate(target_accuracy=0.9)
    policy = saved(found.operating_point, tmp_path / "p.json")
    # Logits that would pass as probabilities: read as such, the case would be accepted.
    new = write(tmp_path / "new.csv", "z_cat,z_dog,z_owl", [0.98], [0.01], [0.01])
    counts, rows = decide(policy, new)
    assert counts.columns.is_logits
    assert float(rows[0]["confidence"]) == pytest.approx(softmax([0.98, 0.01, 0.01])[0], rel=1e-12)
    assert decide(policy, new, logits="z_*")[1] == rows
    for classes in ({}, {"classes": "cat,dog,owl"}):
        with pytest.raises(ex.FileFormatError, match="z_cat, z_dog, z_owl as logits, but those of"):
            decide(policy, new, probabilities="z_*", **classes)
    others = write(tmp_path / "p.csv", "p_cat,p_dog,p_owl", [0.98], [0.01], [0.01])
    assert decide(policy, others, probabilities="p_*")[1][0]["confidence"] == "0.98"


def test_a_policy_of_log_odds_in_one_column(tmp_path):
    odds = LOGITS[:, 0]
    path = write(tmp_path / "x.csv", "label,z_1", (odds > 0).astype(int), odds)
    found = read_predictions(path, names=ColumnNames(logits="z_*")).evaluate(target_accuracy=0.9)
    policy = saved(found.operating_point, tmp_path / "p.json")
    _, rows = decide(policy, write(tmp_path / "new.csv", "z_1", [0.2]))
    assert rows[0]["label"] == "1"  # a probability of 0.2 would be of the other class
    assert float(rows[0]["confidence"]) == pytest.approx(1 / (1 + np.exp(-0.2)), rel=1e-12)


def test_probabilities_in_columns_called_logits_stay_probabilities(tmp_path):
    header = "label,logit_cat,logit_dog,logit_owl"
    path = write(tmp_path / "x.csv", header, NAMES[TRUE], *PROBA.T)
    own = ColumnNames(probabilities="logit_*")
    policy = read_predictions(path, names=own).evaluate(target_accuracy=0.9).operating_point
    counts, rows = decide(saved(policy, tmp_path / "p.json"), path)
    assert not counts.columns.is_logits
    np.testing.assert_allclose([float(r["confidence"]) for r in rows], PROBA.max(axis=1))
    with pytest.raises(ex.FileFormatError, match="as probabilities, but those of x.csv would be"):
        decide(policy, path, logits="logit_*")


def test_a_policy_of_divided_rows_divides_by_itself(tmp_path):
    path = write(tmp_path / "x.csv", "label,p_cat,p_dog,p_owl", NAMES[TRUE], *PROBA.round(2).T)
    found = read_predictions(path, names=ColumnNames(normalize=True)).evaluate(target_accuracy=0.9)
    policy = saved(found.operating_point, tmp_path / "p.json")
    counts, rows = decide(policy, path)
    assert counts.columns.is_normalized
    assert counts.n_accepted == policy.n_accepted > 0
    assert rows == decide(policy, path, normalize=True)[1]


# ------------------------------------------------------------------ the command line


def test_the_commands_take_them_alike(tmp_path):
    run = CliRunner()
    rounded = PROBA.round(2)
    path = write(tmp_path / "x.csv", "label,p_a,p_b,p_c", TRUE, *rounded.T)
    options = [str(path), "--normalize", "--classes", "0,1,2"]
    policy = tmp_path / "policy.json"
    choose(Cases.from_predictions(TRUE, PROBA), target_accuracy=0.9).save(policy)
    for command in (["evaluate"], ["decide", str(policy)]):
        done = run.invoke(app, [*command, *options])
        assert done.exit_code == 0, done.output
        assert "p_a, p_b, p_c (of 0, 1, 2) (divided by their sum)" in " ".join(done.output.split())
    write(path, "truth,z_0,z_1,z_2", TRUE, *LOGITS.T)
    done = run.invoke(app, ["evaluate", str(path), "--label", "truth", "--logits", "z_*"])
    assert "softmax of z_0, z_1, z_2" in " ".join(done.output.split())
    write(path, "y,guess,confidence", TRUE, PROBA.argmax(axis=1), PROBA.max(axis=1))
    done = run.invoke(app, ["evaluate", str(path), "--label", "y", "--prediction", "guess"])
    assert "prediction: guess" in " ".join(done.output.split())
