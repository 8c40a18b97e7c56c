"""Downloads files, checks them, and unpacks archives; each step completely or not at all.

Received bytes are kept in ``NAME.part``. Each attempt requests only the rest; if a server ignores
this and sends everything, the part is started again. A file leaves the part only if it has the
published checksum, so a damaged download never replaces a good file.

An archive is unpacked beside its target, with Python's own protection against names and links that
lead elsewhere. Only the expected folder is kept, and it gets its name when it is complete.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import time
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from filelock import FileLock
from tqdm import tqdm

from expertload.exceptions import DownloadError
from expertload.lab.data.files import RemoteFile, damaged

CHUNK = 1 << 14  # small, because the last incomplete chunk is lost when a connection breaks
LONGEST_PAUSE = 30.0
BY_HAND = (
    "the address may have changed; download the file by hand and name its folder with --data-dir"
)


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
        `attempts` (5), the seconds of the first `pause` between them (1) and the seconds without
        data before an attempt is abandoned, `timeout` (60).

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
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two processes that start together must not write to the same part file.
    with FileLock(path.with_name(f".{path.name}.lock")):
        if file.unpacks_to is None:
            return _Download(file, path, **options).fetch()
        target = folder / file.unpacks_to
        if not target.exists():
            unpack(_Download(file, path, **options).fetch(), target)
        missing = file.missing_from(folder)
        if missing:
            problem = f"lacks {', '.join(missing)}"
            raise damaged(target, problem, "move it away and fetch the data set again")
        return target


@dataclass(frozen=True)
class _Download:
    """A download that resumes and retries within bounds; `pause` doubles at each attempt."""

    file: RemoteFile
    path: Path
    progress: bool = False
    attempts: int = 5
    pause: float = 1.0
    timeout: float = 60

    @property
    def part(self) -> Path:
        """The file that received bytes are kept in."""
        return self.path.with_name(f"{self.path.name}.part")

    def fetch(self) -> Path:
        """Return the path of the file, downloaded unless it is there already."""
        if self.path.is_file() and self._has_checksum(self.path):
            return self.path
        resumed = self._size() > 0
        self._complete()
        if not self._has_checksum(self.part) and resumed:
            # The part may belong to another version; start again from the beginning.
            self.part.unlink()
            self._complete()
        if not self._has_checksum(self.part):
            self.part.unlink()
            raise DownloadError(
                f"The download of {self.file.url} does not have the published checksum and was "
                "deleted. Hint: try again later, or put a good copy in a folder and name it with "
                "--data-dir."
            )
        self.part.replace(self.path)
        return self.path

    def _complete(self) -> None:
        for attempt in range(self.attempts):
            try:
                return self._transfer()
            except requests.RequestException as error:
                problem = error
            asked = getattr(problem.response, "headers", {}).get("Retry-After", "")
            wait = float(asked) if asked.isdigit() else self.pause * 2**attempt
            if attempt + 1 < self.attempts:
                time.sleep(min(wait, LONGEST_PAUSE))
        raise DownloadError(
            f"Could not download {self.file.url} in {self.attempts} attempts: {problem}. Hint: "
            "run the same command again; it continues where this stopped "
            f"({self._size():,} bytes are saved)."
        ) from problem

    def _transfer(self) -> None:
        have = self._size()
        # With compressed transfer, positions in the file would be meaningless.
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with requests.get(
            self.file.url, headers=headers, stream=True, timeout=self.timeout
        ) as response:
            code = response.status_code
            if code == requests.codes.requested_range_not_satisfiable:
                return  # the file is already complete; the checksum decides
            if 400 <= code < 500 and code != requests.codes.too_many_requests:
                raise DownloadError(
                    f"The server answered {code} for {self.file.url}. Hint: {BY_HAND}."
                )
            response.raise_for_status()
            goes_on = response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
            if code == requests.codes.partial_content and not goes_on:
                self.part.unlink()
                raise requests.RequestException("the server sent another part than requested")
            self._store(response, have if goes_on else 0)

    def _store(self, response: requests.Response, have: int) -> None:
        length = response.headers.get("Content-Length", "")
        bar = tqdm(
            desc=self.part.stem,
            total=have + int(length) if length.isdigit() else None,
            initial=have,
            unit="B",
            unit_scale=True,
            disable=None if self.progress else True,
        )
        # Unbuffered, so that received bytes are kept when the process is killed.
        with bar, self.part.open("ab" if have else "wb", buffering=0) as file:
            for chunk in response.iter_content(CHUNK):
                have += len(chunk)
                if have > self.file.at_most:
                    self.part.unlink()
                    raise DownloadError(
                        f"{response.url} sends more than {self.file.at_most:,} bytes, which is "
                        f"more than the file has. The download was deleted. Hint: {BY_HAND}."
                    )
                file.write(chunk)
                bar.update(len(chunk))

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _has_checksum(self, path: Path) -> bool:
        algorithm, _, digest = self.file.checksum.partition(":")
        with path.open("rb") as content:
            return hashlib.file_digest(content, algorithm).hexdigest() == digest


# ------------------------------------------------------------------ archives

_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    FileNotFoundError,  # the folder is not in the archive
)


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
