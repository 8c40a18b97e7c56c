from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import expertload
from expertload.delegating_classifier import DelegatingClassifier
from expertload.exceptions import NotFittedError, ParameterError

DELEGATES = "cases are delegated: predict returns their label, not the most probable class"
OTHERS_ASIDE = "among repeated cases, fit sets others aside to calibrate on"
EXPECTED_TO_FAIL = {
    "check_classifiers_train": DELEGATES,
    "check_classifiers_classes": "uses -1 as a class, which is the label of delegated cases",
    "check_sample_weight_equivalence_on_dense_data": OTHERS_ASIDE,
    "check_sample_weight_equivalence_on_sparse_data": OTHERS_ASIDE,
}


@parametrize_with_checks(
    [
        DelegatingClassifier(
            LogisticRegression(),
            target_accuracy=0.6,
            confidence_level=0.6,
            calibration_size=0.4,
            random_state=0,
        )
    ],
    expected_failed_checks=lambda _: EXPECTED_TO_FAIL,
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::UserWarning")
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(
        1500, n_classes=3, n_informative=5, class_sep=1.5, random_state=0, flip_y=0.05
    )
    return (X[:500], y[:500]), (X[500:1100], y[500:1100]), (X[1100:], y[1100:])


@pytest.fixture
def model(data):
    fitted = DelegatingClassifier(LogisticRegression(), target_accuracy=0.9).fit(*data[0])
    return fitted.calibrate(*data[1])


def test_predictions_are_classes_or_delegated(model, data):
    X, y = data[2]
    answers = model.predict(X)
    accepted, labels = model.decide(X)
    assert model.operating_point_.is_certified
    assert 0 < accepted.mean() < 1
    assert (answers[~accepted] == -1).all()
    assert (answers[accepted] == labels[accepted]).all()
    assert (labels == model.estimator_.predict(X)).all()
    assert (answers[accepted] == y[accepted]).mean() > 0.85
    np.testing.assert_array_equal(model.predict_proba(X), model.estimator_.predict_proba(X))
    assert model.score(X, y) == pytest.approx((answers == y).mean())
    weight = np.arange(len(y)) % 3
    assert model.score(X, y, weight) == pytest.approx(np.average(answers == y, weights=weight))


def test_the_load_is_that_of_the_calibration_cases(model, data):
    accepted, _ = model.decide(data[1][0])
    assert model.expert_load_ == pytest.approx(1 - accepted.mean())
    assert model.operating_point_.n_cases == len(data[1][1])


def test_nothing_certified_delegates_everything(data):
    model = DelegatingClassifier(DummyClassifier(strategy="prior"), target_accuracy=0.9)
    model.fit(*data[0]).calibrate(*data[1])
    assert (model.predict(data[2][0]) == -1).all()
    assert model.score(*data[2]) == 0
    assert model.operating_point_.reason == "accuracy_too_low"


def test_names_of_classes(data):
    names = np.array(["low", "mid", "high"])
    for kind in (np.str_, object):
        model = DelegatingClassifier(LogisticRegression(), target_accuracy=0.9)
        model.fit(data[0][0], names[data[0][1]].astype(kind))
        model.calibrate(data[1][0], names[data[1][1]].astype(kind))
        assert set(model.predict(data[2][0])) == {"low", "mid", "high", "delegate"}


def test_truth_values_as_classes(data):
    model = DelegatingClassifier(LogisticRegression(), target_accuracy=0.95)
    model.fit(data[0][0], data[0][1] == 1).calibrate(data[1][0], data[1][1] == 1)
    assert set(model.predict(data[2][0])) == {-1, 0, 1}


def test_a_class_the_model_never_saw_counts_as_errors(data):
    known = data[0][1] < 2
    model = DelegatingClassifier(LogisticRegression(), target_accuracy=0.9)
    model.fit(data[0][0][known], data[0][1][known]).calibrate(*data[1])
    point = model.operating_point_
    assert point.n_errors + point.n_errors_spared >= (data[1][1] == 2).sum()


def test_a_fitted_model_needs_no_fit(data):
    forest = LogisticRegression().fit(*data[0])
    model = DelegatingClassifier(forest, target_accuracy=0.9).calibrate(*data[1])
    assert model.estimator_ is forest
    assert model.predict(data[2][0]).shape == (400,)
    with pytest.raises(SklearnNotFittedError):
        DelegatingClassifier(LogisticRegression()).calibrate(*data[1])


def test_uncalibrated_models_say_what_to_call(data):
    model = DelegatingClassifier(LogisticRegression()).fit(*data[0])
    with pytest.raises(NotFittedError, match=r"call calibrate\(X, y\)"):
        model.predict(data[2][0])
    with pytest.raises(SklearnNotFittedError):
        DelegatingClassifier(LogisticRegression()).predict(data[2][0])


def test_fitting_again_forgets_the_threshold(model, data):
    model.fit(*data[0])
    with pytest.raises(NotFittedError, match="not calibrated"):
        model.predict(data[2][0])


@pytest.mark.parametrize(
    ("label", "match"),
    [(1, "one of the classes"), ("delegate", "must be a number"), (2.0, "one of the classes")],
)
def test_labels_that_could_be_mistaken_are_refused(label, match, data):
    with pytest.raises(ParameterError, match=match):
        DelegatingClassifier(LogisticRegression(), delegate_label=label).fit(*data[0])


def test_classes_named_delegate_are_refused(data):
    y = np.where(data[0][1] == 0, "delegate", "other")
    with pytest.raises(ParameterError, match="one of the classes"):
        DelegatingClassifier(LogisticRegression()).fit(data[0][0], y)
    with pytest.raises(ParameterError, match="must be a string"):
        DelegatingClassifier(LogisticRegression(), delegate_label=-1).fit(data[0][0], y)
    model = DelegatingClassifier(LogisticRegression(), delegate_label="ask", calibration_size=0.5)
    assert set(model.fit(data[0][0], y).predict(data[2][0])) <= {"delegate", "other", "ask"}


def test_models_without_probabilities_are_refused(data):
    with pytest.raises(ParameterError, match="without 'predict_proba'"):
        DelegatingClassifier(RidgeClassifier()).fit(*data[0])


def test_clones_and_pickles(model, data):
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(data[2][0]), model.predict(data[2][0]))
    fresh = clone(model)
    assert not hasattr(fresh, "operating_point_")
    assert fresh.get_params()["target_accuracy"] == 0.9


