"""Files of data sets: where they are published, and where they are on this machine.

What is known about each data set is in ``datasets.toml``, beside this module.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from expertload._check import require_extra
from expertload._typing import AnyArray
from expertload.exceptions import DataDamagedError, DataNotFoundError
from expertload.lab.data.dataset import Augmentation, Dataset, Normalisation, Split, carve


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
    holds : sequence of str
        For an archive: the files that a complete folder must contain.
    """

    path: str
    url: str
    checksum: str
    unpacks_to: str | None = None
    holds: Sequence[str] = ()

    def is_present(self, folder: Path) -> bool:
        """Whether the file, or the folder it unpacks to, is in a data folder."""
        if self.unpacks_to is None:
            return (folder / self.path).is_file() or (folder / Path(self.path).name).is_file()
        return self.missing_from(folder) == []

    def missing_from(self, folder: Path) -> list[str]:
        """Return what the unpacked folder lacks."""
        unpacked = folder / (self.unpacks_to or "")
        return [name for name in self.holds if not (unpacked / name).exists()]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What is known about a data set before its files are read.

    Attributes
    ----------
    name : str
    summary : str
        One line for the list of data sets.
    reader : str
        The reader of its files; see `expertload.lab.data.registry`.
    argument : str or None
        The argument after a colon (a path, a corruption); None if there is none.
    files : sequence of RemoteFile
        The files that `fetch_dataset` downloads; empty if none are needed.
    classes : sequence of str
        The names of the classes; empty if the files have them.
    mean, std : sequence of float
        Of each channel, or one number for all; empty if the training images are measured.
    augmentation : Augmentation
    """

    name: str
    summary: str
    reader: str
    argument: str | None = None
    files: Sequence[RemoteFile] = ()
    classes: Sequence[str] = ()
    mean: Sequence[float] = ()
    std: Sequence[float] = ()
    augmentation: Augmentation = field(default_factory=Augmentation)

    def normalisation(self, train: Split) -> Normalisation:
        """Return the normalisation for a network that is trained on these images."""
        if not self.mean:
            return Normalisation.measured(train.images)
        times = train.images.shape[-1] // len(self.mean)
        return Normalisation((*self.mean,) * times, (*self.std,) * times)


def read_entries() -> dict[str, Entry]:
    """Return the data sets of ``datasets.toml`` by name."""
    tables = tomllib.loads((files(__package__) / "datasets.toml").read_text("utf-8"))
    return {name: _entry(name, tables) for name in tables}


def _entry(name: str, tables: dict[str, dict[str, Any]]) -> Entry:
    own = tables[name]
    given = {"name": name, "reader": name, **tables.get(own.pop("like", ""), {}), **own}
    given["files"] = [RemoteFile(**file) for file in given.get("files", ())]
    given["augmentation"] = Augmentation(**given.get("augmentation", {}))
    return Entry(**given)


@dataclass(frozen=True)
class DataRequest:
    """The arguments of one call of `load_dataset`, and what is known about the data set."""

    known: Entry
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

    def find_file(self, number: int = 0) -> Path:
        """Return one of the published files, in its place or in the data folder itself."""
        path = self.known.files[number].path
        return self.find(path, Path(path).name)

    def dataset(
        self, splits: tuple[Split, Split, Split], source: Path | str, classes: Sequence[str] = ()
    ) -> Dataset:
        """Return splits as a data set; `classes` are needed if they are not known beforehand."""
        return Dataset(
            self.name,
            tuple(classes or self.known.classes),
            *splits,
            normalisation=self.known.normalisation(splits[0]),
            augmentation=self.known.augmentation,
            source=str(source),
        )

    def hold_out(self, train: Split, share: float = 0.1) -> tuple[Split, Split]:
        """Return what is left of the training images, and the part held out for validation."""
        return carve(train, share, self.seed)


def damaged(path: Path, problem: str, hint: str | None = None) -> DataDamagedError:
    """Return the error for a damaged or unexpected file or folder."""
    advice = hint or "delete it and fetch the data set again (expertload lab data fetch NAME)"
    kind = "folder" if path.is_dir() else "file"
    return DataDamagedError(f"The {kind} {path} {problem}. Hint: {advice}.")


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
