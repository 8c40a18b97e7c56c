import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from expertload import Cases, aucoc_score, operating_point
from expertload.display import COCComparisonDisplay, COCDisplay
from expertload.display._draw import PALETTE
from expertload.exceptions import ParameterError


def predictions(n=200, seed=0):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet([1, 1, 1], n)
    y = np.array([rng.choice(3, p=row) for row in proba])
    return y, {"sharp": proba, "blunt": rng.permutation(proba)}


def test_draws_every_model_by_name():
    y, models = predictions()
    comparison = COCComparisonDisplay.from_predictions(y, models)
    assert list(comparison.displays) == ["sharp", "blunt"]
    for (name, display), colour in zip(comparison.displays.items(), PALETTE, strict=False):
        assert isinstance(display, COCDisplay)
        assert display.ax_ is comparison.ax_
        assert display.line_.get_color() == colour
        assert display.line_.get_label().startswith(f"{name}: AUCOC")
        assert display.aucoc.estimate == pytest.approx(aucoc_score(y, models[name]))
        assert display.band_ is not None


def test_many_bands_are_left_out_unless_asked_for():
    y, models = predictions()
    six = {f"model {k}": models["sharp"] for k in range(6)}
    without = COCComparisonDisplay.from_predictions(y, six)
    assert all(display.band_ is None for display in without.displays.values())
    asked = COCComparisonDisplay.from_predictions(y, six, band=True)
    assert all(display.band_ is not None for display in asked.displays.values())


def test_estimators_may_order_their_classes_as_they_like():
    X, number = load_iris(return_X_y=True)
    y = np.array(["a", "b", "c"])[number]
    logistic, bayes = LogisticRegression(max_iter=1000).fit(X, y), GaussianNB().fit(X, y)

    class Reversed:
        classes_ = bayes.classes_[::-1]

        def predict_proba(self, X):
            return bayes.predict_proba(X)[:, ::-1]

    models = {"logistic": logistic, "reversed": Reversed()}
    comparison = COCComparisonDisplay.from_estimators(models, X, y, confidence_level=0.9)
    scores = {name: d.aucoc.estimate for name, d in comparison.displays.items()}
    assert scores["logistic"] == pytest.approx(aucoc_score(number, logistic.predict_proba(X)))
    assert scores["reversed"] == pytest.approx(aucoc_score(number, bayes.predict_proba(X)))
    assert comparison.displays["logistic"].aucoc.confidence_level == 0.9


def test_operating_points_go_to_their_model():
    confidence = [0.45, 0.55, 0.65, 0.70, 0.75]
    correct = {"a": [0, 1, 0, 1, 1], "b": [1, 0, 1, 1, 0]}
    models = {name: Cases.from_correctness(right, confidence) for name, right in correct.items()}
    point = operating_point.choose(models["b"], load_budget=0.5)
    _, ax = plt.subplots()
    comparison = COCComparisonDisplay.from_cases(models, ax=ax, operating_points={"b": [point]})
    assert comparison.ax_ is ax
    assert comparison.figure_ is ax.figure
    assert comparison.displays["a"].marks_ == []
    (marks,) = comparison.displays["b"].marks_
    assert marks.dot.get_color() == PALETTE[1]
    with pytest.raises(ParameterError, match=r"must be one of 'a', 'b'\. Got 'c'"):
        comparison.plot(operating_points={"c": [point]})


@pytest.mark.parametrize("models", [{}, [1, 2]])
def test_models_must_have_names(models):
    with pytest.raises(ParameterError, match=r"must map at least one name.*Hint"):
        COCComparisonDisplay.from_predictions([0], models)
