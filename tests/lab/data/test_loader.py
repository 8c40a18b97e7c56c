"""The loader against a slow one that crops and mirrors image by image."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.lab.data.official_files import random_images
from tests.strategies import examples

from expertload.exceptions import ParameterError
from expertload.lab.data import Augmentation, Normalisation, Split
from expertload.lab.data.loader import BatchLoader

NORMALISATION = Normalisation((0.4, 0.5, 0.6), (0.2, 0.25, 0.3))
CROP_AND_FLIP = Augmentation(padding=2, flip=True)


def make_split(n=23, side=9):
    return Split(random_images(np.random.default_rng(0), n, side, side + 1, 3), np.arange(n))


def make_loader(n=23, **options):
    defaults = {"batch_size": 5, "normalisation": NORMALISATION, "shuffle": True}
    return BatchLoader(make_split(n), **defaults | options)


def test_without_augmentation_images_are_normalised_and_in_order():
    split = make_split()
    batches = list(make_loader(shuffle=False).epoch(0))
    images = torch.cat([batch.images for batch in batches])
    expected = (split.images / 255 - NORMALISATION.mean) / NORMALISATION.std
    assert images.dtype == torch.float32
    assert images.is_contiguous()
    assert images.numpy() == pytest.approx(expected.transpose(0, 3, 1, 2), abs=1e-5)
    assert torch.cat([batch.labels for batch in batches]).tolist() == list(range(23))
    assert [len(batch.labels) for batch in batches] == [5, 5, 5, 5, 3]


def test_each_epoch_has_its_own_order_and_every_image_once():
    loader = make_loader()
    orders = [torch.cat([b.indices for b in loader.epoch(e)]).tolist() for e in (0, 1, 0)]
    assert orders[0] == orders[2] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(23))
    assert orders[0] != [*range(23)]
    other = torch.cat([b.indices for b in make_loader(seed=1).epoch(0)]).tolist()
    assert other != orders[0]


def test_labels_go_with_their_images():
    for batch in make_loader().epoch(3):
        assert batch.labels.tolist() == batch.indices.tolist()


def test_dropping_the_last_batch():
    assert len(make_loader()) == 5
    loader = make_loader(drop_last=True)
    assert len(loader) == len(list(loader.epoch(0))) == 4
    assert len(make_loader(n=20, drop_last=True)) == len(make_loader(n=20)) == 4


def slow_views(image, padding, *, flip):
    """Every picture that augmentation may make of one image."""
    height, width, _ = image.shape
    framed = np.pad(image, ((padding, padding), (padding, padding), (0, 0)))
    views = [
        framed[top : top + height, left : left + width]
        for top in range(2 * padding + 1)
        for left in range(2 * padding + 1)
    ]
    return views + [view[:, ::-1] for view in views] if flip else views


@pytest.mark.parametrize("flip", [True, False])
@pytest.mark.parametrize("padding", [0, 2])
def test_augmentation_makes_every_view_and_no_other(padding, flip):
    image = random_images(np.random.default_rng(1), 1, 5, 6, 1)
    split = Split(np.repeat(image, 3000, axis=0), np.zeros(3000, np.int64))
    plain = Normalisation((0.0,), (1 / 255,))  # leaves the bytes as they are
    augmentation = Augmentation(padding=padding, flip=flip)
    loader = BatchLoader(split, batch_size=3000, normalisation=plain, augmentation=augmentation)
    (batch,) = loader.epoch(0)
    seen = np.rint(batch.images.numpy()).astype(np.uint8)[:, 0]
    counts = {view[..., 0].tobytes(): 0 for view in slow_views(image[0], padding, flip=flip)}
    for picture in seen:
        counts[picture.tobytes()] += 1
    expected = 3000 / len(counts)
    assert len(counts) == (2 * padding + 1) ** 2 * (2 if flip else 1)
    assert all(abs(n - expected) < 5 * expected**0.5 for n in counts.values())


def test_augmentation_differs_between_batches_and_epochs():
    split = Split(np.repeat(make_split(1).images, 10, axis=0), np.zeros(10, np.int64))
    loader = BatchLoader(
        split, batch_size=5, normalisation=NORMALISATION, augmentation=CROP_AND_FLIP
    )
    first, second = (batch.images for batch in loader.epoch(0))
    assert not torch.equal(first, second)
    assert not torch.equal(first, next(loader.epoch(1)).images)
    assert torch.equal(first, next(loader.epoch(0)).images)


def test_a_run_goes_on_from_any_epoch():
    before = make_loader(augmentation=CROP_AND_FLIP)
    epochs = [list(before.epoch(epoch)) for epoch in range(3)]
    again = make_loader(augmentation=CROP_AND_FLIP).epoch(2)
    for ours, expected in zip(again, epochs[2], strict=True):
        assert torch.equal(ours.images, expected.images)
        assert torch.equal(ours.indices, expected.indices)


@examples(40)
@given(
    n=st.integers(1, 40),
    batch_size=st.integers(1, 12),
    world_size=st.integers(1, 5),
    drop_last=st.booleans(),
)
def test_ranks_together_see_what_one_sees_alone(n, batch_size, world_size, drop_last):
    options = {
        "batch_size": batch_size,
        "augmentation": CROP_AND_FLIP,
        "drop_last": drop_last,
        "seed": 7,
    }
    alone = list(make_loader(n, **options).epoch(1))
    ranks = [
        list(make_loader(n, rank=rank, world_size=world_size, **options).epoch(1))
        for rank in range(world_size)
    ]
    assert {len(batches) for batches in ranks} == {len(alone)}
    for whole, *shares in zip(alone, *ranks, strict=True):
        assert torch.equal(torch.cat([share.images for share in shares]), whole.images)
        assert torch.equal(torch.cat([share.labels for share in shares]), whole.labels)
        sizes = [len(share.labels) for share in shares]
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"batch_size": 2.5}, {"seed": -3}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ParameterError):
        make_loader(**options)


def test_an_empty_split_has_no_batches():
    loader = BatchLoader(make_split().nothing(), batch_size=4, normalisation=NORMALISATION)
    assert len(loader) == 0
    assert list(loader.epoch(0)) == []


def test_arrays_that_may_not_be_written_are_served():
    split = make_split(5)
    split.images.setflags(write=False)
    split.labels.setflags(write=False)
    (batch,) = BatchLoader(split, batch_size=5, normalisation=NORMALISATION).epoch(0)
    assert batch.labels.tolist() == [0, 1, 2, 3, 4]
