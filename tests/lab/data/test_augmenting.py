"""Augmentation against plain loops over single images, and what it leaves alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.lab.data.official_files import random_images
from tests.strategies import examples

from expertload.exceptions import ParameterError
from expertload.lab.data import Augmentation, Normalisation, Split
from expertload.lab.data.files import read_entries
from expertload.lab.data.loader import BatchLoader, draw, move_pixels

EVERYTHING = Augmentation(padding=2, symmetries=True, reflect=True)


def chances_of(how, n=12, seed=0):
    return draw(how, n, torch.Generator().manual_seed(seed))


def one(chances, number):
    return {name: value[number].numpy() for name, value in chances._asdict().items()}


def moved_slowly(image, padding, chance, mode="constant"):
    """One image, (height, width, channels): frame, cut, mirror, upend, transpose."""
    height, width, _ = image.shape
    framed = np.pad(image, ((padding, padding), (padding, padding), (0, 0)), mode=mode)
    top, left = int(chance["top"]), int(chance["left"])
    piece = framed[top : top + height, left : left + width]
    if chance["mirrored"]:
        piece = piece[:, ::-1]
    if chance["upended"]:
        piece = piece[::-1]
    return piece.transpose(1, 0, 2) if chance["transposed"] else piece


@examples(40)
@given(
    padding=st.integers(0, 9),  # wider than the image, too
    flip=st.booleans(),
    flip_vertical=st.booleans(),
    symmetries=st.booleans(),
    reflect=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_pixels_move_as_in_a_loop(padding, flip, flip_vertical, symmetries, reflect, seed):
    how = Augmentation(
        padding=padding, flip=flip, flip_vertical=flip_vertical, symmetries=symmetries
    )
    images = random_images(np.random.default_rng(seed), 12, 7, 7 if symmetries else 5, 3)
    chances = chances_of(how, seed=seed)
    moved = move_pixels(torch.from_numpy(images), chances, padding=padding, reflect=reflect)
    for number, image in enumerate(images):
        mode = "reflect" if reflect else "constant"
        expected = moved_slowly(image, padding, one(chances, number), mode)
        np.testing.assert_array_equal(moved[number].numpy(), expected)


def test_the_eight_symmetries_are_all_as_likely():
    image = np.arange(9, dtype=np.uint8).reshape(1, 3, 3, 1)
    turns = [np.rot90(image[0], k) for k in range(4)]
    views = {view.tobytes() for turn in turns for view in (turn, turn[:, ::-1])}
    assert len(views) == 8
    n = 8000
    chances = chances_of(Augmentation(symmetries=True), n=n)
    moved = move_pixels(torch.from_numpy(np.repeat(image, n, axis=0)), chances).numpy()
    seen = [picture.tobytes() for picture in moved]
    assert set(seen) == views
    assert all(abs(seen.count(view) - n / 8) < 5 * math.sqrt(n / 8) for view in views)


def test_oblong_images_have_no_eight_symmetries():
    images = torch.zeros(12, 4, 6, 1, dtype=torch.uint8)
    with pytest.raises(ParameterError, match=r"must be square.* Got 4 x 6.*flip_vertical"):
        move_pixels(images, chances_of(Augmentation(symmetries=True)))


def test_what_is_not_asked_for_does_not_happen():
    images = random_images(np.random.default_rng(0), 12, 5, 5, 3)
    chances = chances_of(Augmentation())
    bytes_ = torch.from_numpy(images)
    assert move_pixels(bytes_, chances) is bytes_


def loader_of(split, **options):
    plain = Normalisation((0.0,) * 3, (1 / 255,) * 3)
    how = options.pop("augmentation", EVERYTHING)
    return BatchLoader(
        split, normalisation=plain, augmentation=how, batch_size=8, shuffle=True, **options
    )


@pytest.fixture
def split():
    rng = np.random.default_rng(3)
    return Split(random_images(rng, 21, 6, 6, 3), rng.integers(0, 4, 21))


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_together_see_what_one_sees_alone_to_the_bit(split, world_size):
    alone = list(loader_of(split).epoch(2))
    ranks = [
        list(loader_of(split, rank=rank, world_size=world_size).epoch(2))
        for rank in range(world_size)
    ]
    for whole, *shares in zip(alone, *ranks, strict=True):
        assert torch.equal(torch.cat([share.images for share in shares]), whole.images)


def test_an_epoch_that_is_served_again_is_the_same_to_the_bit(split):
    first, again = (list(loader_of(split).epoch(5)) for _ in range(2))
    for ours, theirs in zip(first, again, strict=True):
        assert torch.equal(ours.images, theirs.images)


def test_frames_and_mirror_images_are_those_of_earlier_versions(split):
    """Runs that were begun before the other changes were there go on to the same result."""
    how = Augmentation(padding=2, flip=True)
    generator = torch.Generator().manual_seed(5)
    places = torch.randint(0, 5, (2, 21), generator=generator)
    mirrored = torch.rand(21, generator=generator) < 0.5
    chances = draw(how, 21, torch.Generator().manual_seed(5))
    assert torch.equal(chances.top, places[0])
    assert torch.equal(chances.left, places[1])
    assert torch.equal(chances.mirrored, mirrored)


def test_left_and_right_stay_where_they_are_classes():
    entries = read_entries()
    sided = [known for known in entries.values() if "left lung" in known.classes]
    assert len(sided) == 3
    for known in sided:
        assert not known.augmentation.flip, known.name
        assert not known.augmentation.symmetries, known.name
    assert entries["dermamnist"].augmentation.symmetries
