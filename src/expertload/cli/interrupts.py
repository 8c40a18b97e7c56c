"""Ctrl-C at any time prints one line and gives exit code 130, never a traceback.

Before a command runs, nothing has to be cleaned up, so the process ends immediately. An exception
would not work: it would be raised inside some import, and some imports turn it into another error.
While a command runs, Ctrl-C raises Python's KeyboardInterrupt, so that files are closed and
temporary files removed. At the end, the process exits normally.

Nothing is changed if Ctrl-C already has another meaning: in the background, under a program that
handles it, or in a thread.
"""

import atexit
import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType

__all__ = ["ends_at_once", "raised_as_exception"]


def _end(_number: int, _frame: FrameType | None) -> None:
    with contextlib.suppress(OSError):
        os.write(2, b"Stopped before anything was done.\n")
    os._exit(130)


@contextlib.contextmanager
def ends_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process with one line.

    Examples
    --------
    >>> import signal
    >>> from expertload.cli.interrupts import ends_at_once
    >>> before = signal.getsignal(signal.SIGINT)
    >>> with ends_at_once():
    ...     pass
    >>> signal.getsignal(signal.SIGINT) is before
    True
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    try:
        signal.signal(signal.SIGINT, _end)
    except ValueError:  # only the main thread may set a signal handler
        yield
        return
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def raised_as_exception() -> None:
    """Let Ctrl-C raise a KeyboardInterrupt from now on, if it ended the process until now.

    Examples
    --------
    >>> from expertload.cli.interrupts import raised_as_exception
    >>> raised_as_exception()
    """
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
