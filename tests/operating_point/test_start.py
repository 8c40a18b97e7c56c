"""Where the ladder begins, and that beginning there costs no more than the level."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from expertload.operating_point._risk_tests import allowed_errors, least_cases
from expertload.operating_point.ladder import first_step, start_count


@given(st.integers(1, 5000), st.sampled_from([0.6, 0.9, 0.95]), st.sampled_from([0.05, 0.2]))
def test_the_first_test_can_pass_and_leaves_room(n, target, level):
    start, least = start_count(n, target, level), least_cases(target, level)
    assert least <= start <= max(least, n // 2)
    # It is the smallest number of cases that allows as many errors.
    assert allowed_errors(start, target, level) >= 0
    assert allowed_errors(start - 1, target, level) < allowed_errors(start, target, level)


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


def passing_probability(n_top, n_rest, accuracy_top, accuracy_rest, allowed):
    """P(errors <= allowed) for two kinds of cases; `n_rest` and `allowed` are arrays."""
    total = np.zeros(len(n_rest))
    for errors in range(n_top + 1):
        chance = binom.pmf(errors, n_top, 1 - accuracy_top)
        total += chance * binom.cdf(allowed - errors, n_rest, 1 - accuracy_rest)
    return total


def chance_of_a_wrong_certificate(n, target, level, start, top, rest, accuracy_top, accuracy_rest):
    """Exact, for two confidences: `top` over-confident, `rest` heavily shared and just missing.

    Both thresholds miss the target, so that passing any test breaks the promise.
    """
    least = least_cases(target, level)
    allowed = np.array([allowed_errors(k, target, level) if k else -1 for k in range(n + 1)])
    broken = 0.0
    for n_top in range(n + 1):
        chance_top = binom.pmf(n_top, n, top)
        if chance_top < 1e-10:
            continue
        n_rest = np.arange(n - n_top + 1)
        accepted = n_top + n_rest
        chance = chance_top * binom.pmf(n_rest, n - n_top, rest / (1 - top))
        both = passing_probability(n_top, n_rest, accuracy_top, accuracy_rest, allowed[accepted])
        alone = binom.cdf(allowed[n_top], n_top, 1 - accuracy_top)
        at_top = (accepted > start) & (n_top >= least)
        broken += (chance * np.where(at_top, alone, np.where(accepted >= least, both, 0))).sum()
    return broken


@pytest.mark.parametrize(("target", "level"), [(0.5, 0.2), (0.7, 0.1), (0.8, 0.1), (0.9, 0.1)])
def test_a_shared_confidence_under_an_over_confident_top(target, level):
    """The corner the argument leaves out: stays within the level, by exact computation."""
    least = least_cases(target, level)
    n = 10 * least
    start = start_count(n, target, level)
    worst = 0.0
    for size, gap, lift in itertools.product((0.6, 1.0, 1.4), (0.02, 0.1, 0.3), (0.1, 0.5, 1.0)):
        top, accuracy_rest = size * least / n, target + lift * (1 - target)
        rest = top * gap / (accuracy_rest - target)  # so that both together just miss the target
        if top + rest < 0.95:
            worst = max(
                worst,
                chance_of_a_wrong_certificate(
                    n, target, level, start, top, rest, target - gap, accuracy_rest
                ),
            )
    assert 0.2 * level < worst <= level
