"""What is trained for a ladder, and what data are refused or remarked on."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from expertload.exceptions import InsufficientDataError, ParameterError
from expertload.lab.data import Augmentation, load_dataset
from expertload.lab.ladder.lowering import look_at, make_plan


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_data_that_lack_a_split_are_refused(digits, split):
    lacking = dataclasses.replace(digits, **{split: getattr(digits, split).nothing()})
    name = "training" if split == "train" else split
    with pytest.raises(InsufficientDataError, match=f"at least .* {name} image.* Got 0"):
        look_at(lacking)


def test_too_few_to_measure_or_to_tell_apart_are_refused_before_training(digits):
    three = dataclasses.replace(digits, test=digits.test.take(np.arange(3)))
    with pytest.raises(InsufficientDataError, match="at least 4 test image.* to measure.* Got 3"):
        look_at(three)
    with pytest.raises(InsufficientDataError, match="at least two classes. Got one"):
        look_at(dataclasses.replace(digits, class_names=("digit",)))


def test_a_missing_class_is_remarked_on(digits):
    others = np.flatnonzero(digits.validation.labels != 3)
    lacking = dataclasses.replace(digits, validation=digits.validation.take(others))
    assert look_at(lacking) == ["No validation image belongs to the class '3'."]


def test_arms_differ_in_augmentation_alone(digits):
    plan = make_plan(digits)
    plain, augmented = (recipe.model_dump() for recipe in (plan.plain, plan.augmented))
    assert plain["data"].pop("augment") is False
    assert augmented["data"].pop("augment")["padding"] == 1
    assert plain == augmented


def test_nothing_but_small_shifts_for_data_that_nobody_knows(digits):
    own = dataclasses.replace(digits, augmentation=Augmentation())
    assert make_plan(own).augmentation == "shifts by up to 1 pixel"


def test_augmentation_can_be_chosen_or_left_out(digits):
    chosen = make_plan(digits, settings=["data.augment={flip=true, symmetries=true}"])
    assert chosen.augmentation == "mirror images, the eight symmetries"
    assert make_plan(digits, settings=["data.augment=false"]).augmented is None


def test_a_wrong_setting_is_named(digits):
    with pytest.raises(ParameterError, match="no key 'training.epoch'"):
        make_plan(digits, settings=["training.epoch=3"])
