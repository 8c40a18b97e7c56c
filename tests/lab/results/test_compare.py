from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import ttest_1samp, ttest_rel
from tests.lab.synthetic_runs import make_config, write_run

from expertload import Cases, aucoc_score
from expertload.exceptions import ParameterError
from expertload.lab.results.compare import compare_runs
from expertload.lab.runs.folder import RunFolder
from expertload.metrics import expected_calibration_error
from expertload.significance import aucoc_paired_test, permutation_test


@pytest.fixture(scope="module")
def groups(tmp_path_factory):
    """Two losses with four seeds each, the second clearly better."""
    place = tmp_path_factory.mktemp("runs")
    return {
        loss: [
            write_run(place, make_config(loss, seed=seed, weight=weight), skill=skill)
            for seed in range(4)
        ]
        for loss, weight, skill in (("ce", None, 1.0), ("ce+aucoc", 2.0, 1.6))
    }


def predictions(folder):
    logits, labels = RunFolder(folder).read_logits("test")
    return labels, softmax(logits.astype(np.float64), axis=1)


def test_two_runs_are_compared_by_the_tests_of_the_core(groups):
    a, b = groups["ce+aucoc"][0], groups["ce"][0]
    result = compare_runs(a, b, n_rounds=200, confidence_level=0.9)
    labels, first = predictions(a)
    _, second = predictions(b)
    assert result.values == (aucoc_score(labels, first), aucoc_score(labels, second))
    assert result.closed_form == aucoc_paired_test(
        Cases.from_predictions(labels, first),
        Cases.from_predictions(labels, second),
        confidence_level=0.9,
    )
    assert result.permutation == permutation_test(
        Cases.from_predictions(labels, first),
        Cases.from_predictions(labels, second),
        n_rounds=200,
        random_state=0,
    )
    assert result.by_seed is None
    assert result.difference == pytest.approx(result.closed_form.difference)


@pytest.mark.parametrize("number", ["aucoc", "ece", "load@90"])
def test_runs_without_the_first_class_are_compared(tmp_path, number):
    sides = [
        [
            write_run(tmp_path, make_config(loss, seed=seed, weight=weight), skill=skill, first=1)
            for seed in (0, 1)
        ]
        for loss, weight, skill in (("ce+aucoc", 2.0, 1.6), ("ce", None, 1.0))
    ]
    result = compare_runs(*sides, number=number, n_rounds=20)
    assert result.difference == pytest.approx(result.permutation.difference, abs=1e-12)
    assert result.by_seed.differences[0] != 0
    if number == "aucoc":
        assert result.difference == pytest.approx(result.closed_form.difference, abs=1e-12)


def test_groups_are_compared_as_ensembles_and_seed_by_seed(groups):
    result = compare_runs(groups["ce+aucoc"], groups["ce"], n_rounds=100)
    both = {
        loss: [predictions(folder)[1] for folder in folders] for loss, folders in groups.items()
    }
    labels, _ = predictions(groups["ce"][0])
    means = [np.mean(both[loss], axis=0) for loss in ("ce+aucoc", "ce")]
    expected = aucoc_paired_test(*[Cases.from_predictions(labels, each) for each in means])
    assert result.closed_form.difference == pytest.approx(expected.difference)
    assert result.closed_form.p_value == pytest.approx(expected.p_value)
    scores = {loss: [aucoc_score(labels, p) for p in proba] for loss, proba in both.items()}
    by_seed = result.by_seed
    assert by_seed.seeds == (0, 1, 2, 3)
    assert by_seed.differences == pytest.approx(np.subtract(scores["ce+aucoc"], scores["ce"]))
    scipy = ttest_rel(scores["ce+aucoc"], scores["ce"])
    assert by_seed.mean.p_value == pytest.approx(scipy.pvalue)
    interval = ttest_1samp(by_seed.differences, 0).confidence_interval(0.95)
    assert (by_seed.mean.low, by_seed.mean.high) == pytest.approx(tuple(interval))


def test_the_order_of_runs_does_not_matter(groups):
    straight = compare_runs(groups["ce+aucoc"], groups["ce"], n_rounds=10)
    shuffled = compare_runs(groups["ce+aucoc"][::-1], groups["ce"], n_rounds=10)
    assert shuffled.by_seed == straight.by_seed
    assert shuffled.closed_form.p_value == pytest.approx(straight.closed_form.p_value)


