import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from expertload.exceptions import ShapeError
from expertload.lab.data import Augmentation, Dataset, Normalisation, Split


def make_split(n=4):
    return Split(np.zeros((n, 8, 6, 1), np.uint8), np.arange(n))


def test_a_split_knows_its_length_and_takes_rows():
    split = make_split()
    assert len(split) == 4
    assert split.take(np.array([3, 1])).labels.tolist() == [3, 1]
    assert len(split.nothing()) == 0
    assert split.nothing().images.shape == (0, 8, 6, 1)


@pytest.mark.parametrize(
    ("images", "labels"),
    [
        (np.zeros((2, 8, 8, 1), np.float32), np.zeros(2, np.int64)),
        (np.zeros((2, 8, 8), np.uint8), np.zeros(2, np.int64)),
        (np.zeros((2, 8, 8, 1), np.uint8), np.zeros(2, np.int32)),
        (np.zeros((2, 8, 8, 1), np.uint8), np.zeros((2, 1), np.int64)),
        (np.zeros((2, 8, 8, 1), np.uint8), np.zeros(3, np.int64)),
    ],
)
def test_a_split_refuses_arrays_of_the_wrong_kind(images, labels):
    with pytest.raises(ShapeError):
        Split(images, labels)


@given(arrays(np.uint8, (3, 4, 5, 2), elements=st.integers(0, 255)))
def test_measured_normalisation_is_the_mean_and_standard_deviation(images):
    measured = Normalisation.measured(images)
    scaled = images / 255
    assert measured.mean == pytest.approx(scaled.mean(axis=(0, 1, 2)))
    spread = np.maximum(scaled.std(axis=(0, 1, 2)), 1 / 255)  # constant channels stay finite
    assert measured.std == pytest.approx(spread)


def make_dataset(train, validation, test):
    plain = Normalisation((0.5,), (0.5,))
    names = tuple("abcd")
    return Dataset("mine", names, train, validation, test, plain, Augmentation(), "nowhere")


def test_a_checksum_tells_other_data_of_the_same_name():
    split, longer = make_split(), make_split(5)
    other_pixel, other_label = make_split(), make_split()
    other_pixel.images[3, 7, 5, 0] = 1
    other_label.labels[3] = 0
    turned = Split(split.images.transpose(0, 2, 1, 3), split.labels)
    known = make_dataset(split, split, longer).checksum()
    assert known == make_dataset(make_split(), make_split(), make_split(5)).checksum()
    changed = [
        make_dataset(other_pixel, split, longer),
        make_dataset(split, other_label, longer),
        make_dataset(split, split, turned),
        make_dataset(split, longer, split),
        make_dataset(split, split.nothing(), longer),
    ]
    sums = {dataset.checksum() for dataset in changed}
    assert len(sums) == len(changed)
    assert known not in sums


def test_a_checksum_does_not_depend_on_the_layout_in_memory():
    images = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4, 1)
    plain, fancy = (Split(order(images), np.arange(2)) for order in (np.array, np.asfortranarray))
    empty = plain.nothing()
    sums = {make_dataset(split, empty, empty).checksum() for split in (plain, fancy)}
    assert len(sums) == 1
