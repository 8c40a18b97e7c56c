"""The default method: one walk from the most confident cases down, and one level spent along it.

The procedure
-------------
Write r for the error rate that the target allows, d for the level to spend. Before a label is seen,
*looks* are planned: numbers of cases s_1 < s_2 < ... < s_M, about twice as many each time, from a
few to half of all, and for each of them the most errors b_j that it forgives. The plan is made for
a walk whose cases are wrong with probability r, independently: the chance that this walk has b_j
errors or fewer at some look j is at most d j / M for the looks up to j (`plan_looks`).

Thresholds are then tested from strict to loose. A run of passed thresholds may begin at any look,
where at most b_j errors are found among the s_j most confident cases. From there on it tests every
threshold, by the binomial p-value, at the level `Plan.level` says. A failure ends the run; the next
look may begin another. All thresholds that were passed are certified, and they hold together.

Why this keeps the promise
--------------------------
*One walk stands for all bad thresholds.* Let E(t) and R(t) be the probabilities that a case has
confidence t or more and is wrong, or right. A threshold is bad if E(t) > r (E(t) + R(t)), that is
E(t) / r > R(t) / (1 - r). Give each wrong case of confidence c the time E(c) / r, each right one
the time R(c) / (1 - r). Places on the axes of E and R are uniform, so on this common clock wrong
and right cases arrive at rates r : (1 - r), independently: taken in the order of their times, cases
are a walk of independent labels, each wrong with probability r. Let S_k be its errors among the
first k. A threshold t accepts the wrong cases up to time E(t) / r and the right ones up to
R(t) / (1 - r). If it is bad, the former is later. So if it accepts k cases with e errors, the walk
had at most e errors after k cases: S_k <= e. That is true of all bad thresholds at once. Where the
accuracy crosses the target both times are equal, so that S_k = e, and the counts k at these
crossings, being numbers of arrivals up to fixed times, say nothing about the order of the labels:
given all of them the walk is what it was.

*What must happen for a bad threshold to be certified.* The thresholds, strict to loose, are an
alternation of bad and good stretches. The first bad threshold to pass does so at a look j in a bad
stretch, and then S crosses there: S(s_j) <= b_j. Or a run that began in a good stretch passes the
crossing v at its end. Let i be the first look and j the last one in that stretch, and k the count
at v: then S_k is small enough for the level of (i, j, k), the run having begun at look i or later
(which makes the level no larger).

*The level of (i, j, k)* is chosen so that ``before``, the event that S crosses at a look before i,
and ``low``, the event that S_k is small enough, have together a probability of at most that of
crossing at any look up to j. (After the last look nothing more is to be spent, and it is d.)

*So the probability is at most that S crosses at some look, which is at most d.* Take the good
stretches from the strictest on, and replace the test at the end of each by the looks i to j inside
it. Before the stretch all looks count already. What follows, call its chance g(S_k), depends on the
past only through S_k and falls as S_k rises. The chance of ``low`` or something later is the
integral of g plus the integral of 1 - g over ``low``; the same is true of ``crossed at i to j``.
As 1 - g rises with S_k and ``low`` holds the smallest S_k, replacing it by an event that is at
least as probable does not lower the sum. After the last stretch only looks are left.

*Between two counts.* A level is computed at the last count K of an interval and used for all k
before K in it. Among events at k of a given probability, ``S_k is small`` overlaps ``before`` the
most (Neyman and Pearson), in particular more than ``S_K is small`` does, so that ``before`` and
``low`` together are no more probable at k than at K. The same argument allows a randomised edge:
the level is interpolated between the two numbers of errors that it lies between.

*Beyond the shorter axis.* Past the time at which one kind of case has no probability left, only the
other arrives. The walk is then continued by labels drawn at the rate r. Whether such a threshold is
bad is settled by then, and no test depends on the labels drawn, so this is harmless.

*Shared confidences.* The argument above is for confidences without ties, with d the whole level. It
also covers ties that are put in a random order: within a tie both axes then grow uniformly, so the
same walk results, and of the rows passed only those that end a tie are thresholds. That procedure
needs a draw, and it fails where a random half of a tie is unlucky. So a look is taken at the first
threshold that accepts at least s_j cases instead, at the level of (j, j, k), as if a run had come
down to it. For fixed counts the last paragraph covers that too. But the counts now depend a little
on the errors: given how many cases a bad threshold accepts, more errors mean fewer cases above a
better one. `graded` shows that this raises the probability of one such event by a factor of
1 / (1 - d) at most. So d is level / (1 + level) if cases share confidences and there are several
looks; with a single one the dependence only helps. For the union of the events this last step is
not proved: it rests on simulation of many shapes, the worst of which reached 0.96 of the level
(``tests/operating_point/test_spending.py``).

Share certified and load, target 0.95 and level 0.05, mean of 20 populations, 18 of them rounded
to 6 to 400 confidences; "at most" is the former rule, the loosest threshold with at most s_j cases:

======  ============  ============  ============
cases   at most       random order  at least
======  ============  ============  ============
200     0.17 / 0.903  0.22 / 0.875  0.22 / 0.875
500     0.36 / 0.811  0.37 / 0.806  0.38 / 0.803
1,000   0.43 / 0.797  0.40 / 0.802  0.43 / 0.793
2,000   0.72 / 0.732  0.65 / 0.746  0.72 / 0.730
5,000   0.97 / 0.659  0.89 / 0.677  0.97 / 0.658
======  ============  ============  ============
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import bdtr

from expertload._typing import FloatArray, IntArray
from expertload.operating_point.ladder import Run, first_failure, least_cases

# The first look, in units of the fewest cases that can pass without an error.
FIRST_FACTOR = 2.1
# About how many times as many cases the next look takes.
SPACING = 2.0
# Intervals of counts between two looks, each with a level of its own.
INTERVALS = 4
# Tails of a law beyond this many standard deviations, and some counts more, are left out: they have
# a probability below 1e-17.
DEVIATIONS, MORE = 9, 12
# Below this length a plain convolution is faster than a transform, and it keeps tiny tails exact.
SHORT = 300


class Look(NamedTuple):
    """A point at which a run may begin.

    Attributes
    ----------
    n_cases : int
        This many of the most confident cases are examined, or more if the last of them are tied.
    most_errors : int
        How many of them may be wrong.
    spent : float
        The chance that the walk has crossed at this look or before it.
    """

    n_cases: int
    most_errors: int
    spent: float


class Plan:
    """The looks, and the level of every test between them; made before a label is seen."""

    def __init__(self, n_cases: int, target: float, level: float) -> None:
        self.n_cases, self.rate, self.level_to_spend = n_cases, 1 - target, level
        self.looks, self.laws = plan_looks(n_cases, target, level)
        self.counts = np.array([look.n_cases for look in self.looks], dtype=np.int64)
        # Counts, and the level from each of them on, of a run between two looks.
        self.levels = cache(self._compute_levels)

    def level(self, begun: int, n_cases: float) -> float:
        """Return the level, at this many cases, of a run that began at look `begun`."""
        counts, levels = self.levels(begun, self.last_look(n_cases))
        return float(levels[int(np.searchsorted(counts, n_cases, side="right")) - 1])

    def last_look(self, n_cases: float) -> int:
        """Return the last look reached by this many cases."""
        return int(np.searchsorted(self.counts, n_cases, side="right")) - 1

    def _compute_levels(self, begun: int, last: int) -> tuple[IntArray, FloatArray]:
        is_final = last + 1 == len(self.looks)
        budget = self.level_to_spend if is_final else self.looks[last].spent
        start = self.looks[last].n_cases
        end = self.n_cases + 1 if is_final else self.looks[last + 1].n_cases
        cuts = np.array([start, end])
        if begun and end - start > INTERVALS:
            cuts = np.unique(np.geomspace(start, end, INTERVALS + 1).astype(np.int64))
        return cuts[:-1], np.array(
            [self._level_at(begun, budget, max(k - 1, start)) for k in cuts[1:]]
        )

    def _level_at(self, begun: int, budget: float, n_cases: int) -> float:
        """The probability of few errors, which with a crossing before `begun` fills the budget."""
        if not begun:
            return budget
        law = self.laws[begun]
        room = budget - (1 - law.total)
        law = law.after(n_cases)
        cumulative = np.cumsum(law.mass)
        inside = int(np.searchsorted(cumulative, room, side="right"))
        below = float(cumulative[inside - 1]) if inside else 0.0
        share = (room - below) / float(law.mass[inside])
        low, high = (
            float(bdtr(errors, n_cases, self.rate)) if errors >= 0 else 0.0
            for errors in (law.fewest + inside - 1, law.fewest + inside)
        )
        return low + share * (high - low)


@lru_cache(maxsize=64)
def plan(n_cases: int, target: float, error_level: float, *, tied: bool = False) -> Plan:
    """Return the plan for a number of cases, a target and a level; ties lower the level."""
    single = len(_wanted_counts(n_cases, target, error_level)) == 1
    whole = error_level / (1 + error_level) if tied and not single else error_level
    return Plan(n_cases, target, whole)


# ------------------------------------------------------------------ before a label is seen


def plan_looks(n_cases: int, target: float, level: float) -> tuple[list[Look], list[ErrorLaw]]:
    """Return the looks, and for each the law of the walks that crossed at none before it."""
    wanted = _wanted_counts(n_cases, target, level)
    law, spent = ErrorLaw(np.ones(1), 0, 0, 1 - target), 0.0
    looks, laws = [], []
    for number, count in enumerate(wanted, start=1):
        budget = level * number / len(wanted) - spent
        affordable = _affordable(law, max(count, law.n_cases + 1), n_cases, budget)
        if affordable is None:
            continue
        count, most_errors = affordable
        laws.append(law)
        law = law.after(count)
        spent += law.at_most(most_errors, count)
        law = law.without(most_errors)
        looks.append(Look(count, most_errors, spent))
    return looks, laws


def _wanted_counts(n_cases: int, target: float, level: float) -> list[int]:
    least = least_cases(target, level)
    first = max(least, min(int(FIRST_FACTOR * least), n_cases // 2))
    last = max(first, n_cases // 2)
    n_looks = math.floor(math.log(last / first) / math.log(SPACING) + 0.5) + 1
    return [int(count) for count in np.geomspace(first, last, n_looks)] if n_looks > 1 else [first]


def _affordable(law: ErrorLaw, wanted: int, n_cases: int, budget: float) -> tuple[int, int] | None:
    """Return a number of cases near the one wanted and the most errors that the budget allows.

    If not even zero errors are within the budget, later numbers are tried. Of the numbers of cases
    that allow as many errors, the smallest is returned.
    """
    count, errors = wanted, _most_errors(law, wanted, budget)
    while errors is None and count < n_cases:
        count = min(n_cases, int(1.05 * count) + 1)
        errors = _most_errors(law, count, budget)
    if errors is None:
        return None
    fewest = bisect_left(
        range(count), True, lo=law.n_cases + 1, key=lambda n: law.at_most(errors, n) <= budget
    )
    return fewest, errors


def _most_errors(law: ErrorLaw, n_cases: int, budget: float) -> int | None:
    later = law.after(n_cases)
    affordable = int(np.searchsorted(np.cumsum(later.mass), budget, side="right"))
    return later.fewest + affordable - 1 if affordable else None


# ------------------------------------------------------------------ along the calibration cases


def descend(n_accepted: FloatArray, n_errors: FloatArray, planned: Plan) -> tuple[Run, ...]:
    """Test thresholds, strict to loose, and return the runs.

    Parameters
    ----------
    n_accepted, n_errors : ndarray
        How many cases each threshold accepts, and how many of them are wrong.
    planned : Plan
        As `plan` returns it, for all cases.
    """
    runs: list[Run] = []
    alive: int | None = None
    places = np.searchsorted(n_accepted, planned.counts)
    rows = np.unique(places[places < len(n_accepted)]).tolist()
    for begin, end in pairwise([*rows, len(n_accepted)]):
        looks = np.flatnonzero(places == begin).tolist()
        alive = _passes(looks, alive, n_accepted[begin], n_errors[begin], planned)
        if alive is None:
            runs.append(Run(begin, 1, 0))
            continue
        n_passed = 1 + _count_passed(
            n_accepted[begin + 1 : end], n_errors[begin + 1 : end], planned, alive
        )
        runs.append(Run(begin, min(n_passed + 1, end - begin), n_passed))
        alive = alive if n_passed == end - begin else None
    return tuple(runs)


def _passes(
    looks: list[int], alive: int | None, accepted: float, errors: float, planned: Plan
) -> int | None:
    """Return the look at which the run that passes this row began; None if the row fails."""
    p_value = float(bdtr(errors, int(accepted), planned.rate))
    if alive is not None and p_value <= planned.level(alive, accepted):
        return alive
    for look in looks:
        is_exact = accepted == planned.counts[look]
        if is_exact and errors <= planned.looks[look].most_errors:
            return look
        if not is_exact and p_value <= planned.level(look, accepted):
            return look
    return None


def _count_passed(accepted: FloatArray, errors: FloatArray, planned: Plan, begun: int) -> int:
    """Return how many rows a run passes, until its first failure."""
    if not len(accepted):
        return 0
    for last in range(planned.last_look(accepted[0]), planned.last_look(accepted[-1]) + 1):
        counts, levels = planned.levels(begun, last)
        end = planned.counts[last + 1] if last + 1 < len(planned.counts) else np.inf
        bounds = np.searchsorted(accepted, [*counts, end])
        for level, row, stop in zip(levels.tolist(), bounds[:-1], bounds[1:], strict=True):
            passed = first_failure(accepted[row:stop], errors[row:stop], planned.rate, level)
            if passed < stop - row:
                return int(row) + passed
    return len(accepted)


# ------------------------------------------------------------------ the law of the walk


class ErrorLaw(NamedTuple):
    """The law of the errors of a walk in which every case has the same error probability.

    ``mass`` are the probabilities of ``fewest``, ``fewest + 1``, ... errors among ``n_cases``;
    before the first case that is ``ErrorLaw(np.ones(1), 0, 0, rate)``.
    Paths that have crossed a boundary can be dropped, and the walk extended by more cases.
    """

    mass: FloatArray
    fewest: int
    n_cases: int
    rate: float

    def after(self, n_cases: int) -> ErrorLaw:
        """Return the law for this many cases."""
        if n_cases == self.n_cases:
            return self
        more, fewest = binomial_mass(n_cases - self.n_cases, self.rate)
        mass = convolve(self.mass, more)
        return ErrorLaw(mass, self.fewest + fewest, n_cases, self.rate)

    def without(self, most_errors: int) -> ErrorLaw:
        """Return the law of the paths that have more errors than this."""
        gone = max(most_errors + 1 - self.fewest, 0)
        return self._replace(mass=self.mass[gone:], fewest=self.fewest + gone)

    def at_most(self, n_errors: int, n_cases: int) -> float:
        """Return the probability of at most `n_errors` when there are `n_cases`."""
        if n_cases == self.n_cases:
            return float(self.mass[: max(n_errors + 1 - self.fewest, 0)].sum())
        more, fewest = binomial_mass(n_cases - self.n_cases, self.rate)
        # Of a path with `fewest + i` errors so far, at most this many more may be errors:
        room = n_errors - self.fewest - np.arange(len(self.mass)) - fewest
        cumulative = np.append(np.cumsum(more), 0.0)  # the last entry: no more allowed
        return float(self.mass @ cumulative[np.clip(room, -1, len(more) - 1)])

    @property
    def total(self) -> float:
        """The total probability of all paths."""
        return float(self.mass.sum())


def binomial_mass(n_cases: int, rate: float) -> tuple[FloatArray, int]:
    """Return binomial probabilities of an interval of counts, and the first count.

    Ratios of neighbours are multiplied up from the mode and the sum is made 1, which keeps thirteen
    digits where differences of log-gamma functions lose eight.
    """
    reach = DEVIATIONS * math.sqrt(n_cases * rate * (1 - rate)) + MORE
    low = max(0, int(n_cases * rate - reach))
    high = min(n_cases, int(n_cases * rate + reach))
    count = np.arange(low, high)
    steps = np.log((n_cases - count) / (count + 1.0)) + math.log(rate) - math.log1p(-rate)
    logs = np.concatenate(([0.0], np.cumsum(steps)))
    mass = np.exp(logs - logs.max())
    return mass / mass.sum(), low


def convolve(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the probabilities of a sum of two counts."""
    if min(len(one), len(other)) < SHORT:
        return np.convolve(one, other)
    length = len(one) + len(other) - 1
    size = 1 << (length - 1).bit_length()
    product = np.fft.rfft(one, size) * np.fft.rfft(other, size)
    return np.maximum(np.fft.irfft(product, size)[:length], 0.0)  # clips tiny negatives
