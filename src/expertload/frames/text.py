"""Converts text columns of files to numbers, in the engine that reads them.

The columns of CSV and JSON files are text, as written. DuckDB converts the requested ones to
numbers, and stops with an error at a text that is not a number. Frames made by other programs have
their own types, which are not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw

from expertload._opening.numbers import LONG
from expertload._validation import EXACT, EXACT_ONLY
from expertload.columns import pick
from expertload.columns.spelling import TRUTHS

__all__ = ["with_numbers"]

YES, NO = ([word for word, truth in TRUTHS.items() if truth == wanted] for wanted in (1, 0))


def with_numbers(frame: nw.LazyFrame[Any], asked: Mapping[str, Any]) -> nw.LazyFrame[Any]:
    """Return a frame in which text columns that are needed as numbers are converted."""
    if not frame.implementation.is_duckdb():
        return frame
    schema = frame.collect_schema()
    text = [name for name, dtype in schema.items() if dtype == nw.String]
    wanted = {asked.get("confidence"), asked.get("weight")}
    given = asked.get("probabilities")
    for one in [given] if isinstance(given, str) else list(given or ()):
        wanted |= {name for name, _ in pick(text, str(one))}
    changed = {name: _number(name) for name in text if name in wanted}
    if asked.get("probabilities") is None and asked.get("correct") in text:
        changed[asked["correct"]] = _grade(asked["correct"])
    return frame.with_columns(**changed) if changed else frame


def _number(name: str) -> nw.Expr:
    return _spelled(nw.col(name).str.strip_chars())


def _spelled(text: nw.Expr) -> nw.Expr:
    """Return text as numbers; text with underscores is not accepted as a number.

    Whole numbers that floats cannot tell apart get a remark, so that DuckDB refuses and quotes it.
    """
    size = nw.when(text.str.contains(f"^{LONG}$")).then(text).cast(nw.Float64).abs()
    is_largest = (size == EXACT) & text.str.ends_with(f"{EXACT}")  # and not its neighbour
    exact = size.is_null() | (size < EXACT) | is_largest
    remarked = nw.concat_str(text, nw.lit(f", a whole number, and such {EXACT_ONLY}"))
    plain = nw.when(~text.str.contains("_", literal=True)).then(text)
    return nw.when(exact).then(plain).otherwise(remarked).cast(nw.Float64)


def _grade(name: str) -> nw.Expr:
    """Return correctness, which may be in words."""
    word = nw.col(name).str.strip_chars().str.to_lowercase()
    spelled = nw.when(word.is_in(YES)).then(nw.lit("1")).when(word.is_in(NO)).then(nw.lit("0"))
    return _spelled(spelled.otherwise(word))
