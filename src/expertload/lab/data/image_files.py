"""Data in folders of images and in arrays: a user's own, Tiny-ImageNet and MedMNIST.

A folder is either ``PATH/train/CLASS/...``, ``PATH/test/CLASS/...`` and, if there is one,
``PATH/val/CLASS/...``; or simply ``PATH/CLASS/...``, which is split 70/10/20 by class. What a desk
exports for training is such a folder; a table beside has the weight and the patient of each image.

Tiny-ImageNet has 200 classes, 64 x 64. Its official test labels were never published, so, as in the
literature, the official validation images (10,000) are the test set and a tenth of the training
images (10,000 of 100,000, by class) is held out for validation.

Pillow releases Python's global lock while it decodes, so threads are enough.

A ``.npz`` file has arrays of these names, as MedMNIST's have:

==================================  =============================================================
``train_images``, ``test_images``   uint8, (n, height, width) or (n, height, width, channels)
``train_labels``, ``test_labels``   whole numbers from zero, (n,) or (n, 1)
``val_images``, ``val_labels``      optional; otherwise a tenth of the training images, by class
``class_names``                     optional, one string per class
==================================  =============================================================

A file is read with pickling off, so opening a file from someone else runs no code.

MedMNIST v2 has small medical images, 28 x 28, with official splits. The two-dimensional sets with
one label per image are here. ChestMNIST has fourteen labels per image and so no single correctness;
the three-dimensional sets are volumes.

References
----------
Le and Yang, "Tiny ImageNet visual recognition challenge", 2015.
Yang et al., "MedMNIST v2", Scientific Data 2023.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from expertload._check import require_extra
from expertload._store import TRAINING_SET
from expertload._typing import AnyArray
from expertload.exceptions import DataNotFoundError
from expertload.lab.data.dataset import Dataset, ImageArray, Split, carve
from expertload.lab.data.files import DataRequest, checked_split, damaged, reading

THREADS = 4
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp"}
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP")
SIZE_HINT = (
    "resize all images, with --image-size 64 of lower-load, data.image_size=64 in a recipe or with "
    "--set, or image_size=64 in load_dataset"
)
LAYOUT = "expected PATH/CLASS/image.png, or PATH/train/CLASS/image.png with PATH/test"
MANIFEST = "manifest.json"
FOLDER = "tiny-imagenet-200"
MOST_CLASSES = 100_000  # a larger label is not a class number; it may be an identifier
ARRAYS = (
    "labels must be class numbers from zero; see 'npz' in the list of data sets for the arrays it "
    "needs"
)


def decode_images(paths: Sequence[Path], *, size: int | None = None) -> ImageArray:
    """Return the images as uint8 of shape (n, height, width, 3).

    Parameters
    ----------
    paths : sequence of Path
        At least one.
    size : int, optional
        Resize every image to size x size: the shorter side is scaled, and the middle is kept.
        Without it, all images must have the same size.
    """
    first = _decode(paths[0], size)
    images = np.empty((len(paths), *first.shape), dtype=np.uint8)

    def fill(position: int) -> None:
        image = first if position == 0 else _decode(paths[position], size)
        if image.shape != first.shape:
            raise damaged(
                paths[position],
                f"is {image.shape[1]} x {image.shape[0]}, unlike {paths[0].name} "
                f"({first.shape[1]} x {first.shape[0]})",
                SIZE_HINT,
            )
        images[position] = image

    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(fill, range(len(paths))):
            pass
    return images


def _decode(path: Path, size: int | None) -> AnyArray:
    image_module = require_extra("PIL.Image", "lab", "Reading image files")
    # Only these formats: for some others, Pillow may start an external program.
    with (
        reading(path, "an image", "replace it, or fetch the data set again"),
        image_module.open(path, formats=FORMATS) as file,
    ):
        image = file.convert("RGB")
    if size is not None:
        ops = require_extra("PIL.ImageOps", "lab", "Reading image files")
        image = ops.fit(image, (size, size), method=image_module.Resampling.BILINEAR)
    return np.asarray(image)


def _labelled(files: Sequence[tuple[Path, int]], size: int | None = None) -> Split:
    labels = np.array([label for _, label in files], dtype=np.int64)
    return Split(decode_images([path for path, _ in files], size=size), labels)


# ------------------------------------------------------------------ a folder of classes


def load_folder(request: DataRequest) -> Dataset:
    """Read the folder that follows ``folder:``."""
    root = Path(request.argument).expanduser()
    if not root.is_dir():
        raise DataNotFoundError(f"There is no folder {root}. Hint: write folder:PATH; {LAYOUT}.")
    given = (root / "train").is_dir() and (root / "test").is_dir()
    classes = _subfolders(root / "train" if given else root)
    if len(classes) < 2:
        raise damaged(root, f"has {len(classes)} class folder(s), but needs two", LAYOUT)
    splits = (_read_given_splits if given else _split_whole)(root, classes, request)
    if len({split.images.shape[1:] for split in splits}) > 1:
        raise damaged(root, "has splits of different sizes", SIZE_HINT)
    exported = (root / MANIFEST).exists()
    return request.dataset(splits, root, [*map(unquote, classes)] if exported else classes)


def _subfolders(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def _read(folder: Path, class_names: list[str], size: int | None = None) -> Split:
    unknown = set(_subfolders(folder)) - set(class_names)
    if unknown:
        raise damaged(
            folder,
            f"has classes that train does not have: {', '.join(sorted(unknown))}",
            "every class needs images to train on",
        )
    labelled = _files(folder, class_names)
    if not labelled:
        raise damaged(folder, "has no images in class folders", LAYOUT)
    return _labelled(labelled, size)


def _files(folder: Path, class_names: list[str]) -> list[tuple[Path, int]]:
    return [
        (path, label)
        for label, name in enumerate(class_names)
        if (folder / name).is_dir()
        for path in sorted((folder / name).rglob("*"))
        if path.suffix.lower() in SUFFIXES
    ]


def _read_given_splits(
    root: Path, classes: list[str], request: DataRequest
) -> tuple[Split, Split, Split]:
    train = _read(root / "train", classes, request.image_size)
    test = _read(root / "test", classes, request.image_size)
    for name in ("val", "validation"):
        if (root / name).is_dir():
            return train, _read(root / name, classes, request.image_size), test
    return *request.hold_out(train), test


def _split_whole(
    root: Path, classes: list[str], request: DataRequest
) -> tuple[Split, Split, Split]:
    whole = _read(root, classes, request.image_size)
    rest, test = carve(_with_table(whole, root, classes), 0.2, request.seed)
    # A tenth of all images is an eighth of the remaining ones.
    return *carve(rest, 1 / 8, request.seed + 1), test


def _with_table(split: Split, root: Path, classes: list[str]) -> Split:
    """Add the weights and patients of an export of a desk; other folders have none."""
    manifest, table = root / MANIFEST, root / "metadata.csv"
    if not manifest.exists():
        return split
    again = "export the cases again (expertload desk export --for training)"
    recorded = TRAINING_SET.read(manifest)
    with reading(table, "the table of an export", again):
        content = table.read_bytes()
        rows = {row["file_name"]: row for row in csv.DictReader(io.StringIO(content.decode()))}
        given = [rows[path.relative_to(root).as_posix()] for path, _ in _files(root, classes)]
    digest = hashlib.sha256(content).hexdigest()
    if len(given) != len(rows) or recorded["files"].get(table.name) != digest:
        raise damaged(table, "does not fit manifest.json or the images beside it", again)
    own = [row["patient"] or f"\0{row['key']}" for row in given]
    patients = np.unique(own, return_inverse=True)[1].astype(np.int64)
    weights = np.array([float(row["weight"]) for row in given])
    return Split(split.images, split.labels, weights, patients)


# ------------------------------------------------------------------ Tiny-ImageNet


def _test_files(root: Path, codes: list[str]) -> list[tuple[Path, int]]:
    number = {code: label for label, code in enumerate(codes)}
    annotations = root / "val" / "val_annotations.txt"
    rows = [line.split("\t") for line in _lines(annotations)]
    try:
        pairs = [(root / "val" / "images" / row[0], number[row[1]]) for row in rows]
    except (IndexError, KeyError) as error:
        raise damaged(annotations, f"has a line without a known class ({error})") from error
    if not pairs:
        raise damaged(annotations, "names no images")
    return pairs


def _lines(path: Path) -> list[str]:
    with reading(path, "text"):
        return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _class_names(root: Path, codes: list[str]) -> tuple[str, ...]:
    words = dict(line.split("\t", 1) for line in _lines(root / "words.txt") if "\t" in line)
    return tuple(words.get(code, code).split(",")[0].strip() for code in codes)


def load_tiny_imagenet(request: DataRequest) -> Dataset:
    """Decode the whole tree into memory (1.4 GB for the full set)."""
    root = request.find(f"{FOLDER}/wnids.txt", "wnids.txt").parent
    codes = sorted(_lines(root / "wnids.txt"))
    train, validation = request.hold_out(_read(root / "train", codes))
    splits = train, validation, _labelled(_test_files(root, codes))
    return request.dataset(splits, root, _class_names(root, codes))


# ------------------------------------------------------------------ arrays


def read_npz(path: Path) -> dict[str, AnyArray]:
    """Return all arrays of a file; pickled arrays are refused."""
    hint = "write it again with numpy.savez, or fetch the data set again"
    # Opened here, because numpy leaves a damaged file open.
    with reading(path, ".npz", hint), path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("it holds a single array without a name")
        with archive:
            return {name: archive[name] for name in archive.files}


def load_npz(request: DataRequest) -> Dataset:
    """Read a set of MedMNIST, or the file that follows ``npz:``."""
    path = request.find_file() if request.known.files else own_file(request.argument)
    arrays = read_npz(path)
    splits = _splits(arrays, path, request, len(request.known.classes) or MOST_CLASSES)
    if len({split.images.shape[1:] for split in splits}) > 1:
        raise damaged(path, "has images of different sizes in its splits", ARRAYS)
    return request.dataset(splits, path, request.known.classes or _named_in(arrays, splits, path))


def own_file(argument: str) -> Path:
    """Return the path after ``npz:``; refuse one without a file."""
    path = Path(argument).expanduser()
    if not path.is_file():
        raise DataNotFoundError(f"There is no file {path}. Hint: write npz:PATH with its path.")
    return path


def _splits(
    arrays: Mapping[str, AnyArray], path: Path, request: DataRequest, num_classes: int
) -> tuple[Split, Split, Split]:
    """Return training, validation and test splits."""
    train, test = (_split(arrays, part, path, num_classes) for part in ("train", "test"))
    if "val_images" in arrays:
        return train, _split(arrays, "val", path, num_classes), test
    return *request.hold_out(train), test


def _split(arrays: Mapping[str, AnyArray], part: str, path: Path, num_classes: int) -> Split:
    for key in (f"{part}_images", f"{part}_labels"):
        if key not in arrays:
            raise damaged(path, f"has no array '{key}' (it has {', '.join(arrays)})", ARRAYS)
    images = as_images(arrays[f"{part}_images"], f"{part}_images", path)
    labels = arrays[f"{part}_labels"]
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    return checked_split(path, images, labels, num_classes, ARRAYS)


def as_images(array: AnyArray, key: str, path: Path) -> ImageArray:
    """Return an array of a file as images, grey ones with their channel; refuse anything else."""
    if array.dtype != np.uint8 or array.ndim not in (3, 4):
        got = f"{array.dtype} of shape {array.shape}"
        raise damaged(path, f"must hold '{key}' as uint8 images, but holds {got}", ARRAYS)
    return array[..., None] if array.ndim == 3 else array


def _named_in(arrays: Mapping[str, AnyArray], splits: Sequence[Split], path: Path) -> list[str]:
    needed = 1 + max(int(split.labels.max()) for split in splits if len(split))
    if "class_names" not in arrays:
        unseen = sorted({*range(needed)} - {*splits[0].labels.tolist()})
        if unseen:
            missing = f"has no training images with the label {unseen[0]}"
            raise damaged(path, missing, "labels are whole numbers from zero")
        return [str(number) for number in range(needed)]
    names = [str(name) for name in arrays["class_names"].ravel()]
    if len(names) < needed:
        raise damaged(path, f"names {len(names)} classes for labels up to {needed - 1}", ARRAYS)
    return names
