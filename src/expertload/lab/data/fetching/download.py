"""Downloads that can be resumed and are always checked.

Received bytes are kept in ``NAME.part``. Each attempt requests only the rest; if a server ignores
this and sends everything, the part is started again. A file leaves the part only if it has the
published checksum, so a damaged download never replaces a good file.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any

import requests
from tqdm import tqdm

from expertload.exceptions import DownloadError

__all__ = ["ResumingDownloader"]

CHUNK = 1 << 14  # small, because the last incomplete chunk is lost when a connection breaks
LONGEST_PAUSE = 30.0


class _BusyError(Exception):
    """The server is busy and asks us to try again later."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


_PASSING = (
    _BusyError,
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
)


class ResumingDownloader:
    """A downloader for pooch that resumes and retries within bounds.

    Parameters
    ----------
    part : Path
        The file that collects the received bytes.
    checksum : str
        ``"md5:..."`` or ``"sha256:..."``.
    at_most : int
        The largest size of the file in bytes; if a server sends more, the download stops.
    progress : bool, default=False
        Show a progress bar if standard error is a terminal.
    attempts : int, default=5
        The number of attempts; running again continues where this stopped.
    pause : float, default=1.0
        Seconds before the second attempt, doubled for each further one.
    timeout : float, default=60
        Seconds without data before an attempt is abandoned.
    """

    def __init__(
        self,
        part: Path,
        checksum: str,
        *,
        at_most: int,
        progress: bool = False,
        attempts: int = 5,
        pause: float = 1.0,
        timeout: float = 60,
    ) -> None:
        self.part = part
        self.checksum = checksum
        self.at_most = at_most
        self.progress = progress
        self.attempts = attempts
        self.pause = pause
        self.timeout = timeout

    def __call__(self, url: str, output_file: str, _: Any) -> None:
        """Download `url` to `output_file`, as pooch requires."""
        resumed = self._size() > 0
        self._complete(url)
        if not self._has_checksum() and resumed:
            # The part may belong to another version; start again from the beginning.
            self.part.unlink()
            self._complete(url)
        if not self._has_checksum():
            self.part.unlink()
            raise DownloadError(
                f"The download of {url} does not have the published checksum and was deleted. "
                "Hint: try again later, or put a good copy in a folder and name it with --data-dir."
            )
        self.part.replace(output_file)

    def _complete(self, url: str) -> None:
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._transfer(url)
            except _PASSING as error:
                if attempt == self.attempts:
                    raise DownloadError(
                        f"Could not download {url} in {attempt} attempts: {error}. Hint: run the "
                        "same command again; it continues where this stopped "
                        f"({self._size():,} bytes are saved)."
                    ) from error
                wait = getattr(error, "wait", None) or self.pause * 2 ** (attempt - 1)
                time.sleep(min(wait, LONGEST_PAUSE))
            except requests.RequestException as error:  # retrying would not help
                raise DownloadError(f"Could not download {url}: {error}.") from error

    def _transfer(self, url: str) -> None:
        have = self._size()
        # With compressed transfer, positions in the file would be meaningless.
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        with requests.get(url, headers=headers, stream=True, timeout=self.timeout) as response:
            if response.status_code == requests.codes.requested_range_not_satisfiable:
                return  # the file is already complete; the checksum decides
            _check_status(response, url)
            goes_on = response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
            if response.status_code == requests.codes.partial_content and not goes_on:
                self.part.unlink()
                raise _BusyError("the server sent another part than requested")
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
                if have > self.at_most:
                    self.part.unlink()
                    raise DownloadError(
                        f"{response.url} sends more than {self.at_most:,} bytes, which is more "
                        "than the file has. The download was deleted. Hint: the address may have "
                        "changed; download the file by hand and name its folder with --data-dir."
                    )
                file.write(chunk)
                bar.update(len(chunk))

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _has_checksum(self) -> bool:
        algorithm, _, digest = self.checksum.partition(":")
        with self.part.open("rb") as file:
            return hashlib.file_digest(file, algorithm).hexdigest() == digest


def _check_status(response: requests.Response, url: str) -> None:
    code = response.status_code
    if code == requests.codes.too_many_requests or code >= 500:
        wait = response.headers.get("Retry-After", "")
        raise _BusyError(f"the server answered {code}", float(wait) if wait.isdigit() else None)
    if code >= 400:
        raise DownloadError(
            f"The server answered {code} for {url}. Hint: the address may have changed; download "
            "the file by hand and name its folder with --data-dir."
        )
