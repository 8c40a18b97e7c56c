from __future__ import annotations

import numpy as np
import pytest

from expertload.calibrators import KCal, load_calibrator
from expertload.calibrators import kcal as module
from expertload.exceptions import InsufficientDataError
from expertload.metrics import log_loss


def two_classes(n, seed, noise=20.0):
    """The class shows in one feature; three others vary far more and say nothing."""
    rng = np.random.default_rng(seed)
    target = rng.integers(0, 2, n)
    told = 2.0 * target + rng.normal(0, 1, n)
    return np.column_stack([told, rng.normal(0, noise, (n, 3))]), target


def plain_loss(axes, features, target, weight):
    """The definition, case by case."""
    z = features @ axes
    total, mass = 0.0, 0.0
    for i in range(len(z)):
        others = [j for j in range(len(z)) if j != i]
        kernel = {j: weight[j] * np.exp(-np.sum((z[i] - z[j]) ** 2) / 2) for j in others}
        own = sum(k for j, k in kernel.items() if target[j] == target[i])
        if any(target[j] == target[i] for j in others):
            total -= weight[i] * np.log(own / sum(kernel.values()))
            mass += weight[i]
    return total / mass


def small_case():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(12, 3))
    target = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2])  # class 2 has no company
    return rng.normal(size=(3, 2)), features, target, rng.uniform(0.5, 2, 12)


def test_loss_equals_the_definition():
    loss, _ = module.loss_and_gradient(*small_case())
    assert loss == pytest.approx(plain_loss(*small_case()), rel=1e-10)


def test_gradient_equals_finite_differences():
    axes, *rest = small_case()
    _, gradient = module.loss_and_gradient(axes, *rest)
    step = 1e-6
    for index in np.ndindex(*axes.shape):
        nudge = np.zeros_like(axes)
        nudge[index] = step
        above, below = (module.loss_and_gradient(axes + sign * nudge, *rest)[0] for sign in (1, -1))
        assert gradient[index] == pytest.approx((above - below) / (2 * step), abs=1e-6)


@pytest.mark.slow
def test_it_finds_the_feature_that_tells():
    """Variance points at the noise; labels point at the signal."""
    calibration, fresh = two_classes(400, seed=0), two_classes(1000, seed=1)
    loss = {
        projection: log_loss(
            fresh[1],
            KCal(projection=projection, n_components=1).fit(*calibration).transform(fresh[0]),
        )
        for projection in ("pca", "learned")
    }
    assert loss["pca"] > 0.65
    assert loss["learned"] < 0.5


@pytest.mark.slow
def test_more_cases_than_pairs_can_be_looked_at(monkeypatch):
    monkeypatch.setattr(module, "MOST_CASES", 150)
    features, target = two_classes(600, seed=0)
    order = np.random.default_rng(0).permutation(600)
    one = KCal(projection="learned", n_components=2).fit(features, target)
    other = KCal(projection="learned", n_components=2).fit(features[order], target[order])
    np.testing.assert_allclose(
        one.transform(features[:20]), other.transform(features[:20]), atol=1e-4
    )


def test_saved_and_loaded(tmp_path):
    features, target = two_classes(60, seed=0)
    fitted = KCal(projection="learned", n_components=2).fit(features, target)
    fitted.save(tmp_path / "kcal.json")
    loaded = load_calibrator(tmp_path / "kcal.json")
    np.testing.assert_array_equal(loaded.transform(features), fitted.transform(features))


def test_no_company_is_refused():
    with pytest.raises(InsufficientDataError, match="two cases of one class"):
        KCal(projection="learned").fit([[0.0], [1.0]], [0, 1])
