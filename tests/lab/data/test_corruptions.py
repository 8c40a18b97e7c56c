"""The corruptions against their definitions, written out slowly where one can."""

import colorsys
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.lab.data.official_files import random_images
from tests.strategies import examples

from expertload.exceptions import ParameterError
from expertload.lab.data import corrupt, corruption_names, corruptions


def textured_images(n=6, channels=3):
    """Pictures with some structure: patches of two by two pixels."""
    coarse = random_images(np.random.default_rng(0), n, 16, 16, channels)
    return coarse.repeat(2, axis=1).repeat(2, axis=2)


def root_mean_square(a, b):
    return float(np.sqrt(((a.astype(float) - b) ** 2).mean()))


@pytest.mark.parametrize("name", corruption_names())
@pytest.mark.parametrize("channels", [1, 3])
def test_every_corruption_keeps_shape_and_type_and_repeats_itself(name, channels):
    images = textured_images(channels=channels)
    before = images.copy()
    for severity in (1, 3, 5):
        changed = corrupt(images, name, severity)
        assert changed.shape == images.shape
        assert changed.dtype == np.uint8
        assert (changed == corrupt(images, name, severity)).all()
        assert 0.5 < root_mean_square(changed, images) < 130
    assert (images == before).all()


@pytest.mark.parametrize("name", [n for n in corruption_names() if n != "elastic_transform"])
def test_severity_five_changes_more_than_one(name):
    images = textured_images(n=40)
    mild, strong = (root_mean_square(corrupt(images, name, s), images) for s in (1, 5))
    assert strong > mild


@pytest.mark.parametrize("name", ["gaussian_noise", "motion_blur", "snow", "frost", "fog"])
def test_seeds_and_images_get_their_own_draws(name):
    images = np.repeat(textured_images(n=1), 2, axis=0)
    first, second = corrupt(images, name, 3), corrupt(images, name, 3, seed=1)
    assert not np.array_equal(first, second)
    assert not np.array_equal(first[0], first[1])


def test_large_sets_are_done_in_pieces():
    images = np.zeros((2100, 4, 4, 1), np.uint8)
    noisy = corrupt(images, "gaussian_noise", 5)
    assert (noisy[:1000] == corrupt(images[:1000], "gaussian_noise", 5)).all()
    assert not np.array_equal(noisy[:1000], noisy[1000:2000])


@pytest.mark.parametrize(("name", "severity"), [("rain", 1), ("fog", 0), ("fog", 6), ("fog", "3")])
def test_unknown_corruptions_are_refused(name, severity):
    with pytest.raises(ParameterError):
        corrupt(textured_images(), name, severity)


# ------------------------------------------------------------------- against the definitions


def test_gaussian_noise_has_its_standard_deviation():
    grey = np.full((200, 32, 32, 3), 128, np.uint8)
    for severity, scale in enumerate((0.04, 0.06, 0.08, 0.09, 0.10), 1):
        noise = corrupt(grey, "gaussian_noise", severity) / 255 - 128 / 255
        assert noise.std() == pytest.approx(scale, rel=0.01)
        assert abs(noise.mean()) < 1e-3


def test_shot_noise_has_the_variance_of_counts():
    grey = np.full((200, 32, 32, 3), 102, np.uint8)  # 0.4 of white
    for severity, photons in ((1, 500), (5, 50)):
        noisy = corrupt(grey, "shot_noise", severity) / 255
        assert noisy.mean() == pytest.approx(0.4, abs=1e-3)
        assert noisy.var() == pytest.approx(0.4 / photons, rel=0.03)


def test_impulse_noise_hits_its_share_half_black_half_white():
    grey = np.full((200, 32, 32, 3), 128, np.uint8)
    noisy = corrupt(grey, "impulse_noise", 5)
    assert set(np.unique(noisy)) == {0, 128, 255}
    assert (noisy == 0).mean() == pytest.approx(0.035, abs=0.001)
    assert (noisy == 255).mean() == pytest.approx(0.035, abs=0.001)


def test_brightness_is_the_value_of_hsv():
    image = random_images(np.random.default_rng(0), 1, 6, 6, 3)
    image[0, 0, 0] = 0
    expected = np.empty(image.shape)
    for place in np.ndindex(1, 6, 6):
        hue, saturation, value = colorsys.rgb_to_hsv(*(image[place] / 255))
        expected[place] = colorsys.hsv_to_rgb(hue, saturation, min(value + 0.2, 1))
    assert np.abs(corrupt(image, "brightness", 4) - expected * 255).max() <= 0.51


def test_contrast_draws_towards_the_mean_of_each_channel():
    image = textured_images(n=1)
    mean = image.mean(axis=(1, 2), keepdims=True)
    expected = (image - mean) * 0.15 + mean
    assert np.abs(corrupt(image, "contrast", 5) - expected).max() <= 0.51


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
def test_pixelate_agrees_with_pillows_box_filter(severity):
    image = textured_images(n=1)
    small = int(32 * (0.95, 0.9, 0.85, 0.75, 0.65)[severity - 1])
    picture = Image.fromarray(image[0]).resize((small, small), Image.Resampling.BOX)
    expected = np.asarray(picture.resize((32, 32), Image.Resampling.BOX), float)
    # Pillow rounds to whole levels after each of its four passes.
    assert np.abs(corrupt(image, "pixelate", severity)[0] - expected).max() <= 2


