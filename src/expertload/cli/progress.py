"""Progress bars for long work on a terminal; files and pipes show nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from expertload.cli.screen import console, one_line

__all__ = ["rows_done"]


@contextmanager
def rows_done(what: str) -> Iterator[Callable[[int, int | None], None] | None]:
    """Yield a function to call with the number of rows done, and the total if known.

    Examples
    --------
    >>> from expertload.cli.progress import rows_done
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
