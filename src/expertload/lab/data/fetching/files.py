"""Downloads a data set, checks and unpacks it; each step completely or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from expertload._validation import require_extra
from expertload.exceptions import DownloadError
from expertload.lab.data.catalogue import RemoteFile, damaged
from expertload.lab.data.fetching.archives import unpack

__all__ = ["fetch_files"]


def fetch_files(
    files: Iterable[RemoteFile], folder: Path, *, progress: bool = False, **options: Any
) -> list[Path]:
    """Download the files that are not yet in a folder.

    Parameters
    ----------
    files : iterable of RemoteFile
    folder : Path
        Created if it does not exist.
    progress : bool, default=False
        Show a progress bar if standard error is a terminal.
    **options
        Passed to `expertload.lab.data.fetching.download.ResumingDownloader`.

    Returns
    -------
    list of Path
        The files, or the folders that archives were unpacked to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_fetch(file, folder, progress=progress, **options) for file in files]
    except DownloadError:
        raise
    except OSError as error:  # a full disk, a folder that may not be written
        raise DownloadError(
            f"Could not write to {folder}: {error}. Hint: free some space, or choose another "
            "folder with --data-dir or the EXPERTLOAD_DATA environment variable."
        ) from error


def _fetch(file: RemoteFile, folder: Path, **options: Any) -> Path:
    path = folder / file.path
    target = folder / file.unpacks_to if file.unpacks_to else None
    path.parent.mkdir(parents=True, exist_ok=True)
    file_lock = require_extra("filelock", "lab", "Downloading")
    # Two processes that start together must not write to the same part file.
    with file_lock.FileLock(path.with_name(f".{path.name}.lock")):
        if target is None:
            return _download(file, folder, **options)
        if not target.exists():
            unpack(_download(file, folder, **options), target)
        missing = file.missing_from(folder)
        if missing:
            raise damaged(
                target,
                f"lacks {', '.join(missing)}",
                "move it away and fetch the data set again",
            )
        return target


def _download(file: RemoteFile, folder: Path, **options: Any) -> Path:
    pooch = require_extra("pooch", "lab", "Downloading")
    require_extra("tqdm", "lab", "Downloading")
    # Imported here, because listing the data sets should not load an HTTP client.
    from expertload.lab.data.fetching.download import ResumingDownloader

    part = folder / f"{file.path}.part"
    store = pooch.Pooch(
        path=folder, base_url="", registry={file.path: file.checksum}, urls={file.path: file.url}
    )
    downloader = ResumingDownloader(part, file.checksum, at_most=file.at_most, **options)
    return Path(store.fetch(file.path, downloader=downloader))
