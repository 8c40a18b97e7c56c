from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st

from expertload import scores
from expertload.calibrators import PlattScaling, TemperatureScaling
from expertload.exceptions import (
    DataTypeError,
    LabelError,
    NonFiniteError,
    NotFittedError,
    ParameterError,
    ProbabilityError,
    ShapeError,
)

ALL = [getattr(scores, name) for name in scores.__all__ if name.endswith("_confidence")]


@st.composite
def logit_matrices(draw):
    n, c = draw(st.integers(1, 6)), draw(st.integers(2, 5))
    values = draw(st.lists(st.floats(-30, 30), min_size=n * c, max_size=n * c))
    return np.array(values).reshape(n, c)


def softmax_row(row, temperature=1.0):
    exponentials = [math.exp((z - max(row)) / temperature) for z in row]
    return [e / sum(exponentials) for e in exponentials]


@pytest.mark.filterwarnings("ignore:The logits look like probabilities")
@given(logit_matrices(), st.floats(0.1, 50))
def test_values_equal_plain_loops(logits, temperature):
    rows = logits.tolist()
    soft = [softmax_row(row) for row in rows]
    expected = {
        scores.max_softmax_confidence: [max(p) for p in soft],
        scores.max_logit_confidence: [max(row) for row in rows],
        scores.margin_confidence: [sorted(p)[-1] - sorted(p)[-2] for p in soft],
        scores.gini_confidence: [sum(q * q for q in p) for p in soft],
        scores.entropy_confidence: [
            1 + sum(q * math.log(q) for q in p if q > 0) / math.log(len(p)) for p in soft
        ],
        scores.energy_confidence: [
            max(row) + math.log(sum(math.exp(z - max(row)) for z in row)) for row in rows
        ],
    }
    for power in (1.0, 2.0, 7.5):
        centred = [[z - sum(row) / len(row) for z in row] for row in rows]
        lengths = [sum(abs(z) ** power for z in row) ** (1 / power) for row in centred]
        found = scores.max_logit_norm_confidence(logits, norm=power)
        for confidence, row, length in zip(found, centred, lengths, strict=True):
            if length > 1e-6:  # below it a plain loop is all rounding
                assert confidence == pytest.approx(max(row) / length, abs=1e-7)
    for function, values in expected.items():
        np.testing.assert_allclose(function(logits), values, atol=1e-10)
    np.testing.assert_allclose(
        scores.tempered_softmax_confidence(logits, temperature=temperature),
        [max(softmax_row(row, temperature)) for row in rows],
        atol=1e-12,
    )
    np.testing.assert_allclose(
        scores.energy_confidence(logits, temperature=temperature),
        temperature * scipy.special.logsumexp(logits / temperature, axis=1),
        rtol=1e-12,
    )


@pytest.mark.parametrize("function", ALL, ids=lambda f: f.__name__)
def test_probabilities_taken_for_logits_cause_a_warning(function):
    with pytest.warns(UserWarning, match="look like probabilities"):
        function([[0.9, 0.1], [0.3, 0.7]])


@pytest.mark.filterwarnings("ignore:The logits look like probabilities")
@pytest.mark.parametrize("function", ALL, ids=lambda f: f.__name__)
@given(logits=logit_matrices())
def test_order_of_classes_does_not_matter(function, logits):
    np.testing.assert_allclose(function(logits[:, ::-1]), function(logits), atol=1e-10)


@pytest.mark.parametrize("function", ALL, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_logits_do_not_overflow(function, dtype):
    limit = 1e30 if dtype == np.float32 else 1e300
    confidence = function(np.array([[limit, -limit], [limit, limit], [0, 0]], dtype=dtype))
    assert np.isfinite(confidence).all()
    assert confidence[0] >= confidence[2]


@pytest.mark.parametrize(
    "function",
    [scores.max_softmax_confidence, scores.entropy_confidence, scores.margin_confidence],
    ids=lambda f: f.__name__,
)
def test_certainty_and_ignorance(function):
    certain, ignorant = function([[1000.0, 0.0, 0.0], [2.0, 2.0, 2.0]])
    assert certain == pytest.approx(1.0)
    assert ignorant == pytest.approx(1 / 3 if function is scores.max_softmax_confidence else 0.0)


def test_low_temperature_energy_is_the_maximum_logit():
    logits = np.random.default_rng(0).normal(size=(20, 5))
    np.testing.assert_allclose(
        scores.energy_confidence(logits, temperature=1e-4), logits.max(axis=1), atol=1e-3
    )


def test_the_norm_is_blind_to_scale_and_shift():
    logits = np.random.default_rng(0).normal(size=(20, 5))
    expected = scores.max_logit_norm_confidence(logits)
    np.testing.assert_allclose(scores.max_logit_norm_confidence(7 * logits - 3), expected)
    with pytest.raises(ParameterError, match="'norm'"):
        scores.max_logit_norm_confidence(logits, norm=0.5)


@pytest.mark.parametrize("function", ALL, ids=lambda f: f.__name__)
def test_bad_logits(function):
    with pytest.raises(ShapeError, match="2 dimension"):
        function([1.0, 2.0])
    with pytest.raises(ShapeError, match="at least two.*column_stack"):
        function([[1.0], [2.0]])
    with pytest.raises(NonFiniteError):
        function([[1.0, np.nan]])


@pytest.mark.parametrize("function", [scores.energy_confidence, scores.tempered_softmax_confidence])
@pytest.mark.parametrize("temperature", [0, -1, math.inf, "hot"])
def test_bad_temperature(function, temperature):
    with pytest.raises(ParameterError, match="'temperature'"):
        function([[1.0, 2.0]], temperature=temperature)


# ------------------------------------------------------------------ language models

CLASSES = ["A", "B", "C"]


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["A", " A", "B", "C ", "D"]), st.floats(-700, 0)).filter(
            lambda tokens: set(tokens) - {"D"}
        ),
        min_size=1,
        max_size=5,
    )
)
def test_token_probabilities_are_shares_of_the_classes(judgements):
    found = scores.token_probabilities(judgements, labels=CLASSES)
    for row, tokens in zip(found, judgements, strict=True):
        top = max(value for token, value in tokens.items() if token != "D")
        sums = dict.fromkeys(CLASSES, 0.0)
        for token, value in tokens.items():
            if token.strip() in sums:
                sums[token.strip()] += math.exp(value - top)
        expected = [value / sum(sums.values()) for value in sums.values()]
        np.testing.assert_allclose(row, expected, atol=1e-12)


