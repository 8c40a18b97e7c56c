"""Monitoring as plain loops over single cases: slow, and easy to check against the formulas."""

from __future__ import annotations

import math

MULTIPLES = (1.3, 1.6, 2, 2.8, 4, 7)
PARTS = (0.15, 0.20, 0.25, 0.20, 0.12, 0.08)
TILTS = (-0.125, -0.25, -0.5, -1, -2, -4)
TILT_PARTS = (0.05, 0.15, 0.20, 0.25, 0.25, 0.10)


def restart_share(block, blocks):
    if blocks is None:
        return 1 / ((block + 1) * (block + 2))
    shares = [0.5] + [0.5 / (blocks - 1)] * (blocks - 1) if blocks > 1 else [1.0]
    return shares[block] if block < blocks else 0.0


def evidence(correct, target, *, weights=None, blocks=None):
    """The evidence after each audit: six bets, multiplied case by case."""
    r = 1 - target
    weights = [1.0] * len(correct) if weights is None else weights
    stakes, path = [0.0] * len(MULTIPLES), []
    for t, (grade, w) in enumerate(zip(correct, weights, strict=True)):
        if t % 50 == 0:
            for j, part in enumerate(PARTS):
                stakes[j] += restart_share(t // 50, blocks) * part
        for j, multiple in enumerate(MULTIPLES):
            q = min(multiple * r, r + 2 / 3 * (1 - r))
            stakes[j] *= 1 + (q - r) / (r * (1 - r)) * w * ((1 - grade) - r)
        path.append(sum(stakes))
    return path


def confirming(correct, rate, *, weights=None):
    """K(rate) after all audits, case by case."""
    weights = [1.0] * len(correct) if weights is None else weights
    total = 0.0
    for tilt, part in zip(TILTS, TILT_PARTS, strict=True):
        product = part
        for grade, w in zip(correct, weights, strict=True):
            factor = math.exp(tilt * (1 - grade)) / (1 - rate + rate * math.exp(tilt))
            product *= factor**w
        total += product
    return total


def lower_bound(correct, level, *, weights=None, steps=2000):
    """The bound on a grid of error rates: the smallest that is refuted."""
    for i in range(steps + 1):
        rate = i / steps
        if confirming(correct, rate, weights=weights) >= 1 / (1 - level):
            return 1 - rate
    return 0.0


def verdict(audits, target, level, *, blocks=None):
    """The state from a list of (decided_at, correct or None, weight), counted from nothing."""
    ordered = sorted(audits, key=lambda audit: audit[0])
    weights = [w for _, _, w in ordered]
    for_alarm = [1.0 if grade is None else grade for _, grade, _ in ordered]
    for_bound = [0.0 if grade is None else grade for _, grade, _ in ordered]
    path = evidence(for_alarm, target, weights=weights, blocks=blocks)
    if max(path) >= 1 / (1 - level):
        return "refuted"
    confirmed = confirming(for_bound, 1 - target, weights=weights) >= 1 / (1 - level)
    return "confirmed" if confirmed else "not refuted"


def share_evidence(counted, share):
    """The evidence that a share is above its bound: bets on multiples of the odds."""
    stakes, path = [0.0] * len(MULTIPLES), []
    for t, x in enumerate(counted):
        if t % 50 == 0:
            for j, part in enumerate(PARTS):
                stakes[j] += restart_share(t // 50, None) * part
        for j, multiple in enumerate(MULTIPLES):
            odds = multiple * share / (1 - share)
            q = min(odds / (1 + odds), share + 2 / 3 * (1 - share))
            stakes[j] *= 1 + (q - share) / (share * (1 - share)) * (x - share)
        path.append(sum(stakes))
    return path