def test_defocus_is_a_convolution_with_the_disk():
    image = textured_images(n=1)
    kernel = corruptions._disk(1.5, 0.1)
    assert kernel.sum() == pytest.approx(1)
    framed = np.pad(image[0].astype(float), ((3, 3), (3, 3), (0, 0)), mode="reflect")
    expected = np.array(
        [
            [np.tensordot(kernel, framed[i : i + 7, j : j + 7], 2) for j in range(32)]
            for i in range(32)
        ]
    )
    assert np.abs(corrupt(image, "defocus_blur", 5)[0] - expected).max() <= 0.51


@pytest.mark.parametrize("name", ["defocus_blur", "motion_blur", "zoom_blur", "pixelate"])
def test_blurs_leave_an_even_picture_alone(name):
    even = np.full((3, 32, 32, 3), 90, np.uint8)
    assert (corrupt(even, name, 5) == 90).all()


def test_glass_only_moves_pixels_up_to_one_away():
    rows, columns = np.meshgrid(np.arange(32), np.arange(32), indexing="ij")
    coordinates = np.stack([rows, columns, rows], axis=-1)[None].astype(np.uint8) * 8
    moved = corrupt(coordinates, "glass_blur", 1).astype(int)[0]
    steps = (coordinates[0] - moved) / 8
    assert set(np.unique(steps)) == {0, 1}
    assert steps[1:, 1:, 0].mean() == pytest.approx(0.5, abs=0.06)
    assert (steps[..., 0] == steps[..., 2]).all()  # channels move together


def test_motion_blur_follows_its_direction():
    point = np.zeros((1, 33, 33, 1), np.float32)
    point[0, 16, 16] = 1
    level = corruptions.streak(point, 6, 2, np.array([0.0]))
    assert level[0, 16].sum() == pytest.approx(1, abs=1e-3)
    slope = corruptions.streak(point, 6, 2, np.array([45.0]))
    on_diagonal = np.array([slope[0, 16 - i, 16 - i, 0] for i in range(10)])
    assert on_diagonal.sum() == pytest.approx(1, abs=1e-3)
    # The mean distance is that of half a normal curve on the whole steps 0, 1, 2, ...
    steps = np.arange(13)
    weights = np.exp(-0.5 * (steps / 2) ** 2)
    mean = weights @ np.rint(steps * np.sqrt(0.5)) / weights.sum()
    assert on_diagonal @ np.arange(10) == pytest.approx(mean, abs=0.01)


@given(st.floats(1, 2.5), st.integers(3, 40))
def test_zooming_keeps_even_pictures_and_the_middle(factor, size):
    matrix = corruptions.zoom_matrix(size, factor)
    assert matrix.sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert matrix == pytest.approx(matrix[::-1, ::-1], abs=1e-5)


@examples(25)
@given(st.integers(2, 9), st.integers(2, 9), st.integers(0, 100))
def test_warping_reads_between_the_four_nearest_pixels(height, width, seed):
    rng = np.random.default_rng(seed)
    images = rng.random((2, height, width, 3)).astype(np.float32)
    rows = rng.uniform(-1.5 * height, 2.5 * height, (2, height, width))
    columns = rng.uniform(-1.5 * width, 2.5 * width, (2, height, width))
    expected = [
        [[read_between(images[i], *at) for at in zip(*places, strict=True)] for places in lines]
        for i, lines in enumerate(map(zip, rows, columns))
    ]
    assert corruptions.warp(images, rows, columns) == pytest.approx(np.array(expected), abs=1e-4)


def read_between(image, row, column):
    def fold(at, size):
        period = 2 * (size - 1)
        return min(at % period, period - at % period)

    row, column = fold(row, image.shape[0]), fold(column, image.shape[1])
    return sum(
        image[i, j] * max(0, 1 - abs(row - i)) * max(0, 1 - abs(column - j))
        for i in range(image.shape[0])
        for j in range(image.shape[1])
    )


def test_clouds_fill_their_range_and_are_smoother_with_more_decay():
    def roughness(decay):
        field = corruptions.cloud(50, 20, 32, decay, np.random.default_rng(0))
        assert field.shape == (50, 20, 32)
        assert field.min() >= 0
        assert field.max() <= 1
        return np.abs(np.diff(field, axis=2)).mean()

    assert roughness(3.0) < roughness(2.0) < roughness(1.5)


def test_fog_keeps_the_brightest_level():
    images = textured_images(n=5)
    foggy = corrupt(images, "fog", 5)
    assert (foggy.max(axis=(1, 2, 3)) <= images.max(axis=(1, 2, 3)).astype(int) + 1).all()


def test_jpeg_is_what_pillow_stores():
    image = textured_images(n=1)
    buffer = BytesIO()
    Image.fromarray(image[0]).save(buffer, "JPEG", quality=40)
    assert (corrupt(image, "jpeg_compression", 5)[0] == np.asarray(Image.open(buffer))).all()


def test_elastic_moves_little_where_the_field_is_smooth():
    gradient = np.broadcast_to(np.arange(32, dtype=np.uint8)[:, None] * 4, (20, 32, 32))
    inner = np.s_[:, 12:20, 12:20]
    moved = corrupt(np.ascontiguousarray(gradient[..., None]), "elastic_transform", 1)[..., 0]
    shift = np.abs(moved[inner].astype(float) - gradient[inner]) / 4
    assert 0 < shift.mean() < 0.08 * 32  # corners play by at most 8 % of the side
