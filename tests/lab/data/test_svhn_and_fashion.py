import gzip
import os

import numpy as np
import pytest
from scipy.io import savemat
from tests.lab.data.official_files import random_images

from expertload.exceptions import DataDamagedError, DataNotFoundError
from expertload.lab.data import load_dataset
from expertload.lab.data.classics import read_idx
from expertload.lab.data.files import read_entries


def write_svhn(folder, **changes):
    rng = np.random.default_rng(0)
    made = {}
    for part, n in (("train", 40), ("test", 10)):
        content = {"X": random_images(rng, 32, 32, 3, n), "y": 1 + np.arange(n)[:, None] % 10}
        made[part] = content | changes
        savemat(folder / f"{part}_32x32.mat", made[part])
    return made


def test_svhn_in_its_official_format(tmp_path):
    written = write_svhn(tmp_path)
    dataset = load_dataset("svhn", data_dir=tmp_path)
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (36, 4, 10)
    assert dataset.test.labels.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]  # 10 stands for 0
    assert (dataset.test.images[7] == written["test"]["X"][..., 7]).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"X": np.zeros((32, 32, 3, 7), np.uint8)},
        {"X": np.zeros((32, 32, 3, 40))},
        {"y": np.zeros((40, 1), int)},
        {"y": np.full((10, 1), 11)},
    ],
)
def test_other_contents_are_refused(tmp_path, changes):
    write_svhn(tmp_path, **changes)
    with pytest.raises(DataDamagedError):
        load_dataset("svhn", data_dir=tmp_path)


@pytest.mark.parametrize("keep", [0, 100, 5000])
def test_a_damaged_mat_is_a_sentence(tmp_path, keep):
    write_svhn(tmp_path)
    path = tmp_path / "train_32x32.mat"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataDamagedError, match="MATLAB"):
        load_dataset("svhn", data_dir=tmp_path)


def idx(array):
    sizes = np.array(array.shape, ">u4").tobytes()
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def write_fashion(folder, *, compress=True):
    rng = np.random.default_rng(0)
    written = {}
    for part, n in (("train", 60), ("t10k", 20)):
        written[part] = random_images(rng, n, 28, 28)
        labels = (np.arange(n) % 10).astype(np.uint8)
        for kind, array in (("images-idx3", written[part]), ("labels-idx1", labels)):
            content = gzip.compress(idx(array)) if compress else idx(array)
            name = f"{part}-{kind}-ubyte" + (".gz" if compress else "")
            (folder / name).write_bytes(content)
    return written


@pytest.mark.parametrize("compress", [True, False])
def test_fashion_mnist_in_its_official_format(tmp_path, compress):
    written = write_fashion(tmp_path, compress=compress)
    dataset = load_dataset("fashion-mnist", data_dir=tmp_path)
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (55, 5, 20)
    assert (dataset.test.images[..., 0] == written["t10k"]).all()
    assert dataset.test.labels[:3].tolist() == [0, 1, 2]


def test_the_real_fashion_mnist():
    folder = os.environ.get("EXPERTLOAD_FASHION_MNIST")
    if not folder:
        pytest.skip("EXPERTLOAD_FASHION_MNIST does not name a folder with its files")
    dataset = load_dataset("fashion-mnist", data_dir=folder)
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (55000, 5000, 10000)
    assert round(float(dataset.train.images.mean()) / 255, 3) == 0.286


@pytest.mark.parametrize("content", [
    b"", b"\x00\x00", b"\x00\x00\x09\x01\x00\x00\x00\x01\x05", idx(np.zeros(5, np.uint8))[:-1],
    idx(np.zeros(5, np.uint8)) + b"x", idx(np.zeros((2, 2), np.uint8))[:9],
    gzip.compress(idx(np.zeros(5, np.uint8)), mtime=0)[:-9],
])  # fmt: skip
def test_a_damaged_idx_file_is_a_sentence(tmp_path, content):
    path = tmp_path / "file.gz"
    path.write_bytes(content)
    with pytest.raises(DataDamagedError):
        read_idx(path)


@pytest.mark.parametrize("labels", [np.zeros(7, np.uint8), np.full(60, 10, np.uint8)])
def test_labels_that_do_not_fit_are_refused(tmp_path, labels):
    write_fashion(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))
    with pytest.raises(DataDamagedError):
        load_dataset("fashion-mnist", data_dir=tmp_path)


def test_one_missing_file_says_what_to_run(tmp_path):
    write_fashion(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataNotFoundError, match="lab data fetch fashion-mnist"):
        load_dataset("fashion-mnist", data_dir=tmp_path)


@pytest.mark.parametrize("dimensions", [65, 255])
def test_idx_files_with_too_many_dimensions(dimensions, tmp_path):
    content = bytes([0, 0, 8, dimensions]) + b"\0\0\0\1" * dimensions + b"\7"
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DataDamagedError, match="dimension"):
        read_idx(tmp_path / "file")


def test_idx_sizes_that_overflow(tmp_path):
    content = bytes([0, 0, 8, 3]) + b"\xff\xff\xff\xff" * 3 + b"\7"
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DataDamagedError, match="cannot be read as IDX"):
        read_idx(tmp_path / "file")


def test_what_comes_unencrypted_has_a_strong_checksum():
    files = [file for entry in read_entries().values() for file in entry.files]
    assert len(files) > 10
    assert all(f.url.startswith("https://") or f.checksum.startswith("sha256:") for f in files)


def test_svhn_comes_over_https_with_a_strong_checksum():
    for file in read_entries()["svhn"].files:
        assert file.url.startswith("https://")
        assert file.checksum.startswith("sha256:")
