"""Tests of one threshold: could a worse model have looked this good by luck?

The hypothesis to refute is that the accuracy is below the target. Its p-value is the chance of so
few errors if the accuracy were exactly the target: a binomial tail for cases that are right or
wrong, and one over a gambler's capital for graded ones (`betting`). Both are exact statements for
any number of cases; nothing is asymptotic.
"""

from __future__ import annotations

import numpy as np
from scipy.special import bdtr

from expertload._typing import FloatArray, IntArray

__all__ = [
    "allowed_errors",
    "any_passes",
    "binomial_p_values",
    "cases_for_errors",
    "first_failure",
    "least_cases",
]

# Rows that are tested as a block before any of them is tested separately.
BLOCK = 64


def binomial_p_values(n_errors: FloatArray, n_cases: FloatArray, rate: float) -> FloatArray:
    """P-values of the hypotheses that the error rate is at least `rate`; 1 without cases."""
    cases = np.maximum(n_cases, 1).astype(np.int64)
    values: FloatArray = bdtr(np.minimum(np.rint(n_errors), cases), cases, rate)
    return np.where(n_cases > 0, values, 1.0)


# ------------------------------------------------------------------ along many thresholds


def first_failure(n_accepted: FloatArray, n_errors: FloatArray, rate: float, level: float) -> int:
    """Return the number of rows that pass the binomial test before the first failure.

    Rows are thresholds, strict to loose. Cases and errors only grow from row to row, so the p-value
    rises only if a row adds errors.
    """
    rows = np.flatnonzero(np.diff(n_errors, prepend=-1.0))
    sure, unsure = _by_block(rows, n_accepted, n_errors, rate, level)
    failed = binomial_p_values(n_errors[unsure], n_accepted[unsure], rate) > level
    if failed.any():
        return int(unsure[failed.argmax()])
    return len(n_accepted) if sure is None else int(sure)


def any_passes(n_accepted: FloatArray, n_errors: FloatArray, rate: float, level: float) -> bool:
    """Return whether any row passes the binomial test; only rows before an error need testing."""
    rows = np.flatnonzero(np.diff(n_errors, append=np.inf))
    first, last = _blocks(rows)
    least = binomial_p_values(n_errors[first], n_accepted[last], rate)
    unsure = _rows_of(np.flatnonzero(least <= level), rows)
    return bool((binomial_p_values(n_errors[unsure], n_accepted[unsure], rate) <= level).any())


def _by_block(
    rows: IntArray, n_accepted: FloatArray, n_errors: FloatArray, rate: float, level: float
) -> tuple[int | None, IntArray]:
    """Return the first row of a block that fails whole, and rows before it that are to be tested.

    The errors of a block's last row among the cases of its first bound its p-values from above,
    the other way round from below. Most blocks pass, or fail, by that alone.
    """
    first, last = _blocks(rows)
    fails = np.flatnonzero(binomial_p_values(n_errors[first], n_accepted[last], rate) > level)
    n_blocks = int(fails[0]) if len(fails) else len(first)
    most = binomial_p_values(n_errors[last[:n_blocks]], n_accepted[first[:n_blocks]], rate)
    return int(first[fails[0]]) if len(fails) else None, _rows_of(
        np.flatnonzero(most > level), rows
    )


def _blocks(rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return the first and the last row of each block."""
    begin = np.arange(0, len(rows), BLOCK)
    return rows[begin], rows[np.append(begin[1:], len(rows))[: len(begin)] - 1]


def _rows_of(blocks: IntArray, rows: IntArray) -> IntArray:
    inside = (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
    found: IntArray = rows[inside[inside < len(rows)]]
    return found


# ------------------------------------------------------------------ how many cases a test needs


def least_cases(target: float, error_level: float) -> int:
    """The fewest cases that can pass a test: all right, and enough of them."""
    return cases_for_errors(0, target, error_level)


def cases_for_errors(n_errors: int, target: float, error_level: float) -> int:
    """The fewest cases among which `n_errors` errors still pass the binomial test."""
    enough = n_errors + 1
    while bdtr(n_errors, enough, 1 - target) > error_level:
        enough *= 2
    short = enough // 2 if enough > n_errors + 1 else n_errors
    while enough - short > 1:
        middle = (short + enough) // 2
        passes = middle > n_errors and bdtr(n_errors, middle, 1 - target) <= error_level
        short, enough = (short, middle) if passes else (middle, enough)
    return enough


def allowed_errors(n_cases: int, target: float, error_level: float) -> int:
    """The most errors among `n_cases` that pass the binomial test; -1 if even zero fails."""
    fewest, most = -1, n_cases  # `fewest` passes or is -1; `most`, all wrong, never passes
    while most - fewest > 1:
        middle = (fewest + most) // 2
        passes = bdtr(middle, n_cases, 1 - target) <= error_level
        fewest, most = (middle, most) if passes else (fewest, middle)
    return fewest
