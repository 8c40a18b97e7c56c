"""Several models at once: the paired tests, and Holm's adjustment against its definition."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expertload import Cases
from expertload import significance as sig
from expertload.exceptions import DataTypeError, ParameterError, ShapeError
from expertload.significance.compare import holm


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


def four_models(n=400, **options):
    rng = np.random.default_rng(0)
    truth = rng.beta(2, 2, n)
    y_true = (rng.random(n) < truth).astype(int)
    noise = (0.0, 0.05, 0.2, 0.4)
    return {
        name: Cases.from_predictions(y_true, np.clip(truth + rng.normal(0, s, n), 0, 1), **options)
        for name, s in zip("abcd", noise, strict=True)
    }


@pytest.mark.parametrize("weighted", [False, True])
def test_every_pair_is_its_paired_test(weighted):
    weight = np.random.default_rng(1).random(400) if weighted else None
    models = four_models(sample_weight=weight)
    found = sig.compare_models(models, confidence_level=0.9)
    assert list(found) == list(combinations("abcd", 2))
    raw = []
    for (a, b), comparison in found.items():
        alone = sig.aucoc_paired_test(models[a], models[b], confidence_level=0.9)
        assert comparison.n_comparisons == 6
        for name in ("difference", "p_value", "low", "high", "standard_error"):
            assert getattr(comparison, name) == getattr(alone, name)
        assert (alone.adjusted_p_value, alone.n_comparisons) == (alone.p_value, 1)
        raw.append(alone.p_value)
    assert [c.adjusted_p_value for c in found.values()] == holm_by_rejection(raw)


def test_against_the_first():
    models = four_models()
    found = sig.compare_models(models, pairs="first")
    assert list(found) == [("b", "a"), ("c", "a"), ("d", "a")]
    assert {c.n_comparisons for c in found.values()} == {3}
    assert "adjusted for 3 comparisons" in str(found["b", "a"])
    assert "adjusted" not in str(sig.aucoc_paired_test(models["a"], models["b"]))


def test_from_correctness():
    models = four_models()
    reduced = {
        name: Cases.from_correctness(cases.correct, cases.confidence)
        for name, cases in models.items()
    }
    assert sig.compare_models(reduced) == sig.compare_models(models)


def test_what_cannot_be_compared():
    models = four_models()
    with pytest.raises(ParameterError, match="'models'"):
        sig.compare_models([models["a"]])
    with pytest.raises(ParameterError, match="'pairs'"):
        sig.compare_models(models, pairs="some")
    with pytest.raises(ShapeError, match="9 of the other"):
        sig.compare_models({"a": models["a"], "b": models["b"].take(np.arange(9))})
    assert sig.compare_models({"a": models["a"]}) == {}


def test_models_must_be_of_the_same_cases():
    proba = np.array([[0.1, 0.9], [0.8, 0.2], [0.6, 0.4]])
    a = Cases.from_predictions([0, 1, 1], proba)
    with pytest.raises(ShapeError, match="labels that differ"):
        sig.aucoc_paired_test(a, Cases.from_predictions([1, 0, 1], proba))
    with pytest.raises(ShapeError, match="weights that differ"):
        sig.aucoc_paired_test(a, Cases.from_predictions([0, 1, 1], proba, sample_weight=[1, 2, 3]))
    with pytest.raises(ShapeError, match="clusters that differ"):
        sig.aucoc_paired_test(a, Cases.from_predictions([0, 1, 1], proba, clusters=[1, 2, 2]))
    names = {"labels": ["x", "y"]}, {"labels": ["y", "x"]}
    x, y = (Cases.from_predictions([*"xyy"], proba, **each) for each in names)
    assert sig.aucoc_paired_test(x, y).difference != 0


@pytest.mark.parametrize("other", [[1, 0, 1], None, 1.0])
def test_what_is_not_cases_is_refused(other):
    cases = Cases.from_correctness([1, 0, 1], [0.1, 0.2, 0.3])
    with pytest.raises(DataTypeError, match="'b' must be Cases"):
        sig.compare_models({"a": cases, "b": other})
    for function in (sig.aucoc_interval, sig.coc_band, sig.bootstrap_interval):
        with pytest.raises(DataTypeError, match="'cases' must be Cases"):
            function(other)


def test_models_of_one_name_are_refused():
    cases = Cases.from_correctness([1, 0, 1], [0.1, 0.9, 0.8])
    with pytest.raises(ParameterError, match="'models'"):
        sig.compare_models({1: cases, "1": cases})
