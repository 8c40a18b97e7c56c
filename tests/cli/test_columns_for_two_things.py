"""A column that may be one thing or another, or would be two at once, is not guessed."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from expertload._check import EXACT_ONLY

RNG = np.random.default_rng(5)
N = 300
NUMBERS = RNG.integers(0, 2, N)
DOG = 1 / (1 + np.exp(-RNG.normal(3 * (NUMBERS - 0.5))))
LABELS = np.array(["cat", "dog"])[NUMBERS]
FRAME = pd.DataFrame({"label": LABELS, "p_cat": 1 - DOG, "p_dog": DOG})
ACCURACY = float(((DOG > 0.5) == NUMBERS).mean())


@pytest.fixture(params=["csv", "parquet"])
def evaluate(request, run, tmp_path):
    def call(frame, *options, code=0):
        path = tmp_path / f"x.{request.param}"
        getattr(frame, f"to_{request.param}")(path, index=False)
        return run("evaluate", path, *options, code=code)

    return call


def accuracy(result):
    return json.loads(result.stdout)["models"][0]["accuracy"]["estimate"]


@pytest.fixture
def refusal(evaluate):
    return lambda *arguments: " ".join(evaluate(*arguments, code=1).stderr.split())


def test_a_p_value_is_not_taken_for_a_probability(evaluate, refusal):
    frame = pd.DataFrame({"label": NUMBERS, "p_value": RNG.random(N)})
    frame = frame.assign(prob_0=1 - DOG, prob_1=DOG)
    assert "may be in 'p_value' and its like, or in 'prob_0'" in refusal(frame)
    result = evaluate(frame, "--probabilities", "prob_*", "--json")
    assert accuracy(result) == pytest.approx(ACCURACY)


def test_probabilities_of_two_models_are_not_chosen_from(evaluate, refusal):
    frame = FRAME.assign(proba_cat=DOG, proba_dog=1 - DOG)
    assert "--probabilities 'proba_*'" in refusal(frame)
    assert accuracy(evaluate(frame, "--probabilities", "p_*", "--json")) == pytest.approx(ACCURACY)


@pytest.mark.parametrize("other", ["target", "class", "Labels"])
def test_the_true_class_is_in_one_column(evaluate, refusal, other):
    frame = FRAME.assign(**{other: LABELS[::-1]})
    assert f"in the column 'label' of x.{{}}, or in '{other}'".split("{}")[0] in refusal(frame)
    assert accuracy(evaluate(frame, "--label", "label", "--json")) == pytest.approx(ACCURACY)


ANSWERS = pd.DataFrame(
    {
        "label": LABELS,
        "y_pred": np.where(DOG > 0.5, "dog", "cat"),
        "confidence": np.maximum(DOG, 1 - DOG),
    }
)


@pytest.mark.parametrize(
    ("role", "column", "other"),
    [("label", "label", "target"), ("prediction", "y_pred", "predicted")],
)
def test_so_is_what_a_prediction_is_compared_with(evaluate, refusal, role, column, other):
    frame = ANSWERS.assign(**{other: LABELS[::-1]})
    said = refusal(frame)
    assert f"may be in the column '{column}'" in said
    assert f"or in '{other}'. Hint: say in which (--{role} {column})" in said
    assert accuracy(evaluate(frame, f"--{role}", column, "--json")) == pytest.approx(ACCURACY)


def test_correctness_is_in_one_column(evaluate, refusal):
    right = ANSWERS["label"] == ANSWERS["y_pred"]
    frame = ANSWERS.assign(correct=right, is_correct=~right)
    assert "Correctness may be in the column 'correct'" in refusal(frame)
    result = evaluate(frame, "--correct", "correct", "--json")
    assert accuracy(result) == pytest.approx(ACCURACY)


def test_a_prediction_or_correctness_can_be_declined(evaluate):
    frame = FRAME.assign(y_pred=LABELS, correct=1)
    result = evaluate(frame, "--prediction", "none", "--correct", "none", "--json")
    assert accuracy(result) == pytest.approx(ACCURACY)


def test_logits_of_two_models_are_not_chosen_from(evaluate, refusal):
    z = np.log(DOG / (1 - DOG))
    frame = pd.DataFrame({"label": NUMBERS, "logit_0": -z, "logit_1": z})
    frame = frame.assign(logits_0=z, logits_1=-z)
    assert "may be in 'logit_0' and its like, or in 'logits_0'" in refusal(frame)
    result = evaluate(frame, "--logits", "logit_*", "--json")
    assert accuracy(result) == pytest.approx(ACCURACY)


@pytest.mark.parametrize("other", ["proba", "y_proba"])
def test_lists_of_two_models_are_not_chosen_from(run, tmp_path, other):
    p = np.column_stack([1 - DOG, DOG])
    frame = pd.DataFrame({"label": NUMBERS, "probabilities": list(p), other: list(p[:, ::-1])})
    frame.to_parquet(tmp_path / "x.parquet")
    said = " ".join(run("evaluate", tmp_path / "x.parquet", code=1).stderr.split())
    assert f"may be in '{other}.0' and its like, or in 'probabilities.0'" in said
    options = "--probabilities", "probabilities.*", "--json"
    result = run("evaluate", tmp_path / "x.parquet", *options)
    assert accuracy(result) == pytest.approx(ACCURACY)


def test_single_columns_of_two_models_are_not_chosen_from(evaluate, refusal):
    frame = pd.DataFrame({"label": NUMBERS, "probability": DOG, "proba": 1 - DOG})
    said = refusal(frame)
    assert "or in 'proba'. Hint: say which they are (--probabilities 'proba')" in said
    result = evaluate(frame, "--probabilities", "probability", "--json")
    assert accuracy(result) == pytest.approx(ACCURACY)


def test_y_true_says_what_it_is(evaluate):
    frame = FRAME.rename(columns={"label": "y_true"}).assign(label="other")
    assert accuracy(evaluate(frame, "--json")) == pytest.approx(ACCURACY)


def test_no_label_is_its_own_prediction(evaluate, refusal):
    said = refusal(FRAME, "--confidence", "p_dog", "--prediction", "label")
    assert "'label'" in said
    assert "both the label and the prediction" in said


def test_no_confidence_is_its_own_correctness(evaluate, refusal):
    said = refusal(FRAME, "--confidence", "p_dog", "--correct", "p_dog")
    assert "both the confidence and the correct" in said


def test_the_label_may_be_the_group_but_is_not_known_of_new_cases(evaluate, refusal):
    result = evaluate(FRAME, "--group", "label", "--json")
    groups = json.loads(result.stdout)["models"][0]["groups"]
    assert {group["name"] for group in groups} == {"cat", "dog"}
    said = refusal(FRAME, "--group", "label", "--certify-groups")
    assert "must be known for new cases" in said


def test_a_seed_is_not_negative(evaluate, refusal):
    said = refusal(FRAME, "--choose-confidence", "--seed", "-1")
    assert "--seed must" in said


def test_whole_numbers_that_floats_cannot_tell_apart(run, tmp_path):
    frame = pd.DataFrame({"confidence": 2**62 + np.arange(N), "correct": NUMBERS})
    frame.to_parquet(tmp_path / "x.parquet")
    assert EXACT_ONLY in run("evaluate", tmp_path / "x.parquet", code=1).stderr


@pytest.mark.parametrize("name", ["proba", "prob_max"])
def test_a_column_named_as_the_confidence_is_no_probability(evaluate, name):
    predicted = np.where(DOG > 0.5, "dog", "cat")
    sure = {name: np.maximum(DOG, 1 - DOG)}
    frame = pd.DataFrame({"label": LABELS, "y_pred": predicted, **sure})
    for one in (frame.replace({"label": {"cat": "owl"}}), FRAME.assign(**sure)):
        answers = one.get("y_pred", pd.Series(predicted))
        result = evaluate(one, "--confidence", name, "--json")
        assert accuracy(result) == pytest.approx(float((one["label"] == answers).mean()))


def test_a_confidence_called_a_probability_is_named_in_the_refusal(refusal):
    labels = np.array(["cat", "dog", "owl"])[RNG.integers(0, 3, N)]
    frame = pd.DataFrame({"y_true": labels, "y_pred": LABELS, "proba": DOG})
    assert "if it is the confidence of a prediction, name it as the confidence" in refusal(frame)
