"""Results go to standard output, errors to standard error.

Labels, groups, names of files and of models are strangers' text. A terminal takes some characters
for commands: to recolour or erase what stands there, to rename the window, to write backwards. On
every console made here they are shown as signs, and never reach the terminal.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

__all__ = ["complain", "console", "neutral", "one_line", "true_text"]

# Characters that command a terminal or reorder a line, and what is shown for each.
SIGNS = {
    **{code: chr(0x2400 + code) for code in range(0x20)},  # ␛ for escape, and so on
    0x7F: "\u2421",
    **dict.fromkeys(range(0x80, 0xA0), "\ufffd"),
    **dict.fromkeys((0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F)), "\ufffd"),
    **dict.fromkeys((*range(0x2066, 0x206A), 0x2028, 0x2029, 0xFEFF), "\ufffd"),
}
LAYOUT = {ord(character): character for character in "\n\t"}


def neutral(text: str) -> str:
    r"""Return text in which nothing commands a terminal; lines and tabs stay.

    Examples
    --------
    >>> from expertload.cli.screen import neutral
    >>> neutral("\x1b[31mred\x07")
    '␛[31mred␇'
    """
    return text.translate({**SIGNS, **LAYOUT})


def one_line(text: object) -> str:
    r"""Return a name as one line: nothing in it can pass for a line of its own.

    Examples
    --------
    >>> from expertload.cli.screen import one_line
    >>> one_line("site A\nAll is certified.")
    'site A␊All is certified.'
    """
    return str(text).translate(SIGNS)


def true_text(text: str) -> str:
    r"""Return what a user typed, with ? for bytes that are no text in the user's encoding.

    Examples
    --------
    >>> from expertload.cli.screen import true_text
    >>> true_text("model \udcff")
    'model ?'
    """
    return text.encode(errors="replace").decode()


class _Screen(Console):
    """A console that neutralises all text, and can write whatever the encoding of the output."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Return what is to be written, neutralised."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else self._writable(neutral(text)), style, control)

    def _writable(self, text: str) -> str:
        return text.encode(self.encoding, "replace").decode(self.encoding)


def console(*, stderr: bool = False) -> Console:
    """Return a console; where lines go to a file, they are not broken at 80 columns.

    Examples
    --------
    >>> from expertload.cli.screen import console
    >>> console().print("ready")
    ready
    """
    made = _Screen(stderr=stderr, highlight=False)
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
