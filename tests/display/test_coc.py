import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from expertload import Cases, coc_curve, operating_point
from expertload.display import COCComparisonDisplay, COCDisplay, ReliabilityDisplay
from expertload.display._draw import ALPHA_ALONE, ALPHA_AMONG_OTHERS, PALETTE
from expertload.exceptions import (
    EmptyInputError,
    ParameterError,
    ProbabilityError,
    ShapeError,
)
from expertload.significance import aucoc_interval, coc_band


def model(n=300, seed=0):
    rng = np.random.default_rng(seed)
    confidence = rng.beta(4, 1.2, n)
    return rng.random(n) < confidence, confidence


def assert_drawn(line, curve):
    """The points of the curve lie on the line as drawn."""
    x, y = line.get_data()
    at = np.searchsorted(x, curve.expert_load)
    np.testing.assert_array_equal(x[at], curve.expert_load)
    np.testing.assert_allclose(y[at], curve.accuracy, atol=1e-12)


def test_draws_the_numbers_of_the_library():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([1, 1, 1], 200)
    y = np.array([rng.choice(3, p=row) for row in proba])
    display = COCDisplay.from_predictions(y, proba, name="softmax")
    assert_drawn(display.line_, coc_curve(y, proba))
    interval = aucoc_interval(Cases.from_predictions(y, proba))
    assert display.aucoc == interval
    text = f"softmax: AUCOC {interval.estimate:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
    assert display.line_.get_label() == text
    assert display.ax_.get_legend().get_title().get_text() == "With 95 % intervals"
    assert display.ax_.get_xlabel().startswith("Expert load")
    assert display.ax_.get_ylabel() == "Accuracy among the accepted"
    assert display.figure_ is display.ax_.figure


def test_options_reach_the_numbers():
    correct, confidence = model()
    weight = np.random.default_rng(1).exponential(size=len(correct))
    display = COCDisplay.from_cases(
        Cases.from_correctness(correct, confidence, sample_weight=weight), confidence_level=0.8
    )
    curve = coc_curve(Cases.from_correctness(correct, confidence, sample_weight=weight))
    assert_drawn(display.line_, curve)
    assert display.aucoc.confidence_level == 0.8
    assert display.ax_.get_legend().get_title().get_text() == "With 80 % intervals"
    proba = np.column_stack([1 - confidence / 2, confidence / 2])
    ranked = COCDisplay.from_predictions(
        np.where(correct, "no", "yes"), proba, labels=["no", "yes"], confidence=confidence
    )
    assert_drawn(ranked.line_, coc_curve(Cases.from_correctness(correct, confidence)))


def test_band_is_that_of_the_library():
    correct, confidence = model(50)
    display = COCDisplay.from_cases(Cases.from_correctness(correct, confidence))
    band = coc_band(Cases.from_correctness(correct, confidence))
    drawn = {tuple(vertex) for vertex in display.band_.get_paths()[0].vertices.round(9)}
    for ends in (band.low, band.high):
        points = np.column_stack([band.expert_load, ends]).round(9)
        assert {tuple(point) for point in points} <= drawn
    assert display.band_.get_alpha() == ALPHA_ALONE


def test_band_can_be_left_out():
    assert COCDisplay.from_cases(Cases.from_correctness(*model()), band=False).band_ is None


def test_string_classes_from_an_estimator_and_a_pipeline():
    X, number = load_iris(return_X_y=True)
    y = np.array(["setosa", "versicolor", "virginica"])[number]
    for estimator in (
        LogisticRegression(max_iter=1000),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ):
        estimator.fit(X, y)
        some = number > 0  # a class that does not occur must not shift the columns
        display = COCDisplay.from_estimator(estimator, X[some], y[some])
        proba = estimator.predict_proba(X[some])
        curve = coc_curve(number[some], proba, labels=[0, 1, 2])
        assert_drawn(display.line_, curve)
        assert display.line_.get_label().startswith(type(estimator).__name__)
    assert COCDisplay.from_estimator(estimator, X, y, name="iris").name == "iris"


