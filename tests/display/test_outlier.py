import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.metrics import roc_curve

from expertload.display import OutlierDisplay
from expertload.exceptions import InsufficientDataError, ParameterError
from expertload.metrics import fpr_at_tpr_error, outlier_auroc_score


def scores(n=400, seed=0):
    rng = np.random.default_rng(seed)
    score = np.concatenate([rng.normal(0, 1, n), rng.normal(2, 1, n)]).round(1)
    return np.repeat([0, 1], n), score


def test_draws_the_curve_that_scikit_learn_computes():
    flags, score = scores()
    weight = np.random.default_rng(1).exponential(size=len(flags))
    display = OutlierDisplay.from_scores(flags, score, sample_weight=weight)
    false, true, _ = roc_curve(flags, score, sample_weight=weight, drop_intermediate=False)
    np.testing.assert_allclose(display.line_.get_xdata(), false, atol=1e-12)
    np.testing.assert_allclose(display.line_.get_ydata(), true, atol=1e-12)
    assert display.auroc == outlier_auroc_score(flags, score, sample_weight=weight)


@pytest.mark.slow
@pytest.mark.parametrize("positive", ["outlier", "inlier"])
@pytest.mark.parametrize("tpr", [0.8, 0.95, 1.0])
def test_marks_the_false_positive_rate(positive, tpr):
    flags, score = scores()
    display = OutlierDisplay.from_scores(flags, score, tpr=tpr, positive=positive, name="energy")
    expected = fpr_at_tpr_error(flags, score, tpr=tpr, positive=positive)
    assert display.fpr_at_tpr == pytest.approx(expected)
    x, y = display.mark_.dot.get_xydata()[0]
    assert x == display.fpr_at_tpr
    assert y >= tpr
    assert display.mark_.label.get_text().endswith(f" at {100 * tpr:g} % TPR")
    assert display.line_.get_label() == f"energy: AUROC {display.auroc:.3f}"
    found, flagged = (
        (1, score >= display.threshold)
        if positive == "outlier"
        else (0, score <= display.threshold)
    )
    assert flagged[flags == found].mean() == pytest.approx(y)
    assert flagged[flags != found].mean() == pytest.approx(x)
    assert f"{positive}s" in display.ax_.get_ylabel()


def test_histograms_hold_each_group():
    flags, score = scores()
    display = OutlierDisplay.from_scores(flags, score)
    edges, inlier, outlier = display.histogram
    assert inlier.sum() == pytest.approx(1)
    assert outlier.sum() == pytest.approx(1)
    assert (edges[0], edges[-1]) == (score.min(), score.max())
    labels = [text.get_text() for text in display.scores_ax_.get_legend().get_texts()]
    assert labels == ["inliers", "outliers", "95 % of outliers above"]


def test_a_few_extremes_do_not_squeeze_all_others():
    flags, score = scores(2000)
    score[0] = 1e9
    edges, inlier, _ = OutlierDisplay.from_scores(flags, score).histogram
    assert edges[-1] < 10
    assert inlier.sum() == pytest.approx(1, abs=0.002)


def test_equal_scores_know_nothing():
    display = OutlierDisplay.from_scores([0, 1, 1], [2, 2, 2])
    assert display.auroc == 0.5
    assert display.fpr_at_tpr == 1
    assert display.line_.get_xydata().tolist() == [[0, 0], [1, 1]]


def test_long_curves_are_thinned():
    rng = np.random.default_rng(0)
    flags = rng.integers(0, 2, 50_000)
    display = OutlierDisplay.from_scores(flags, rng.normal(flags, 1))
    assert len(display.false_positive_rate) > 49_000
    x, y = display.line_.get_data()
    assert len(x) < 5000
    assert np.trapezoid(y, x) == pytest.approx(display.auroc, abs=1e-4)


def test_one_axes_gets_the_curves_of_several_scores():
    _, ax = plt.subplots()
    first = OutlierDisplay.from_scores(*scores(), name="a", ax=ax)
    second = OutlierDisplay.from_scores(*scores(seed=1), name="b", ax=ax)
    assert first.ax_ is second.ax_ is ax
    assert first.scores_ax_ is None
    assert first.line_.get_color() != second.line_.get_color()
    assert len(ax.get_legend().get_texts()) == 2


def test_two_axes_get_histograms_and_curve():
    _, pair = plt.subplots(1, 2)
    display = OutlierDisplay.from_scores(*scores(), ax=pair)
    assert (display.scores_ax_, display.ax_) == tuple(pair)
    assert display.figure_ is pair[0].figure


def test_a_display_is_drawn_again_under_another_name():
    display = OutlierDisplay(*scores())
    assert display.plot(name="mine").line_.get_label() == f"mine: AUROC {display.auroc:.3f}"


def test_bad_input_is_refused_in_words():
    with pytest.raises(InsufficientDataError, match="outliers"):
        OutlierDisplay.from_scores([1, 1], [0.1, 0.2])
    with pytest.raises(ParameterError, match="'positive'"):
        OutlierDisplay.from_scores([0, 1], [0.1, 0.2], positive="both")
