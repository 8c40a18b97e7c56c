"""MedMNIST v2: small medical images, 28 x 28, with official splits.

The two-dimensional sets with one label per image are here. ChestMNIST has fourteen labels per
image and so no single correctness; the three-dimensional sets are volumes.

References
----------
Yang et al., "MedMNIST v2", Scientific Data 2023.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from expertload.lab.data.catalogue import DataRequest, Entry, RemoteFile, damaged
from expertload.lab.data.dataset import Augmentation, Dataset, Normalisation
from expertload.lab.data.families.npz import read_npz, splits_from_arrays

__all__ = ["ENTRIES", "load"]

ADDRESS = "https://zenodo.org/records/6496656/files/{name}.npz?download=1"
LARGEST = 250_000_000  # bytes; PathMNIST has some 206 million
ORGANS = (
    "bladder, left femur, right femur, heart, left kidney, right kidney, liver, left lung, "
    "right lung, pancreas, spleen"
)


# Tissue, cells, lesions and eyes have no top. A body has one, and its left is not its right.
SHIFTED = Augmentation(padding=2)
MIRRORED = Augmentation(padding=2, flip=True)
TURNED = Augmentation(padding=2, symmetries=True)


class _Known(NamedTuple):
    md5: str
    classes: str
    summary: str
    augmentation: Augmentation = SHIFTED


KNOWN = {
    "bloodmnist": _Known(
        "7053d0359d879ad8a5505303e11de1dc",
        "basophil, eosinophil, erythroblast, immature granulocyte, lymphocyte, monocyte, "
        "neutrophil, platelet",
        "blood cells under the microscope",
        TURNED,
    ),
    "breastmnist": _Known(
        "750601b1f35ba3300ea97c75c52ff8f6",
        "malignant, normal or benign",
        "breast ultrasound",
        MIRRORED,
    ),
    "dermamnist": _Known(
        "0744692d530f8e62ec473284d019b0c7",
        "actinic keratosis, basal cell carcinoma, benign keratosis, dermatofibroma, melanoma, "
        "melanocytic nevus, vascular lesion",
        "pigmented skin lesions",
        TURNED,
    ),
    "octmnist": _Known(
        "c68d92d5b585d8d81f7112f81e2d0842",
        "choroidal neovascularisation, diabetic macular oedema, drusen, normal",
        "optical coherence tomography of the retina",
        MIRRORED,
    ),
    "organamnist": _Known("866b832ed4eeba67bfb9edee1d5544e6", ORGANS, "abdominal CT, axial"),
    "organcmnist": _Known("0afa5834fb105f7705a7d93372119a21", ORGANS, "abdominal CT, coronal"),
    "organsmnist": _Known("e5c39f1af030238290b9557d9503af9d", ORGANS, "abdominal CT, sagittal"),
    "pathmnist": _Known(
        "a8b06965200029087d5bd730944a56c1",
        "adipose, background, debris, lymphocytes, mucus, smooth muscle, normal colon mucosa, "
        "cancer-associated stroma, colorectal adenocarcinoma",
        "colon tissue",
        TURNED,
    ),
    "pneumoniamnist": _Known(
        "28209eda62fecd6e6a2d98b1501bb15f", "normal, pneumonia", "chest X-rays of children"
    ),
    "retinamnist": _Known(
        "bd4c0672f1bba3e3a89f0e4e876791e4",
        "grade 0, grade 1, grade 2, grade 3, grade 4",
        "diabetic retinopathy, five grades",
        TURNED,
    ),
    "tissuemnist": _Known(
        "ebe78ee8b05294063de985d821c1c34b",
        "collecting duct or connecting tubule, distal convoluted tubule, glomerular endothelium, "
        "interstitial endothelium, leukocyte, podocyte, proximal tubule, thick ascending limb",
        "kidney cortex cells",
        TURNED,
    ),
}


def load(request: DataRequest) -> Dataset:
    """Read one of the sets, scaled to [-1, 1] as its authors do."""
    path = request.find(f"medmnist/{request.name}.npz", f"{request.name}.npz")
    splits = splits_from_arrays(read_npz(path), path, request.seed)
    class_names = tuple(KNOWN[request.name].classes.split(", "))
    highest = max(int(split.labels.max()) for split in splits)
    if highest >= len(class_names):
        raise damaged(path, f"has label {highest} in a set of {len(class_names)} classes")
    return Dataset(
        request.name,
        class_names,
        *splits,
        normalisation=Normalisation.symmetric(splits[0].images.shape[-1]),
        augmentation=KNOWN[request.name].augmentation,
        source=str(path),
    )


def _entry(name: str, known: _Known, reader: Callable[[DataRequest], Dataset]) -> Entry:
    file = RemoteFile(
        f"medmnist/{name}.npz", ADDRESS.format(name=name), f"md5:{known.md5}", at_most=LARGEST
    )
    return Entry(name, f"MedMNIST: {known.summary}", reader, (file,))


ENTRIES = tuple(_entry(name, known, load) for name, known in KNOWN.items())
