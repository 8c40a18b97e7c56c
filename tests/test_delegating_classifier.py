from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import expertload
from expertload.exceptions import (
    LabelError,
    NonFiniteError,
    NotFittedError,
    ParameterError,
    ShapeError,
    WeightError,
)
from expertload.operating_point import load_operating_point
from expertload.sklearn import DelegatingClassifier, DelegatingClassifierWarning

DELEGATES = "cases are delegated: predict returns their label, not the most probable class"
OTHERS_ASIDE = "among repeated cases, fit sets others aside to calibrate on"
EXPECTED_TO_FAIL = {
    "check_classifiers_train": DELEGATES,
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
        ),
        DelegatingClassifier(
            LogisticRegression(), target_accuracy=0.6, confidence_level=0.6, random_state=0
        ),
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


def apart(estimator, **options):
    """A classifier that is fitted to all cases, and calibrated on others."""
    return DelegatingClassifier(estimator, calibration_size=None, **options)


@pytest.fixture
def model(data):
    return apart(LogisticRegression(), target_accuracy=0.9).fit(*data[0]).calibrate(*data[1])


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
    model = apart(DummyClassifier(strategy="prior"), target_accuracy=0.9).fit(*data[0])
    with pytest.warns(DelegatingClassifierWarning, match="delegates every case.*too low"):
        model.calibrate(*data[1])
    assert (model.predict(data[2][0]) == -1).all()
    assert model.score(*data[2]) == 0
    assert model.operating_point_.reason == "accuracy_too_low"


def test_names_of_classes(data):
    names = np.array(["low", "mid", "high"])
    for kind in (np.str_, object):
        model = apart(LogisticRegression(), target_accuracy=0.9)
        model.fit(data[0][0], names[data[0][1]].astype(kind))
        model.calibrate(data[1][0], names[data[1][1]].astype(kind))
        assert set(model.predict(data[2][0])) == {"low", "mid", "high", "delegate"}


def test_truth_values_as_classes(data):
    model = apart(LogisticRegression(), target_accuracy=0.95)
    model.fit(data[0][0], data[0][1] == 1).calibrate(data[1][0], data[1][1] == 1)
    assert set(model.predict(data[2][0])) == {-1, 0, 1}


def test_a_class_the_model_never_saw_counts_as_errors(data):
    known = data[0][1] < 2
    model = apart(LogisticRegression(), target_accuracy=0.6)
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
    model = apart(LogisticRegression()).fit(*data[0])
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


@pytest.mark.parametrize(
    ("classes", "free"),
    [
        ([0, 1], -1),
        ([-1, 1], -2),
        ([-3, -1], -2),
        (["delegate", "other"], "delegate_2"),
        (["delegate", "delegate_2"], "delegate_3"),
        (["no", "yes"], "delegate"),
    ],
)
def test_the_label_of_delegated_cases_is_no_class(data, classes, free):
    y = np.array(classes)[(data[0][1] == 0).astype(int)]
    model = DelegatingClassifier(
        LogisticRegression(), calibration_size=0.5, target_accuracy=0.85, random_state=0
    )
    model.fit(data[0][0], y)
    assert model.delegate_label_ == free
    assert set(model.predict(data[2][0]).tolist()) == {*classes, free}


def test_a_label_of_another_kind_is_refused(data):
    y = np.where(data[0][1] == 0, "delegate", "other")
    with pytest.raises(ParameterError, match="one of the classes"):
        DelegatingClassifier(LogisticRegression(), delegate_label="other").fit(data[0][0], y)
    with pytest.raises(ParameterError, match="must be a string"):
        DelegatingClassifier(LogisticRegression(), delegate_label=-1).fit(data[0][0], y)


@pytest.mark.parametrize("estimator", [RidgeClassifier(), LinearSVC()])
def test_models_without_probabilities_are_told_what_gives_them(data, estimator):
    with pytest.raises(ParameterError, match="without 'predict_proba'.*CalibratedClassifierCV"):
        DelegatingClassifier(estimator).fit(*data[0])
    wrapped = DelegatingClassifier(CalibratedClassifierCV(estimator), target_accuracy=0.7)
    assert wrapped.fit(*data[0]).expert_load_ < 1


def margin(estimator, X):
    scores = np.sort(estimator.decision_function(X), axis=1)
    return scores[:, -1] - scores[:, -2]