def test_exchanging_the_sides_changes_the_sign(groups):
    ab = compare_runs(groups["ce+aucoc"], groups["ce"], n_rounds=10)
    ba = compare_runs(groups["ce"], groups["ce+aucoc"], n_rounds=10)
    assert ab.difference == pytest.approx(-ba.difference)
    assert ab.by_seed.mean.p_value == pytest.approx(ba.by_seed.mean.p_value)


def test_an_ensemble_against_a_single_run(groups):
    result = compare_runs(groups["ce"], groups["ce+aucoc"][0], n_rounds=10)
    assert result.n_runs == (4, 1)
    assert result.by_seed is None


def test_other_seeds_are_not_paired(groups, tmp_path):
    others = [write_run(tmp_path, make_config("focal", seed=seed)) for seed in (7, 8, 9, 10)]
    assert compare_runs(groups["ce"], others, n_rounds=10).by_seed is None


def test_two_candidates_with_one_seed_are_not_paired(groups, tmp_path):
    twins = [write_run(tmp_path, make_config("ce+aucoc", weight=w, seed=0)) for w in (1.0, 3.0)]
    pair = [write_run(tmp_path, make_config("focal", seed=s)) for s in (0, 1)]
    assert compare_runs(twins, pair, n_rounds=10).by_seed is None
    assert compare_runs(pair, [twins[0], groups["ce"][0]], n_rounds=10).by_seed is None


def test_other_numbers_are_compared_by_permutation(groups):
    a, b = groups["ce+aucoc"][0], groups["ce"][0]
    result = compare_runs(a, b, number="ece", n_rounds=50)
    labels, first = predictions(a)
    _, second = predictions(b)
    assert result.closed_form is None
    assert result.values[0] == expected_calibration_error(labels, first)
    assert result.permutation == permutation_test(
        Cases.from_predictions(labels, first),
        Cases.from_predictions(labels, second),
        metric=expected_calibration_error,
        n_rounds=50,
        random_state=0,
    )
    load = compare_runs(a, b, number="load@80", n_rounds=10)
    assert load.difference < 0


# ------------------------------------------------------------------ words


def test_a_clear_difference_in_words(groups):
    text = str(compare_runs(groups["ce+aucoc"], groups["ce"], n_rounds=200))
    assert text.startswith("AUCOC on 300 test cases: ce+aucoc (weight 2) (ensemble of 4 runs)")
    assert "Closed form: difference" in text
    assert "(ensemble of 4 runs) is better, beyond what the choice of test cases explains" in text
    assert "Over 4 seeds: mean difference" in text
    assert "ce+aucoc (weight 2) is better, beyond what the choice of seeds explains" in text


def test_lower_is_better_for_loads(groups):
    text = str(compare_runs(groups["ce"][0], groups["ce+aucoc"][0], number="load@80", n_rounds=200))
    assert "ce+aucoc (weight 2) is better" in text


def test_no_difference_in_words(groups):
    text = str(compare_runs(groups["ce"][0], groups["ce"][1], n_rounds=100))
    assert "The choice of test cases alone could explain the difference" in text
    assert "seeds" not in text


def test_runs_that_agree_in_everything(tmp_path):
    a = [write_run(tmp_path, make_config("ce", seed=seed)) for seed in (0, 1)]
    # The same logits under another setting that does not enter the draws.
    b = [write_run(tmp_path, make_config("ce", seed=seed, epochs=3)) for seed in (0, 1)]
    result = compare_runs(a, b, n_rounds=10)
    assert result.by_seed.differences == (0.0, 0.0)
    assert result.by_seed.mean.p_value == 1.0
    assert result.permutation.p_value == 1.0


def test_a_difference_without_spread_is_certain():
    from expertload.lab.results.compare import mean_difference

    assert mean_difference([0.25, 0.25, 0.25]).p_value == 0.0


# ------------------------------------------------------------------ refusals


def test_different_data_are_refused(groups, tmp_path):
    other = write_run(tmp_path, make_config(data={"name": "svhn"}))
    with pytest.raises(ParameterError, match="of the same data"):
        compare_runs(groups["ce"], other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"number": "f1"}, "no number 'f1'"),
        ({"number": "auroc"}, "which needs outliers"),
        ({"confidence_level": 95}, r"pass 0.95 for 95 %"),
        ({"n_rounds": 0}, "'n_rounds'"),
    ],
)
def test_bad_options_are_refused_in_words(groups, options, message):
    with pytest.raises(ParameterError, match=message):
        compare_runs(groups["ce"][0], groups["ce+aucoc"][0], **options)
