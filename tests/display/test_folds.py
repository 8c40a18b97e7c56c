from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from scipy.sparse import csr_array
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score, cross_validate

from expertload import Cases, accuracy_at_load
from expertload.display import COCComparisonDisplay, COCDisplay, COCFoldsDisplay
from expertload.display._draw import mean_curve
from expertload.exceptions import ParameterError, ShapeError
from expertload.sklearn import aucoc_scorer

MODEL = LogisticRegression(max_iter=500)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(400, n_classes=3, n_informative=4, random_state=0, flip_y=0.1)
    return X, np.array(["low", "mid", "high"])[y]


def results(X, y, **options):
    return cross_validate(MODEL, X, y, return_estimator=True, return_indices=True, **options)


def test_areas_are_those_of_the_scorer_and_the_mean_has_their_mean(data):
    display = COCDisplay.from_cv_results(results(*data, cv=4), *data, name="linear")
    scores = cross_val_score(MODEL, *data, cv=4, scoring=aucoc_scorer)
    np.testing.assert_allclose(display.aucoc, scores)
    area = np.trapezoid(display.accuracy, display.expert_load)
    assert area == pytest.approx(scores.mean(), abs=2e-4)
    said = f"linear: mean of 4 folds, AUCOC {scores.mean():.3f} ± {scores.std(ddof=1):.3f}"
    assert display.line_.get_label().replace("\n", " ") in (said, said.replace(": ", " ", 1))
    assert len(display.fold_lines_) == 4
    assert display.band_ is not None


def test_the_mean_is_that_of_the_accuracies_at_each_load():
    """Against a slow reading of every curve at every load."""
    rng = np.random.default_rng(0)
    cases = [(rng.random(n) < 0.7, rng.permutation(n) / n) for n in (7, 20, 31)]
    folds = [COCDisplay.from_cases(Cases.from_correctness(*case)) for case in cases]
    loads, mean, spread = mean_curve([(fold.expert_load, fold.accuracy) for fold in folds])
    assert loads[0] == 0
    assert loads[-1] == 1
    for load, value, deviation in zip(loads[:-1], mean, spread, strict=False):
        read = [randomised(*case, load) for case in cases]
        assert value == pytest.approx(np.mean(read))
        assert deviation == pytest.approx(np.std(read, ddof=1), abs=1e-12)


def randomised(correct, confidence, load):
    """Accept the surest cases, and of the last one a part."""
    order = np.argsort(-confidence)
    accepted = np.clip((1 - load) * len(correct) - np.arange(len(correct)), 0, 1)
    if accepted.sum() < 1:  # beyond the last threshold accuracy stays what it is
        return float(correct[order][0])
    return float(accepted @ correct[order] / accepted.sum())


def test_the_oracle_agrees_with_the_library_at_thresholds():
    rng = np.random.default_rng(1)
    correct, confidence = rng.random(12) < 0.6, rng.permutation(12) / 12
    for k in range(11):
        read = accuracy_at_load(Cases.from_correctness(correct, confidence), expert_load=k / 12)
        assert randomised(correct, confidence, k / 12) == pytest.approx(read)


@pytest.mark.parametrize("make", [pd.DataFrame, csr_array, np.asarray])
def test_features_of_any_kind(data, make):
    X, y = make(data[0]), pd.Series(data[1], index=np.arange(400)[::-1])
    display = COCDisplay.from_cv_results(results(X, y, cv=3), X, y)
    np.testing.assert_allclose(
        display.aucoc, cross_val_score(MODEL, X, y, cv=3, scoring=aucoc_scorer)
    )


def test_weights_count(data):
    weight = 1.0 + np.arange(400) % 3
    found = results(*data, cv=3)
    plain = COCDisplay.from_cv_results(found, *data).aucoc
    assert (COCDisplay.from_cv_results(found, *data, sample_weight=weight).aucoc != plain).all()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_worst_fold_is_in_view_wherever_it_comes(order):
    confidence = np.linspace(0, 1, 40)
    right = [np.ones(40), np.arange(40) % 2]
    folds = [COCDisplay.measured(Cases.from_correctness(right[i], confidence), 0.95) for i in order]
    assert COCFoldsDisplay(folds).plot().ax_.get_ylim()[0] < 0.5


def test_two_models_share_axes(data):
    _, ax = plt.subplots()
    for name, model_cv in (("a", 3), ("b", 5)):
        COCDisplay.from_cv_results(results(*data, cv=model_cv), *data, name=name, ax=ax)
    assert len(ax.get_legend().get_texts()) == 2
    comparison = COCComparisonDisplay.from_cases(
        {"c": Cases.from_correctness([1, 0, 1], [0.3, 0.2, 0.1])}, ax=ax
    )
    colours = {line.get_color() for line in ax.lines}
    assert comparison.displays["c"].line_.get_color() in colours
    assert len(colours) == 3


def test_what_cross_validate_must_keep_is_said(data):
    with pytest.raises(ParameterError, match="return_estimator=True, return_indices=True"):
        COCDisplay.from_cv_results(cross_validate(MODEL, *data), *data)
    with pytest.raises(ParameterError, match="list"):
        COCDisplay.from_cv_results([], *data)
    with pytest.raises(ShapeError, match="the data passed to cross_validate"):
        COCDisplay.from_cv_results(results(*data), data[0][:100], data[1][:100])