def test_an_estimator_of_one_class_is_right_where_it_is_right():
    X = np.zeros((10, 1))
    estimator = DummyClassifier(strategy="prior").fit(X, ["yes"] * 10)
    display = COCDisplay.from_estimator(estimator, X, ["yes"] * 7 + ["no"] * 3)
    assert display.accuracy.tolist() == [0.7]
    assert (ReliabilityDisplay.from_estimator(estimator, X, ["yes"] * 10).accuracy == 1).all()
    both = COCComparisonDisplay.from_estimators({"a": estimator}, X, ["no"] * 10)
    assert both.displays["a"].accuracy.tolist() == [0.0]


def test_an_estimator_ranked_by_another_confidence():
    X, y = load_iris(return_X_y=True)
    estimator = LogisticRegression(max_iter=1000).fit(X, y)
    confidence = np.arange(150.0)
    display = COCDisplay.from_estimator(estimator, X, y, confidence=confidence)
    curve = coc_curve(y, estimator.predict_proba(X), confidence=confidence)
    assert_drawn(display.line_, curve)


def test_an_estimator_without_probabilities_is_refused_in_words():
    with pytest.raises(ParameterError, match="'estimator'.*'predict_proba'"):
        COCDisplay.from_estimator(object(), [[0.0]], [0])

    class Nameless:
        def predict_proba(self, X):
            return X

    with pytest.raises(ParameterError, match="'estimator'.*'classes_'"):
        COCDisplay.from_estimator(Nameless(), [[0.5, 0.5]], [0])


def test_several_curves_on_one_axes():
    _, ax = plt.subplots()
    theirs = ax.scatter([0.5], [0.9], alpha=0.7)
    displays = [
        COCDisplay.from_cases(Cases.from_correctness(*model(seed=k)), ax=ax) for k in range(3)
    ]
    assert all(display.ax_ is ax for display in displays)
    assert tuple(display.line_.get_color() for display in displays) == PALETTE[:3]
    assert {display.band_.get_alpha() for display in displays} == {ALPHA_AMONG_OTHERS}
    assert theirs.get_alpha() == 0.7
    assert len(ax.get_legend().get_texts()) == 3


def test_line_options_win():
    display = COCDisplay.from_cases(
        Cases.from_correctness(*model()), line_options={"color": "k", "linestyle": ":"}
    )
    assert display.line_.get_color() == "k"
    assert display.line_.get_linestyle() == ":"


def test_the_axis_zooms_to_the_data_and_widens_for_the_next():
    good = COCDisplay.from_cases(Cases.from_correctness(*model(5000)), band=False)
    low, high = good.ax_.get_ylim()
    assert 0.6 < low < good.accuracy[0]
    assert 1 < high < 1.02
    COCDisplay.from_cases(Cases.from_correctness([0, 0, 1], [0.1, 0.2, 0.3]), ax=good.ax_)
    assert good.ax_.get_ylim()[0] < 0.3
    bottom = good.ax_.get_ylim()[0]
    COCDisplay.from_cases(Cases.from_correctness(*model(5000)), ax=good.ax_)
    assert good.ax_.get_ylim()[0] == bottom


def test_limits_that_the_caller_set_stay():
    _, ax = plt.subplots()
    ax.set_ylim(0.2, 0.9)
    COCDisplay.from_cases(Cases.from_correctness(*model()), ax=ax)
    assert ax.get_ylim() == (0.2, 0.9)


@pytest.mark.parametrize("value", [0, 1])
def test_all_right_and_all_wrong_are_visible(value):
    display = COCDisplay.from_cases(Cases.from_correctness([value] * 30, range(30)))
    low, high = display.ax_.get_ylim()
    assert set(display.line_.get_ydata()) == {value}
    assert low < value < high


def test_one_case_has_an_area_but_no_interval():
    display = COCDisplay.from_cases(
        Cases.from_correctness([1, 0], [0.3, 0.4], sample_weight=[1, 0])
    )
    assert display.aucoc == 1.0
    assert display.line_.get_label() == "AUCOC 1.000"
    assert COCDisplay.from_cases(Cases.from_correctness([1], [0.3]), name="one").aucoc == 1.0


