"""Data in ``.npz`` files: MedMNIST's, and a user's own with arrays of the same names.

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
Yang et al., "MedMNIST v2", Scientific Data 2023.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from expertload._typing import AnyArray
from expertload.exceptions import DataNotFoundError
from expertload.lab.data.dataset import Augmentation, Dataset, ImageArray, Normalisation, Split
from expertload.lab.data.files import DataRequest, RemoteFile, checked_split, damaged, reading

MOST_CLASSES = 100_000  # a larger label is not a class number; it may be an identifier
HINT = (
    "labels must be class numbers from zero; see 'npz' in the list of data sets for the arrays it "
    "needs"
)


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
            raise damaged(path, f"has no array '{key}' (it has {', '.join(arrays)})", HINT)
    images = as_images(arrays[f"{part}_images"], f"{part}_images", path)
    labels = arrays[f"{part}_labels"]
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    return checked_split(path, images, labels, num_classes, HINT)


def as_images(array: AnyArray, key: str, path: Path) -> ImageArray:
    """Return an array of a file as images, grey ones with their channel; refuse anything else."""
    if array.dtype != np.uint8 or array.ndim not in (3, 4):
        got = f"{array.dtype} of shape {array.shape}"
        raise damaged(path, f"must hold '{key}' as uint8 images, but holds {got}", HINT)
    return array[..., None] if array.ndim == 3 else array


def _class_names(arrays: Mapping[str, AnyArray], splits: Iterable[Split], path: Path) -> list[str]:
    needed = 1 + max(int(split.labels.max()) for split in splits if len(split))
    if "class_names" not in arrays:
        return [str(number) for number in range(needed)]
    names = [str(name) for name in arrays["class_names"].ravel()]
    if len(names) < needed:
        raise damaged(path, f"names {len(names)} classes for labels up to {needed - 1}", HINT)
    return names


def load_npz(request: DataRequest) -> Dataset:
    """Read the file that follows ``npz:``."""
    path = Path(request.argument).expanduser()
    if not path.is_file():
        raise DataNotFoundError(f"There is no file {path}. Hint: write npz:PATH with its path.")
    arrays = read_npz(path)
    splits = _splits(arrays, path, request, MOST_CLASSES)
    if len({split.images.shape[1:] for split in splits}) > 1:
        raise damaged(path, "has images of different sizes in its splits", HINT)
    return Dataset(
        request.name,
        tuple(_class_names(arrays, splits, path)),
        *splits,
        normalisation=Normalisation.measured(splits[0].images),
        augmentation=Augmentation(),
        source=str(path),
    )


# ------------------------------------------------------------------ MedMNIST

ORGANS = (
    "bladder, left femur, right femur, heart, left kidney, right kidney, liver, left lung, "
    "right lung, pancreas, spleen"
)


# Tissue, cells, lesions and eyes have no top. A body has one, and its left is not its right.
SHIFTED = Augmentation(padding=2)
MIRRORED = Augmentation(padding=2, flip=True)
TURNED = Augmentation(padding=2, symmetries=True)


class _Known(NamedTuple):
    checksum: str
    classes: str
    summary: str
    augmentation: Augmentation = SHIFTED


MEDMNIST = {
    "bloodmnist": _Known(
        "md5:7053d0359d879ad8a5505303e11de1dc",
        "basophil, eosinophil, erythroblast, immature granulocyte, lymphocyte, monocyte, "
        "neutrophil, platelet",
        "blood cells under the microscope",
        TURNED,
    ),
    "breastmnist": _Known(
        "sha256:3a22d2a4625e7dd8903f0f59030e81a3d0c222bece2e5e10927456cb50efdec1",
        "malignant, normal or benign",
        "breast ultrasound",
        MIRRORED,
    ),
    "dermamnist": _Known(
        "md5:0744692d530f8e62ec473284d019b0c7",
        "actinic keratosis, basal cell carcinoma, benign keratosis, dermatofibroma, melanoma, "
        "melanocytic nevus, vascular lesion",
        "pigmented skin lesions",
        TURNED,
    ),
    "octmnist": _Known(
        "md5:c68d92d5b585d8d81f7112f81e2d0842",
        "choroidal neovascularisation, diabetic macular oedema, drusen, normal",
        "optical coherence tomography of the retina",
        MIRRORED,
    ),
    "organamnist": _Known("md5:866b832ed4eeba67bfb9edee1d5544e6", ORGANS, "abdominal CT, axial"),
    "organcmnist": _Known("md5:0afa5834fb105f7705a7d93372119a21", ORGANS, "abdominal CT, coronal"),
    "organsmnist": _Known("md5:e5c39f1af030238290b9557d9503af9d", ORGANS, "abdominal CT, sagittal"),
    "pathmnist": _Known(
        "md5:a8b06965200029087d5bd730944a56c1",
        "adipose, background, debris, lymphocytes, mucus, smooth muscle, normal colon mucosa, "
        "cancer-associated stroma, colorectal adenocarcinoma",
        "colon tissue",
        TURNED,
    ),
    "pneumoniamnist": _Known(
        "md5:28209eda62fecd6e6a2d98b1501bb15f", "normal, pneumonia", "chest X-rays of children"
    ),
    "retinamnist": _Known(
        "sha256:254915f5f0a2074665c4676356824cf4ef4a3bcab233894b4bafcaf48962bd69",
        "grade 0, grade 1, grade 2, grade 3, grade 4",
        "diabetic retinopathy, five grades",
        TURNED,
    ),
    "tissuemnist": _Known(
        "md5:ebe78ee8b05294063de985d821c1c34b",
        "collecting duct or connecting tubule, distal convoluted tubule, glomerular endothelium, "
        "interstitial endothelium, leukocyte, podocyte, proximal tubule, thick ascending limb",
        "kidney cortex cells",
        TURNED,
    ),
}


def medmnist_file(name: str) -> RemoteFile:
    """Return the published file of one of the sets."""
    return RemoteFile(
        f"medmnist/{name}.npz",
        f"https://zenodo.org/records/6496656/files/{name}.npz?download=1",
        MEDMNIST[name].checksum,
    )


def load_medmnist(request: DataRequest) -> Dataset:
    """Read one of the sets, scaled to [-1, 1] as its authors do."""
    path = request.find(f"medmnist/{request.name}.npz", f"{request.name}.npz")
    known = MEDMNIST[request.name]
    class_names = tuple(known.classes.split(", "))
    splits = _splits(read_npz(path), path, request, len(class_names))
    return Dataset(
        request.name,
        class_names,
        *splits,
        normalisation=Normalisation.symmetric(splits[0].images.shape[-1]),
        augmentation=known.augmentation,
        source=str(path),
    )
