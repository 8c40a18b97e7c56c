"""Downloads files with pooch, checks them, and unpacks archives; completely or not at all.

A download gets its name only if it has the published checksum, so a damaged one never replaces a
good file. An archive is unpacked beside its target, with Python's own protection against names and
links that lead elsewhere. Only the expected folder is kept, and it gets its name when it is
complete.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import pooch
import requests
from filelock import FileLock

from expertload.exceptions import DataDamagedError, DownloadError
from expertload.lab.data.files import RemoteFile, damaged


def fetch_files(
    files: Iterable[RemoteFile],
    folder: Path,
    *,
    progress: bool = False,
    retries: int = 3,
    timeout: float = 60.0,
) -> list[Path]:
    """Download the files that are not yet in a folder.

    Parameters
    ----------
    files : iterable of RemoteFile
    folder : Path
        Created if it does not exist.
    progress : bool, default=False
        Show a progress bar if standard error is a terminal.
    retries : int, default=3
        Further attempts after the first one.
    timeout : float, default=60
        Seconds without data before an attempt is given up.

    Returns
    -------
    list of Path
        The files, or the folders that archives were unpacked to.
    """
    pooch.get_logger().setLevel("WARNING")
    download = pooch.HTTPDownloader(progressbar=progress and sys.stderr.isatty(), timeout=timeout)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_fetch(file, folder, download, retries) for file in files]
    except DataDamagedError:
        raise
    except (requests.RequestException, ValueError) as error:  # pooch's, for a wrong checksum
        raise DownloadError(
            f"Could not download a file to {folder}: {error}. Hint: run the same command again, "
            "or download it by hand and name its folder with --data-dir."
        ) from error
    except OSError as error:  # a full disk, a folder that may not be written
        raise DownloadError(
            f"Could not write to {folder}: {error}. Hint: free some space, or choose another "
            "folder with --data-dir or the EXPERTLOAD_DATA environment variable."
        ) from error


def _fetch(file: RemoteFile, folder: Path, download: pooch.HTTPDownloader, retries: int) -> Path:
    source = pooch.create(
        folder,
        base_url="",
        registry={file.path: file.checksum},
        urls={file.path: file.url},
        retry_if_failed=retries,
    )
    # Two processes that start together must not unpack the same archive.
    with FileLock(folder / f".{Path(file.path).name}.lock"):
        if file.unpacks_to is None:
            return Path(source.fetch(file.path, downloader=download))
        target = folder / file.unpacks_to
        if not target.exists():
            unpack(Path(source.fetch(file.path, downloader=download)), target)
        missing = file.missing_from(folder)
        if missing:
            problem = f"lacks {', '.join(missing)}"
            raise damaged(target, problem, "move it away and fetch the data set again")
        return target


# The last one means that the folder is not in the archive.
_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, FileNotFoundError)


def unpack(archive: Path, target: Path) -> None:
    """Unpack the one folder that an archive holds.

    Parameters
    ----------
    archive : Path
        A ``.zip``, or a ``.tar`` with or without compression.
    target : Path
        Where the folder goes; its last part is the folder's name inside the archive. It must
        not exist yet.

    Raises
    ------
    DataDamagedError
        If the archive is damaged or does not hold the folder; then nothing is left behind.
    """
    staging = target.with_name(f".{target.name}.unpacking")
    shutil.rmtree(staging, ignore_errors=True)  # left over from a killed process
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(staging)
        else:
            with tarfile.open(archive) as file:
                file.extractall(staging, filter="data")
        (staging / target.name).rename(target)
    except _DAMAGE as error:
        raise damaged(archive, f"cannot be unpacked ({error})") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