def test_constructor_alone_draws_nothing_and_needs_no_area():
    curve = coc_curve(Cases.from_correctness(*model(20)))
    figures = plt.get_fignums()
    display = COCDisplay(expert_load=curve.expert_load, accuracy=curve.accuracy)
    assert plt.get_fignums() == figures
    display.plot()
    assert display.band_ is None
    assert display.ax_.get_legend() is None
    named = COCDisplay(expert_load=curve.expert_load, accuracy=curve.accuracy, aucoc=0.5, name="a")
    assert named.plot(name="b").line_.get_label() == "b: AUCOC 0.500"
    assert named.plot().line_.get_label() == "a: AUCOC 0.500"


@pytest.mark.parametrize(
    ("load", "accuracy", "error"),
    [
        ([], [], EmptyInputError),
        ([0, 0.5], [1], ShapeError),
        ([0, 0.5], [0.5, 1.5], ProbabilityError),
        ([0.1, 0.5], [0.5, 1], ParameterError),
        ([0, 0.5, 0.4], [0.5, 1, 1], ParameterError),
        ([0, 1], [0.5, 1], ParameterError),
    ],
)
def test_points_that_are_no_curve_are_refused(load, accuracy, error):
    with pytest.raises(error):
        COCDisplay(expert_load=load, accuracy=accuracy)


def test_axes_that_are_none_are_refused():
    with pytest.raises(ParameterError, match=r"'ax'"):
        COCDisplay.from_cases(Cases.from_correctness(*model()), ax="left")


# ------------------------------------------------------------------ operating points


@pytest.mark.slow
def test_an_operating_point_is_marked_where_it_is():
    case = model()
    point = operating_point.choose(Cases.from_correctness(*case), target_accuracy=0.9)
    display = COCDisplay.from_cases(Cases.from_correctness(*case), operating_points=[point])
    (marks,) = display.marks_
    assert marks.dot.get_xydata().tolist() == [[point.expert_load, point.accuracy]]
    assert marks.dot.get_color() == display.line_.get_color()
    assert marks.guide.get_xydata().tolist() == [
        [0, point.accuracy],
        [point.expert_load, point.accuracy],
        [point.expert_load, 0],
    ]
    text = f"{100 * point.accuracy:.1f} % accuracy at {100 * point.expert_load:.1f} % load"
    assert marks.label.get_text() == text


def test_delegating_everything_stands_on_the_axis():
    case = [0, 0, 1], [0.3, 0.4, 0.2]
    point = operating_point.at_threshold(Cases.from_correctness(*case), threshold=np.inf)
    assert point.accuracy is None
    display = COCDisplay.from_cases(Cases.from_correctness(*case)).mark(point)
    (marks,) = display.marks_
    assert marks.label.get_text() == "everything delegated"
    assert marks.dot.get_markerfacecolor() == "white"
    pixels = marks.dot.get_transform().transform(marks.dot.get_xydata())[0]
    np.testing.assert_allclose(pixels, display.ax_.transAxes.transform((1, 0)))


@pytest.mark.slow
@pytest.mark.parametrize("thresholds", [None, np.linspace(0, 0.95, 20)])
def test_all_that_is_certified_is_marked_along_the_curve_with_its_gaps(thresholds):
    rng = np.random.default_rng(5)
    confidence = rng.random(6000)
    dips = (confidence > 0.8) & (confidence < 0.85)
    case = rng.random(6000) < np.where(dips, 0.5, 0.99), confidence
    point = operating_point.certify(
        Cases.from_correctness(*case), target_accuracy=0.93, thresholds=thresholds
    )
    display = (
        COCDisplay.from_cases(Cases.from_correctness(*case))
        .mark(point)
        .mark(point.at(expert_load=0.9))
    )
    drawn = display.marks_[0].certified
    x, y = drawn.get_data()
    assert len(point.passed.ranges) == np.isnan(x).sum() == np.isnan(y).sum() == 2
    parts = np.split(np.arange(len(x)), np.flatnonzero(np.isnan(x)) + 1)[:-1]
    for rows, (low, high) in zip(parts, point.passed.ranges[::-1], strict=True):
        for row, threshold in ((rows[0], low), (rows[-2], high)):
            end = operating_point.at_threshold(Cases.from_correctness(*case), threshold=threshold)
            assert (x[row], y[row]) == pytest.approx((end.expert_load, end.accuracy), abs=1e-12)
    if thresholds is not None:  # nothing is promised between given thresholds
        assert (drawn.get_linewidth(), drawn.get_marker()) == (0, "o")
        assert np.isfinite(x).sum() == len(point.passed)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert sum(text.startswith("certified: ") for text in texts) == 1


