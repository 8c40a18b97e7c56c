"""Graded cases and cases in clusters: tested by betting, from several beginnings.

The bet
-------
A graded case has a loss x from 0 to 1, one minus its grade. The target allows a mean loss of r.
Stake a share l of the capital on each accepted case: it is multiplied by 1 - l (x - r), which is
never negative for l < 1 / (1 - r). If the mean loss is r or more, the capital does not grow on
average, so it exceeds 1 / p with probability p at most (Markov): one over it is a p-value. Several
shares are staked side by side, and the mean of their capitals counts. A large share grows fast if
losses vary little; a small one is safe if they are all or nothing. The capital does not depend on
the order of the cases.

Beside the Hoeffding-Bentkus bound that was used before, the share of draws that pass a test of 400
cases with 30 % less loss than a target of 0.95 allows (level 0.05):

============================================  =================  =======
grades                                        Hoeffding-Bentkus  betting
============================================  =================  =======
beta distributed, few near 0                  0.00               0.85
beta distributed, some near 0                 0.00               0.57
0, 0.5 or 1                                   0.07               0.12
all or nothing, but for a hundredth           0.14               0.06
============================================  =================  =======

Betting is weaker only for grades that are nearly all 0 or 1.

The fixed sequence
------------------
Right-or-wrong cases are better served by `spending`; graded ones are tested this way.

A test with too few cases cannot pass, and one that begins at a fixed few of the most confident
cases gains nothing from more data: an unlucky top ends it for any number of cases. So the descent
begins at several depths, geometrically spaced from a few cases to half of them. Each brings a part
of the level. A level that has come down to the next beginning without a failure is added to what
begins there; after a failure it is lost, and the next beginning has its own alone (the fallback
procedure of Wiens 2003, the multi-start sequences of Learn-then-Test with their levels handed on).
A model that is good only at its top is found by the first beginning, one whose very top is
over-confident by a later one, and where nothing fails the loose end is tested at the whole level.

Why the fixed sequence keeps its promise
----------------------------------------
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

*Graded cases* need no such factor. There v passes if L K >= 1, K being the capital at v, which has
a probability of at most the mean of L K (Markov). Given k(v), L falls as k(w) rises. The mean of K
given k(w) rises with it: each case above w, where the mean loss is r or less, multiplies it by 1 or
more on average, and each one between w and v, where it is r or more, by 1 or less. So, by
Chebyshev's association inequality, the mean of L K is at most that of L times that of K, which is
at most 1 because v misses the target. Hence v passes with probability at most the mean of L, and
the levels of the beginnings may add up to the whole level.

Cases in clusters
-----------------
Several images of a patient, several records of a visit: the errors of one patient's cases resemble
each other, so they count for less than the same number of independent cases, and tests for
independent cases break their promise. Two promises are kept.

*All cases* (``cluster_promise="all_cases"``): the accuracy over all accepted cases of new clusters.
Let D be the sum over the accepted cases of one cluster of (wrong - r), with r the error rate that
the target allows. If the threshold is bad, D is 0 or more on average, whatever the cases of a
cluster have to do with each other. Clusters are independent, so that a gambler who stakes the share
l of his capital on each, which multiplies it by 1 - l D, does not gain on average: one over the
capital is a p-value. No stake may lose more than all: l < 1 / ((1 - r) M), M the most
cases of a cluster: also those that are of another group, or that a promise about a class is not
about, as they could be. Thresholds are fixed by clusters set aside, whose labels are not used, and
tested from strict to loose; levels that come down without a failure are handed on (Wiens 2003),
which is valid for any tests of fixed thresholds.

Where delegated cases count too, as right ones, the sum is over all cases of the cluster. It only
grows as the threshold is lowered, so the capital only falls: that any bad threshold passes is no
more probable than that the strictest of them does. So no clusters are set aside, and one sequence
has the whole level.

*One case each* (``cluster_promise="one_case_each"``): one case of each cluster is drawn at random.
These are independent, and certified as such. The promise is then about a case drawn at random from
a new cluster, in which large clusters count no more than small ones. It is the more powerful one
where the cases of a cluster are much alike.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from expertload._typing import AnyArray, BoolArray, FloatArray, IntArray
from expertload.cases import Cases, reaches
from expertload.operating_point.ladder import (
    Ladder,
    Promise,
    Run,
    Steps,
    allowed_errors,
    cases_for_errors,
    least_cases,
)
from expertload.tally import run_ends

# Shares of the capital that are staked in parallel, in units of the largest possible share.
SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
# How many of the most confident cases the first test takes, in units of the fewest that can pass
# without an error. With fewer, one unlucky error ends the descent; with more, a model that is good
# only at its top is missed.
START_FACTOR = 4
# Of graded cases the first test takes as many as pass with this share of the loss that the target
# allows.
GRADED_SHARE = 0.6
# About how many times as many cases the next beginning takes. With a smaller factor there would be
# more beginnings, and less level for each.
SPACING = 4
# The first beginning's share of the level; of clusters, each later one takes half of the rest. If
# the first fails, the others still have the rest; if it passes, its level is handed on.
FIRST_SHARE = 0.75
# The seed of draws of clusters, which are always the same for the same cases.
SEED = 0
# The share of clusters whose confidences, without their labels, become the thresholds.
LADDER_SHARE = 0.1
# The number of these thresholds, evenly spaced in the number of cases they accept.
N_STEPS = 20


def stakes(target: float) -> FloatArray:
    """Return the shares staked, for losses whose mean the target allows to be 1 - target."""
    return np.array(SHARES) / target


@dataclass(frozen=True, eq=False)
class Grades:
    """Losses from the most confident case down, and where the cases of each threshold end.

    Attributes
    ----------
    loss : ndarray of shape (n_cases,)
        One minus the grade.
    ends : ndarray of int, shape (n_thresholds,)
        The number of cases that each distinct confidence accepts, strict to loose.
    """

    loss: FloatArray
    ends: IntArray

    @classmethod
    def from_cases(cls, cases: Cases) -> Grades:
        """Sort graded cases."""
        order = np.argsort(-cases.confidence, kind="stable")
        return cls(1.0 - cases.correct[order], run_ends(cases.confidence[order])[1])

    def log_capital(
        self, target: float, *, times: float = 1.0, all_cases: bool = False
    ) -> FloatArray:
        """Return the logarithm of the capital at each distinct confidence, strict to loose.

        Parameters
        ----------
        target : float
            The accuracy to show.
        times : float
            A factor by which the number of cases is multiplied.
        all_cases : bool
            Whether delegated cases also count, as cases without a loss.
        """
        shares = stakes(target)
        total = np.full(len(self.ends), -np.inf)
        for share in shares:
            logs = np.cumsum(np.log1p(-share * (self.loss - (1 - target))))[self.ends - 1]
            if all_cases:
                logs += (len(self.loss) - self.ends) * math.log1p(share * (1 - target))
            np.logaddexp(total, times * logs, out=total)
        return np.asarray(total - math.log(len(shares)))


def least_graded_cases(target: float, error_level: float) -> int:
    """The fewest cases, all without a loss, whose capital is enough."""
    return graded_cases_at_loss(0.0, target, error_level)


def graded_cases_at_loss(loss: float, target: float, error_level: float) -> int:
    """The fewest cases, each with this loss, whose capital is enough; less than the target's."""
    growth = np.log1p(stakes(target) * (1 - target - loss))
    wanted = math.log(len(growth) / error_level)
    most = math.ceil(wanted / float(growth.max()))  # the largest share alone is enough
    return bisect_left(
        range(most), math.exp(wanted), lo=1, key=lambda n: float(np.exp(n * growth).sum())
    )


