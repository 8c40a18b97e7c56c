"""Outputs: paths are checked before any work, and files are written completely or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from matplotlib.figure import Figure


SUFFIXES = (".png", ".svg", ".pdf")
DOTS_PER_INCH = 200

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Report = Annotated[Path | None, typer.Option(metavar="REPORT.html", help="Write a report.")]
Rows = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A .csv, .jsonl or .parquet file, written completely or not at all.",
        show_default="CSV to standard output",
    ),
]


def check_output(target: Path, *, others: Iterable[Path] = ()) -> None:
    """Refuse, before any work, a path that cannot be written or would replace an input.

    Examples
    --------
    >>> from pathlib import Path
    >>> from expertload.cli.outputs import check_output
    >>> check_output(Path("report.html"), others=[Path("predictions.csv")])
    """
    from expertload._files import check_replaceable
    from expertload.exceptions import FileWriteError

    for other in others:
        if _is_same(target, other):
            raise FileWriteError(
                f"{target} would replace {other}, which this command reads. Hint: name another "
                "file."
            )
    check_replaceable(target)
    if not target.absolute().parent.is_dir():
        raise FileWriteError(f"There is no folder {target.parent} to write {target.name} into.")


def give_up_standard_output(error: OSError) -> str:
    """Return a sentence about why standard output failed, and discard the rest of the output.

    Otherwise Python would write its buffers at exit, and fail again.

    Examples
    --------
    >>> from expertload.cli.outputs import give_up_standard_output
    >>> give_up_standard_output(OSError(28, "No space left on device"))
    'Standard output could not be written completely: No space left on device.'
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if sys.__stdout__ is not None and sys.stdout is sys.__stdout__:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.__stdout__.fileno())
            os.close(nowhere)
    why = (error.strerror or str(error)).rstrip(".")
    return f"Standard output could not be written completely: {why}."


def _is_same(target: Path, other: Path) -> bool:
    """Whether two paths are the same file, also through links, and before the file exists."""
    if target.exists() and other.exists():
        return target.samefile(other)
    return target.resolve() == other.resolve()


def check_picture(out: Path, *, others: Iterable[Path] = ()) -> None:
    """Refuse, before any work, a path without a picture format, or that cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from expertload.cli.outputs import check_picture
    >>> check_picture(Path("coc.png"))
    """
    from expertload.exceptions import FileWriteError

    if out.suffix.lower() not in SUFFIXES:
        raise FileWriteError(
            f"The plot must be written as {', '.join(SUFFIXES)}. Got --out {out}. Hint: name a "
            f"file such as {out.stem or 'coc'}.png; 'expertload evaluate --out' writes HTML "
            "reports."
        )
    check_output(out, others=others)


def save_picture(figure: Figure, out: Path) -> None:
    """Write a figure completely or not at all; the same input gives the same file.

    Examples
    --------
    >>> import tempfile
    >>> from matplotlib.figure import Figure
    >>> from expertload.cli.outputs import save_picture
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     out = Path(folder) / "empty.svg"
    ...     save_picture(Figure(), out)
    ...     out.read_text()[:5]
    '<?xml'
    """
    from matplotlib import rc_context

    from expertload._files import explained_write_errors, write_atomically

    kind = out.suffix.lower().removeprefix(".")
    undated = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    picture = io.BytesIO()
    with rc_context({"svg.hashsalt": "expertload"}):
        figure.savefig(picture, format=kind, dpi=DOTS_PER_INCH, metadata=undated)
    with explained_write_errors(out):
        write_atomically(out, picture.getvalue())
