"""Certification written out: exact binomial tails from integers, one threshold at a time."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np


def binomial_tail(n_errors: int, n_cases: int, rate: Fraction) -> float:
    """P(Binomial(n_cases, rate) <= n_errors), exactly, then rounded once."""
    wrong, whole = rate.numerator, rate.denominator
    ways = sum(
        math.comb(n_cases, k) * wrong**k * (whole - wrong) ** (n_cases - k)
        for k in range(n_errors + 1)
    )
    return ways / whole**n_cases


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


# ------------------------------------------------------------------ the level spent along one walk


def more_cases(law, n_more, rate):
    """`law[e]` is the probability of e errors; the law after more cases, one at a time."""
    for _ in range(n_more):
        law = np.append(law, 0.0) * (1 - rate) + np.append(0.0, law) * rate
    return law


def affordable_errors(law, budget):
    """The most errors whose probability, and that of fewer, is within the budget; -1 if none."""
    most, total = -1, 0.0
    for errors, probability in enumerate(law):
        total += probability
        if total > budget:
            break
        most = errors
    # Errors that no path has are no errors to allow.
    return most if law[: most + 1].sum() > 0 else -1


def spending_plan(n, target, level):
    """[(cases, most errors, spent)] of the looks, and the law of uncrossed paths before each."""
    rate = 1 - target
    least = math.ceil(math.log(level) / math.log(target) - 1e-12)
    first = max(least, min(int(2.1 * least), n // 2))
    last = max(first, n // 2)
    n_looks = math.floor(math.log2(last / first) + 0.5) + 1
    ratio = (last / first) ** (1 / max(n_looks - 1, 1))
    looks, laws, law, at, spent = [], [], np.ones(1), 0, 0.0
    for j in range(n_looks):
        budget = level * (j + 1) / n_looks - spent
        wanted = last if j and j == n_looks - 1 else int(first * ratio**j + 1e-9)
        wanted = max(wanted, at + 1)
        errors = affordable_errors(more_cases(law, wanted - at, rate), budget)
        while errors < 0 and wanted < n:
            wanted = min(n, int(1.05 * wanted) + 1)
            errors = affordable_errors(more_cases(law, wanted - at, rate), budget)
        if errors < 0:
            continue
        count = at + 1  # the fewest cases that allow as many errors
        after = more_cases(law, 1, rate)
        while after[: errors + 1].sum() > budget:
            count, after = count + 1, more_cases(after, 1, rate)
        laws.append((law, at))
        law, at = after, count
        spent += law[: errors + 1].sum()
        law[: errors + 1] = 0.0
        looks.append((count, errors, spent))
    return looks, laws


def spending_level(looks, laws, begun, last, k, n, target, level):
    """The level at k cases of a run that began at look `begun`, past look `last`."""
    rate, final = 1 - target, last == len(looks) - 1
    budget = level if final else looks[last][2]
    if begun == 0:
        return budget
    start, end = looks[last][0], n + 1 if final else looks[last + 1][0]
    ends = {start + 1, end} if end - start <= 4 else set()
    if not ends:
        ends = {int(start * (end / start) ** (i / 4) + 1e-9) for i in range(1, 4)} | {end}
    at_end = min(e for e in ends if e > k or e == end) - 1  # the last count of the interval
    law, at = laws[begun]
    crossed = 1 - law.sum()
    law = more_cases(law, at_end - at, rate)
    total = marginal = 0.0
    plain = more_cases(np.ones(1), at_end, rate)
    for errors, probability in enumerate(law):
        if crossed + total + probability > budget:
            return marginal + (budget - crossed - total) / probability * plain[errors]
        total, marginal = total + probability, marginal + plain[errors]
    raise AssertionError("a law has no end")


def spending(correct, confidence, thresholds, *, target, level):
    """(threshold, accepted, errors, passed) of each test, strict to loose."""
    n = len(correct)
    looks, laws = spending_plan(n, target, level)
    counts = [accepted_and_wrong(correct, confidence, t) for t in thresholds]
    place = [next((row for row, (k, _) in enumerate(counts) if k >= s), None) for s, *_ in looks]
    tests, begun = [], None
    for row, (threshold, (k, e)) in enumerate(zip(thresholds, counts, strict=True)):
        p = binomial_tail(e, k, 1 - Fraction(target)) if k else 1.0

        def runs_on(look, k=k, p=p):
            reached = max(j for j in range(len(looks)) if looks[j][0] <= k)
            return p <= spending_level(looks, laws, look, reached, k, n, target, level)

        def begins_here(look, k=k, e=e):
            cases, errors, _ = looks[look]
            return e <= errors if k == cases else runs_on(look)

        here = [j for j in range(len(looks)) if place[j] == row]
        was_alive = begun is not None
        if not (was_alive and runs_on(begun)):
            begun = next((j for j in here if begins_here(j)), None)
        if here or was_alive:
            tests.append((threshold, k, e, begun is not None))
    return tests