def test_a_single_certified_threshold_is_a_dot():
    """A hundred right cases of one confidence pass; the others are wrong."""
    correct, confidence = np.repeat([1, 0], 100), np.repeat([0.9, 0.1], 100)
    point = operating_point.certify(
        Cases.from_correctness(correct, confidence), target_accuracy=0.9
    )
    assert point.passed.is_continuous
    assert len(point.passed) == 1
    drawn = (
        COCDisplay.from_cases(Cases.from_correctness(correct, confidence))
        .mark(point)
        .marks_[0]
        .certified
    )
    assert drawn.get_xydata()[drawn.get_markevery()].tolist() == [[0.5, 1.0]]


@pytest.mark.slow
def test_a_point_that_promises_nothing_marks_no_part_of_the_curve():
    chosen = operating_point.choose(Cases.from_correctness(*model()), target_accuracy=0.9)
    refused = operating_point.certify(Cases.from_correctness(*model(30)), target_accuracy=0.99)
    display = COCDisplay.from_cases(Cases.from_correctness(*model())).mark(chosen).mark(refused)
    assert [marks.certified for marks in display.marks_] == [None, None]


def test_mark_draws_the_curve_first_and_takes_a_label():
    curve = coc_curve(Cases.from_correctness(*model()))
    point = operating_point.choose(Cases.from_correctness(*model()), load_budget=0.3)
    display = COCDisplay(expert_load=curve.expert_load, accuracy=curve.accuracy)
    assert display.mark(point, label="ours") is display
    assert display.marks_[0].label.get_text() == "ours"
    assert_drawn(display.line_, curve)


def test_a_point_from_other_data_is_shown_too():
    point = operating_point.at_threshold(
        Cases.from_correctness([0, 0, 1], [0.1, 0.2, 0.3]), threshold=0
    )
    display = COCDisplay.from_cases(Cases.from_correctness(*model(5000))).mark(point)
    assert display.ax_.get_ylim()[0] < 1 / 3


@pytest.mark.slow
def test_labels_dots_and_legend_keep_clear_of_each_other():
    case = model(1000)
    targets = (0.85, 0.9, 0.93, 0.95, 0.97, 1.0)
    points = [
        operating_point.choose(Cases.from_correctness(*case), target_accuracy=target)
        for target in targets
    ]
    everything = operating_point.at_threshold(Cases.from_correctness(*case), threshold=np.inf)
    display = COCDisplay.from_cases(
        Cases.from_correctness(*case), name="m", operating_points=[*points, everything]
    )
    display.figure_.canvas.draw()
    boxes = [marks.label.get_window_extent() for marks in display.marks_]
    boxes.append(display.ax_.get_legend().get_window_extent())
    for k, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:k])
    dots = [m.dot.get_transform().transform(m.dot.get_xydata())[0] for m in display.marks_]
    assert not any(boxes[-1].contains(*dot) for dot in dots)
    x0, y0, x1, y1 = display.ax_.bbox.extents
    assert all(b.x0 >= x0 and b.x1 <= x1 and b.y0 >= y0 and b.y1 <= y1 for b in boxes)


@pytest.mark.slow
def test_a_legend_without_a_free_place_gets_room_below():
    _, ax = plt.subplots(figsize=(4, 3), layout="constrained")
    everything = operating_point.at_threshold(
        Cases.from_correctness([0, 1], [0, 1]), threshold=np.inf
    )
    for k in range(4):
        correct, confidence = model(400, seed=k)
        display = COCDisplay.from_cases(
            Cases.from_correctness(correct, np.where(correct, confidence, 1 - confidence)),
            name=f"model {k}",
            ax=ax,
        )
    before = ax.get_ylim()[0]
    display.mark(everything)
    assert ax.get_ylim()[0] < before