def test_any_confidence_will_do(data):
    model = apart(LinearSVC(), target_accuracy=0.85, confidence=margin)
    model = pickle.loads(pickle.dumps(clone(model).fit(*data[0]).calibrate(*data[1])))
    accepted, answers = model.decide(data[2][0])
    scores = margin(model.estimator_, data[2][0])
    assert 0 < accepted.mean() < 1
    assert scores[accepted].min() >= model.operating_point_.threshold > scores[~accepted].max()
    assert (answers == model.estimator_.predict(data[2][0])).all()
    assert not hasattr(model, "predict_proba")


def test_a_confidence_of_the_wrong_length_is_refused(data):
    model = apart(LinearSVC(), confidence=lambda model, X: [0.5]).fit(*data[0])
    with pytest.raises(ShapeError, match="confidence: 1"):
        model.calibrate(*data[1])


def test_groups_have_thresholds_of_their_own(data):
    site = np.where(np.arange(600) < 590, "north", "south")
    model = apart(LogisticRegression(), target_accuracy=0.85).fit(*data[0])
    model.calibrate(*data[1], groups=site)
    point = model.operating_point_
    assert point["north"].is_certified
    assert not point["south"].is_certified
    assert model.expert_load_ == pytest.approx(1 - point["north"].n_accepted / 600)
    X, y = data[2]
    everyone = model.decide(X, groups=["north"] * 400).accepted
    assert 0 < everyone.mean() < 1
    for stranger in ("south", "east"):
        assert not model.decide(X, groups=[stranger] * 400).accepted.any()
    mixed = np.where(np.arange(400) % 2, "north", "south")
    assert (model.predict(X, groups=mixed)[::2] == -1).all()
    assert model.score(X, y, groups=mixed) > 0
    with pytest.raises(ParameterError, match="needs the groups"):
        model.predict(X)
    with pytest.raises(ParameterError, match="one threshold for all"):
        model.calibrate(*data[1]).predict(X, groups=mixed)


def test_fit_sets_cases_aside_with_their_groups(data):
    X, y = data[0]
    groups = np.arange(500) % 2
    model = DelegatingClassifier(
        LogisticRegression(), target_accuracy=0.7, calibration_size=0.5, random_state=0
    )
    model.fit(X, y, sample_weight=np.ones(500), groups=groups)
    points = model.operating_point_.points
    assert set(points) == {0, 1}
    assert sum(point.n_cases for point in points.values()) == 250


def patients(rng, n_patients, noise=0.0):
    """Five nearly identical rows of each patient, whose label no feature tells."""
    patient = np.repeat(np.arange(n_patients), 5)
    X = rng.normal(size=(n_patients, 4))[patient] + noise * rng.normal(size=(len(patient), 4))
    y = (rng.random(n_patients) < 0.5 + 0.2 * np.sign(X[::5, 0])).astype(int)[patient]
    return X, y, patient


@pytest.mark.simulation
def test_cases_of_patients_keep_the_promise_if_they_are_named():
    """And the control: split and certified case by case, a forest only remembers patients."""
    rng, broken, remembered = np.random.default_rng(0), 0, 0
    for seed in range(20):
        X, y, patient = patients(rng, 200, noise=0.01)
        new_X, new_y, _ = patients(rng, 400, noise=0.01)
        forest = RandomForestClassifier(30, random_state=seed)
        model = DelegatingClassifier(forest, target_accuracy=0.95, random_state=seed)
        for clusters in (patient, None):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DelegatingClassifierWarning)
                answers = model.fit(X, y, clusters=clusters).predict(new_X)
            decided = answers != model.delegate_label_
            misses = decided.any() and (answers == new_y)[decided].mean() < 0.9
            broken += clusters is not None and misses
            remembered += clusters is None and misses
    assert broken <= 3
    assert remembered >= 15


def test_clusters_are_split_whole_and_certified():
    rng = np.random.default_rng(0)
    X, y, patient = patients(rng, 300, noise=0.1)
    y = (X[:, 0] > 0).astype(int)
    seen = []

    class Remembers(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            seen.append({tuple(row) for row in X})
            return super().fit(X, y, sample_weight)

    model = DelegatingClassifier(Remembers(), target_accuracy=0.8, random_state=0)
    model.fit(X, y, clusters=patient)
    fitted = np.array([tuple(row) in seen[0] for row in X])
    assert set(patient[fitted]).isdisjoint(patient[~fitted])
    assert len(set(patient[~fitted])) == 75
    assert model.operating_point_.clusters == "all_cases"
    model.calibrate(X[~fitted], y[~fitted], clusters=patient[~fitted])
    assert "independent clusters" in model.operating_point_.guarantee


def test_repeated_feature_rows_are_named():
    X, _, _ = patients(np.random.default_rng(0), 200)
    y = (X[:, 0] > 0).astype(int)
    model = DelegatingClassifier(LogisticRegression(), target_accuracy=0.6, random_state=0)
    with pytest.warns(DelegatingClassifierWarning, match="800 of 1000 feature rows repeat"):
        model.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X + 0.01 * np.random.default_rng(1).normal(size=X.shape), y)
    mixed = pd.DataFrame(X).assign(branch=np.where(X[:, 1] > 0, "north", None))
    mixed.columns = mixed.columns.astype(str)
    numbers = make_column_transformer(("passthrough", ["0", "1"]))
    model.set_params(estimator=make_pipeline(numbers, model.estimator))
    with pytest.warns(DelegatingClassifierWarning, match="800 of 1000 feature rows repeat"):
        model.fit(mixed, y)


