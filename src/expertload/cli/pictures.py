"""Writes plots as files: in a known format, atomically, and reproducibly."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from expertload.cli.outputs import check_output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["check_picture", "save_picture"]

SUFFIXES = (".png", ".svg", ".pdf")
DOTS_PER_INCH = 200


def check_picture(out: Path, *, others: Iterable[Path] = ()) -> None:
    """Refuse, before any work, a path without a picture format, or that cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from expertload.cli.pictures import check_picture
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
    >>> from expertload.cli.pictures import save_picture
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     out = Path(folder) / "empty.svg"
    ...     save_picture(Figure(), out)
    ...     out.read_text()[:5]
    '<?xml'
    """
    from matplotlib import rc_context

    from expertload._files import write_atomically
    from expertload.predictions.writing import saying_write_errors

    kind = out.suffix.lower().removeprefix(".")
    undated = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    picture = io.BytesIO()
    with rc_context({"svg.hashsalt": "expertload"}):
        figure.savefig(picture, format=kind, dpi=DOTS_PER_INCH, metadata=undated)
    with saying_write_errors(out):
        write_atomically(out, picture.getvalue())
