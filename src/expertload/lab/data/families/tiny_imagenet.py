"""Tiny-ImageNet: 200 classes, 64 x 64, from the official tree of JPEG files.

The official test labels were never published, so, as in the literature, the official
validation images (10,000) are the test set and a tenth of the training images (10,000 of
100,000, by class) is held out for validation.

References
----------
Le and Yang, "Tiny ImageNet visual recognition challenge", 2015.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from expertload.lab.data.catalogue import DataRequest, Entry, RemoteFile, damaged
from expertload.lab.data.dataset import Augmentation, Dataset, Normalisation, Split
from expertload.lab.data.families.image_files import decode_images
from expertload.lab.data.splitting import carve

__all__ = ["ENTRIES", "load"]

FOLDER = "tiny-imagenet-200"
FILES = (
    RemoteFile(
        f"{FOLDER}.zip",
        f"https://cs231n.stanford.edu/{FOLDER}.zip",
        "sha256:6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
        at_most=248_100_043,
        unpacks_to=FOLDER,
        holds=("wnids.txt", "words.txt", "train", "val/val_annotations.txt"),
    ),
)
VALIDATION_SHARE = 0.1


def _labelled_training_files(root: Path, codes: list[str]) -> list[tuple[Path, int]]:
    found = [
        (path, label)
        for label, code in enumerate(codes)
        for path in sorted((root / "train" / code / "images").glob("*.JPEG"))
    ]
    if not found:
        raise damaged(root / "train", "has no images")
    return found


def _labelled_test_files(root: Path, codes: list[str]) -> list[tuple[Path, int]]:
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
    try:
        return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise damaged(path, f"cannot be read ({error})") from error


def _class_names(root: Path, codes: list[str]) -> tuple[str, ...]:
    words = dict(line.split("\t", 1) for line in _lines(root / "words.txt") if "\t" in line)
    return tuple(words.get(code, code).split(",")[0].strip() for code in codes)


def _read(files: list[tuple[Path, int]]) -> Split:
    labels = np.array([label for _, label in files], dtype=np.int64)
    return Split(decode_images([path for path, _ in files]), labels)


def load(request: DataRequest) -> Dataset:
    """Decode the whole tree into memory (1.4 GB for the full set)."""
    root = request.find(f"{FOLDER}/wnids.txt", "wnids.txt").parent
    codes = sorted(_lines(root / "wnids.txt"))
    training = _read(_labelled_training_files(root, codes))
    train, validation = carve(training, VALIDATION_SHARE, request.seed)
    return Dataset(
        request.name,
        _class_names(root, codes),
        train,
        validation,
        _read(_labelled_test_files(root, codes)),
        normalisation=Normalisation((0.4802, 0.4481, 0.3975), (0.2770, 0.2691, 0.2821)),
        augmentation=Augmentation(padding=8, flip=True),
        source=str(root),
    )


ENTRIES = (Entry("tiny-imagenet", "Tiny-ImageNet, 90,000/10,000/10,000", load, FILES),)
