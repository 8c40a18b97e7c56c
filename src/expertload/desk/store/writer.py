"""The one thread that writes: waiting requests share a commit, and are answered after it.

SQLite lets one connection write at a time, and a durable commit costs a flush to the disk. So one
thread does all writing. Requests that wait when a commit ends go into the next commit together,
each in its own savepoint. None is reported as done before it is on the disk.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from expertload.exceptions import DeskUnavailableError

__all__ = ["Writer"]

Work = Callable[[Connection], Any]
MOST_IN_A_COMMIT = 256


@dataclass(eq=False)
class _QueuedWork:
    """Work that waits for the writing thread, and then its result or error."""

    work: Work
    future: Future[Any] = field(default_factory=Future)
    result: Any = None
    error: BaseException | None = None


class Writer:
    """Runs work in its own thread and returns the results after the commit."""

    def __init__(self, engine: Engine, explain: Callable[[DBAPIError], Exception]) -> None:
        self._engine = engine
        self._explain = explain
        self._waiting: queue.SimpleQueue[_QueuedWork | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="desk-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Work) -> Future[Any]:
        """Queue work; its future gets the result when the commit is on the disk, or the error."""
        request = _QueuedWork(work)
        with self._closing:
            if self._closed:
                raise DeskUnavailableError("The desk is shutting down. Hint: try again in a while.")
            self._waiting.put(request)
        return request.future

    def close(self) -> None:
        """Finish the waiting work and end the thread."""
        with self._closing:
            self._closed = True
            self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        going_on = True
        while going_on:
            first = self._waiting.get()
            if first is None:
                return
            batch = [first]
            while len(batch) < MOST_IN_A_COMMIT and not self._waiting.empty():
                following = self._waiting.get()
                if following is None:
                    going_on = False
                    break
                batch.append(following)
            self._commit(batch)

    def _commit(self, batch: list[_QueuedWork]) -> None:
        try:
            with self._engine.begin() as connection:
                if len(batch) == 1:  # the transaction is its savepoint
                    batch[0].result = batch[0].work(connection)
                else:
                    for request in batch:
                        _attempt(request, connection)
        except BaseException as error:  # of any kind: those who wait must get an answer
            raised = self._explain(error) if isinstance(error, DBAPIError) else error
            for request in batch:
                request.future.set_exception(raised)
            return
        for request in batch:
            if request.error is not None:
                request.future.set_exception(request.error)
            else:
                request.future.set_result(request.result)


def _attempt(request: _QueuedWork, connection: Connection) -> None:
    """Do the work of one request in a savepoint, so that its failure does not affect the others.

    If the disk is full, SQLite ends the whole transaction. Then the error is raised for the whole
    batch: no request is kept, and the rest is not written outside of a transaction.
    """
    raised: list[Exception] = []
    try:
        with connection.begin_nested():
            try:
                request.result = request.work(connection)
            except Exception as error:
                raised.append(error)
                raise
    except Exception as error:
        if not connection.connection.dbapi_connection.in_transaction:  # type: ignore[union-attr]
            raise (raised or [error])[0] from None
        request.error = error
