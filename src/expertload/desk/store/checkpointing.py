"""A thread that moves SQLite's write-ahead log into the database file while nothing is written.

By default, SQLite does this inside the commit that fills the log's thousandth page, and that one
sender or reader waits for all of it. At the same time as a commit, the disk has two files to flush,
and the commit takes ten times as long. So the log is moved after a second without writes and, under
steady load, every 15 seconds or when it is too long.
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
MOST_BYTES = 64_000_000  # a longer log is cut to this size when it starts again
PAGE_BYTES = 4_096
BUSY_SECONDS = 0.05  # how long writers may have to wait


class Checkpointer:
    """Moves the log of a database into its file, from its own thread."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._log = file.with_name(f"{file.name}-wal")
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="desk-checkpointer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; SQLite moves the rest when the last connection closes."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        connection = sqlite3.connect(
            self._file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        seen = moved = 0  # SQLite's numbers for the last commit seen, and the last one moved
        last = time.monotonic()
        while not self._ending.wait(REST_SECONDS):
            with contextlib.suppress(OSError, sqlite3.Error):  # the writer reports a full disk
                before, seen = seen, _version(connection)
                resting = seen == before
                waited = time.monotonic() - last
                if seen != moved and is_time(resting, waited, self._log.stat().st_size):
                    _move(connection)
                    moved, last = seen, time.monotonic()
        connection.close()


def is_time(resting: bool, waited: float, log_bytes: int) -> bool:
    """Whether to move the log now: nobody is writing, or it cannot wait any longer."""
    return resting or waited > LATEST_SECONDS or log_bytes > MOST_BYTES


def _version(connection: sqlite3.Connection) -> int:
    (number,) = connection.execute("PRAGMA data_version").fetchone()
    return int(number)


def _move(connection: sqlite3.Connection) -> None:
    """Move the log into the file; if it stays too long, make writers start it again."""
    _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    if pages * PAGE_BYTES > MOST_BYTES:
        connection.execute("PRAGMA wal_checkpoint(RESTART)").close()
