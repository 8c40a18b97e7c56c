"""Several models at once: the paired tests, and Holm's adjustment against its definition."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expertload import significance as sig
from expertload.exceptions import ParameterError, ShapeError
from expertload.significance.models import holm


def holm_by_rejection(p_values):
    """The smallest level at which Holm's stepwise procedure rejects each hypothesis.

    Written from the procedure, not from the formula of adjusted p-values: at a level, go through
    the p-values in ascending order and reject as long as p <= level / (number left).
    """

    def rejected(level):
        order = sorted(range(len(p_values)), key=lambda i: p_values[i])
        out = set()
        for rank, index in enumerate(order):
            if p_values[index] * (len(p_values) - rank) > level:
                break
            out.add(index)
        return out

    levels = sorted({0.0, 1.0, *(p * k for p in p_values for k in range(1, len(p_values) + 1))})
    return [
        next((level for level in levels if level <= 1 and i in rejected(level)), 1.0)
        for i in range(len(p_values))
    ]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
def test_adjusted_p_values_are_those_of_the_procedure(p_values):
    assert holm(p_values) == holm_by_rejection(p_values)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7), st.randoms())
def test_order_does_not_matter_and_nothing_gets_smaller(p_values, random):
    adjusted = holm(p_values)
    assert all(a >= p for a, p in zip(adjusted, p_values, strict=True))
    order = list(range(len(p_values)))
    random.shuffle(order)
    assert holm([p_values[i] for i in order]) == [adjusted[i] for i in order]


def four_models(n=400):
    rng = np.random.default_rng(0)
    truth = rng.beta(2, 2, n)
    y_true = (rng.random(n) < truth).astype(int)
    noise = (0.0, 0.05, 0.2, 0.4)
    return y_true, {
        name: np.clip(truth + rng.normal(0, s, n), 0, 1)
        for name, s in zip("abcd", noise, strict=True)
    }


@pytest.mark.parametrize("weighted", [False, True])
def test_every_pair_is_its_paired_test(weighted):
    y_true, models = four_models()
    weight = np.random.default_rng(1).random(len(y_true)) if weighted else None
    found = sig.compare_models(y_true, models, sample_weight=weight, confidence_level=0.9)
    assert list(found) == list(combinations("abcd", 2))
    raw = []
    for (a, b), comparison in found.items():
        alone = sig.aucoc_paired_test(
            y_true, models[a], models[b], sample_weight=weight, confidence_level=0.9
        )
        assert comparison.n_comparisons == 6
        for name in ("difference", "p_value", "low", "high", "standard_error"):
            assert getattr(comparison, name) == getattr(alone, name)
        assert (alone.adjusted_p_value, alone.n_comparisons) == (alone.p_value, 1)
        raw.append(alone.p_value)
    assert [c.adjusted_p_value for c in found.values()] == holm_by_rejection(raw)


def test_against_the_first():
    y_true, models = four_models()
    found = sig.compare_models(y_true, models, pairs="first")
    assert list(found) == [("b", "a"), ("c", "a"), ("d", "a")]
    assert {c.n_comparisons for c in found.values()} == {3}
    assert "adjusted for 3 comparisons" in str(found["b", "a"])
    assert "adjusted" not in str(sig.aucoc_paired_test(y_true, models["a"], models["b"]))


def test_from_correctness():
    y_true, models = four_models()
    reduced = {n: ((p >= 0.5) == y_true, np.maximum(p, 1 - p)) for n, p in models.items()}
    assert sig.compare_models_from_correctness(reduced) == sig.compare_models(y_true, models)


def test_what_cannot_be_compared():
    y_true, models = four_models()
    with pytest.raises(ParameterError, match="must map at least one name"):
        sig.compare_models(y_true, [models["a"]])
    with pytest.raises(ParameterError, match="'pairs'"):
        sig.compare_models(y_true, models, pairs="some")
    with pytest.raises(ShapeError, match="one row per case"):
        sig.compare_models_from_correctness({"a": ([1, 0], [1, 2]), "b": ([1], [1])})
    assert sig.compare_models(y_true, {"a": models["a"]}) == {}


@pytest.mark.parametrize("pair", [[1, 0, 1], ([1, 0, 1],), None, 1.0])
def test_what_is_no_pair_is_refused(pair):
    models = {"a": ([1, 0, 1], [0.1, 0.2, 0.3]), "b": pair}
    with pytest.raises(ParameterError, match=r"\(correct, confidence\). Got a .* for 'b'"):
        sig.compare_models_from_correctness(models)


def test_models_of_one_name_are_refused():
    proba = [0.1, 0.9, 0.8]
    with pytest.raises(ParameterError, match="names that differ as text. Got 1, '1'"):
        sig.compare_models([0, 1, 1], {1: proba, "1": proba})
