from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expertload.cases import Cases
from expertload.evaluation import evaluate


def slow(y_true, proba, labels, threshold, weight):
    """Class by class, one case at a time."""
    found = {}
    for k, name in enumerate(labels):
        rows = [i for i, y in enumerate(y_true) if y == name and weight[i] > 0]
        if not rows:
            continue
        total = sum(weight[i] for i in rows)
        taken = [i for i in rows if proba[i].max() >= threshold]
        right = [i for i in taken if proba[i].argmax() == k]
        confused = {
            other: sum(weight[i] for i in rows if proba[i].argmax() == j) / total
            for j, other in enumerate(labels)
            if j != k
        }
        accepted = sum(weight[i] for i in taken)
        found[name] = (
            len(rows),
            1 - accepted / total,
            sum(weight[i] for i in right) / accepted if taken else None,
            sorted((share for share in confused.values() if share > 0), reverse=True)[:3],
            confused,
        )
    return found


@pytest.mark.slow
@given(st.integers(0, 10_000), st.booleans())
def test_against_one_case_at_a_time(seed, weighted):
    rng = np.random.default_rng(seed)
    n, labels = int(rng.integers(3, 60)), ["cat", "dog", "eel", "owl", "yak"]
    proba = rng.dirichlet(np.full(5, 0.5), n)
    y_true = rng.choice(labels, n)
    weight = rng.integers(0, 4, n).astype(float) + (np.arange(n) < 2) if weighted else np.ones(n)
    options = {"sample_weight": weight} if weighted else {}
    evaluation = evaluate(
        Cases.from_predictions(y_true, proba, labels=labels, **options), target_accuracy=0.7
    )
    wanted = slow(y_true, proba, labels, evaluation.operating_point.threshold, weight)
    assert {part.name for part in evaluation.classes} == set(wanted)
    for part in evaluation.classes:
        n_cases, load, accuracy, shares, confused = wanted[part.name]
        assert part.n_cases == n_cases
        assert part.expert_load == pytest.approx(load)
        assert (part.accepted_accuracy is None) == (accuracy is None)
        if accuracy is not None:
            assert part.accepted_accuracy.estimate == pytest.approx(accuracy)
        assert [share for _, share in part.confused_with] == pytest.approx(shares)
        for name, share in part.confused_with:
            assert confused[name] == pytest.approx(share)


def test_the_worst_class_comes_first():
    y_true = np.repeat([0, 1, 2], 50)
    proba = np.tile([0.05, 0.05, 0.9], (150, 1))
    proba[:50] = [0.9, 0.05, 0.05]
    proba[50:75] = [0.05, 0.9, 0.05]
    classes = evaluate(Cases.from_predictions(y_true, proba), target_accuracy=0.5).classes
    assert classes[0].name == "1"
    assert classes[0].confused_with == (("2", 0.5),)
    assert classes[1].confused_with == ()


def test_correctness_alone_has_no_classes():
    assert evaluate(Cases.from_correctness([1, 0, 1], [0.2, 0.3, 0.4])).classes == ()


@pytest.mark.slow
def test_a_thousand_classes_are_quick_and_small():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.full(1000, 0.01), 5000)
    y_true = rng.integers(0, 1000, 5000)
    evaluation = evaluate(Cases.from_predictions(y_true, proba))
    assert len(evaluation.classes) == len(np.unique(y_true))
    assert evaluation.answers.target.dtype.itemsize == 2