def test_clusters_are_routed_through_a_cross_validation():
    X, _, patient = patients(np.random.default_rng(0), 200, noise=0.1)
    y = (X[:, 0] > 0).astype(int)
    with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few cases: nothing may be certified
        model = DelegatingClassifier(LogisticRegression(), target_accuracy=0.6, random_state=0)
        model.set_fit_request(clusters=True)
        found = cross_validate(
            model, X, y, params={"clusters": patient}, return_estimator=True, cv=3
        )
    assert {each.operating_point_.clusters for each in found["estimator"]} == {"all_cases"}


def test_a_quarter_is_set_aside_by_default_and_a_pipeline_needs_no_more(data):
    delegating = DelegatingClassifier(LogisticRegression(), target_accuracy=0.8, random_state=0)
    pipeline = make_pipeline(StandardScaler(), delegating).fit(*data[0])
    assert pipeline[-1].operating_point_.n_cases == 125
    assert set(pipeline.predict(data[2][0])) == {-1, 0, 1, 2}
    assert cross_val_score(pipeline, *data[1], cv=3, error_score="raise").min() > 0


def test_too_few_cases_are_said_at_fit(data):
    X, y = data[0]
    with pytest.warns(DelegatingClassifierWarning, match="20 case.*too few"):
        DelegatingClassifier(LogisticRegression()).fit(X[:80], y[:80])


def test_labels_of_another_kind_are_no_errors_of_the_model(model, data):
    with pytest.raises(LabelError, match="must hold numbers"):
        model.score(data[2][0], data[2][1].astype(str))


def test_it_is_at_the_top_level_and_imported_late():
    assert expertload.DelegatingClassifier is DelegatingClassifier
    assert "DelegatingClassifier" in dir(expertload)
    with pytest.raises(AttributeError, match="no attribute 'delegating'"):
        expertload.delegating  # noqa: B018


def test_clones_and_pickles(model, data):
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(data[2][0]), model.predict(data[2][0]))
    fresh = clone(model)
    assert not hasattr(fresh, "operating_point_")
    assert fresh.get_params()["target_accuracy"] == 0.9


def test_weights_reach_the_model(data):
    X, y = data[0]
    weight = np.where(y == 0, 50.0, 0.1)
    plain = DelegatingClassifier(
        LogisticRegression(), target_accuracy=0.3, calibration_size=0.3, random_state=0
    )
    heavy = clone(plain).fit(X, y, sample_weight=weight)
    plain.fit(X, y)
    assert heavy.predict_proba(X)[:, 0].mean() > plain.predict_proba(X)[:, 0].mean() + 0.1
    bare = apart(LogisticRegression()).fit(X, y, sample_weight=weight)
    assert bare.predict_proba(X)[:, 0].mean() > plain.predict_proba(X)[:, 0].mean() + 0.1


@pytest.mark.parametrize("weight", [-1.0, 0.0, np.nan], ids=["negative", "zero", "missing"])
def test_weights_of_a_score_are_weights(model, data, weight):
    X, y = data[0]
    with pytest.raises((WeightError, NonFiniteError), match="sample_weight"):
        model.score(X, y, sample_weight=np.full(len(y), weight))
    with pytest.raises(ShapeError, match="one value per case"):
        model.score(X, y, sample_weight=[1.0])


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
    inner = apart(make_pipeline(StandardScaler(), LogisticRegression()), target_accuracy=0.85)
    inner.fit(*data[0]).calibrate(*data[1])
    assert inner.operating_point_.is_certified


