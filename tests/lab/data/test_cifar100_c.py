import numpy as np
import pytest
from tests.lab.data.official_files import random_images

from expertload.exceptions import DataDamagedError, DataNotFoundError, ParameterError
from expertload.lab.data import corrupt, load_dataset


def write_files(folder, *, each=4, images=None, labels=None):
    target = folder / "CIFAR-100-C"
    target.mkdir()
    made = random_images(np.random.default_rng(0), 5 * each, 32, 32, 3)
    np.save(target / "fog.npy", made if images is None else images)
    numbers = np.tile(np.arange(each, dtype=np.uint8), 5)
    np.save(target / "labels.npy", numbers if labels is None else labels)
    return made


def test_its_official_files_mildest_first(tmp_path):
    written = write_files(tmp_path)
    dataset = load_dataset("cifar100-c:fog", data_dir=tmp_path)
    assert (dataset.test.images == written).all()
    assert dataset.test.labels.tolist() == [0, 1, 2, 3] * 5
    assert len(dataset.train) == len(dataset.validation) == 0
    third = load_dataset("cifar100-c:fog:3", data_dir=tmp_path)
    assert (third.test.images == written[8:12]).all()


def test_it_is_made_from_cifar100_where_its_files_are_missing(cifar_folder):
    clean = load_dataset("cifar100", data_dir=cifar_folder).test
    dataset = load_dataset("cifar100-c:contrast", data_dir=cifar_folder)
    assert len(dataset.test) == 5 * len(clean)
    assert dataset.test.labels.tolist() == clean.labels.tolist() * 5
    assert (dataset.test.images[-len(clean) :] == corrupt(clean.images, "contrast", 5)).all()
    assert "made from CIFAR-100" in dataset.source


def test_without_either_both_ways_out_are_named(tmp_path):
    with pytest.raises(DataNotFoundError, match=r"fetch cifar100-c.*fetch cifar100'"):
        load_dataset("cifar100-c:fog", data_dir=tmp_path)


@pytest.mark.parametrize(
    "name", ["cifar100-c", "cifar100-c:", "cifar100-c:rain", "cifar100-c:fog:6"]
)
def test_the_corruption_must_be_named(tmp_path, name):
    with pytest.raises(ParameterError):
        load_dataset(name, data_dir=tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"images": np.zeros((20, 32, 32), np.uint8)},
        {"images": np.zeros((20, 32, 32, 3), np.float32)},
        {"images": np.zeros((20, 32, 32, 3), np.int16)},
        {"images": np.zeros((19, 32, 32, 3), np.uint8)},
        {"labels": np.zeros(15, np.uint8)},
    ],
)
def test_other_arrays_are_refused(tmp_path, wrong):
    write_files(tmp_path, **wrong)
    with pytest.raises(DataDamagedError):
        load_dataset("cifar100-c:fog", data_dir=tmp_path)


@pytest.mark.parametrize("keep", [0, 60, 2000])
def test_a_file_cut_short_is_a_sentence(tmp_path, keep):
    write_files(tmp_path)
    path = tmp_path / "CIFAR-100-C" / "fog.npy"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataDamagedError):
        load_dataset("cifar100-c:fog", data_dir=tmp_path)
