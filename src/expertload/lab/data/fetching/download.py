"""Downloads that survive bad networks: resumed where they stopped, checked, never half done.

What has arrived is kept in ``NAME.part``. Each attempt asks for the rest only; a server that
ignores the question sends everything and the part is started again. Only bytes that have the
published checksum leave the part file, so a damaged download never replaces a good file.
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
        Where to collect what arrives.
    checksum : str
        ``"md5:..."`` or ``"sha256:..."``.
    at_most : int
        The most bytes that the file may have; if a server sends more, the download stops.
    progress : bool, default=False
        Show a progress bar where standard error is a terminal.
    attempts : int, default=5
        How often to try before giving up; running again goes on where this stopped.
    pause : float, default=1.0
        Seconds before the second attempt, doubled for each further one.
    timeout : float, default=60
        Seconds without a byte before an attempt is given up.
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
        """Download `url` to `output_file`, as pooch asks."""
        resumed = self._size() > 0
        self._complete(url)
        if not self._has_checksum() and resumed:
            # What was there before may be of another version; start again from the beginning.
            self.part.unlink()
            self._complete(url)
        if not self._has_checksum():
            self.part.unlink()
            raise DownloadError(
                f"What {url} sent does not have the published checksum and was thrown away. "
                "Hint: try again later, or put a good copy where it belongs and use --data-dir."
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
                        "same command again; it goes on where this stopped "
                        f"({self._size():,} bytes are there)."
                    ) from error
                wait = getattr(error, "wait", None) or self.pause * 2 ** (attempt - 1)
                time.sleep(min(wait, LONGEST_PAUSE))
            except requests.RequestException as error:  # waiting would not help
                raise DownloadError(f"Could not download {url}: {error}.") from error

    def _transfer(self, url: str) -> None:
        have = self._size()
        # Compressed transfer would make positions in the file meaningless.
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        with requests.get(url, headers=headers, stream=True, timeout=self.timeout) as response:
            if response.status_code == requests.codes.requested_range_not_satisfiable:
                return  # nothing follows what is there; the checksum decides
            _check_status(response, url)
            goes_on = response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
            if response.status_code == requests.codes.partial_content and not goes_on:
                self.part.unlink()
                raise _BusyError("the server sent another part than it was asked for")
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
        # Unbuffered, so that what has arrived is kept when the process is killed.
        with bar, self.part.open("ab" if have else "wb", buffering=0) as file:
            for chunk in response.iter_content(CHUNK):
                have += len(chunk)
                if have > self.at_most:
                    self.part.unlink()
                    raise DownloadError(
                        f"{response.url} sends more than {self.at_most:,} bytes, which is more "
                        "than the file has. What came was thrown away. Hint: the address may have "
                        "moved; download the file by hand and name its folder with --data-dir."
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
        raise _BusyError(f"the server answers {code}", float(wait) if wait.isdigit() else None)
    if code >= 400:
        raise DownloadError(
            f"The server answers {code} to {url}. Hint: the address may have moved; download the "
            "file by hand and name its folder with --data-dir."
        )
