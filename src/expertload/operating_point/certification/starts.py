"""The former method: a descent that begins at several depths, the level shared out among them.

Right-or-wrong cases are better served by `spending`; graded ones are tested this way.

A test with too few cases cannot pass, and one that begins at a fixed few of the most confident
cases gains nothing from more data: an unlucky top ends it for any number of cases. So the descent
begins at several depths, geometrically spaced from a few cases to half of them. Each brings a part
of the level. A level that has come down to the next beginning without a failure is added to what
begins there; after a failure it is lost, and the next beginning has its own alone (the fallback
procedure of Wiens 2003, the multi-start sequences of Learn-then-Test with their levels handed on).
A model that is good only at its top is found by the first beginning, one whose very top is
over-confident by a later one, and where nothing fails the loose end is tested at the whole level.

Why this keeps the promise
--------------------------
Depths are numbers of cases, s_1 < s_2 < ..., and with their levels d_1, d_2, ... they depend on
nothing but how many cases there are. Beginning j is at the loosest threshold that accepts at most
s_j cases; that does depend on the data. Write A(t) for the true accuracy among cases of confidence
t or more, k(t) for the number accepted. The first wrong certificate is of one of two kinds.

- At a beginning j where A misses the target: seen from the loose end, it is a stopping time. Given
  all that lies below it and how many lie above, the accepted cases are independent draws of that
  accuracy, and nothing is handed on to it, so it passes with probability at most d_j.
- At a threshold v, the first to miss the target after a run of thresholds that reach it; say the
  run begins at w. The level at v, L, is the sum of those d_j with k(w) <= s_j < k(v): nothing else
  was handed on, since what lies above w misses the target. If L did not depend on the errors, v
  would pass with probability at most the mean of L. It does, through k(w) alone. Given k(v), the
  more of its cases are wrong, the fewer lie above w, since those are more accurate: with G(e) the
  chance of k(w) <= s_j given e errors, G rises with e. So the chance of k(w) <= s_j is at least
  G(e) times that of e errors or more, and for an e that passes at the level d, the sum of all d_j,
  the latter is at least 1 - d: G(e) is at most 1 / (1 - d) times the chance of k(w) <= s_j. Hence
  v passes with probability at most the mean of L divided by 1 - d.

A beginning lies in one place, so the two kinds together have a probability of at most d / (1 - d),
which is the level asked for if d is level / (1 + level). With a single beginning the dependence
only helps (few cases above w mean more errors), and d is the whole level.

This holds for any distribution of confidence, with ties, and however accuracy moves with it. One
case is left out: a single confidence shared by so many of the most confident cases that fewer than
the least testable number lie above it. The descent then begins at that confidence. The argument
still holds unless the few above it are over-confident; for that corner the exact probability has
been computed over a wide range of cases and stays below the level
(``tests/operating_point/test_starts.py``).

The second point uses that cases are right or wrong. For graded correctness it is not proved: there
each test is valid by itself, and that their sequence is rests on the slack of its bound and on
simulation. For thresholds taken from other scores (``ladder_scores``) the beginnings do not depend
on the data, and the fallback procedure is valid as it stands.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from expertload._typing import FloatArray
from expertload.operating_point.certification.betting import (
    graded_cases_at_loss,
    least_graded_cases,
)
from expertload.operating_point.certification.p_values import (
    allowed_errors,
    cases_for_errors,
    least_cases,
)

__all__ = ["Start"]

# How many of the most confident cases the first test takes, in units of the fewest that can pass
# without an error. With fewer, one unlucky error ends the descent; with more, a model that is good
# only at its top is missed.
START_FACTOR = 4
# Of graded cases the first test takes as many as pass with this share of the loss that the target
# allows.
GRADED_SHARE = 0.6
# From one beginning to the next, about. Closer ones would leave less level to each.
SPACING = 4
# The first beginning's share of the level. Where it fails the others have the rest; where it does
# not, nothing is lost.
FIRST_SHARE = 0.75


class Start(NamedTuple):
    """A beginning: at most how many cases it takes, its level, and the fewest that pass there."""

    n_cases: int
    level: float
    least: int


def plan_starts(
    n_cases: int, target: float, error_level: float, *, graded: bool = False
) -> list[Start]:
    """Return where to begin and at which level, from what is known before the data."""
    first, last = _first_count(n_cases, target, error_level, graded=graded), n_cases // 2
    n_more = math.floor(math.log(max(last / first, 1)) / math.log(SPACING) + 0.5)
    if not n_more:
        return [_start(first, target, error_level, graded=graded)]
    whole = error_level / (1 + error_level)
    levels = [FIRST_SHARE * whole, *[(1 - FIRST_SHARE) * whole / n_more] * n_more]
    counts = np.geomspace(first, last, n_more + 1).astype(int).tolist()
    return [
        _start(count, target, level, graded=graded)
        for count, level in zip(counts, levels, strict=True)
    ]


def _first_count(n_cases: int, target: float, error_level: float, *, graded: bool) -> int:
    if graded:
        least = least_graded_cases(target, error_level)
        wanted = graded_cases_at_loss(GRADED_SHARE * (1 - target), target, error_level)
    else:
        least = least_cases(target, error_level)
        wanted = min(START_FACTOR * least, max(2 * least, n_cases // 3))
    return max(least, min(wanted, n_cases // 2))


def _start(count: int, target: float, level: float, *, graded: bool) -> Start:
    least = (least_graded_cases if graded else least_cases)(target, level)
    count = max(count, least)
    if not graded:  # the same number of errors is allowed from fewer cases on: begin there
        count = cases_for_errors(allowed_errors(count, target, level), target, level)
    return Start(count, level, least)


def grant(expected: FloatArray, starts: list[Start]) -> FloatArray:
    """Return the level that begins at each step, for steps expected to accept this many cases."""
    granted = np.zeros(len(expected) + 1)
    for start in starts:
        granted[first_step(expected, start.n_cases, start.least)] += start.level
    return granted[:-1]


def first_step(expected: FloatArray, start: int, least: int) -> int:
    """Return the loosest step that accepts at most `start`, or the next if too few pass there."""
    step = int(np.searchsorted(expected, start, side="right")) - 1
    return step + 1 if step < 0 or expected[step] < least else step