def test_weights_reach_the_model(data):
    X, y = data[0]
    weight = np.where(y == 0, 50.0, 0.1)
    plain = DelegatingClassifier(LogisticRegression(), calibration_size=0.3, random_state=0)
    heavy = clone(plain).fit(X, y, sample_weight=weight)
    plain.fit(X, y)
    assert heavy.predict_proba(X)[:, 0].mean() > plain.predict_proba(X)[:, 0].mean() + 0.1
    bare = DelegatingClassifier(LogisticRegression()).fit(X, y, sample_weight=weight)
    assert bare.predict_proba(X)[:, 0].mean() > plain.predict_proba(X)[:, 0].mean() + 0.1


def test_pipelines_and_grid_search(data):
    model = DelegatingClassifier(
        LogisticRegression(), target_accuracy=0.85, calibration_size=0.4, random_state=0
    )
    pipeline = make_pipeline(StandardScaler(), model).fit(*data[0])
    assert -1 in pipeline.predict(data[2][0])
    pipeline.set_params(delegatingclassifier__confidence_level=0.6)
    scores = cross_val_score(pipeline, *data[1], cv=3, error_score="raise")
    assert scores.max() > 0.3
    search = GridSearchCV(model, {"estimator__C": [1e-4, 1.0]}, cv=3, error_score="raise")
    search.fit(*data[1])
    assert search.best_estimator_.operating_point_ is not None
    inner = DelegatingClassifier(
        make_pipeline(StandardScaler(), LogisticRegression()), target_accuracy=0.85
    )
    inner.fit(*data[0]).calibrate(*data[1])
    assert inner.operating_point_.is_certified


def test_without_scikit_learn_the_extra_is_named():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import expertload\n"
        "try:\n    import expertload.delegating_classifier\n"
        "except expertload.exceptions.MissingExtraError as error:\n    print(error)"
    )
    source = str(Path(expertload.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": source},
    )
    assert "pip install 'expertload[sklearn]'" in done.stdout
