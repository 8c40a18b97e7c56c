"""Numbers as people read them, and small tables of them for notebooks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape
from itertools import count


def percent(share: float) -> str:
    """Return a share in percent, with enough decimals not to read falsely as 0 or 100.

    Examples
    --------
    >>> percent(0.95), percent(0.2871), percent(0.99996), percent(1.0)
    ('95 %', '28.7 %', '99.996 %', '100 %')
    """
    number = 100 * share
    decimals = next(
        d for d in count(1) if d > 8 or number in (0, 100) or 0 < float(f"{number:.{d}f}") < 100
    )
    return f"{round(number, decimals):.{decimals}f}".rstrip("0").rstrip(".") + " %"


def shares(load: float) -> tuple[str, str]:
    """Return the shares decided automatically and left to experts; as shown, they add up to 100 %.

    Examples
    --------
    >>> shares(0.2495), shares(0.99996)
    (('75.1 %', '24.9 %'), ('0.004 %', '99.996 %'))
    """
    shown = percent(load)
    return percent(1 - float(shown.removesuffix(" %")) / 100), shown


def promised(share: float) -> str:
    """Return a target or a level in percent: as it was given, or rounded down if it is long.

    A promise of 99.75 % must not read as one of 99.8 %.

    Examples
    --------
    >>> promised(0.95), promised(0.9975), promised(1 - 0.05 / 6)
    ('95 %', '99.75 %', '99.16 %')
    """
    number = round(100 * share, 9)
    if number != round(number, 5) or (number == 100 and share < 1):
        number = math.floor(10_000 * share) / 100
    return f"{number:.8g} %"


# ------------------------------------------------------------------ tables for notebooks

Row = tuple[str, str, str]  # name, value, remark


def small_table(title: str, rows: Iterable[Row], notes: Iterable[str] = ()) -> str:
    """Return a table of three columns under a title, sentences below it; every text is escaped."""
    cells = "".join(
        f'<tr><th scope="row" style="text-align:left;font-weight:normal">{escape(name)}</th>'
        f'<td style="text-align:right"><b>{escape(value)}</b></td>'
        f'<td style="text-align:left">{escape(remark)}</td></tr>'
        for name, value, remark in rows
    )
    below = "".join(f'<p style="max-width:42em">{escape(note)}</p>' for note in notes if note)
    return f"<div><p><b>{escape(title)}</b></p><table><tbody>{cells}</tbody></table>{below}</div>"
