from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy.stats import binomtest
from tests.strategies import correctness_cases, predictions

import expertload as el
from expertload import Cases
from expertload import significance as sig
from expertload.exceptions import ParameterError


@given(correctness_cases(graded=False))
def test_band_is_wilson_at_every_threshold(cases):
    correct, confidence = cases
    band = sig.coc_band(Cases.from_correctness(correct, confidence), confidence_level=0.9)
    curve = el.coc_curve(Cases.from_correctness(correct, confidence))
    np.testing.assert_array_equal(band.expert_load, curve.expert_load)
    np.testing.assert_array_equal(band.thresholds, curve.thresholds)
    for threshold, low, high in zip(band.thresholds, band.low, band.high, strict=True):
        accepted = correct[confidence >= threshold]
        expected = binomtest(int(accepted.sum()), len(accepted)).proportion_ci(0.9, "wilson")
        assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-9)


@given(correctness_cases())
def test_band_holds_the_curve(cases):
    curve, band = (
        el.coc_curve(Cases.from_correctness(*cases)),
        sig.coc_band(Cases.from_correctness(*cases)),
    )
    assert (band.low <= curve.accuracy + 1e-12).all()
    assert (curve.accuracy <= band.high + 1e-12).all()


@given(correctness_cases(min_size=2))
def test_equal_weights_change_nothing_and_unequal_ones_widen(cases):
    n = len(cases[0])
    plain = sig.coc_band(Cases.from_correctness(*cases))
    equal = sig.coc_band(Cases.from_correctness(*cases, sample_weight=np.full(n, 0.3)))
    np.testing.assert_allclose(equal.low, plain.low, atol=1e-9)
    np.testing.assert_allclose(equal.high, plain.high, atol=1e-9)


def test_effective_sample_size():
    """One case of weight 9 and nine of weight 1 are worth 18^2 / 90 = 3.6 cases."""
    weight = np.array([9.0] + [1.0] * 9)
    band = sig.coc_band(
        Cases.from_correctness([1] * 5 + [0] * 5, np.zeros(10), sample_weight=weight),
        confidence_level=0.95,
    )
    rate, n, z = 13 / 18, 3.6, 1.959963984540054
    centre = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z / (1 + z**2 / n) * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2))
    assert band.low[0] == pytest.approx(centre - reach)
    assert band.high[0] == pytest.approx(centre + reach)


@given(predictions())
def test_predictions_and_correctness_agree(case):
    y_true, y_proba = case
    cases = y_proba.argmax(axis=1) == y_true, y_proba.max(axis=1)
    for a, b in zip(
        sig.coc_band(Cases.from_predictions(y_true, y_proba)),
        sig.coc_band(Cases.from_correctness(*cases)),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("level", [0, 1, 95])
def test_a_level_of_one_is_refused(level):
    """Its interval reaches from 0 to 1 wherever one stands, and was NaN."""
    with pytest.raises(ParameterError, match="confidence_level"):
        sig.coc_band(Cases.from_correctness([1, 0], [0.1, 0.2]), confidence_level=level)
    with pytest.raises(ParameterError, match="confidence_level"):
        sig.coc_band(
            Cases.from_predictions([1, 0], [[0.1, 0.9], [0.8, 0.2]]), confidence_level=level
        )
