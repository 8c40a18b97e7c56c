"""Ctrl-C, from the first moment to the last: one line and exit code 130, never a traceback.

Before a command runs nothing needs to be tidied, so the process ends at once. An exception would
not do: it is raised wherever an import happens to be, and some imports turn it into another error.
While a command runs, Ctrl-C is Python's KeyboardInterrupt, so that files are closed and drafts
removed. When all is done, the process ends as any other does.

Nothing is changed where Ctrl-C means something else already: in the background, under a program
that handles it, or in a thread.
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
    except ValueError:  # only the main thread may say what a signal does
        yield
        return
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def raised_as_exception() -> None:
    """Let Ctrl-C be a KeyboardInterrupt from now on, if it ended the process until now.

    Examples
    --------
    >>> from expertload.cli.interrupts import raised_as_exception
    >>> raised_as_exception()
    """
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
