from __future__ import annotations

import numpy as np
import pytest
from tests.calibrators.synthetic import clusters, log_loss
from tests.reference.calibrators import kernel_posterior

from expertload import exceptions
from expertload.calibrators import KCal
from expertload.calibrators import kcal as kernel
from expertload.metrics import expected_calibration_error


@pytest.fixture(scope="module")
def cases():
    return clusters(60, 3, seed=1)


@pytest.fixture(scope="module")
def new():
    return clusters(25, 3, seed=2)[0]


@pytest.mark.parametrize("prior", ["calibration", "uniform"])
def test_agrees_with_a_loop(cases, new, prior):
    features, target = cases
    weight = np.random.default_rng(0).random(60)
    fitted = KCal(bandwidth=0.8, prior=prior).fit(features, target, sample_weight=weight)
    expected = [
        kernel_posterior(x, features, target, 3, 0.8, weight, uniform=prior == "uniform")
        for x in new
    ]
    np.testing.assert_allclose(fitted.transform(new), expected, atol=1e-10)


def leave_one_out(features, target, bandwidth):
    ones = np.ones(len(target))
    return np.mean(
        [
            np.log(kernel_posterior(x, features, target, 3, bandwidth, ones, skip=i)[y])
            for i, (x, y) in enumerate(zip(features, target, strict=True))
        ]
    )


@pytest.mark.slow
def test_the_bandwidth_is_best_at_leaving_one_out(cases):
    chosen = KCal().fit(*cases).bandwidth_
    grid = chosen * np.geomspace(0.25, 4, 33)
    best = max(leave_one_out(*cases, bandwidth) for bandwidth in grid)
    assert leave_one_out(*cases, chosen) > best - 2e-3
    assert leave_one_out(*cases, chosen) > leave_one_out(*cases, 2 * chosen)
    assert leave_one_out(*cases, chosen) > leave_one_out(*cases, chosen / 2)


def test_blocks_do_not_change_the_answer(cases, new, monkeypatch):
    whole = KCal().fit(*cases)
    expected = whole.transform(new)
    monkeypatch.setattr(kernel, "BLOCK_BYTES", 7 * 8 * 60)
    blocked = KCal().fit(*cases)
    assert blocked.bandwidth_ == pytest.approx(whole.bandwidth_, rel=1e-12)
    np.testing.assert_allclose(blocked.transform(new), expected, rtol=1e-12)


def test_blocks_bound_the_memory():
    blocks = list(kernel._blocks(1_000_000, 50_000))
    assert blocks[0].stop * 50_000 * 8 <= kernel.BLOCK_BYTES
    assert blocks[-1].stop >= 1_000_000


def test_far_points_get_their_nearest_class(cases):
    features, target = cases
    fitted = KCal(bandwidth=1e-3).fit(features, target)
    far = features[5] + 1e-2
    nearest = target[((features - far) ** 2).sum(axis=1).argmin()]
    assert fitted.transform([far]).argmax() == nearest
    np.testing.assert_allclose(fitted.transform([[1e200, 0, 0]]).sum(), 1)


def test_a_matrix_projects(cases, new):
    matrix = np.random.default_rng(1).normal(size=(3, 2))
    fitted = KCal(bandwidth=0.5, projection=matrix).fit(*cases)
    plain = KCal(bandwidth=0.5).fit(cases[0] @ matrix, cases[1])
    np.testing.assert_allclose(fitted.transform(new), plain.transform(new @ matrix), atol=1e-10)
    restored = KCal.from_dict(fitted.to_dict())
    np.testing.assert_array_equal(restored.transform(new), fitted.transform(new))
    assert restored == fitted


def test_principal_components(cases, new):
    everything = KCal(bandwidth=0.5, projection="pca").fit(*cases)
    plain = KCal(bandwidth=0.5).fit(*cases)
    np.testing.assert_allclose(everything.transform(new), plain.transform(new), atol=1e-9)
    one = KCal(bandwidth=0.5, projection="pca", n_components=1).fit(*cases)
    assert one.axes_.shape == (3, 1)
    spread = (cases[0] - cases[0].mean(axis=0)) @ one.axes_
    largest = np.linalg.eigvalsh(np.cov(cases[0].T, bias=True))[-1]
    assert spread.var() == pytest.approx(largest)


def test_a_projection_that_does_not_fit(cases):
    with pytest.raises(exceptions.ShapeError, match="must have 4 columns"):
        KCal(projection=np.eye(4)).fit(*cases)


def test_the_number_of_classes(cases):
    features, target = cases
    assert KCal(bandwidth=1.0).fit(features, target).n_classes_ == 3
    assert KCal(bandwidth=1.0, n_classes=5).fit(features, target).n_classes_ == 5
    assert KCal(bandwidth=1.0).fit(features, target * 0).n_classes_ == 2
    names = np.array(["a", "b", "c", "d"])
    named = KCal(bandwidth=1.0).fit(features, names[target], labels=names)
    assert named.n_classes_ == 4
    assert named.transform(features)[:, 3].max() == 0
    assert KCal(bandwidth=1.0).fit(features, names[target]).n_classes_ == 3
    with pytest.raises(exceptions.LabelError, match="class numbers that start at 0"):
        KCal().fit(features, target + 10**9)


def test_no_two_cases_of_a_class():
    with pytest.raises(exceptions.InsufficientDataError, match="two cases of one class"):
        KCal().fit([[0.0], [1.0]], [0, 1])


def test_lonely_cases_are_not_asked(cases):
    features = np.vstack([cases[0], [[9.0, 9.0, 9.0]]])
    fitted = KCal().fit(features, np.append(cases[1], 3))
    assert fitted.n_classes_ == 4
    assert np.isfinite(fitted.bandwidth_)


def test_equal_features_have_every_bandwidth():
    fitted = KCal().fit(np.ones((5, 2)), [0, 0, 0, 1, 1])
    np.testing.assert_allclose(fitted.transform([[7.0, 0.0]]), [[0.6, 0.4]])


@pytest.mark.slow
def test_lowers_loss_and_error_of_a_careless_model():
    features, target = clusters(1500, 4, seed=3, n_features=2)
    new, truth = clusters(1500, 4, seed=4, n_features=2)
    after = KCal().fit(features, target).transform(new)
    # The nearest neighbour's class with 99 % confidence, as an over-confident model would say.
    nearest = KCal(bandwidth=1e-6).fit(features, target).transform(new)
    before = 0.99 * nearest + 0.01 / 4
    assert log_loss(truth, np.maximum(after, 1e-12)) < log_loss(truth, before) - 0.3
    assert expected_calibration_error(truth, after) < expected_calibration_error(truth, before) / 4
