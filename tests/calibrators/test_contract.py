"""What every calibrator promises, whatever its method."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.special import softmax
from tests.calibrators.synthetic import overconfident
from tests.strategies import examples

from expertload import exceptions
from expertload._names import CALIBRATOR_NAMES
from expertload.calibrators import (
    CALIBRATORS,
    CalibrationWarning,
    Calibrator,
    KCal,
    make_calibrator,
)

# A bandwidth found by leaving cases out takes a repeated case for two cases.
OPTIONS = {"kcal": {"bandwidth": 1.5, "n_classes": 3}}
EVERY = tuple(CALIBRATORS)
ON_LOGITS = tuple(name for name in EVERY if name != "kcal")
KEEP_THE_PREDICTION = ("temperature", "spline")


def build(name, **options) -> Calibrator:
    return make_calibrator(name, **{**OPTIONS.get(name, {}), **options})


def fit(name, inputs, target, *, quiet=True, **arguments) -> Calibrator:
    with warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore", CalibrationWarning)
        return build(name).fit(inputs, target, **arguments)


def check_rows(proba, shape):
    assert proba.shape == shape
    assert proba.dtype == np.float64
    assert np.isfinite(proba).all()
    assert proba.min() >= 0
    assert proba.max() <= 1
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12, rtol=0)


@pytest.fixture(scope="module")
def cases():
    return overconfident(300, 3, seed=1)


@pytest.fixture(scope="module")
def fresh():
    return overconfident(80, 3, seed=2)[0]


@pytest.mark.parametrize("name", EVERY)
class TestProtocol:
    def test_probabilities_come_out(self, name, cases, fresh):
        calibrator = build(name)
        assert calibrator.fit(*cases) is calibrator
        assert calibrator.n_classes_ == 3
        check_rows(calibrator.transform(fresh), (80, 3))

    def test_inputs_are_left_alone(self, name, cases):
        logits, target = cases[0].copy(), cases[1].copy()
        build(name).fit(logits, target, sample_weight=np.ones(300)).transform(logits)
        np.testing.assert_array_equal(logits, cases[0])
        np.testing.assert_array_equal(target, cases[1])

    def test_the_order_of_rows_does_not_matter(self, name, cases, fresh):
        order = np.random.default_rng(0).permutation(300)
        shuffled = build(name).fit(cases[0][order], cases[1][order])
        straight = build(name).fit(*cases)
        np.testing.assert_allclose(
            shuffled.transform(fresh), straight.transform(fresh), atol=1e-9, rtol=0
        )

    def test_weights_equal_repeats(self, name, cases, fresh):
        times = np.random.default_rng(3).integers(0, 4, size=300)
        repeated = build(name).fit(np.repeat(cases[0], times, axis=0), np.repeat(cases[1], times))
        weighted = build(name).fit(*cases, sample_weight=times)
        np.testing.assert_allclose(
            weighted.transform(fresh), repeated.transform(fresh), atol=1e-9, rtol=0
        )

    def test_lists_arrays_and_tensors_agree(self, name, cases, fresh):
        torch = pytest.importorskip("torch")
        expected = build(name).fit(*cases).transform(fresh)
        lists = build(name).fit(cases[0].tolist(), cases[1].tolist()).transform(fresh.tolist())
        tensors = build(name).fit(torch.tensor(cases[0]), torch.tensor(cases[1]))
        np.testing.assert_array_equal(lists, expected)
        np.testing.assert_array_equal(tensors.transform(torch.tensor(fresh)), expected)

    def test_single_precision_is_welcome(self, name, cases, fresh):
        single = build(name).fit(cases[0].astype(np.float32), cases[1])
        double = build(name).fit(*cases)
        proba = single.transform(fresh.astype(np.float32))
        check_rows(proba, (80, 3))
        # One case on the other side of a bin's edge moves that bin.
        tolerance = 0.05 if name == "histogram" else 1e-3
        np.testing.assert_allclose(proba, double.transform(fresh), atol=tolerance, rtol=0)

    def test_labels_name_the_columns(self, name, cases, fresh):
        names = np.array(["wolf", "ant", "bee"])
        named = build(name).fit(cases[0], names[cases[1]], labels=names)
        np.testing.assert_array_equal(
            named.transform(fresh), build(name).fit(*cases).transform(fresh)
        )

    def test_refitting_forgets(self, name, cases, fresh):
        calibrator = fit(name, *overconfident(50, 3, seed=9))
        assert calibrator.fit(*cases) == build(name).fit(*cases)

    def test_repr_and_options(self, name):
        calibrator = build(name)
        for option, value in calibrator.options.items():
            assert f"{option}={value!r}" in repr(calibrator)
        assert eval(repr(calibrator), {type(calibrator).__name__: type(calibrator)}) == calibrator

    def test_not_fitted(self, name, fresh, tmp_path):
        with pytest.raises(exceptions.NotFittedError, match=r"not fitted\. Hint: call fit"):
            build(name).transform(fresh)
        with pytest.raises(exceptions.NotFittedError):
            build(name).save(tmp_path / "c.json")
        assert list(tmp_path.iterdir()) == []

    def test_wrong_columns_at_transform(self, name, cases):
        fitted = build(name).fit(*cases)
        with pytest.raises(exceptions.ShapeError, match="must have 3 columns, as in fit"):
            fitted.transform(np.zeros((2, 4)))

    @pytest.mark.parametrize(
        ("inputs", "target", "error"),
        [
            (np.zeros((0, 3)), [], exceptions.EmptyInputError),
            ([[0.0, np.nan, 1.0]], [0], exceptions.NonFiniteError),
            ([[0.0, np.inf, 1.0]], [0], exceptions.NonFiniteError),
            (np.zeros((2, 3)), [0, 1, 2], exceptions.ShapeError),
            (np.zeros((2, 3)), [0, 3], exceptions.LabelError),
            (np.zeros((2, 3)), [0.5, 1], exceptions.LabelError),
            (np.zeros((2, 3, 1)), [0, 1], exceptions.ShapeError),
            ([["a", "b", "c"]], [0], exceptions.DataTypeError),
        ],
    )
    def test_bad_input_is_refused_in_words(self, name, inputs, target, error):
        with pytest.raises(error):
            build(name).fit(inputs, target)

    @pytest.mark.slow
    @pytest.mark.parametrize("weight", [[-1.0, 1.0], [0.0, 0.0], [1.0]])
    def test_bad_weights_are_refused(self, name, weight):
        with pytest.raises(exceptions.InvalidInputError, match="sample_weight"):
            build(name).fit(np.zeros((2, 3)), [0, 1], sample_weight=weight)


@pytest.mark.parametrize("name", EVERY)
class TestHardSets:
    """Sets that break calibrators: handled, with probabilities that are probabilities."""

    def test_a_missing_class(self, name, fresh):
        logits, target = overconfident(200, 3, seed=4)
        kept = target != 1
        check_rows(fit(name, logits[kept], target[kept]).transform(fresh), (80, 3))

    @pytest.mark.parametrize("size", [1e4, 1e8, 1e300, 1.7e308])
    def test_saturated_logits(self, name, size):
        rng = np.random.default_rng(5)
        logits = size * rng.choice([-1.0, 0.5, 1.0], size=(60, 3))
        target = np.where(rng.random(60) < 0.7, logits.argmax(axis=1), rng.integers(3, size=60))
        check_rows(fit(name, logits, target).transform(logits), (60, 3))

    @pytest.mark.parametrize("size", [1e-311, 1e-200, 1e-30])
    @pytest.mark.parametrize("right", [False, True])
    def test_vanishing_logits(self, name, size, right):
        logits = size * np.random.default_rng(5).normal(size=(30, 3))
        target = logits.argmax(axis=1) if right else logits.argmin(axis=1)
        check_rows(fit(name, logits, target).transform(logits), (30, 3))

    @pytest.mark.slow
    def test_logits_of_very_different_sizes(self, name):
        rng = np.random.default_rng(6)
        logits = rng.normal(size=(90, 3)) * 10.0 ** rng.integers(-12, 13, size=(90, 1))
        target = rng.integers(3, size=90)
        check_rows(fit(name, logits, target).transform(logits), (90, 3))

    def test_one_case(self, name, fresh):
        check_rows(fit(name, [[3.0, 1.0, 0.0]], [0]).transform(fresh), (80, 3))
        check_rows(fit(name, [[3.0, 1.0, 0.0]], [2], labels=[0, 1, 2]).transform(fresh), (80, 3))

    def test_every_case_right(self, name, fresh):
        logits, _ = overconfident(100, 3, seed=7)
        check_rows(fit(name, logits, logits.argmax(axis=1)).transform(fresh), (80, 3))

    def test_every_case_wrong(self, name, fresh):
        logits, _ = overconfident(100, 3, seed=8)
        check_rows(fit(name, logits, logits.argmin(axis=1)).transform(fresh), (80, 3))

    def test_constant_inputs(self, name, fresh):
        fitted = fit(name, np.full((40, 3), 2.0), np.arange(40) % 3)
        check_rows(fitted.transform(fresh), (80, 3))

    def test_tiny_and_huge_weights(self, name, cases, fresh):
        for middle in (-200, 0, 200):
            weight = 10.0 ** np.random.default_rng(2).uniform(middle - 85, middle + 85, size=300)
            check_rows(fit(name, *cases, sample_weight=weight).transform(fresh), (80, 3))

    def test_weights_that_arithmetic_cannot_tell_apart_are_refused(self, name, cases):
        weight = np.ones(300)
        weight[0] = 1e-200
        with pytest.raises(exceptions.WeightError, match="within a factor"):
            build(name).fit(*cases, sample_weight=weight)

    @pytest.mark.filterwarnings("ignore:The logits look like probabilities")
    @examples(40)
    @given(data=st.data())
    def test_anything_finite(self, name, data):
        n = data.draw(st.integers(1, 8))
        numbers = st.floats(allow_nan=False, allow_infinity=False, width=64)
        logits = data.draw(npst.arrays(np.float64, (n, 3), elements=numbers))
        target = data.draw(npst.arrays(np.int64, n, elements=st.integers(0, 2)))
        new = data.draw(npst.arrays(np.float64, (2, 3), elements=numbers))
        fitted = fit(name, logits, target, labels=[0, 1, 2])
        check_rows(fitted.transform(new), (2, 3))
        assert type(fitted).from_dict(fitted.to_dict()) == fitted


@pytest.mark.parametrize("name", ON_LOGITS)
class TestLogitsAndProbabilities:
    def test_zero_probabilities_are_welcome(self, name):
        proba = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            fitted = build(name, input="probabilities").fit(proba, [0, 1, 0, 2])
        check_rows(fitted.transform(proba), (4, 3))

    def test_log_probabilities_as_logits_are_the_same(self, name, cases, fresh):
        proba, new = softmax(cases[0], axis=1), softmax(fresh, axis=1)
        from_proba = build(name, input="probabilities").fit(proba, cases[1]).transform(new)
        from_logits = build(name).fit(np.log(proba), cases[1]).transform(np.log(new))
        np.testing.assert_allclose(from_proba, from_logits, atol=1e-9, rtol=0)

    def test_probabilities_taken_for_logits_cause_a_warning(self, name, cases, fresh):
        proba = softmax(cases[0], axis=1)
        with pytest.warns(UserWarning, match=r'look like prob.*input="probabilities"') as caught:
            build(name).fit(proba, cases[1])
        assert caught[0].filename == __file__
        with pytest.warns(UserWarning, match="look like probabilities"):
            build(name).fit(*cases).transform(softmax(fresh, axis=1))

    def test_logits_are_not_taken_for_probabilities(self, name, cases):
        with pytest.raises(exceptions.ProbabilityError, match="apply a softmax"):
            build(name, input="probabilities").fit(*cases)

    def test_one_column_stands_for_the_second_class(self, name):
        logits, target = overconfident(200, 2, seed=3)
        odds = logits[:, 1] - logits[:, 0]
        both = np.column_stack([np.zeros(200), odds])
        expected = build(name).fit(both, target).transform(both)
        for single in (odds, odds[:, None]):
            np.testing.assert_array_equal(
                build(name).fit(single, target).transform(single), expected
            )

    @pytest.mark.parametrize("bad", ["scores", None, 3])
    def test_the_kind_of_input_must_be_known(self, name, bad):
        with pytest.raises(exceptions.ParameterError, match="'input'"):
            make_calibrator(name, input=bad)


@pytest.mark.parametrize("name", KEEP_THE_PREDICTION)
@examples(60)
@given(data=st.data())
def test_the_predicted_class_stays_on_top(name, data):
    n, k = data.draw(st.integers(1, 12)), data.draw(st.integers(2, 5))
    numbers = st.floats(-30, 30, width=32)
    logits = data.draw(npst.arrays(np.float64, (n, k), elements=numbers))
    target = data.draw(npst.arrays(np.int64, n, elements=st.integers(0, k - 1)))
    proba = fit(name, logits, target, labels=np.arange(k)).transform(logits)
    predicted = logits.argmax(axis=1)
    # Logits that differ by a rounding may come out equal, never the other way round.
    np.testing.assert_array_equal(proba[np.arange(n), predicted], proba.max(axis=1))


class TestRegistry:
    def test_names_match_classes(self):
        assert all(kind.name == name for name, kind in CALIBRATORS.items())
        assert tuple(CALIBRATORS) == CALIBRATOR_NAMES

    def test_unknown_name(self):
        with pytest.raises(exceptions.ParameterError, match="must be one of 'temperature'"):
            make_calibrator("beta")

    def test_unknown_option(self):
        with pytest.raises(exceptions.ParameterError, match="must be one of 'input', 'objective'"):
            make_calibrator("temperature", bins=3)

    @pytest.mark.parametrize(
        ("name", "options"),
        [
            ("temperature", {"objective": "brier"}),
            ("vector_scaling", {"penalty": -1}),
            ("matrix_scaling", {"off_diagonal_penalty": -1}),
            ("matrix_scaling", {"intercept_penalty": None}),
            ("histogram", {"n_bins": 0}),
            ("histogram", {"strategy": "area"}),
            ("histogram", {"smoothing": float("nan")}),
            ("spline", {"n_knots": 2}),
            ("kcal", {"bandwidth": 0}),
            ("kcal", {"bandwidth": "scott"}),
            ("kcal", {"prior": "none"}),
            ("kcal", {"projection": "umap"}),
            ("kcal", {"n_components": 0}),
            ("kcal", {"n_classes": 1}),
        ],
    )
    def test_options_out_of_range(self, name, options):
        with pytest.raises(exceptions.ParameterError, match=next(iter(options))):
            make_calibrator(name, **options)

    def test_options_are_checked_by_fit_too(self):
        with pytest.raises(exceptions.ParameterError):
            KCal(prior="none").fit([[0.0], [1.0]], [0, 1])


def test_equality():
    one = build("temperature")
    assert one == build("temperature")
    assert one != build("temperature", objective="ece")
    assert one != build("platt")
    assert one != "temperature"
    assert one != fit("temperature", *overconfident(50, 3, seed=1))
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
