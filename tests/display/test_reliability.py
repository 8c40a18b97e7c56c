import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from expertload import Cases
from expertload.display import ReliabilityDisplay
from expertload.exceptions import ParameterError, ProbabilityError
from expertload.metrics import (
    expected_calibration_error,
    kolmogorov_smirnov_error,
    reliability_curve,
)


def predictions(n=300):
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([1, 1, 1], n)
    return np.array([rng.choice(3, p=row) for row in proba]), proba


@pytest.mark.parametrize("strategy", ["mass", "width"])
def test_draws_the_numbers_of_the_library(strategy):
    y, proba = predictions()
    options = {"n_bins": 7, "strategy": strategy}
    display = ReliabilityDisplay.from_predictions(y, proba, name="m", **options)
    curve = reliability_curve(y, proba, **options)
    np.testing.assert_array_equal(display.line_.get_xdata(), curve.confidence)
    np.testing.assert_array_equal(display.line_.get_ydata(), curve.accuracy)
    ece = expected_calibration_error(y, proba, **options)
    assert display.expected_error == pytest.approx(ece)
    ks = kolmogorov_smirnov_error(y, proba)
    assert display.line_.get_label() == f"m: ECE {ece:.3f}, KS {ks:.3f}"
    title = display.ax_.get_legend().get_title().get_text()
    assert title == f"ECE over 7 bins of equal {strategy}"


def test_gaps_reach_from_the_points_to_the_diagonal():
    display = ReliabilityDisplay.from_predictions(*predictions())
    for segment, x, y in zip(
        display.gaps_.get_segments(), display.confidence, display.accuracy, strict=True
    ):
        np.testing.assert_allclose(segment, [[x, y], [x, x]])


def test_histogram_holds_all_cases_also_at_the_ends():
    weight = [1.0, 2.0, 3.0, 4.0]
    display = ReliabilityDisplay.from_cases(
        Cases.from_correctness([0, 1, 1, 1], [0.0, 0.52, 0.53, 1.0], sample_weight=weight), n_bins=2
    )
    shares = display.bars_.get_data().values
    assert shares.sum() == pytest.approx(1)
    assert (shares[0], shares[10], shares[-1]) == pytest.approx((0.1, 0.5, 0.4))
    curve = reliability_curve(
        Cases.from_correctness([0, 1, 1, 1], [0.0, 0.52, 0.53, 1.0], sample_weight=weight), n_bins=2
    )
    np.testing.assert_array_equal(display.accuracy, curve.accuracy)


def test_one_axes_gets_the_diagram_alone_and_several_models():
    _, ax = plt.subplots()
    y, proba = predictions()
    first = ReliabilityDisplay.from_predictions(y, proba, name="a", ax=ax)
    second = ReliabilityDisplay.from_predictions(
        y, proba**2 / (proba**2).sum(1, keepdims=True), name="b", ax=ax
    )
    assert first.histogram_ax_ is None
    assert first.bars_ is None
    assert first.line_.get_color() != second.line_.get_color()
    diagonals = [line for line in ax.lines if line.get_xydata().tolist() == [[0, 0], [1, 1]]]
    assert len(diagonals) == 1
    assert ax.get_xlabel() == "Confidence"


def test_two_axes_get_diagram_and_histogram():
    _, pair = plt.subplots(1, 2)
    display = ReliabilityDisplay.from_predictions(*predictions(), ax=pair)
    assert (display.ax_, display.histogram_ax_) == tuple(pair)
    assert display.ax_.get_xlabel() == display.histogram_ax_.get_xlabel() == "Confidence"
    with pytest.raises(ParameterError, match="one or two matplotlib axes"):
        display.plot(plt.subplots(1, 3)[1])


def test_stacked_axes_share_one_label():
    display = ReliabilityDisplay.from_predictions(*predictions())
    assert display.ax_.get_xlabel() == ""
    assert display.histogram_ax_.get_xlabel() == "Confidence"


def test_from_estimator_with_string_classes():
    X, number = load_iris(return_X_y=True)
    y = np.array(["setosa", "versicolor", "virginica"])[number]
    estimator = LogisticRegression(max_iter=1000).fit(X, y)
    display = ReliabilityDisplay.from_estimator(estimator, X, y, n_bins=5)
    expected = expected_calibration_error(number, estimator.predict_proba(X), n_bins=5)
    assert display.expected_error == pytest.approx(expected)
    assert display.name == "LogisticRegression"
    assert ReliabilityDisplay.from_estimator(estimator, X, y, name="iris").name == "iris"


def test_a_perfect_model():
    display = ReliabilityDisplay.from_cases(Cases.from_correctness([1, 1, 1], [1, 1, 1]))
    ece = expected_calibration_error(Cases.from_correctness([1, 1, 1], [1, 1, 1]))
    assert display.expected_error == ece == 0


def test_bad_input_is_refused_in_words():
    with pytest.raises(ProbabilityError, match="confidence"):
        ReliabilityDisplay.from_cases(Cases.from_correctness([1, 0], [0.5, 97]))
