"""Tables and numbers in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

DASH = "\N{EN DASH}"
NOTHING = "*Not run.*\n"


def table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Write a table whose first column has text and whose other columns have numbers."""
    if not lines:
        return NOTHING
    rule = ["---", *["---:"] * (len(headings) - 1)]
    return "".join("| " + " | ".join(words) + " |\n" for words in (headings, rule, *lines))


def spread(values: Sequence[float], *, decimals: int = 2) -> str:
    """Write mean and standard deviation in per cent."""
    if not values:
        return DASH
    text = f"{100 * fmean(values):.{decimals}f}"
    return text if len(values) == 1 else f"{text} ± {100 * stdev(values):.{decimals}f}"


def p_value(value: float) -> str:
    """Write a p-value."""
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"