def test_tiny_token_probabilities_are_not_lost():
    proba = scores.token_probabilities([{1: -3000.0, 2: -3001.0}], labels=[1, 2])
    assert proba[0, 0] == pytest.approx(1 / (1 + math.exp(-1)))


@pytest.mark.parametrize(
    ("judgements", "error", "match"),
    [
        ([{"A": 0.9, "B": 0.1}], ProbabilityError, "look like probabilities"),
        ([[{"token": "A", "logprob": -0.1}]], DataTypeError, r't\["token"\]: t\["logprob"\]'),
        ({"A": -0.1}, DataTypeError, r"one mapping .* for each case"),
    ],
)
def test_what_are_no_log_probabilities_is_refused(judgements, error, match):
    with pytest.raises(error, match=match):
        scores.token_probabilities(judgements, labels=CLASSES)


@pytest.mark.parametrize("tokens", [{}, {"D": -0.1}, {"A": -math.inf}, {"A": math.nan}])
def test_a_case_without_a_class_is_refused(tokens):
    with pytest.raises(LabelError, match=r"'log_probabilities'.*position 1"):
        scores.token_probabilities([{"A": 0.0}, tokens], labels=CLASSES)


@given(st.lists(st.lists(st.sampled_from(CLASSES), min_size=1, max_size=9), min_size=1))
def test_vote_probabilities_are_shares(answers):
    expected = [[given.count(name) / len(given) for name in CLASSES] for given in answers]
    np.testing.assert_allclose(scores.vote_probabilities(answers, labels=CLASSES), expected)


def test_votes_may_be_numbers():
    assert scores.vote_probabilities([[1, "1.0", 2]], labels=[1, 2])[0, 0] == pytest.approx(2 / 3)


@pytest.mark.parametrize("answers", [[], ["A", ""], [None]])
def test_a_case_without_an_answer_is_refused(answers):
    with pytest.raises(ParameterError, match=r"'answers'.*position 1"):
        scores.vote_probabilities([["A"], answers], labels=CLASSES)
    with pytest.raises(LabelError, match=r"'answers' must hold classes .*C\)\. Got"):
        scores.vote_probabilities([["A"], ["D"]], labels=CLASSES)


def judged(n, rng, labels=CLASSES):
    """Return answers, true classes, and a stated confidence that is far too high."""
    chance = rng.uniform(0.4, 0.9, n)
    place = rng.integers(len(labels), size=n)
    right = rng.random(n) < chance
    truth = np.where(right, place, (place + 1) % len(labels))
    return np.array(labels)[place], truth, right, 1 - (1 - chance) ** 3


def test_a_stated_confidence_is_calibrated():
    rng = np.random.default_rng(0)
    _, _, right, stated = judged(4000, rng)
    calibrator = PlattScaling(input="probabilities").fit(stated, right)
    answers, _, right, stated = judged(4000, rng)
    proba = scores.stated_probabilities(answers, stated, calibrator=calibrator, labels=CLASSES)
    place = [CLASSES.index(answer) for answer in answers]
    own = proba[np.arange(4000), place]
    np.testing.assert_allclose(own, calibrator.transform(stated)[:, 1])
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    others = np.delete(proba[0], place[0])
    assert others[0] == others[1]
    assert abs(own.mean() - right.mean()) < 0.02
    assert stated.mean() - right.mean() > 0.2  # what was stated is not


def test_a_stated_confidence_is_never_taken_raw():
    stated, right = [0.9, 0.8, 0.9], [1, 0, 1]
    fitted = PlattScaling(input="probabilities").fit(stated * 5, right * 5)
    for calibrator in (None, TemperatureScaling().fit([[1.0, 0.0]] * 4, [0, 0, 1, 0])):
        with pytest.raises(ParameterError, match="'calibrator'"):
            scores.stated_probabilities(["A"], [0.9], calibrator=calibrator, labels=CLASSES)
    with pytest.raises(ParameterError, match="at least two classes"):
        scores.stated_probabilities(["A"], [0.9], calibrator=fitted, labels=["A"])
    unfitted = PlattScaling(input="probabilities")
    with pytest.raises(NotFittedError):
        scores.stated_probabilities(["A"], [0.9], calibrator=unfitted, labels=CLASSES)
    with pytest.raises(ProbabilityError, match="'confidence'"):
        scores.stated_probabilities(["A"], [95], calibrator=fitted, labels=CLASSES)
    with pytest.raises(ParameterError, match="'answers'"):
        scores.stated_probabilities(["A", ""], [0.9, 0.9], calibrator=fitted, labels=CLASSES)
    with pytest.raises(ShapeError, match="'answers'"):
        scores.stated_probabilities(["A", "B"], [0.9], calibrator=fitted, labels=CLASSES)
