"""Predicts new images with the network of a run, in a file that `expertload decide` reads.

New images are processed like the test images: resized as for training, normalised with the training
images, over the views that an ensemble was made with. Images of another kind are refused, because
the certificate does not apply to them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from expertload._check import check_count, require_extra
from expertload._typing import AnyArray, FloatArray
from expertload.exceptions import DataNotFoundError, FileFormatError, ParameterError, ShapeError
from expertload.io.write import open_writer
from expertload.lab.data import Dataset, Split
from expertload.lab.data.dataset import ImageArray
from expertload.lab.data.image_files import SUFFIXES, as_images, decode_images, own_file, read_npz
from expertload.lab.runs.finished import Runs, probabilities_of, read_runs

if TYPE_CHECKING:
    from torch import nn

Progress = Callable[[int, int | None], None]
Read = Callable[[slice], ImageArray]


def predict_images(
    folders: Runs,
    images: str,
    out: str | os.PathLike[str] | IO[Any],
    *,
    batch_size: int = 512,
    progress: Progress | None = None,
    **access: Any,
) -> int:
    """Write the probabilities of new images.

    Parameters
    ----------
    folders : path, FinishedRun, or sequence of these
        A finished run or ensemble, or the folder of `lower_load`, for its model. The
        probabilities of several runs are averaged.
    images : str
        ``"folder:PATH"``: all images in it and in its subfolders. ``"npz:PATH"``: the array
        ``images``, or ``test_images`` if there is none.
    out : path or stream
        A .csv, .jsonl or .parquet file, written completely or not at all; a stream for CSV.
    batch_size : int, default=512
        The number of images per batch.
    progress : callable, optional
        Called with the number of images done, and the total.
    **access
        Options of `FinishedRun`, such as `allow` and `device`.

    Returns
    -------
    int
        The number of images. Their rows have a column ``image``, the path in the folder or the row
        number, and a column ``p_CLASS`` for each class.

    Examples
    --------
    >>> import io
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from expertload.lab import RunConfig, predict_images, train
    >>> config = RunConfig.model_validate({
    ...     "data": {"name": "digits"}, "model": {"name": "small-cnn"}, "loss": {"name": "ce"},
    ...     "training": {"epochs": 1, "batch_size": 64, "learning_rate": 0.1}})
    >>> with TemporaryDirectory() as place:
    ...     run, new, out = Path(place) / "run", Path(place) / "new.npz", io.StringIO()
    ...     _ = train(config, run, accelerator="cpu")
    ...     np.savez(new, images=np.zeros((3, 8, 8), np.uint8))
    ...     predict_images(run, f"npz:{new}", out)
    3
    >>> out.getvalue().splitlines()[0]
    'image,p_0,p_1,p_2,p_3,p_4,p_5,p_6,p_7,p_8,p_9'
    """
    check_count(batch_size, "batch_size")
    runs = read_runs(folders, **access)
    learned = [run.load_description() for run in runs]
    data = _shared(learned)
    names, read = _open(images, runs[0].config.data.image_size)
    networks = [run.load_network(own) for run, own in zip(runs, learned, strict=True)]
    arrow = require_extra("pyarrow", "frames", "Writing predictions")
    done = 0
    with open_writer(out) as write:
        for start in range(0, len(names), batch_size):
            some = slice(start, start + batch_size)
            fitting = _fitting(read(some), data, images)
            pairs = zip(networks, learned, strict=True)
            proba = np.mean([_probabilities(one, fitting, own) for one, own in pairs], axis=0)
            columns = {"image": names[some]} | {
                f"p_{name}": proba[:, place] for place, name in enumerate(data.class_names)
            }
            write({name: arrow.array(values) for name, values in columns.items()})
            done += len(fitting)
            if progress is not None:
                progress(done, len(names))
    return done


def _shared(learned: Sequence[Dataset]) -> Dataset:
    """Return the shared description of the runs; each keeps its own normalisation."""
    first, *others = learned
    for other in others:
        if (first.class_names, first.image_shape) != (other.class_names, other.image_shape):
            raise ParameterError(
                "predict_images needs runs with the same classes and image size. Got "
                f"{first.num_classes} classes of {_shape(first.image_shape)} and "
                f"{other.num_classes} of {_shape(other.image_shape)}. Hint: predict with one run "
                "at a time."
            )
    return first


def _probabilities(network: nn.Module, pixels: ImageArray, data: Dataset) -> FloatArray:
    from expertload.lab.runs.network import apply_network

    split = Split(pixels, np.zeros(len(pixels), np.int64))
    size = max(1, len(pixels))
    return probabilities_of(apply_network(network, split, data.normalisation, batch_size=size))


def _fitting(pixels: ImageArray, data: Dataset, source: str) -> ImageArray:
    """Return the images in the shape of the training images; refuse those that do not fit."""
    wanted = data.image_shape
    if wanted[2] == 1 and pixels.shape[-1] == 3 and (pixels == pixels[..., :1]).all():
        pixels = pixels[..., :1]  # image files are read as colour, but these are grey
    elif wanted[2] == 3 and pixels.shape[-1] == 1:
        pixels = np.repeat(pixels, 3, axis=-1)
    if pixels.shape[1:] != wanted:
        raise ShapeError(
            f"The images of {source} must be {_shape(wanted)}, like the training images. Got "
            f"{_shape(pixels.shape[1:])}. Hint: convert their size and colour."
        )
    return pixels


def _shape(shape: Sequence[int]) -> str:
    colour = {1: "grey", 3: "in colour"}.get(shape[2], f"of {shape[2]} channels")
    return f"{shape[1]} x {shape[0]} pixels, {colour}"


# ------------------------------------------------------------------ where images are


def _open(images: str, size: int | None) -> tuple[AnyArray, Read]:
    """Return the names of all images, and a function that reads a slice of them."""
    kind, _, argument = images.partition(":")
    if kind == "folder" and argument:
        return _open_folder(Path(argument).expanduser(), size)
    if kind == "npz" and argument:
        return _open_npz(own_file(argument))
    raise ParameterError(
        f"New images are read from folder:PATH or npz:PATH. Got {images!r} instead."
    )


def _open_folder(root: Path, size: int | None) -> tuple[AnyArray, Read]:
    if not root.is_dir():
        raise DataNotFoundError(f"There is no folder {root}. Hint: write folder:PATH.")
    paths = sorted(path for path in root.rglob("*") if path.suffix.lower() in SUFFIXES)
    if not paths:
        raise DataNotFoundError(
            f"The folder {root} has no images. Hint: use PNG, JPEG, BMP, GIF, TIFF or WebP files."
        )
    names = np.array([path.relative_to(root).as_posix() for path in paths], dtype=object)
    return names, lambda some: decode_images(paths[some], size=size)


def _open_npz(path: Path) -> tuple[AnyArray, Read]:
    arrays = read_npz(path)
    key = next((name for name in ("images", "test_images") if name in arrays), None)
    if key is None:
        raise FileFormatError(
            f"{path} has no array 'images' (it has {', '.join(arrays)}). Hint: "
            "numpy.savez(path, images=...) with uint8 of shape (n, height, width, channels)."
        )
    pixels = as_images(arrays[key], key, path)
    if not len(pixels):
        raise DataNotFoundError(f"{path} has no images.")
    return np.arange(len(pixels)), lambda some: pixels[some]
