"""The learned confidence: against a general optimiser, and what it promises."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_softmax
from sklearn.base import clone

from expertload import aucoc_score
from expertload.calibrators import CorrectnessModel
from expertload.calibrators.correctness import STRENGTHS
from expertload.exceptions import FileFormatError, NotFittedError, ParameterError, ShapeError


def uneven(n, seed=0, n_classes=4, gap=2.0):
    """Cases of which some predicted classes are right less often at the same log odds."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1.5, (n, n_classes))
    predicted = logits.argmax(axis=1)
    top = np.sort(logits, axis=1)
    score = 0.3 + (top[:, -1] - top[:, -2]) - gap * (predicted % 2)
    right = rng.random(n) < expit(score)
    return logits, np.where(right, predicted, (predicted + 1) % n_classes)


def written_out(logits, target, strength):
    """Slope, intercept and offsets by a general optimiser."""
    p = np.exp(log_softmax(logits, axis=1))
    predicted = p.argmax(axis=1)
    top = p.max(axis=1)
    odds = np.log(top) - np.log1p(-top)
    right = predicted == target
    high = (right.sum() + 1) / (right.sum() + 2)
    low = 1 / ((~right).sum() + 2)
    soft = np.where(right, high, low)

    def objective(x):
        score = x[0] * odds + x[1] + x[2:][predicted]
        loss = np.logaddexp(0, score) - soft * score
        return loss.mean() + strength / len(odds) * (x[2:] @ x[2:]) / 2

    start = np.zeros(2 + logits.shape[1])
    return minimize(objective, start, method="BFGS", options={"gtol": 1e-9}).x


def test_the_fit_is_that_of_a_general_optimiser():
    logits, target = uneven(400)
    model = CorrectnessModel().fit(logits, target)
    assert model.converged_
    assert model.strength_ in STRENGTHS[1:]  # classes do differ here
    slope, intercept, *offset = written_out(logits, target, model.strength_)
    assert model.slope_ == pytest.approx(slope, abs=1e-5)
    assert model.intercept_ == pytest.approx(intercept, abs=1e-5)
    np.testing.assert_allclose(model.offset_, offset, atol=1e-5)


def test_it_ranks_fresh_cases_better_where_classes_differ():
    model = CorrectnessModel().fit(*uneven(3000, seed=1))
    logits, target = uneven(20_000, seed=2)
    proba = np.exp(log_softmax(logits, axis=1))
    learned = aucoc_score(target, proba, confidence=model.confidence(logits))
    assert learned > aucoc_score(target, proba) + 0.02


def test_it_changes_next_to_nothing_where_classes_do_not_differ():
    model = CorrectnessModel().fit(*uneven(3000, seed=1, gap=0.0))
    logits, target = uneven(20_000, seed=2, gap=0.0)
    proba = np.exp(log_softmax(logits, axis=1))
    learned = aucoc_score(target, proba, confidence=model.confidence(logits))
    assert learned == pytest.approx(aucoc_score(target, proba), abs=0.002)


def test_without_offsets_the_order_is_that_of_the_top_probability():
    logits, target = uneven(300, seed=3, gap=0.0)
    model = CorrectnessModel().fit(logits, target)
    assert model.strength_ == STRENGTHS[0]
    order = np.argsort(np.exp(log_softmax(logits, axis=1)).max(axis=1))
    assert (np.diff(model.confidence(logits)[order]) > -1e-6).all()


def test_all_right_and_all_wrong_sets_have_a_fit():
    logits, _ = uneven(200)
    for target, sure in ((logits.argmax(axis=1), True), (logits.argmin(axis=1), False)):
        model = CorrectnessModel().fit(logits, target)
        assert model.converged_
        assert ((model.confidence(logits) > 0.5) == sure).all()


def test_probabilities_and_huge_logits_are_welcome():
    logits, target = uneven(300)
    proba = np.exp(log_softmax(logits, axis=1))
    by_proba = CorrectnessModel(input="probabilities").fit(proba, target).confidence(proba)
    np.testing.assert_allclose(
        by_proba, CorrectnessModel().fit(logits, target).confidence(logits), atol=1e-9
    )
    found = CorrectnessModel().fit(1e200 * logits, target).confidence(1e200 * logits)
    assert np.isfinite(found).all()


def test_labels_may_have_names():
    logits, target = uneven(200)
    names = np.array(["wolf", "ant", "bee", "cod"])
    named = CorrectnessModel().fit(logits, names[target], labels=names)
    assert named == CorrectnessModel().fit(logits, target)


def test_saved_loaded_and_cloned(tmp_path):
    logits, target = uneven(200)
    model = CorrectnessModel(n_folds=4).fit(logits, target)
    model.save(tmp_path / "model.json")
    again = CorrectnessModel.load(tmp_path / "model.json")
    assert again == model
    np.testing.assert_array_equal(again.confidence(logits), model.confidence(logits))
    assert clone(model).n_folds == 4
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(FileFormatError):
        CorrectnessModel.load(tmp_path / "model.json")


def test_misuse_is_named():
    with pytest.raises(NotFittedError):
        CorrectnessModel().confidence([[1.0, 2.0]])
    with pytest.raises(ParameterError, match="n_folds"):
        CorrectnessModel(n_folds=1).fit([[1.0, 2.0]] * 4, [0, 1, 0, 1])
    model = CorrectnessModel().fit(*uneven(50))
    with pytest.raises(ShapeError):
        model.confidence([[1.0, 2.0]])