# ------------------------------------------------------------------ the fixed sequence


class Start(NamedTuple):
    """A beginning: at most how many cases it takes, its level, and the fewest that pass there."""

    n_cases: int
    level: float
    least: int


def fixed_sequence(
    steps: Steps, n_cases: int, target: float, error_level: float
) -> tuple[Run, ...]:
    """Test from several starting points, each until its first failure."""
    graded = steps.log_capital is not None
    starts = plan_starts(n_cases, target, error_level, graded=graded)
    return descend_from(steps.p_values(target), grant(steps.n_accepted, starts))


def plan_starts(
    n_cases: int, target: float, error_level: float, *, graded: bool = False
) -> list[Start]:
    """Return where to begin and at which level, from what is known before the data."""
    first, last = _first_count(n_cases, target, error_level, graded=graded), n_cases // 2
    n_more = math.floor(math.log(max(last / first, 1)) / math.log(SPACING) + 0.5)
    if not n_more:
        return [_start(first, target, error_level, graded=graded)]
    whole = error_level if graded else error_level / (1 + error_level)
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


def granted_at(shares: FloatArray, grants: Iterable[tuple[float, float]]) -> FloatArray:
    """Return the parts of a level, granted where steps accept these shares of the cases."""
    granted = np.zeros(len(shares))
    for share, part in grants:
        granted[min(int(np.searchsorted(shares, share - 1e-9)), len(shares) - 1)] += part
    return granted


def descend_from(p_value: FloatArray, granted: FloatArray) -> tuple[Run, ...]:
    """Return the runs of a descent that starts wherever a level is granted.

    The level carried over without a failure is added to it; testing continues to the next failure.
    """
    begins = np.flatnonzero(granted).tolist()
    runs, level = [], 0.0
    for begin, end in pairwise([*begins, len(p_value)]):
        level += float(granted[begin])
        failed = np.flatnonzero(p_value[begin:end] > level)
        n_passed = int(failed[0]) if len(failed) else end - begin
        runs.append(Run(begin, min(n_passed + 1, end - begin), n_passed))
        level = level if n_passed == end - begin else 0.0
    return tuple(runs)


