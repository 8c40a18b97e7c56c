import numpy as np
import pytest
from PIL import Image

from expertload.exceptions import DataDamagedError, DataNotFoundError, ParameterError
from expertload.lab.data import load_dataset

CODES = ["n01", "n02", "n03"]


def write_tiny_imagenet(folder, *, train_each=10, test_each=2):
    root = folder / "tiny-imagenet-200"
    (root / "val" / "images").mkdir(parents=True)
    (root / "wnids.txt").write_text("\n".join(reversed(CODES)) + "\n")
    (root / "words.txt").write_text("n01\tgoldfish, Carassius\nn02\tnewt\nn99\tother\n")
    lines = []
    for label, code in enumerate(CODES):
        images = root / "train" / code / "images"
        images.mkdir(parents=True)
        for number in range(train_each):
            save_jpeg(images / f"{code}_{number}.JPEG", 60 * label + number)
        for number in range(test_each):
            name = f"val_{label}_{number}.JPEG"
            save_jpeg(root / "val" / "images" / name, 60 * label + 50 + number)
            lines.append(f"{name}\t{code}\t0\t0\t62\t62")
    (root / "val" / "val_annotations.txt").write_text("\n".join(lines) + "\n")
    return root


def save_jpeg(path, grey, mode="L"):  # some of the official files are grey, too
    Image.new(mode, (64, 64), grey).save(path, quality=95)


def test_tiny_imagenet_in_its_official_tree(tmp_path):
    write_tiny_imagenet(tmp_path)
    dataset = load_dataset("tiny-imagenet", data_dir=tmp_path)
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (27, 3, 6)
    assert dataset.image_shape == (64, 64, 3)
    assert dataset.class_names == ("goldfish", "newt", "n03")
    assert dataset.test.labels.tolist() == [0, 0, 1, 1, 2, 2]
    # The grey level names the class and the image: every picture kept its label.
    grey = np.concatenate([s.images[:, 32, 32, 0] for s in (dataset.train, dataset.validation)])
    labels = np.concatenate([dataset.train.labels, dataset.validation.labels])
    assert (grey.astype(int) // 60 == labels).all()
    assert sorted(grey.tolist()) == [60 * c + i for c in range(3) for i in range(10)]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("val/val_annotations.txt", b"val_0_0.JPEG\n"),
        ("val/val_annotations.txt", b"val_0_0.JPEG\tn77\n"),
        ("val/val_annotations.txt", b""),
        ("val/val_annotations.txt", b"\xff\xfe\xfa"),
        ("wnids.txt", b"n55\n"),
        ("train/n01/images/n01_0.JPEG", b"not an image"),
    ],
)
def test_a_damaged_tree_is_a_sentence(tmp_path, path, content):
    (write_tiny_imagenet(tmp_path) / path).write_bytes(content)
    with pytest.raises(DataDamagedError):
        load_dataset("tiny-imagenet", data_dir=tmp_path)


def test_an_image_cut_short_is_a_sentence(tmp_path):
    path = write_tiny_imagenet(tmp_path) / "train/n01/images/n01_3.JPEG"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataDamagedError, match="cannot be read as an image"):
        load_dataset("tiny-imagenet", data_dir=tmp_path)


@pytest.mark.slow
def test_the_real_tiny_imagenet(real_data):
    dataset = load_dataset("tiny-imagenet", data_dir=real_data)
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (5400, 600, 2000)
    assert set(np.bincount(dataset.validation.labels)) == {3}
    assert dataset.class_names[0] == "goldfish"


def write_folder(root, counts, size=(12, 12)):
    for label, (name, count) in enumerate(counts.items()):
        (root / name).mkdir(parents=True)
        for number in range(count):
            Image.new("RGB", size, (80 * label + number, 0, 0)).save(root / name / f"{number}.png")
    (root / next(iter(counts)) / "notes.txt").write_text("not an image")


def test_a_folder_with_classes_is_split_by_class(tmp_path):
    write_folder(tmp_path, {"cat": 20, "dog": 10})
    dataset = load_dataset(f"folder:{tmp_path}")
    assert dataset.class_names == ("cat", "dog")
    parts = (dataset.train, dataset.validation, dataset.test)
    assert [np.bincount(part.labels).tolist() for part in parts] == [[14, 7], [2, 1], [4, 2]]
    red = np.concatenate([part.images[:, 0, 0, 0] for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    assert (red // 80 == labels).all()
    assert len(set(red.tolist())) == 30


@pytest.mark.parametrize("validation", [None, "val", "validation"])
def test_a_folder_with_splits_keeps_them(tmp_path, validation):
    write_folder(tmp_path / "train", {"cat": 10, "dog": 10})
    write_folder(tmp_path / "test", {"dog": 3})
    if validation:
        write_folder(tmp_path / validation, {"cat": 4})
    dataset = load_dataset(f"folder:{tmp_path}")
    sizes = (len(dataset.train), len(dataset.validation), len(dataset.test))
    assert sizes == ((20, 4, 3) if validation else (18, 2, 3))
    assert dataset.test.labels.tolist() == [1, 1, 1]


def test_images_of_any_size_are_brought_to_one(tmp_path):
    write_folder(tmp_path / "x", {"cat": 5, "dog": 5}, size=(40, 20))
    Image.new("L", (9, 30)).save(tmp_path / "x" / "dog" / "other.png")
    with pytest.raises(DataDamagedError, match="image_size"):
        load_dataset(f"folder:{tmp_path / 'x'}")
    dataset = load_dataset(f"folder:{tmp_path / 'x'}", image_size=16)
    assert dataset.image_shape == (16, 16, 3)
    with pytest.raises(ParameterError, match="image_size"):
        load_dataset("digits", image_size=16)


def test_folders_that_cannot_be_used(tmp_path):
    with pytest.raises(DataNotFoundError, match="folder:PATH"):
        load_dataset(f"folder:{tmp_path / 'none'}")
    with pytest.raises(DataDamagedError, match="The folder .* class folder"):
        load_dataset(f"folder:{tmp_path}")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with pytest.raises(DataDamagedError, match="has no images"):
        load_dataset(f"folder:{tmp_path}")


def test_splits_that_do_not_agree(tmp_path):
    write_folder(tmp_path / "train", {"cat": 10, "dog": 10})
    write_folder(tmp_path / "test", {"bird": 3})
    with pytest.raises(DataDamagedError, match="bird"):
        load_dataset(f"folder:{tmp_path}")


def test_splits_of_different_sizes(tmp_path):
    write_folder(tmp_path / "train", {"cat": 10, "dog": 10})
    write_folder(tmp_path / "test", {"cat": 3}, size=(14, 14))
    with pytest.raises(DataDamagedError, match="different sizes"):
        load_dataset(f"folder:{tmp_path}")


def test_a_postscript_file_by_another_name_starts_no_program(tmp_path, monkeypatch):
    """Pillow reads EPS with Ghostscript, whatever the file is called."""
    started = []
    monkeypatch.setattr("subprocess.check_call", lambda *words, **more: started.append(words))
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", "gs")
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").write_bytes(eps)
    with pytest.raises(DataDamagedError, match="cannot be read as an image"):
        load_dataset(f"folder:{tmp_path}")
    assert started == []
