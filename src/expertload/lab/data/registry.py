"""Every data set by name: listing, fetching, loading."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from expertload._check import check_count, needs_extra
from expertload.exceptions import ParameterError
from expertload.lab.data import cifar, classics, image_files
from expertload.lab.data.dataset import Dataset
from expertload.lab.data.files import DataRequest, Entry, cache_folder, read_entries

_ENTRIES = read_entries()
_READERS: dict[str, Callable[[DataRequest], Dataset]] = {
    "digits": classics.load_digits,
    "cifar100": cifar.load_cifar100,
    "cifar100-lt": cifar.load_long_tail,
    "cifar100-c": cifar.load_corrupted,
    "tiny-imagenet": image_files.load_tiny_imagenet,
    "svhn": classics.load_svhn,
    "fashion-mnist": classics.load_fashion_mnist,
    "folder": image_files.load_folder,
    "npz": image_files.load_npz,
}


@dataclass(frozen=True)
class DatasetInfo:
    """One line of the list of data sets.

    Attributes
    ----------
    usage : str
        The name to write, with its argument if it has one.
    summary : str
    present : bool
        Whether it can be loaded without a download.
    """

    usage: str
    summary: str
    present: bool


def dataset_names() -> tuple[str, ...]:
    """Return the names that `load_dataset` accepts.

    Examples
    --------
    >>> from expertload.lab.data import dataset_names
    >>> dataset_names()[0]
    'digits'
    """
    return tuple(_ENTRIES)


def describe_datasets(*, data_dir: str | os.PathLike[str] | None = None) -> tuple[DatasetInfo, ...]:
    """Return one line about each data set, and whether it is on this machine.

    Examples
    --------
    >>> from expertload.lab.data import describe_datasets
    >>> describe_datasets()[0].present  # the digits come with scikit-learn
    True
    """
    folder = _folder(data_dir)
    return tuple(
        DatasetInfo(
            f"{entry.name}:{entry.argument}" if entry.argument else entry.name,
            entry.summary,
            all(file.is_present(folder) for file in entry.files),
        )
        for entry in _ENTRIES.values()
    )


def fetch_dataset(
    name: str, *, data_dir: str | os.PathLike[str] | None = None, progress: bool = False
) -> Path:
    """Download a data set from its official address, unless it is already present.

    Parameters
    ----------
    name : str
        One of `dataset_names`; what follows a colon is ignored.
    data_dir : path, optional
        The folder for it; by default $EXPERTLOAD_DATA, or the user's cache folder.
    progress : bool, default=False
        Show a progress bar if standard error is a terminal.

    Returns
    -------
    Path
        The data folder, to be passed to `load_dataset` as `data_dir`.

    Raises
    ------
    DownloadError
        If it could not be completed.

    Examples
    --------
    >>> from expertload.lab.data import fetch_dataset
    >>> _ = fetch_dataset("digits")  # embedded: nothing to do
    """
    folder, files = _folder(data_dir), _entry(name).files
    # Imported here, because listing the data sets should not load an HTTP client.
    with needs_extra("lab", "Downloading"):
        from expertload.lab.data.fetching import fetch_files
    fetch_files(files, folder, progress=progress)
    return folder


def load_dataset(
    name: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    seed: int = 0,
    image_size: int | None = None,
) -> Dataset:
    """Load a data set into memory.

    Parameters
    ----------
    name : str
        One of `dataset_names`, with an argument after a colon if it needs one:
        ``"cifar100-c:fog:3"``, ``"folder:scans/"``, ``"npz:mine.npz"``.
    data_dir : path, optional
        The folder with the files; by default the one that `fetch_dataset` uses.
    seed : int, default=0
        Seed of the split, the long tail, the degradation and the corruptions. It belongs to the
        data: do not change it when you train with several seeds.
    image_size : int, optional
        Only for ``folder:``: resize all images to this height and width.

    Raises
    ------
    DataNotFoundError
        If the files do not exist; the message names the command to run.
    DataDamagedError
        If the files are damaged.

    Examples
    --------
    >>> from expertload.lab.data import load_dataset
    >>> load_dataset("digits")
    Dataset('digits': 997/300/500 images of 8 x 8 x 1, 10 classes)
    """
    entry = _entry(name)
    argument = name.partition(":")[2]
    _check_argument(entry, argument)
    seed = check_count(seed, "seed", minimum=0)
    if image_size is not None:
        image_size = check_count(image_size, "image_size")
        if entry.name != "folder":
            raise ParameterError(
                f"'image_size' is only for 'folder:PATH'. Got {image_size} with {name!r}."
            )
    given = data_dir is not None
    request = DataRequest(entry, name, argument, _folder(data_dir), given, seed, image_size)
    return _READERS[entry.reader](request)


def _folder(data_dir: str | os.PathLike[str] | None) -> Path:
    return cache_folder() if data_dir is None else Path(data_dir).expanduser()


def _entry(name: str) -> Entry:
    base = str(name).partition(":")[0]
    if base in _ENTRIES:
        return _ENTRIES[base]
    near = difflib.get_close_matches(base, _ENTRIES, n=1)
    if Path(name).is_dir():
        near = [f"folder:{name}"]
    elif Path(name).is_file():
        near = [f"npz:{name}"]
    hint = f"did you mean {near[0]!r}?" if near else "'expertload lab data list' shows them all."
    raise ParameterError(f"There is no data set {name!r}. Hint: {hint}")


def _check_argument(entry: Entry, argument: str) -> None:
    if entry.argument and not argument:
        raise ParameterError(
            f"The data set {entry.name!r} needs an argument. Hint: write "
            f"{entry.name}:{entry.argument}."
        )
    if argument and entry.argument is None:
        raise ParameterError(
            f"The data set {entry.name!r} has no argument. Got {argument!r} after a colon."
        )
