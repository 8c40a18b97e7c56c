"""`data.train_images`: fewer training images, each class in proportion, the other splits whole."""

from __future__ import annotations

import numpy as np
import pytest

from expertload.exceptions import ParameterError
from expertload.lab.runs.origin import load_run_data
from expertload.lab.runs.recipe import DataConfig


def test_classes_keep_their_shares_and_other_splits_stay():
    whole = load_run_data(DataConfig(name="digits"))
    fewer = load_run_data(DataConfig(name="digits", train_images=200))
    assert len(fewer.train) == 200
    wanted = np.bincount(whole.train.labels) * 200 / len(whole.train)
    assert np.abs(np.bincount(fewer.train.labels) - wanted).max() < 1
    assert len(fewer.validation) == len(whole.validation)
    assert len(fewer.test) == len(whole.test)


def test_a_seed_is_a_choice_of_images():
    first, second = (
        load_run_data(DataConfig(name="digits", train_images=200, split_seed=seed))
        for seed in (0, 1)
    )
    again = load_run_data(DataConfig(name="digits", train_images=200))
    assert np.array_equal(first.train.images, again.train.images)
    assert not np.array_equal(first.train.images, second.train.images)


def test_more_than_there_are_is_refused():
    with pytest.raises(
        ParameterError, match="must be at most 997, the number of training images of digits"
    ):
        load_run_data(DataConfig(name="digits", train_images=998))
