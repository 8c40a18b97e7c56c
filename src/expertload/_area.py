"""The area under the COC curve, in closed form.

Write v for the share of cases that remain accepted as the threshold rises. Below a threshold at v,
cases carry a total weight in the area of::

    Q(v) = (1 - v) + v * L(v)

and a row of the tally that spans the shares v_high to v_low adds its mean correctness times
Q(v_low) - Q(v_high). What L is makes the convention:

=============  ===================  =============================================================
convention     L(v)                 the area it gives
=============  ===================  =============================================================
``exact``      ln v                 accuracy averaged over all loads, thresholds randomised inside
                                    a row: on the hyperbola that a random share of equals traces
``thresholds`` H(v n) - H(n)        accuracy averaged over the n sample-wise thresholds, H the
                                    harmonic numbers: one minus the AURC of the literature
=============  ===================  =============================================================

Since Q runs from 0 to 1, a perfect classifier scores 1 and an always-wrong one 0, at any n.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, xlogy

from expertload._blocks import blocks
from expertload._typing import AnyArray, FloatArray

__all__ = ["area_of_counts", "binary_area", "delegated_mass"]

# Rows per block in `binary_area`, so that temporary arrays take only a few megabytes.
CHUNK = 1 << 18


def delegated_mass(remaining: FloatArray, total: float, convention: str) -> FloatArray:
    """Return Q: the weight in the area of all cases below the point with the share `remaining`.

    `total` is the number of cases; only the ``thresholds`` convention depends on it.
    """
    if convention == "exact":
        mass: FloatArray = xlogy(remaining, remaining)
    else:
        mass = remaining * (digamma(remaining * total + 1) - digamma(total + 1))
    for rows in blocks(len(mass)):
        mass[rows] += 1 - remaining[rows]
    return mass


def binary_area(correct: AnyArray, confidence: FloatArray, convention: str) -> float:
    """Return the area for unweighted right-or-wrong cases, without sorting both together.

    Right and wrong cases are sorted separately, which numpy does with vector instructions, and only
    rows with a case of the rarer kind are visited.
    """
    n, n_right = len(correct), int(np.count_nonzero(correct))
    rarer_is_right = 2 * n_right < n
    rarer = np.sort(confidence[correct if rarer_is_right else ~correct])
    other = np.sort(confidence[~correct if rarer_is_right else correct])
    pieces = (_rows_with_rarer(rarer, other, piece) for piece in _pieces(rarer))
    area = sum(_rarer_mass(rows, n, convention) for rows in pieces)
    return float(area if rarer_is_right else 1 - area)


def area_of_counts(n_cases: FloatArray, n_right: FloatArray, convention: str) -> float:
    """Return the same area, to the bit, from the number of cases and of right cases in each row."""
    upto = np.cumsum(n_cases)
    n = float(upto[-1])
    rarer_is_right = bool(2 * n_right.sum() < n)
    rows = np.flatnonzero(n_right if rarer_is_right else n_cases != n_right)
    count = n_right[rows] if rarer_is_right else n_cases[rows] - n_right[rows]
    upto = upto[rows]
    below = upto - n_cases[rows]
    ends = np.cumsum(count)
    cuts = [0]
    while cuts[-1] < len(rows):  # into the pieces that `_pieces` makes
        stop = CHUNK + (ends[cuts[-1] - 1] if cuts[-1] else 0)
        cuts.append(min(int(np.searchsorted(ends, stop)) + 1, len(rows)))
    pieces = (_Rows(count[a:b], below[a:b], upto[a:b]) for a, b in pairwise(cuts))
    area = sum(_rarer_mass(rows, n, convention) for rows in pieces)
    return float(area if rarer_is_right else 1 - area)


class _Rows(NamedTuple):
    """Of some rows: the cases of the rarer kind, and all cases below each row and up to it."""

    n_rarer: AnyArray
    below: AnyArray
    upto: AnyArray


def _pieces(ascending: FloatArray) -> list[tuple[int, int]]:
    """Return pieces of a sorted array that never split a run of equal values."""
    cuts = [0]
    while cuts[-1] < len(ascending):
        stop = min(cuts[-1] + CHUNK, len(ascending))
        cuts.append(int(np.searchsorted(ascending, ascending[stop - 1], side="right")))
    return list(pairwise(cuts))


def _rows_with_rarer(rarer: FloatArray, other: FloatArray, piece: tuple[int, int]) -> _Rows:
    start, stop = piece
    values = rarer[start:stop]
    first = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    distinct = values[first]
    count = np.diff(first, append=len(values))
    below = start + first + np.searchsorted(other, distinct, side="left")
    upto = start + first + count + np.searchsorted(other, distinct, side="right")
    return _Rows(count, below, upto)


def _rarer_mass(rows: _Rows, n: float, convention: str) -> float:
    """What the cases of the rarer kind in some rows add to the area."""
    mass = delegated_mass((n - rows.upto) / n, n, convention)
    mass -= delegated_mass((n - rows.below) / n, n, convention)
    return float((rows.n_rarer / (rows.upto - rows.below)) @ mass)
