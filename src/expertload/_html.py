"""Small tables for notebooks: self-contained, without a script, and every text escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

Row = tuple[str, str, str]  # name, value, remark


def small_table(title: str, rows: Iterable[Row], notes: Iterable[str] = ()) -> str:
    """Return a table of three columns under a title, with sentences below it."""
    cells = "".join(
        f'<tr><th scope="row" style="text-align:left;font-weight:normal">{escape(name)}</th>'
        f'<td style="text-align:right"><b>{escape(value)}</b></td>'
        f'<td style="text-align:left">{escape(remark)}</td></tr>'
        for name, value, remark in rows
    )
    below = "".join(f'<p style="max-width:42em">{escape(note)}</p>' for note in notes if note)
    return f"<div><p><b>{escape(title)}</b></p><table><tbody>{cells}</tbody></table>{below}</div>"
