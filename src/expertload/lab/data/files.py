"""Files of data sets: where they are published, and where they are on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from expertload._check import require_extra
from expertload._typing import AnyArray
from expertload.exceptions import DataDamagedError, DataNotFoundError
from expertload.lab.data.dataset import Split, carve

VALIDATION_SHARE = 0.1


def cache_folder() -> Path:
    """Return the folder for downloads: $EXPERTLOAD_DATA, or the user's cache."""
    chosen = os.environ.get("EXPERTLOAD_DATA")
    if chosen:
        return Path(chosen).expanduser()
    return Path(require_extra("pooch", "lab", "The data cache").os_cache("expertload"))


@dataclass(frozen=True)
class RemoteFile:
    """A file as its authors publish it.

    Attributes
    ----------
    path : str
        Where it belongs, relative to the data folder.
    url : str
        The official address.
    checksum : str
        ``"md5:..."`` or ``"sha256:..."`` as published.
    unpacks_to : str or None
        For an archive: the folder it holds, relative to the data folder.
    holds : tuple of str
        For an archive: the files that a complete folder must contain.
    """

    path: str
    url: str
    checksum: str
    unpacks_to: str | None = None
    holds: tuple[str, ...] = ()

    def is_present(self, folder: Path) -> bool:
        """Whether the file, or the folder it unpacks to, is in a data folder."""
        if self.unpacks_to is None:
            return (folder / self.path).is_file() or (folder / Path(self.path).name).is_file()
        return self.missing_from(folder) == []

    def missing_from(self, folder: Path) -> list[str]:
        """Return what the unpacked folder lacks."""
        unpacked = folder / (self.unpacks_to or "")
        return [name for name in self.holds if not (unpacked / name).exists()]


@dataclass(frozen=True)
class DataRequest:
    """The arguments of one call of `load_dataset`."""

    name: str
    argument: str
    folder: Path
    is_given: bool
    seed: int
    image_size: int | None = None

    def find(self, *candidates: str) -> Path:
        """Return the first relative path that exists; if none does, name the command to run."""
        for candidate in candidates:
            path = self.folder / candidate
            if path.exists():
                return path
        name = self.name.partition(":")[0]
        place = f" --data-dir {self.folder}" if self.is_given else ""
        raise DataNotFoundError(
            f"The data set '{name}' is not in {self.folder} (looked for "
            f"{' and '.join(candidates)}). Hint: run 'expertload lab data fetch {name}{place}'"
            f"{'' if self.is_given else ', or name the folder that has it with --data-dir'}."
        )

    def hold_out(self, train: Split, share: float = VALIDATION_SHARE) -> tuple[Split, Split]:
        """Return what is left of the training images, and the part held out for validation."""
        return carve(train, share, self.seed)


def damaged(path: Path, problem: str, hint: str | None = None) -> DataDamagedError:
    """Return the error for a damaged or unexpected file."""
    advice = hint or "delete it and fetch the data set again (expertload lab data fetch NAME)"
    return DataDamagedError(f"The file {path} {problem}. Hint: {advice}.")


@contextmanager
def reading(path: Path, kind: str, hint: str | None = None) -> Iterator[None]:
    """Report any failure inside as a damaged file: readers raise nearly anything on those."""
    try:
        yield
    except Exception as error:
        raise damaged(path, f"cannot be read as {kind} ({error})", hint) from error


def checked_split(
    path: Path, images: AnyArray, labels: AnyArray, num_classes: int, hint: str | None = None
) -> Split:
    """Return images and labels of a file, if they fit each other and the number of classes."""
    if images.dtype != np.uint8 or images.ndim != 4 or labels.shape != images.shape[:1]:
        got = f"{images.dtype} images of shape {images.shape}"
        raise damaged(path, f"has labels of shape {labels.shape} for {got}", hint)
    if labels.dtype.kind not in "biu" or not labels.size:
        raise damaged(path, "has no labels that are whole numbers", hint)
    if labels.min() < 0 or labels.max() >= num_classes:
        label = labels.min() if labels.min() < 0 else labels.max()
        raise damaged(path, f"has label {label} in a set of {num_classes} classes", hint)
    return Split(np.ascontiguousarray(images), labels.astype(np.int64))
