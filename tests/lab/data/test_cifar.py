import os
import pickle
import pickletools

import numpy as np
import pytest
from tests.lab.data.official_files import write_cifar

from expertload.exceptions import DataDamagedError, DataNotFoundError
from expertload.lab.data import load_dataset
from expertload.lab.data.cifar import read_pickle


@pytest.mark.slow
def test_pixels_labels_and_names_come_through(tmp_path):
    written = write_cifar(tmp_path)
    dataset = load_dataset("cifar100", data_dir=tmp_path)
    planes = written["test"][b"data"].reshape(-1, 3, 32, 32)
    assert dataset.test.images.tolist() == planes.transpose(0, 2, 3, 1).tolist()
    assert dataset.test.labels.tolist() == written["test"][b"fine_labels"]
    assert dataset.class_names == ("class 0", "class 1", "class 2", "class 3")
    assert (len(dataset.train), len(dataset.validation)) == (72, 8)
    assert np.bincount(dataset.validation.labels).tolist() == [2, 2, 2, 2]


def test_no_image_is_in_two_splits(cifar_folder):
    dataset = load_dataset("cifar100", data_dir=cifar_folder)
    seen = [image.tobytes() for split in (dataset.train, dataset.validation, dataset.test)
            for image in split.images]  # fmt: skip
    assert len(set(seen)) == len(seen) == 100


def test_the_folder_itself_may_be_named(cifar_folder):
    dataset = load_dataset("cifar100", data_dir=cifar_folder / "cifar-100-python")
    assert dataset.num_classes == 4


def test_the_long_tail_thins_only_the_training_images(cifar_folder):
    whole = load_dataset("cifar100", data_dir=cifar_folder)
    tail = load_dataset("cifar100-lt-10", data_dir=cifar_folder)
    assert np.bincount(tail.train.labels).tolist() == [18, 8, 3, 1]
    assert tail.validation.labels.tolist() == whole.validation.labels.tolist()
    assert len(tail.test) == len(whole.test)


def test_pickles_of_python_3_are_read_too(tmp_path):
    path = tmp_path / "x"
    for protocol in range(2, 5):
        content = {"data": np.arange(6, dtype=np.uint8).reshape(2, 3), "raw": b"\xff\x00"}
        path.write_bytes(pickle.dumps(content, protocol=protocol))
        read = read_pickle(path)
        assert read["data"].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert read["raw"] == b"\xff\x00"


class Malicious:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("function", [os.system, eval, os.mkdir])
def test_a_pickle_that_would_run_code_is_refused(tmp_path, protocol, function):
    trap = tmp_path / "trap"
    argument = f"__import__('os').mkdir({str(trap)!r})" if function is eval else str(trap)
    if function is os.system:
        argument = f"mkdir '{trap}'"
    path = tmp_path / "bad"
    path.write_bytes(pickle.dumps({"data": Malicious(function, argument)}, protocol=protocol))
    with pytest.raises(DataDamagedError, match="it asks for"):
        read_pickle(path)
    assert not trap.exists()


def test_a_codec_with_side_effects_is_refused(tmp_path):
    path = tmp_path / "bad"
    honest = pickle.dumps({"raw": b"\xff\x00"}, protocol=2)
    assert b"latin1" in honest, pickletools.dis(honest)
    path.write_bytes(honest.replace(b"latin1", b"utf_16"))
    with pytest.raises(DataDamagedError, match="codec"):
        read_pickle(path)


@pytest.mark.parametrize("part", ["train", "test", "meta"])
def test_a_file_cut_short_is_a_sentence(cifar_folder, part):
    path = cifar_folder / "cifar-100-python" / part
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataDamagedError, match=r"Hint: delete it and fetch"):
        load_dataset("cifar100", data_dir=cifar_folder)


@pytest.mark.parametrize(
    "content",
    [
        ["a list"],
        {"fine_labels": [0]},
        {"data": np.zeros((1, 3072), np.uint8)},
        {"data": np.zeros((1, 3071), np.uint8), "fine_labels": [0]},
        {"data": np.zeros((1, 3072), np.float32), "fine_labels": [0]},
        {"data": np.zeros((2, 3072), np.uint8), "fine_labels": [0]},
        {"data": np.zeros((1, 3072), np.uint8), "fine_labels": [4]},
        {"data": np.zeros((0, 3072), np.uint8), "fine_labels": np.zeros(0, int)},
    ],
)
def test_contents_that_are_not_cifars_are_refused(cifar_folder, content):
    (cifar_folder / "cifar-100-python" / "train").write_bytes(pickle.dumps(content, protocol=4))
    with pytest.raises(DataDamagedError):
        load_dataset("cifar100", data_dir=cifar_folder)


def test_classes_without_names_are_refused(cifar_folder):
    (cifar_folder / "cifar-100-python" / "meta").write_bytes(pickle.dumps({"other": 1}))
    with pytest.raises(DataDamagedError, match="name the classes"):
        load_dataset("cifar100", data_dir=cifar_folder)


def test_a_missing_set_says_what_to_run(tmp_path, monkeypatch):
    with pytest.raises(DataNotFoundError, match=f"lab data fetch cifar100 --data-dir {tmp_path}"):
        load_dataset("cifar100", data_dir=tmp_path)
    monkeypatch.setenv("EXPERTLOAD_DATA", str(tmp_path))
    with pytest.raises(DataNotFoundError, match=r"fetch cifar100', or name .* --data-dir"):
        load_dataset("cifar100")


@pytest.mark.slow
def test_the_real_cifar100(real_data):
    dataset = load_dataset("cifar100", data_dir=real_data)
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (45000, 5000, 10000)
    assert set(np.bincount(dataset.validation.labels)) == {50}
    assert dataset.class_names[:2] == ("apple", "aquarium_fish")
    tail = load_dataset("cifar100-lt-100", data_dir=real_data)
    assert len(tail.train) == 9754
