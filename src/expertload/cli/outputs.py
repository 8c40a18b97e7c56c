"""Where a command may write: into folders that are there, and never over what it reads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

__all__ = ["check_output"]


def check_output(target: Path, *, others: Iterable[Path] = ()) -> None:
    """Refuse, before any work, what could not be written or would replace a file in use.

    Examples
    --------
    >>> from pathlib import Path
    >>> from expertload.cli.outputs import check_output
    >>> check_output(Path("report.html"), others=[Path("predictions.csv")])
    """
    from expertload.exceptions import FileWriteError

    if target.is_dir():
        raise FileWriteError(f"{target} could not be written: it is a folder.")
    if not target.absolute().parent.is_dir():
        raise FileWriteError(f"There is no folder {target.parent} to write {target.name} into.")
    for other in others:
        if _is_same(target, other):
            raise FileWriteError(
                f"{target} would be written over {other}, which this command needs. Hint: name "
                "another file."
            )


def _is_same(target: Path, other: Path) -> bool:
    """Whether two names are one file, through links too; also of one that is not there yet."""
    if target.exists() and other.exists():
        return target.samefile(other)
    return target.resolve() == other.resolve()
