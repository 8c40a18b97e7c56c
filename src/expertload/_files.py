"""Writing files whole: whoever reads, and whenever the process dies, it is the old or the new."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

__all__ = ["replaced_whole", "write_atomically"]


def write_atomically(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Write beside the target, make it durable, then rename over it; a failure leaves no trace.

    Raises what the system raises (`OSError`), the target being as it was.
    """
    with replaced_whole(path) as draft, draft.open("xb") as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def replaced_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give the path of a draft to write; on leaving without an error it becomes the target."""
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


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
