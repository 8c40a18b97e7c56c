from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st

from expertload import scores
from expertload.exceptions import NonFiniteError, ParameterError, ShapeError

ALL = [getattr(scores, name) for name in scores.__all__]


@st.composite
def logit_matrices(draw):
    n, c = draw(st.integers(1, 6)), draw(st.integers(2, 5))
    values = draw(st.lists(st.floats(-30, 30), min_size=n * c, max_size=n * c))
    return np.array(values).reshape(n, c)


def softmax_row(row, temperature=1.0):
    exponentials = [math.exp((z - max(row)) / temperature) for z in row]
    return [e / sum(exponentials) for e in exponentials]


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
