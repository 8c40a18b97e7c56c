"""Atomic writing: a file is always the old or the new one, even if the process dies."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from expertload.exceptions import FileWriteError

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


def check_replaceable(path: str | os.PathLike[str]) -> None:
    """Refuse a path that exists and is not a regular file: a rename would replace it.

    Examples
    --------
    >>> from expertload._files import check_replaceable
    >>> check_replaceable("/dev/null")
    Traceback (most recent call last):
    expertload.exceptions.FileWriteError: /dev/null could not be written: it is a device. ...
    """
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return  # it does not exist yet, or writing will raise the error
    if not stat.S_ISREG(mode):
        kind = KINDS.get(stat.S_IFMT(mode), "a device")
        raise FileWriteError(
            f"{os.fspath(path)} could not be written: it is {kind}. Hint: name a new or existing "
            "file."
        )


def write_atomically(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Write a temporary file, make it durable, then rename it; a failure leaves no trace.

    Raises the system's `OSError` and leaves the target unchanged; also if the target is not a
    regular file.
    """
    with replaced_whole(path) as draft, draft.open("xb") as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def replaced_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of a draft to write; without an error, the draft becomes the target."""
    check_replaceable(path)
    target = Path(path)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        yield draft
        with draft.open("r+b") as stream:
            os.fsync(stream.fileno())
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def private(path: str, flags: int) -> int:
    """Open a file that only its owner can read; an `opener` for `open`."""
    return os.open(path, flags, 0o600)


@contextlib.contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a draft of a folder to fill; without an error, it becomes the target.

    The target must not exist, or be empty: nothing that somebody has written is replaced. Only its
    owner can open it.
    """
    target = Path(path)
    draft = target.absolute().with_name(f".{target.absolute().name}.{secrets.token_hex(8)}.tmp")
    with explained_write_errors(target):
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise FileWriteError(f"{target} exists already. Hint: name a new folder.")
        try:
            draft.mkdir(mode=0o700)
            yield draft
            draft.replace(target)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        _sync_folder(target.absolute().parent)


@contextlib.contextmanager
def explained_write_errors(out: str | os.PathLike[str]) -> Iterator[None]:
    """Turn a system error into a sentence that names the file."""
    try:
        yield
    except FileWriteError:
        raise
    except OSError as error:
        why = (error.strerror or str(error).splitlines()[0]).rstrip(".")
        raise FileWriteError(f"{out} could not be written: {why}.") from error


@contextlib.contextmanager
def one_at_a_time(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let one process after the other read a file and replace it; the others wait.

    Otherwise, if two of them start from the same file, the second would undo what the first added.
    The folder is locked, because the file itself is replaced. The lock ends with the process, and
    leaves no trace. Systems and network drives without such locks are not protected.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    handle = os.open(Path(path).absolute().parent, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Make the rename durable, if the system supports it."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
