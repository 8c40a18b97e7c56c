"""The write-ahead log moved into the file by a thread of its own, so that no commit waits for it.

SQLite would do this inside the commit that fills the log's thousandth page, and that one sender or
reader would wait for all of it.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from pathlib import Path

__all__ = ["Checkpointer"]

EVERY_SECONDS = 1.0
MOST_PAGES = 4_000  # of a log that grows although it is moved, for writers never rest
PATIENCE_SECONDS = 0.05  # while which writers may have to wait


class Checkpointer:
    """Moves the log of a database while others read and write."""

    def __init__(self, file: Path) -> None:
        self._file = file
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
        while not self._ending.wait(EVERY_SECONDS):
            with contextlib.suppress(sqlite3.Error):  # a full disk: the writer has the words
                _move(connection)
        connection.close()


def _move(connection: sqlite3.Connection) -> None:
    """Move what is in the log; begin it anew where that alone would never empty it."""
    _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    if pages > MOST_PAGES:
        connection.execute("PRAGMA wal_checkpoint(RESTART)").close()
