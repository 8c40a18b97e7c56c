"""Small files in the official formats, made on the spot, and where the real ones are."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[3]
SHARED = Path(os.environ.get("EXPERTLOAD_SHARED", REPOSITORY.parent / "shared"))


def random_images(rng, *shape):
    return rng.integers(0, 256, size=shape, dtype=np.uint8)


def write_cifar(folder, *, classes=4, train_each=20, test_each=5, seed=0):
    """Write pickles as Python 2 wrote the official ones: protocol 2, byte strings as keys."""
    rng = np.random.default_rng(seed)
    target = folder / "cifar-100-python"
    target.mkdir(parents=True)
    contents = {"meta": {b"fine_label_names": [f"class {c}".encode() for c in range(classes)]}}
    for part, each in (("train", train_each), ("test", test_each)):
        labels = rng.permutation(np.repeat(np.arange(classes), each)).tolist()
        contents[part] = {b"data": random_images(rng, len(labels), 3072), b"fine_labels": labels}
    for part, content in contents.items():
        (target / part).write_bytes(pickle.dumps(content, protocol=2))
    return contents
