"""A folder of images: one subfolder per class, its name the class's name.

Either ``PATH/train/CLASS/...``, ``PATH/test/CLASS/...`` and, if there is one,
``PATH/val/CLASS/...``; or simply ``PATH/CLASS/...``, which is split 70/10/20 by class.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from expertload.exceptions import DataNotFoundError
from expertload.lab.data.catalogue import DataRequest, Entry, damaged
from expertload.lab.data.dataset import Augmentation, Dataset, Normalisation, Split
from expertload.lab.data.families.image_files import SIZE_HINT, SUFFIXES, decode_images
from expertload.lab.data.splitting import carve

__all__ = ["ENTRIES", "load"]

LAYOUT = "expected PATH/CLASS/image.png, or PATH/train/CLASS/image.png with PATH/test"
TEST_SHARE = 0.2
VALIDATION_SHARE = 0.1


def _subfolders(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def _read(folder: Path, class_names: list[str], size: int | None) -> Split:
    unknown = set(_subfolders(folder)) - set(class_names)
    if unknown:
        raise damaged(
            folder,
            f"has classes that train does not have: {', '.join(sorted(unknown))}",
            "every class needs images to train on",
        )
    labelled = [
        (path, label)
        for label, name in enumerate(class_names)
        if (folder / name).is_dir()
        for path in sorted((folder / name).rglob("*"))
        if path.suffix.lower() in SUFFIXES
    ]
    if not labelled:
        raise damaged(folder, "has no images in class folders", LAYOUT)
    labels = np.array([label for _, label in labelled], dtype=np.int64)
    return Split(decode_images([path for path, _ in labelled], size=size), labels)


def _read_given_splits(
    root: Path, classes: list[str], request: DataRequest
) -> tuple[Split, Split, Split]:
    train = _read(root / "train", classes, request.image_size)
    test = _read(root / "test", classes, request.image_size)
    for name in ("val", "validation"):
        if (root / name).is_dir():
            return train, _read(root / name, classes, request.image_size), test
    return *carve(train, VALIDATION_SHARE, request.seed), test


def _split_whole(
    root: Path, classes: list[str], request: DataRequest
) -> tuple[Split, Split, Split]:
    rest, test = carve(_read(root, classes, request.image_size), TEST_SHARE, request.seed)
    # A tenth of all images is an eighth of the remaining ones.
    return *carve(rest, VALIDATION_SHARE / (1 - TEST_SHARE), request.seed + 1), test


def load(request: DataRequest) -> Dataset:
    """Read the folder that follows ``folder:``."""
    root = Path(request.argument or "").expanduser()
    if not root.is_dir():
        raise DataNotFoundError(f"There is no folder {root}. Hint: write folder:PATH; {LAYOUT}.")
    given = (root / "train").is_dir() and (root / "test").is_dir()
    classes = _subfolders(root / "train" if given else root)
    if len(classes) < 2:
        raise damaged(root, f"has {len(classes)} class folder(s), but needs two", LAYOUT)
    splits = (_read_given_splits if given else _split_whole)(root, classes, request)
    if len({split.images.shape[1:] for split in splits}) > 1:
        raise damaged(root, "has splits of different sizes", SIZE_HINT)
    return Dataset(
        request.name,
        tuple(classes),
        *splits,
        normalisation=Normalisation.measured(splits[0].images),
        augmentation=Augmentation(),  # a mirror image may be another class
        source=str(root),
    )


ENTRIES = (Entry("folder", "your own images, one folder per class", load, argument="PATH"),)