class _CountingFits(LogisticRegression):
    n_fits = 0

    def fit(self, *data, **options):
        type(self).n_fits += 1
        return super().fit(*data, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"target_accuracy": 95},
            r"'target_accuracy' .*pass 0\.95 for 95 %",
        ),
        ({"confidence_level": 1.5}, "'confidence_level'"),
        ({"method": "bonferoni"}, "'method'"),
        ({"calibration_size": 1.5}, "'calibration_size' .*Got 1.5"),
        ({"calibration_size": 0}, "'calibration_size' .*Got 0"),
        ({"calibration_size": "half"}, "'calibration_size' .*Got 'half'"),
        ({"calibration_size": True}, "'calibration_size' .*Got True"),
    ],
)
def test_wrong_options_are_refused_before_the_model_is_trained(data, options, words):
    _CountingFits.n_fits = 0
    with pytest.raises(ParameterError, match=words):
        DelegatingClassifier(_CountingFits(), **options).fit(*data[0])
    assert _CountingFits.n_fits == 0


def test_several_labels_a_case_are_refused(data):
    X, y = data[0]
    with pytest.raises(LabelError, match="one class for each case.*multilabel-indicator"):
        DelegatingClassifier(KNeighborsClassifier()).fit(X, np.c_[y == 0, y == 1].astype(int))


@pytest.mark.parametrize("classes", [["ill", "well", "dead"], [3, 1, 2], [3.0, 1.0, 2.0]])
@pytest.mark.parametrize("by_group", [False, True])
def test_its_policy_decides_without_it(data, tmp_path, classes, by_group):
    """Saved as JSON, for `expertload decide` and the desk: nobody has to unpickle a model."""
    names = np.array(classes)
    X, y = data[0]
    site = {"groups": np.array(["north", "south"])[np.arange(len(X)) % 2]} if by_group else {}
    model = DelegatingClassifier(
        LogisticRegression(), target_accuracy=0.6, calibration_size=0.5, random_state=0
    ).fit(X, names[y], **site)
    model.operating_point_.save(tmp_path / "policy.json")
    policy = load_operating_point(tmp_path / "policy.json")
    expected, proba = model.decide(X, **site), model.predict_proba(X)
    assert 0 < expected.accepted.mean() < 1
    for given in (proba, pd.DataFrame(proba, columns=model.classes_)[model.classes_[::-1]]):
        found = policy.decide(given, **site)
        np.testing.assert_array_equal(found.accepted, expected.accepted)
        np.testing.assert_array_equal(found.labels, expected.labels)


def test_the_policy_of_an_own_confidence_needs_it(data):
    model = DelegatingClassifier(
        LogisticRegression(),
        target_accuracy=0.6,
        confidence=lambda model, X: model.predict_proba(X).max(axis=1),
    ).fit(*data[0])
    assert model.operating_point_.origin.ranked_by == "given_confidence"


BARE = {
    "array": pd.array,
    "string": lambda y: pd.array(y, dtype="string"),
    "arrow": lambda y: pd.array(y, dtype="string[pyarrow]"),
    "index": pd.Index,
    "categorical": pd.Categorical,
    "numpy": lambda y: np.array(y, dtype=np.dtypes.StringDType()),
}


@pytest.mark.parametrize("kind", BARE)
def test_bare_arrays_of_strings(data, kind):
    X, y = data[1][0], np.array(["no", "yes"])[np.minimum(data[1][1], 1)]
    groups = np.array(["a", "b"])[np.arange(len(y)) % 2]
    wanted = DelegatingClassifier(LogisticRegression(), target_accuracy=0.6, random_state=0)
    wanted = wanted.fit(X, y, groups=groups)
    found = clone(wanted).fit(X, BARE[kind](y), groups=BARE[kind](groups))
    answers = found.predict(X, groups=BARE[kind](groups))
    assert answers.tolist() == wanted.predict(X, groups=groups).tolist()
    assert found.score(X, BARE[kind](y), groups=groups) == wanted.score(X, y, groups=groups)
    once = DelegatingClassifier(found.estimator_, target_accuracy=0.6)
    assert once.calibrate(X, BARE[kind](y)).expert_load_ == once.calibrate(X, y).expert_load_


def test_rows_in_another_order_are_refused(data):
    """An index that says that rows do not belong together is not passed over."""
    X, y = pd.DataFrame(data[1][0]), pd.Series(data[1][1])
    model = DelegatingClassifier(LogisticRegression(), target_accuracy=0.6, random_state=0).fit(
        X, y
    )
    for call in (
        lambda: model.fit(X, y[::-1]),
        lambda: model.fit(X, y, sample_weight=pd.Series(1.0, index=y.index[::-1])),
        lambda: model.calibrate(X[::-1], y),
        lambda: model.calibrate(X, y, groups=y[::-1]),
        lambda: model.score(X, y[::-1]),
        lambda: model.score(X, y, sample_weight=y[::-1] + 1),
    ):
        with pytest.raises(ShapeError, match="same index, in the same order"):
            call()
