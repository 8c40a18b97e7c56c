"""Axes to draw on: those given, else new ones with room for their labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expertload._validation import message, require_extra
from expertload.exceptions import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    AxesOrPair = Axes | Sequence[Axes] | None

__all__ = ["figure_of", "one_axes", "two_axes"]


def figure_of(ax: Axes) -> Figure:
    """Return the whole figure, also of axes in a subfigure."""
    return ax.figure.figure


def one_axes(ax: Axes | None, **layout: Any) -> Axes:
    """Return `ax`, or the axes of a new figure."""
    axes: Axes = _axes(ax, most=1, **layout)[0]
    return axes


def two_axes(ax: AxesOrPair, **layout: Any) -> tuple[Axes, Axes | None]:
    """Return the main axes and the second ones; None if there is only one."""
    axes = _axes(ax, most=2, **layout)
    return axes[0], axes[1] if len(axes) == 2 else None


def _axes(ax: AxesOrPair, *, most: int, **layout: Any) -> list[Any]:
    if ax is not None:
        return _check_axes(ax, most=most)
    pyplot = require_extra("matplotlib.pyplot", "plot", "Plotting")
    return list(np.ravel(pyplot.subplots(layout="constrained", **layout)[1]))


def _check_axes(ax: Any, *, most: int) -> list[Any]:
    """Return one axes or a sequence of at most `most` as a list."""
    given = list(np.ravel(np.asarray(ax, dtype=object)))
    if not 1 <= len(given) <= most or not all(hasattr(each, "get_figure") for each in given):
        wanted = "must be matplotlib axes" if most == 1 else "must be one or two matplotlib axes"
        raise ParameterError(message("ax", wanted, f"{ax!r}"))
    return given
