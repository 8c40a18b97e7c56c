"""The interface between families of data sets and the registry."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from expertload._validation import require_extra
from expertload.exceptions import DataDamagedError, DataNotFoundError
from expertload.lab.data.dataset import Dataset

__all__ = ["DataRequest", "Entry", "RemoteFile", "cache_folder", "damaged"]


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
    at_most : int
        The largest size of a download in bytes: the published size, or a little more. A server
        that sends more is not sending this file.
    unpacks_to : str or None
        For an archive: the folder it holds, relative to the data folder.
    holds : tuple of str
        For an archive: the files that a complete folder must contain.
    """

    path: str
    url: str
    checksum: str
    at_most: int
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
    argument: str | None
    folder: Path
    is_given: bool
    seed: int
    image_size: int | None = None

    @property
    def base_name(self) -> str:
        """The name without its argument: ``cifar100-c`` of ``cifar100-c:fog``."""
        return self.name.partition(":")[0]

    def find(self, *candidates: str) -> Path:
        """Return the first relative path that exists; if none does, name the command to run."""
        for candidate in candidates:
            path = self.folder / candidate
            if path.exists():
                return path
        raise DataNotFoundError(
            f"The data set '{self.base_name}' is not in {self.folder} (looked for "
            f"{' and '.join(candidates)}). Hint: run '{self.fetch_command}'"
            f"{'' if self.is_given else ', or name the folder that has it with --data-dir'}."
        )

    @property
    def fetch_command(self) -> str:
        """The command that downloads the data."""
        command = f"expertload lab data fetch {self.base_name}"
        return f"{command} --data-dir {self.folder}" if self.is_given else command


@dataclass(frozen=True)
class Entry:
    """One line of the registry.

    Attributes
    ----------
    name : str
    summary : str
        One line for the list of data sets.
    load : callable
    files : tuple of RemoteFile
        The files that `fetch_dataset` downloads; empty if none are needed.
    argument : str or None
        The argument after a colon (a path, a corruption); None if there is none.
    """

    name: str
    summary: str
    load: Callable[[DataRequest], Dataset]
    files: tuple[RemoteFile, ...] = ()
    argument: str | None = None


def damaged(path: Path, problem: str, hint: str | None = None) -> DataDamagedError:
    """Return the error for a damaged or unexpected file."""
    advice = hint or "delete it and fetch the data set again (expertload lab data fetch NAME)"
    return DataDamagedError(f"The file {path} {problem}. Hint: {advice}.")
