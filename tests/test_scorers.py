from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    PredefinedSplit,
    StratifiedKFold,
    cross_val_score,
    cross_validate,
)
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import expertload
from expertload import Cases, accuracy_at_load, aucoc_score, load_at_accuracy
from expertload.display import COCComparisonDisplay, COCDisplay, ReliabilityDisplay
from expertload.exceptions import InvalidInputError, LabelError, ParameterError, ShapeError
from expertload.sklearn import (
    accuracy_at_load_scorer,
    aucoc_scorer,
    get_scorer,
    get_scorer_names,
    load_at_accuracy_scorer,
)

ALL = [aucoc_scorer, load_at_accuracy_scorer(0.9), accuracy_at_load_scorer(0.2)]


@pytest.fixture(scope="module")
def grades():
    """Five grades, 1 to 5, as a reader of eye images gives them."""
    X, y = make_classification(
        600, n_classes=5, n_informative=6, n_clusters_per_class=1, class_sep=1.4, random_state=0
    )
    return X, y + 1


@pytest.fixture(scope="module")
def fitted(grades):
    return LogisticRegression(max_iter=500).fit(*grades)


def test_scores_are_the_metrics_with_the_classes_as_labels(grades, fitted):
    X, y = grades
    proba, labels = fitted.predict_proba(X), fitted.classes_
    assert aucoc_scorer(fitted, X, y) == aucoc_score(y, proba, labels=labels)
    load = load_at_accuracy(y, proba, labels=labels, target_accuracy=0.9)
    assert load_at_accuracy_scorer(0.9)(fitted, X, y) == -load
    accuracy = accuracy_at_load(y, proba, labels=labels, expert_load=0.2)
    assert accuracy_at_load_scorer(0.2)(fitted, X, y) == accuracy
    weight = np.arange(600) % 4
    weighted = aucoc_score(y, proba, labels=labels, sample_weight=weight)
    assert aucoc_scorer(fitted, X, y, sample_weight=weight) == weighted


def test_a_fold_without_a_grade_is_scored_as_it_is(grades):
    """Grades 1 to 4 alone are also valid column numbers, of the wrong columns."""
    X, y = grades
    fold = np.where(y == 5, 1, np.arange(600) % 2)
    cv = PredefinedSplit(fold)
    model = LogisticRegression(max_iter=500)
    scores = cross_val_score(model, X, y, scoring=aucoc_scorer, cv=cv, error_score="raise")
    for (train, test), score in zip(cv.split(), scores, strict=True):
        known = model.fit(X[train], y[train])
        top = known.predict_proba(X[test]).max(axis=1)
        right = known.predict(X[test]) == y[test]
        assert score == expertload.aucoc_score(Cases.from_correctness(right, top))
    assert scores[0] > 0.8  # the fold of grades 1 to 4
    assert {len(set(y[test])) for _, test in cv.split()} == {4, 5}


def test_cases_of_a_class_the_model_never_saw_are_its_errors(grades):
    X, y = grades
    model = LogisticRegression(max_iter=500).fit(X[y < 5], y[y < 5])
    assert accuracy_at_load_scorer(0)(model, X, y) == pytest.approx(model.score(X, y))
    assert aucoc_scorer(model, X[y == 5], y[y == 5]) == 0


def test_a_model_of_one_class(grades):
    X, y = grades
    model = DummyClassifier(strategy="prior").fit(X[y == 3], y[y == 3])
    assert model.predict_proba(X).shape == (600, 1)
    for scorer, best in zip(ALL, (1, 0, 1), strict=True):
        assert scorer(model, X[y == 3], y[y == 3]) == best
    assert aucoc_scorer(model, X, y) == pytest.approx((y == 3).mean())


@pytest.mark.parametrize("make", [np.array, list, pd.Series, lambda v: np.array(v, dtype=object)])
def test_names_of_classes_in_any_container(grades, make):
    X, y = grades
    names = [f"grade {v}" for v in y]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(X, make(names))
    plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(X, y)
    assert aucoc_scorer(model, X, make(names)) == aucoc_scorer(plain, X, y)


@pytest.mark.parametrize("classes", [(0, 1), (-1, 1), ("no", "yes"), (False, True), (1.0, 2.0)])
def test_two_classes(grades, classes):
    X, y = grades
    truth = np.array(classes)[(y > 2).astype(int)]
    model = LogisticRegression(max_iter=500).fit(X, truth)
    proba = model.predict_proba(X)[:, 1]
    assert aucoc_scorer(model, X, truth) == pytest.approx(aucoc_score(y > 2, proba))


@pytest.mark.slow
def test_they_select_in_a_grid_search(grades):
    grid = {"logisticregression__C": [1e-6, 1.0]}
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    for scorer in ALL:
        search = GridSearchCV(pipeline, grid, scoring=scorer, cv=3, error_score="raise")
        search = clone(search).fit(*grades)
        assert search.best_params_["logisticregression__C"] == 1.0
        assert search.score(*grades) == scorer(search.best_estimator_, *grades)


@pytest.mark.slow
def test_several_at_once_and_in_other_processes(grades):
    names = {"area": aucoc_scorer, "load": load_at_accuracy_scorer(0.9), "acc": "accuracy"}
    cv = StratifiedKFold(3)
    model = LogisticRegression(max_iter=500)
    found = cross_validate(model, *grades, scoring=names, cv=cv, error_score="raise", n_jobs=2)
    alone = cross_val_score(model, *grades, scoring=names["load"], cv=cv)
    np.testing.assert_array_equal(found["test_load"], alone)
    assert found["test_acc"].shape == found["test_area"].shape == (3,)
    assert (found["test_area"] > found["test_acc"]).all()


