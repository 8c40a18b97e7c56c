"""Numbers in text, and in types that numpy lacks: as doubles, if doubles can tell them apart.

Up to 2**53 a double holds every whole number. Beyond, neighbours become equal, so a whole number of
that size is no number here, and its row is refused. A fraction is rounded, as everywhere.
"""

from __future__ import annotations

import re

from expertload._names import MISSING
from expertload._validation import EXACT, EXACT_HINT, EXACT_ONLY

__all__ = ["exact_number", "number_in_text", "why_refused"]

NO_NUMBER = (*MISSING, "none", "missing")
DIGITS = 16  # a whole number of fewer is below 2**53
LONG = f"[-+]?[0-9]{{{DIGITS},}}"
ONE_PER_KEY = 'in JSON, give every number its own key, such as {"p_cat": 0.9, "p_dog": 0.1}'


def number_in_text(column: str, decimal: str = ".") -> str:
    """Return an SQL expression for the number in a text column; missing if it is not a number.

    Only one decimal mark is accepted: with a decimal comma, a point could separate thousands.
    Underscores, which DuckDB accepts inside numbers, are refused.
    """
    is_point = decimal == "."
    strange = f"contains({column}, '_')" if is_point else f"regexp_matches({column}, '[_.]')"
    text = column if is_point else f"replace({column}, ',', '.')"
    # The pattern takes longer than all the rest, and few texts need it.
    usual = f"contains({column}, '{decimal}') OR strlen({column}) < {DIGITS}"
    return (
        f"CASE WHEN {strange} THEN NULL "
        f"WHEN {usual} OR NOT regexp_full_match(trim({column}), '{LONG}') "
        f"THEN TRY_CAST({text} AS DOUBLE) "
        f"ELSE {exact_number(f'TRY_CAST({column} AS HUGEINT)')} END"
    )


def exact_number(column: str) -> str:
    """Return an SQL expression for a number of an exact type; missing if no double tells it."""
    return f"CASE WHEN {column} BETWEEN {-EXACT} AND {EXACT} THEN CAST({column} AS DOUBLE) END"


def why_refused(column: str, written: str, kind: str) -> tuple[str, str]:
    """Return what a column of a kind of file must hold instead of this text, and a hint."""
    if re.fullmatch(rf"{LONG}(\.0*)?", written.strip(), re.ASCII):
        return EXACT_ONLY, f" Hint: {EXACT_HINT}."
    return "must hold numbers", _hint(column, written, kind)


def _hint(column: str, written: str, kind: str) -> str:
    """Return a hint for decimal commas, lists, percentages and missing values."""
    if kind in ("json", "jsonl") and written.lstrip().startswith(("[", "{")):
        picked = _picked(column, is_list=written.lstrip().startswith("["))
        return f' Hint: {ONE_PER_KEY}, or pick them: --query "SELECT *, {picked}, ... FROM file".'
    if kind in ("csv", "tsv") and re.fullmatch(r"\s*[+-]?\d*,\d+\s*", written):
        return " Hint: if the decimal mark is a comma, pass --decimal ','."
    if written.rstrip().endswith("%"):
        return " Hint: write percentages as fractions: 0.95 for 95%."
    if written.strip().lower() in NO_NUMBER:
        return " Hint: remove the cases without a value."
    return ""


def _picked(column: str, *, is_list: bool) -> str:
    """Return SQL that picks the first number of a list, or one of an object."""
    key, name = ("0", "0") if is_list else ("'cat'", "cat")
    prefix = "logit_" if column.lower().startswith("logit") else "p_"
    return f"{column}->>{key} AS {prefix}{name}"
