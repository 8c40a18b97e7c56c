"""Where the ladder begins, and that beginning there costs no more than the level."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import bdtr, gammaln, xlog1py, xlogy
from scipy.stats import binom

from expertload.operating_point.graded import (
    first_step,
    graded_cases_at_loss,
    grant,
    least_graded_cases,
    plan_starts,
)
from expertload.operating_point.ladder import allowed_errors, least_cases

TARGETS, LEVELS = st.sampled_from([0.6, 0.9, 0.95]), st.sampled_from([0.05, 0.2])


@given(st.integers(1, 200_000), TARGETS, LEVELS)
def test_every_beginning_can_pass_and_leaves_room(n, target, level):
    starts = plan_starts(n, target, level)
    for count, share, least in starts:
        assert least == least_cases(target, share)
        assert least <= count <= max(least, n // 2)
        # It is the smallest number of cases that allows as many errors.
        assert allowed_errors(count, target, share) >= 0
        assert allowed_errors(count - 1, target, share) < allowed_errors(count, target, share)
    counts = [start.n_cases for start in starts]
    assert counts == sorted(counts)
    assert counts[-1] >= min(n // 8, 3 * least_cases(target, level))


@given(st.integers(1, 10**9), TARGETS, LEVELS, st.booleans())
def test_the_levels_of_the_beginnings_add_up(n, target, level, graded):
    """To the level; where several begin on right-or-wrong cases, to what dependence leaves."""
    shares = [start.level for start in plan_starts(n, target, level, graded=graded)]
    whole = level if graded or len(shares) == 1 else level / (1 + level)
    assert sum(shares) == pytest.approx(whole, rel=1e-12)


def test_few_cases_have_one_beginning_and_many_have_several():
    assert [s.n_cases for s in plan_starts(900, 0.95, 0.05)] == [234]
    many = [s.n_cases for s in plan_starts(50_000, 0.95, 0.05)]
    assert len(many) == 4
    assert many[0] < 250 < 20_000 < many[-1] <= 25_000


@given(st.integers(20, 10**6), TARGETS, LEVELS)
def test_grades_begin_where_their_own_bound_can_pass(n, target, level):
    """At six tenths of the missing grades allowed, unless half of all cases are too few for it."""
    for count, share, least in plan_starts(n, target, level, graded=True)[:1]:
        assert least == least_graded_cases(target, share)
        assert least <= count <= max(least, n // 2)
        enough = graded_cases_at_loss(0.6 * (1 - target), target, level)
        assert count == max(least, min(enough, n // 2))
        assert share <= level


def test_levels_are_granted_where_the_beginnings_fall():
    starts = plan_starts(20_000, 0.95, 0.05)
    granted = grant(np.arange(1.0, 20_001.0), starts)
    assert np.flatnonzero(granted).tolist() == [start.n_cases - 1 for start in starts]
    tied = grant(np.array([15_000.0, 20_000.0]), starts)
    assert tied[0] == pytest.approx(sum(start.level for start in starts))
    assert tied[1] == 0


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(1, 60), st.data())
def test_the_first_step_is_the_loosest_within_the_start(sizes, start, data):
    counts = np.cumsum(sizes).astype(float)
    least = data.draw(st.integers(1, start))
    step = first_step(counts, start, least)
    within = [i for i, count in enumerate(counts) if count <= start]
    if within and counts[within[-1]] >= least:
        assert step == within[-1]
    else:
        assert step == len(within)


@functools.cache
def allowed(n, target, level):
    """The most errors that pass, for each number of cases up to n."""
    return np.array([allowed_errors(k, target, level) if k and level else -1 for k in range(n + 1)])


def chance_of(k, n, p):
    """The binomial probability of k: `scipy.stats` spends most of a call on checking it."""
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return np.exp(ways + xlogy(k, p) + xlog1py(n - k, -p))


def chance_of_at_most(k, n, p):
    return np.where(k < 0, 0.0, bdtr(np.clip(k, 0, n), n, p))


def test_chances_are_the_binomial_ones():
    k, n = np.arange(-1, 41)[:, None], np.array([7, 40])
    for p in (0.0, 0.05, 0.9, 1.0):
        assert chance_of_at_most(k, n, p) == pytest.approx(binom.cdf(k, n, p), abs=1e-13)
        for size in n.tolist():
            possible = np.arange(size + 1)
            assert chance_of(possible, size, p) == pytest.approx(binom.pmf(possible, size, p))


def chance_of_a_wrong_certificate(n, target, starts, top, rest, accuracy_top, accuracy_rest):
    """Exact, for two confidences: `top` over-confident, `rest` heavily shared and just missing.

    Both thresholds miss the target, so that passing any test breaks the promise. Counts too rare to
    matter are left out; together they add less than 1e-6.
    """
    broken = 0.0
    chance_of_top = chance_of(np.arange(n + 1), n, top)
    for n_top in np.flatnonzero(chance_of_top >= 1e-10):
        n_rest = np.arange(n - n_top + 1)
        chance = chance_of_top[n_top] * chance_of(n_rest, n - n_top, rest / (1 - top))
        n_rest, chance = n_rest[chance >= 1e-14], chance[chance >= 1e-14]
        level_top, level_both = granted_to(n_top, n_top + n_rest, starts)
        for levels in set(zip(level_top.tolist(), level_both.tolist(), strict=True)):
            rows = (level_top == levels[0]) & (level_both == levels[1])
            most_top = allowed(n, target, levels[0])[n_top]
            most = allowed(n, target, levels[1])[n_top + n_rest[rows]]
            errors = np.arange(most_top + 1, min(n_top, most.max()) + 1)[:, None]  # more never pass
            at_top = chance_of(errors, n_top, 1 - accuracy_top)
            at_both = at_top * chance_of_at_most(most - errors, n_rest[rows], 1 - accuracy_rest)
            total = chance_of_at_most(most_top, n_top, 1 - accuracy_top) + at_both.sum(axis=0)
            broken += (chance[rows] * total).sum()
    return broken


def granted_to(n_top, accepted, starts):
    """The levels that begin at the top, and at both confidences, for arrays of `accepted`."""
    at_top, at_both = np.zeros(len(accepted)), np.zeros(len(accepted))
    for start, level, least in starts:
        begins_at_top = (accepted > start) & (n_top >= least)
        at_top += np.where(begins_at_top, level, 0.0)
        at_both += np.where(~begins_at_top & (accepted >= least), level, 0.0)
    return at_top, at_both


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "level", "times", "n_starts"),
    [
        (0.5, 0.2, 10, 1),
        (0.7, 0.1, 10, 1),
        (0.8, 0.1, 10, 1),
        (0.9, 0.1, 10, 1),
        (0.5, 0.2, 20, 2),
        (0.7, 0.1, 20, 2),
        (0.8, 0.1, 20, 2),
    ],
)
def test_a_shared_confidence_under_an_over_confident_top(target, level, times, n_starts):
    """The corner the argument leaves out: stays within the level, by exact computation."""
    least = least_cases(target, level)
    n = times * least
    starts = plan_starts(n, target, level)
    assert len(starts) == n_starts
    worst = 0.0
    for size, gap, lift in itertools.product((0.6, 1.0, 1.4), (0.02, 0.1, 0.3), (0.1, 0.5, 1.0)):
        top, accuracy_rest = size * least / n, target + lift * (1 - target)
        rest = top * gap / (accuracy_rest - target)  # so that both together just miss the target
        if top + rest < 0.95:
            worst = max(
                worst,
                chance_of_a_wrong_certificate(
                    n, target, starts, top, rest, target - gap, accuracy_rest
                ),
            )
    assert 0.2 * level < worst <= level
