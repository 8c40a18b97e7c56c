"""The write-ahead log moved into the file by a thread of its own, while the writers rest.

SQLite would do this inside the commit that fills the log's thousandth page, and that one sender or
reader would wait for all of it. Beside a commit the disk has two files to flush, and the commit
takes ten times as long: so the log is moved when nothing was written for a second, and under steady
work once in a while.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from pathlib import Path

__all__ = ["MOST_BYTES", "Checkpointer"]

REST_SECONDS = 1.0
LATEST_SECONDS = 15.0
MOST_BYTES = 64_000_000  # of a log, to which it is cut when it begins anew
PAGE_BYTES = 4_096
PATIENCE_SECONDS = 0.05  # while which writers may have to wait


class Checkpointer:
    """Moves the log of a database while others read and write."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._log = file.with_name(f"{file.name}-wal")
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="desk-checkpointer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; the last connection that closes moves the rest."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        connection = sqlite3.connect(
            self._file, timeout=PATIENCE_SECONDS, isolation_level=None, check_same_thread=False
        )
        seen = moved = 0  # numbers that SQLite gives to what others have committed
        last = time.monotonic()
        while not self._ending.wait(REST_SECONDS):
            with contextlib.suppress(OSError, sqlite3.Error):  # a full disk: the writer has words
                before, seen = seen, _version(connection)
                resting = seen == before
                waited = time.monotonic() - last
                if seen != moved and is_time(resting, waited, self._log.stat().st_size):
                    _move(connection)
                    moved, last = seen, time.monotonic()
        connection.close()


def is_time(resting: bool, waited: float, log_bytes: int) -> bool:
    """Whether to move the log now: nobody is disturbed, or it must not wait any longer."""
    return resting or waited > LATEST_SECONDS or log_bytes > MOST_BYTES


def _version(connection: sqlite3.Connection) -> int:
    (number,) = connection.execute("PRAGMA data_version").fetchone()
    return int(number)


def _move(connection: sqlite3.Connection) -> None:
    """Move what is in the log; where writers never rest, make them begin it anew."""
    _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    if pages * PAGE_BYTES > MOST_BYTES:
        connection.execute("PRAGMA wal_checkpoint(RESTART)").close()
