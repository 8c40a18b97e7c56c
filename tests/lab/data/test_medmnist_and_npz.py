import numpy as np
import pytest
from tests.lab.data.official_files import SHARED, random_images

from expertload.exceptions import DataDamagedError, DataNotFoundError
from expertload.lab.data import load_dataset
from expertload.lab.data.files import read_entries


def arrays(channels=(), sizes=(("train", 30), ("val", 6), ("test", 9)), classes=3, side=28):
    rng = np.random.default_rng(0)
    made = {}
    for part, n in sizes:
        made[f"{part}_images"] = random_images(rng, n, side, side, *channels)
        made[f"{part}_labels"] = (np.arange(n, dtype=np.uint8) % classes)[:, None]
    return made


def write(path, **content):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **content)
    return path


def test_medmnist_in_its_official_format(tmp_path):
    content = arrays(channels=(3,))
    write(tmp_path / "medmnist" / "retinamnist.npz", **content)
    dataset = load_dataset("retinamnist", data_dir=tmp_path)
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (30, 6, 9)
    assert dataset.test.images.tolist() == content["test_images"].tolist()
    assert dataset.test.labels.tolist() == content["test_labels"].ravel().tolist()
    assert dataset.num_classes == 5
    assert dataset.normalisation.mean == (0.5, 0.5, 0.5)


def test_the_sets_have_their_published_numbers_of_classes():
    known = {name: own for name, own in read_entries().items() if "MedMNIST" in own.summary}
    numbers = {name: len(own.classes) for name, own in known.items()}
    assert numbers == {
        "bloodmnist": 8,
        "breastmnist": 2,
        "dermamnist": 7,
        "octmnist": 4,
        "organamnist": 11,
        "organcmnist": 11,
        "organsmnist": 11,
        "pathmnist": 9,
        "pneumoniamnist": 2,
        "retinamnist": 5,
        "tissuemnist": 8,
    }


def test_grey_images_get_a_channel_and_files_may_lie_in_the_folder_itself(tmp_path):
    write(tmp_path / "tissuemnist.npz", **arrays())
    assert load_dataset("tissuemnist", data_dir=tmp_path).image_shape == (28, 28, 1)


def test_labels_beyond_the_known_classes_are_refused(tmp_path):
    write(tmp_path / "breastmnist.npz", **arrays())
    with pytest.raises(DataDamagedError, match="label 2 in a set of 2"):
        load_dataset("breastmnist", data_dir=tmp_path)


def test_an_npz_of_the_users_own(tmp_path):
    content = arrays() | {"class_names": np.array(["a", "b", "c", "d"])}
    dataset = load_dataset(f"npz:{write(tmp_path / 'mine.npz', **content)}")
    assert dataset.class_names == ("a", "b", "c", "d")
    assert 0 < dataset.normalisation.mean[0] < 1


def test_without_validation_images_a_tenth_of_training_is_held_out(tmp_path):
    content = arrays(sizes=(("train", 30), ("test", 9)))
    dataset = load_dataset(f"npz:{write(tmp_path / 'mine.npz', **content)}")
    assert (len(dataset.train), len(dataset.validation)) == (27, 3)
    assert dataset.class_names == ("0", "1", "2")


def _without(content, key):
    return {name: array for name, array in content.items() if name != key}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: _without(a, "test_labels"), "no array 'test_labels'"),
        (lambda a: a | {"train_images": a["train_images"] / 255}, "uint8 images"),
        (lambda a: a | {"train_images": a["train_images"][0]}, "uint8 images"),
        (lambda a: a | {"train_labels": np.zeros((30, 14), int)}, "labels of shape"),
        (lambda a: a | {"train_labels": np.zeros(30)}, "whole numbers"),
        (lambda a: a | {"train_labels": np.full(30, -1)}, "label -1"),
        (lambda a: a | {"train_labels": np.zeros(7, int)}, "labels of shape"),
        (lambda a: a | {"class_names": np.array(["one"])}, "names 1 classes"),
        (lambda a: a | {"test_images": a["test_images"][:, :20, :20]}, "different sizes"),
    ],
)
def test_a_wrong_npz_is_a_sentence(tmp_path, change, words):
    path = write(tmp_path / "mine.npz", **change(arrays()))
    with pytest.raises(DataDamagedError, match=words):
        load_dataset(f"npz:{path}")


def test_pickled_arrays_are_refused(tmp_path):
    content = arrays() | {"train_labels": np.array([print] * 30, dtype=object)}
    with pytest.raises(DataDamagedError, match="cannot be read"):
        load_dataset(f"npz:{write(tmp_path / 'mine.npz', **content)}")


@pytest.mark.parametrize("keep", [0, 10, 400, -30])
def test_a_damaged_npz_is_a_sentence(tmp_path, keep):
    path = write(tmp_path / "mine.npz", **arrays())
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataDamagedError):
        load_dataset(f"npz:{path}")


def test_a_bare_array_is_not_an_archive(tmp_path):
    path = tmp_path / "mine.npz"
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(DataDamagedError, match="a single array without a name"):
        load_dataset(f"npz:{path}")


def test_a_missing_npz_is_a_sentence(tmp_path):
    with pytest.raises(DataNotFoundError, match="npz:PATH"):
        load_dataset(f"npz:{tmp_path / 'none.npz'}")


@pytest.mark.parametrize(
    ("name", "sizes", "shape"),
    [
        ("retinamnist", (1080, 120, 400), (28, 28, 3)),
        ("breastmnist", (546, 78, 156), (28, 28, 1)),
        ("dermamnist", (7007, 1003, 2005), (28, 28, 3)),
    ],
)
def test_the_real_files(name, sizes, shape):
    if not (SHARED / "data" / f"{name}.npz").is_file():
        pytest.skip("the real data sets are not beside the repository")
    dataset = load_dataset(name, data_dir=SHARED / "data")
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == sizes
    assert dataset.image_shape == shape
    assert int(dataset.train.labels.max()) + 1 == dataset.num_classes


@pytest.mark.parametrize("label", [10**8, 2**63 - 1, 2**64 - 1])
def test_labels_that_are_no_class_numbers(label, tmp_path):
    """A hundred million class names would fill the memory before anything is said."""
    images = random_images(np.random.default_rng(0), 4, 5, 5)
    labels = np.array([0, 1, 1, label], dtype=np.uint64)
    np.savez(
        tmp_path / "a.npz",
        **{f"{part}_images": images for part in ("train", "test")},
        **{f"{part}_labels": labels for part in ("train", "test")},
    )
    with pytest.raises(DataDamagedError, match="labels must be class numbers from zero"):
        load_dataset(f"npz:{tmp_path / 'a.npz'}")


def test_labels_that_start_from_one_are_refused(tmp_path):
    images = np.zeros((4, 8, 8), np.uint8)
    labels = np.array([1, 2, 1, 2])
    parts = {"train_images": images, "train_labels": labels, "test_images": images}
    np.savez(tmp_path / "scans.npz", **parts, test_labels=labels)
    with pytest.raises(DataDamagedError, match="no training images with the label 0.*from zero"):
        load_dataset(f"npz:{tmp_path / 'scans.npz'}")