# ------------------------------------------------------------------ cases in clusters


def one_case_each(cases: Cases) -> Cases:
    """Return one case of each cluster, drawn at random but always the same."""
    order = np.random.default_rng(SEED).permutation(len(cases))
    first = np.unique(cases.unit[order], return_index=True)[1]
    return cases.take(np.sort(order[first]))


def bet_on_clusters(cases: Cases, promise: Promise) -> Ladder:
    """Test thresholds by betting on the accepted cases of each cluster together."""
    cases = replace(cases, clusters=np.unique(cases.unit, return_inverse=True)[1])  # no gaps
    largest = max(promise.largest, largest_cluster(cases))
    thresholds, shares, tested = _thresholds(cases, promise)
    wrong = 1.0 - tested.correct.astype(np.float64)
    capital = [_log_capital(tested, wrong, t, promise, largest) for t in thresholds]
    steps = Steps.every(tested.tally).at(thresholds)._replace(log_capital=np.array(capital))
    expected = shares * len(wrong)
    granted = _grants(expected, promise, largest)
    return Ladder(steps, descend_from(steps.p_values(promise.target), granted), promise.target)


def largest_cluster(cases: Cases) -> int:
    """Return the most cases that belong together."""
    return int(np.unique(cases.unit, return_counts=True)[1].max())


def _thresholds(cases: Cases, promise: Promise) -> tuple[FloatArray, FloatArray, Cases]:
    """Return thresholds, strict to loose, the share each should accept, and the cases to test."""
    if promise.thresholds is not None:
        given = np.unique(promise.thresholds)[::-1]
        return given, np.linspace(1 / len(given), 1, len(given)), cases
    if promise.counts_all_cases:
        return *quantile_thresholds(cases.confidence, N_STEPS), cases
    aside = drawn_apart(cases.unit)
    if aside.all():  # a single cluster is not enough for any test
        aside = ~aside
    scores, tested = cases.confidence[aside], cases.take(~aside)
    scores = scores if len(scores) else tested.confidence[:1]
    return *quantile_thresholds(scores, N_STEPS), tested


def quantile_thresholds(scores: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
    """Return n thresholds or fewer, strict to loose, and the share of scores each accepts."""
    wanted = 1 - np.arange(1, n + 1) / n
    thresholds = np.unique(np.quantile(scores, wanted, method="lower"))[::-1]
    return thresholds.astype(np.float64), (scores >= thresholds[:, None]).mean(axis=1)


def drawn_apart(cluster: IntArray) -> BoolArray:
    """Return which cases fix the thresholds: those of a tenth of the clusters, numbered from 0."""
    n_clusters = int(cluster.max()) + 1
    n_apart = math.ceil(LADDER_SHARE * n_clusters)
    return (np.random.default_rng(SEED).permutation(n_clusters) < n_apart)[cluster]


def _log_capital(
    tested: Cases, wrong: FloatArray, threshold: float, promise: Promise, largest: int
) -> float:
    """Return the logarithm of the capital after all clusters, the mean over the stakes."""
    accepted = reaches(tested.confidence, threshold)
    counted = accepted | promise.counts_all_cases
    loss = wrong * accepted - (1 - promise.target)
    excess = np.bincount(tested.unit[counted], weights=loss[counted])
    return cluster_log_capital(excess, promise.target * largest)


def cluster_log_capital(loss: AnyArray, most: float) -> float:
    """Return the log capital of bets on losses, each at most `most`, whose mean would be 0."""
    logs = np.log1p(-np.outer(np.array(SHARES) / most, loss)).sum(axis=1)
    return float(np.logaddexp.reduce(logs) - math.log(len(logs)))


def _grants(expected: FloatArray, promise: Promise, largest: int) -> FloatArray:
    """Return the level granted at each threshold: the first that can pass, and some later ones."""
    if promise.counts_all_cases:
        first: FloatArray = np.eye(1, len(expected))[0]
        return first * promise.error_level
    needed = 1.5 * least_clustered_cases(promise, largest)
    granted = np.zeros(len(expected))
    left = promise.error_level
    rows = [int(np.searchsorted(expected, needed * 2**i)) for i in range(N_STEPS)]
    rows = sorted({row for row in rows if row < len(expected)}) or [len(expected) - 1]
    for row in rows[:-1]:
        share = FIRST_SHARE if row == rows[0] else 0.5
        granted[row], left = share * left, (1 - share) * left
    granted[rows[-1]] += left
    return granted


def least_clustered_cases(promise: Promise, largest: int) -> int:
    """The fewest cases that can pass, all right and in clusters of the largest size."""
    growth = float(np.log1p(stakes(promise.target).max() * (1 - promise.target)))
    wanted = math.log(len(stakes(promise.target)) / promise.error_level)
    return math.ceil(wanted / growth) * largest
