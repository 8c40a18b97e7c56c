import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from expertload.exceptions import ShapeError
from expertload.lab.data import Normalisation, Split


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
