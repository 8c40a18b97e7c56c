import numpy as np
from sklearn.datasets import load_digits

from expertload.lab.data import load_dataset
from expertload.lab.data.classics import degrade


def test_the_clean_digits_are_scikit_learns():
    dataset = load_dataset("digits-clean")
    parts = (dataset.train, dataset.validation, dataset.test)
    ours = sorted(image.tobytes() for part in parts for image in part.images)
    theirs = np.rint(load_digits().images * 255 / 16).astype(np.uint8)
    assert ours == sorted(image.tobytes() for image in theirs)


def test_split_and_degradation_belong_to_the_seed():
    first, again, other = (load_dataset("digits", seed=seed).train for seed in (0, 0, 1))
    assert (first.images == again.images).all()
    assert not np.array_equal(first.images, other.images)


def test_degrees_run_from_untouched_to_heavily_damaged():
    images = np.full((2000, 8, 8, 1), 255, np.uint8)
    damage = np.abs(255.0 - degrade(images)).mean(axis=(1, 2, 3))
    assert np.quantile(damage, 0.05) < 10
    assert np.quantile(damage, 0.95) > 80
    covered = (degrade(images)[..., 0] == 0).sum(axis=(1, 2))
    assert set(covered[covered < 12]) >= {0, 1, 4, 9}  # sides of 0, 1, 2 and 3 pixels


def test_every_class_is_in_every_split():
    dataset = load_dataset("digits")
    for part in (dataset.train, dataset.validation, dataset.test):
        assert np.bincount(part.labels, minlength=10).min() >= 28