def test_they_serve_permutation_importance(grades, fitted):
    found = permutation_importance(fitted, *grades, scoring=aucoc_scorer, n_repeats=2)
    assert found.importances_mean.max() > 0.01


@pytest.mark.parametrize("scorer", ALL, ids=str)
def test_they_can_be_copied(scorer):
    for copied in (pickle.loads(pickle.dumps(scorer)), clone(scorer), get_scorer(scorer.name)):
        assert copied is not scorer
        assert copied.get_params() == scorer.get_params()
    assert get_scorer(scorer) is scorer
    assert repr(scorer) == f"get_scorer({scorer.name!r})"


@given(st.floats(0, 1, allow_subnormal=False))
def test_names_keep_their_number(share):
    for make in (load_at_accuracy_scorer, accuracy_at_load_scorer):
        found = get_scorer(make(share).name)
        assert found.reading == pytest.approx(share, rel=1e-14, abs=0)
        assert get_scorer(found.name).get_params() == found.get_params()


@pytest.mark.parametrize(
    "name", ["accuracy", "neg_load_at_accuracy", "load_at_accuracy_0.9", "aucoc_0.9", "", None, 3]
)
def test_other_names_are_refused_with_those_there_are(name):
    with pytest.raises(ParameterError, match="accuracy_at_load_SHARE, aucoc, neg_load_at"):
        get_scorer(name)


def test_shares_are_not_percent():
    with pytest.raises(ParameterError, match="'target_accuracy'"):
        load_at_accuracy_scorer(95)
    with pytest.raises(ParameterError, match="'expert_load'"):
        get_scorer("accuracy_at_load_20")
    assert get_scorer_names() == sorted(get_scorer_names())


def test_models_that_cannot_be_scored_say_why(grades):
    X, y = grades
    svm = LinearSVC().fit(X, y)
    with pytest.raises(ParameterError, match="'estimator'"):
        aucoc_scorer(svm, X, y)
    assert aucoc_scorer(CalibratedClassifierCV(svm).fit(X, y), X, y) > 0.5
    several = MultiOutputClassifier(LogisticRegression(max_iter=500)).fit(X, np.stack([y, y], 1))
    with pytest.raises(InvalidInputError):
        aucoc_scorer(several, X, np.stack([y, y], 1))


def test_labels_that_are_no_labels_of_the_model(grades, fitted):
    X, y = grades
    with pytest.raises(LabelError, match="'y'"):
        aucoc_scorer(fitted, X, y.astype(str))
    with pytest.raises(LabelError, match="'y'"):
        aucoc_scorer(fitted, X, np.where(np.arange(600) == 7, np.nan, y))
    with pytest.raises(InvalidInputError, match="rows X: 600, y: 599"):
        aucoc_scorer(fitted, X, y[:-1])


class TestMetadataRouting:
    @pytest.fixture(autouse=True)
    def _routing(self):
        with sklearn.config_context(enable_metadata_routing=True):
            yield

    def test_weights_go_where_they_are_requested(self, grades):
        X, y = grades
        weight = 1.0 + np.arange(600) % 5
        cv, model = StratifiedKFold(3), LogisticRegression(max_iter=500)
        model.set_fit_request(sample_weight=False)
        weighted = get_scorer("aucoc").set_score_request(sample_weight=True)
        options = {"cv": cv, "error_score": "raise", "params": {"sample_weight": weight}}
        scores = cross_val_score(model, X, y, scoring=weighted, **options)
        for (train, test), score in zip(cv.split(X, y), scores, strict=True):
            own = clone(model).fit(X[train], y[train])
            assert score == aucoc_scorer(own, X[test], y[test], sample_weight=weight[test])
        unweighted = get_scorer("aucoc").set_score_request(sample_weight=False)
        both = cross_validate(model, X, y, scoring={"w": weighted, "u": unweighted}, **options)
        np.testing.assert_array_equal(both["test_w"], scores)
        assert (both["test_u"] != scores).all()

    def test_weights_nobody_asked_for_are_refused_by_scikit_learn(self, grades):
        model = LogisticRegression(max_iter=500).set_fit_request(sample_weight=True)
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            cross_val_score(
                model, *grades, scoring=aucoc_scorer, params={"sample_weight": np.ones(600)}
            )

    def test_a_request_changes_no_scorer_in_use(self):
        changed = get_scorer("aucoc").set_score_request(sample_weight="cost")
        assert changed.get_metadata_routing().score.requests == {"sample_weight": "cost"}
        assert aucoc_scorer.get_metadata_routing().score.requests == {"sample_weight": None}
        with pytest.raises(TypeError, match="groups"):
            aucoc_scorer.set_score_request(groups=True)


def test_rows_in_another_order_are_refused():
    """An index that says that rows do not belong together is not passed over."""
    rng = np.random.default_rng(0)
    X, y = pd.DataFrame(rng.normal(size=(60, 2))), pd.Series(rng.integers(0, 2, 60))
    model = LogisticRegression().fit(X, y)
    weight = pd.Series(np.ones(60), index=y.index[::-1])
    for call in (
        lambda y, **options: aucoc_scorer(model, X, y, **options),
        lambda y, **options: COCDisplay.from_estimator(model, X, y, **options),
        lambda y, **options: ReliabilityDisplay.from_estimator(model, X, y, **options),
        lambda y, **options: COCComparisonDisplay.from_estimators({"a": model}, X, y, **options),
    ):
        for labels, options in ((y[::-1], {}), (y, {"sample_weight": weight})):
            with pytest.raises(ShapeError, match="'X' and "):
                call(labels, **options)
