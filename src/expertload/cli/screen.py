"""Results go to standard output, errors to standard error.

Labels, groups and the names of files and models are untrusted text. A terminal executes some
characters as commands: to recolour or erase text, to rename the window, to write backwards. Every
console made here prints visible symbols instead, so that such characters never reach the terminal.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

PACKAGE = str(Path(__file__).parents[1])

# Characters that control a terminal or reorder a line, and the symbol shown for each.
SIGNS = {
    **{code: chr(0x2400 + code) for code in range(0x20)},  # ␛ for escape, and so on
    0x7F: "\u2421",
    **dict.fromkeys(range(0x80, 0xA0), "\ufffd"),
    **dict.fromkeys((0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F)), "\ufffd"),
    **dict.fromkeys((*range(0x2066, 0x206A), 0x2028, 0x2029, 0xFEFF), "\ufffd"),
}
LAYOUT = {ord(character): character for character in "\n\t"}


def neutral(text: str) -> str:
    r"""Return text without characters that control a terminal; line ends and tabs are kept.

    Examples
    --------
    >>> from expertload.cli.screen import neutral
    >>> neutral("\x1b[31mred\x07")
    '␛[31mred␇'
    """
    return text.translate({**SIGNS, **LAYOUT})


def one_line(text: object) -> str:
    r"""Return a name as one line, so that no part of it can look like another line.

    Examples
    --------
    >>> from expertload.cli.screen import one_line
    >>> one_line("site A\nAll is certified.")
    'site A␊All is certified.'
    """
    return str(text).translate(SIGNS)


def true_text(text: str) -> str:
    r"""Return a user's input, with ? for bytes that are not valid in the user's encoding.

    Examples
    --------
    >>> from expertload.cli.screen import true_text
    >>> true_text("model \udcff")
    'model ?'
    """
    return text.encode(errors="replace").decode()


class Screen(Console):
    """A console that neutralises all text, and works with any output encoding."""

    def say(self, sentence: str, style: str | None = None) -> None:
        """Print a sentence, which the terminal may break anywhere: paths can still be copied."""
        self.print(sentence, style=style, soft_wrap=True)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Return the text to write, neutralised."""
        for text, style, control in super().render(renderable, options):
            shown = neutral(text).encode(self.encoding, "replace").decode(self.encoding)
            yield Segment(text if control else shown, style, control)


def console(*, stderr: bool = False) -> Screen:
    """Return a console; lines written to a file are not broken at 80 columns.

    Examples
    --------
    >>> from expertload.cli.screen import console
    >>> console().print("ready")
    ready
    """
    # What is printed are names and sentences: `[old]` is no style, and `:fog:` no picture.
    made = Screen(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = 160
    return made


def table_of(
    headings: Sequence[str],
    rows: Iterable[Sequence[RenderableType]],
    *,
    title: str | None = None,
    left: bool = False,
) -> Table:
    """Return a table without lines: names on the left, and numbers on the right.

    With `left`, all columns hold words, on the left.

    Examples
    --------
    >>> from expertload.cli.screen import console, table_of
    >>> console().print(table_of(["group", "load"], [["a", "5 %"], ["b", "12 %"]]))
    group  load
    a       5 %
    b      12 %
    """
    made = Table(box=None, pad_edge=False, header_style="dim", title=title, title_justify="left")
    made.add_column(headings[0], no_wrap=True)
    for heading in headings[1:]:
        made.add_column(heading, justify="right" if heading and not left else "left")
    for row in rows:
        made.add_row(*row)
    return made


def give_up_standard_output(error: OSError) -> str:
    """Return a sentence about why standard output failed, and discard the rest of the output.

    Otherwise Python would write its buffers at exit, and fail again.

    Examples
    --------
    >>> from expertload.cli.screen import give_up_standard_output
    >>> give_up_standard_output(OSError(28, "No space left on device"))
    'Standard output could not be written completely: No space left on device.'
    """
    with suppress(OSError, ValueError, AttributeError):
        if sys.__stdout__ is not None and sys.stdout is sys.__stdout__:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.__stdout__.fileno())
            os.close(nowhere)
    why = (error.strerror or str(error)).rstrip(".")
    return f"Standard output could not be written completely: {why}."


def complain(sentence: str, *, style: str = "red") -> None:
    """Print a sentence on standard error; brackets in it are not markup.

    Examples
    --------
    >>> from expertload.cli.screen import complain
    >>> complain("There is no recipe at [x].")
    """
    console(stderr=True).say(sentence, style)


@contextmanager
def warnings_as_sentences() -> Iterator[None]:
    """Show the library's own warnings as sentences, without a file name and a line of source.

    Examples
    --------
    >>> from expertload.cli.screen import warnings_as_sentences
    >>> with warnings_as_sentences():
    ...     pass
    """
    shown = warnings.showwarning

    def show(
        message: Warning | str, category: type[Warning], filename: str, *place: Any, **options: Any
    ) -> None:
        own = category.__module__.startswith("expertload.") or filename.startswith(PACKAGE)
        if own:
            complain(f"Warning: {message}", style="yellow")
        else:
            shown(message, category, filename, *place, **options)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = shown


@contextmanager
def rows_done(what: str) -> Iterator[Callable[[int, int | None], None] | None]:
    """Yield a function to call with the number of rows done, and the total if known.

    Examples
    --------
    >>> from expertload.cli.screen import rows_done
    >>> with rows_done("new.csv") as progress:
    ...     print(progress)
    None
    """
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    shown = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:,.0f} rows"),
        TimeRemainingColumn(),
    )
    with Progress(*shown, console=screen, transient=True) as bar:
        task = bar.add_task(one_line(what), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
