"""Certification written out: exact binomial tails from integers, one threshold at a time."""

from __future__ import annotations

import math
from fractions import Fraction


def binomial_tail(n_errors: int, n_cases: int, rate: Fraction) -> float:
    """P(Binomial(n_cases, rate) <= n_errors), exactly, then rounded once."""
    terms = (
        math.comb(n_cases, k) * rate**k * (1 - rate) ** (n_cases - k) for k in range(n_errors + 1)
    )
    return float(sum(terms, Fraction(0)))


def accepted_and_wrong(correct, confidence, threshold):
    accepted = [c for c, r in zip(correct, confidence, strict=True) if r >= threshold]
    return len(accepted), sum(1 - int(c) for c in accepted)


def begins(counts, start, least):
    """The index of the loosest count of at most `start`, the next one if it is below `least`."""
    at_most = [i for i, count in enumerate(counts) if count <= start]
    if not at_most:
        return 0
    return at_most[-1] + 1 if counts[at_most[-1]] < least else at_most[-1]


def fixed_sequence(correct, confidence, thresholds, *, target, starts):
    """(threshold, accepted, errors, p, passed) of each test, strict to loose.

    `starts` are (number of cases, level, least). A level goes on from test to test while they pass,
    and is joined by what begins on the way.
    """
    counts = [accepted_and_wrong(correct, confidence, t)[0] for t in thresholds]
    tests, level = [], 0.0
    for row, threshold in enumerate(thresholds):
        level += sum(share for start, share, least in starts if begins(counts, start, least) == row)
        if not level:
            continue
        accepted, errors = accepted_and_wrong(correct, confidence, threshold)
        p = binomial_tail(errors, accepted, 1 - Fraction(target)) if accepted else 1.0
        tests.append((threshold, accepted, errors, p, p <= level))
        if p > level:
            level = 0.0
    return tests


def sgr(correct, confidence, *, target, error_level):
    """The loosest threshold that bisection finds to pass, with errors counted, not truncated."""
    ranked = sorted(confidence, reverse=True)
    strict, loose, found = 1, len(ranked), math.inf
    rounds = max(1, math.ceil(math.log2(len(ranked))))
    for _ in range(rounds):
        rank = (strict + loose) // 2
        accepted, errors = accepted_and_wrong(correct, confidence, ranked[rank - 1])
        if binomial_tail(errors, accepted, 1 - Fraction(target)) <= error_level / rounds:
            strict, found = rank + 1, min(found, ranked[rank - 1])
        else:
            loose = rank
    return found
