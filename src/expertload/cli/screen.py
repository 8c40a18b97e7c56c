"""What is said goes to standard output, what went wrong to standard error."""

from __future__ import annotations

import os

from rich.console import Console
from rich.text import Text

__all__ = ["complain", "console"]


def console(*, stderr: bool = False) -> Console:
    """Return a console; where lines go to a file, they are not broken at 80 columns.

    Examples
    --------
    >>> from expertload.cli.screen import console
    >>> console().print("ready")
    ready
    """
    made = Console(stderr=stderr, highlight=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = 160
    return made


def complain(sentence: str, *, style: str = "red") -> None:
    """Print a sentence on standard error, as it is: brackets in it are no markup.

    Examples
    --------
    >>> from expertload.cli.screen import complain
    >>> complain("There is no recipe at [x].")
    """
    console(stderr=True).print(Text(sentence, style=style), soft_wrap=True)
