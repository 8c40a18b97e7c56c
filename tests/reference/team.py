"""Slow, plain versions of `expertload.team`, written from the formulas alone."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import binom


def team_accuracy(model, expert, confidence, threshold, weight=None, inclusion=None):
    """Mean correctness of the model, plus the mean gain over cases that were read.

    `expert` is None where nobody read a case.
    """
    n = len(model)
    weight = [1.0] * n if weight is None else weight
    inclusion = [1.0] * n if inclusion is None else inclusion
    alone = sum(w * m for w, m in zip(weight, model, strict=True)) / sum(weight)
    gained = total = 0.0
    for m, h, c, w, pi in zip(model, expert, confidence, weight, inclusion, strict=True):
        if h is not None:
            total += w / pi
            gained += w / pi * (h - m) * (c < threshold)
    return alone + gained / total


def combined(proba, answer, temperature, confusion):
    """Bayes' rule for one case, class by class."""
    scaled = [p ** (1 / temperature) for p in proba]
    joint = [p / sum(scaled) * confusion[k][answer] for k, p in enumerate(scaled)]
    return [value / sum(joint) for value in joint]


def confusion(truth, answers, n_classes):
    """Counts, and as many imagined answers to each class as there are classes."""
    right = sum(t == a for t, a in zip(truth, answers, strict=True))
    share = (right + 1) / (len(truth) + 2)
    rows = []
    for k in range(n_classes):
        row = []
        for a in range(n_classes):
            seen = sum(t == k and given == a for t, given in zip(truth, answers, strict=True))
            row.append(seen + n_classes * (share if a == k else (1 - share) / (n_classes - 1)))
        rows.append([value / sum(row) for value in row])
    return rows


def margin_p_value(harms, benefits, n, margin, rates):
    """The largest P(N+ - N- <= harms - benefits) over discordance rates, by its definition."""
    worst = 0.0
    for rate in rates:
        total = 0.0
        for k in range(n + 1):
            most = math.floor((k + harms - benefits) / 2)
            tail = binom.cdf(most, k, (rate + margin) / (2 * rate)) if most >= 0 else 0.0
            total += binom.pmf(k, n, rate) * tail
        worst = max(worst, total)
    return worst


def fallback(p_values, shares, level, grants):
    """The last test that passes: parts of the level begin at shares and are handed on."""
    left, best = 0.0, None
    for j, (p, share) in enumerate(zip(p_values, shares, strict=True)):
        before = shares[j - 1] if j else -1.0
        left += level * sum(part for at, part in grants if before < at - 1e-9 <= share)
        if left > 0 and p <= left:
            best = j
        else:
            left = 0.0
    return best


def dawid_skene(readings, n_cases, n_readers, n_classes, rounds):
    """EM over a list of (case, reader, answer), with readers drawn towards their pool."""
    share = np.zeros((n_cases, n_classes))
    for case, _, answer in readings:
        share[case, answer] += 1
    share = [row / row.sum() for row in share]
    for _ in range(rounds):
        counts = np.zeros((n_readers, n_classes, n_classes))
        for case, reader, answer in readings:
            for k in range(n_classes):
                counts[reader, k, answer] += share[case][k]
        pool = counts.sum(axis=0) + 1 / n_classes
        prior = [sum(row[k] for row in share) + 1 for k in range(n_classes)]
        for reader in range(n_readers):
            for k in range(n_classes):
                row = counts[reader, k] + n_classes * pool[k] / pool[k].sum()
                counts[reader, k] = row / row.sum()
        new = []
        for c in range(n_cases):
            joint = np.array(prior) / sum(prior)
            for case, reader, answer in readings:
                if case == c:
                    joint = joint * counts[reader, :, answer]
            new.append(joint / joint.sum())
        share = new
    return np.array(share)
