"""The COC curve and its areas, straight from their definitions, in O(n^2) or worse."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from scipy.integrate import quad


def curve(correct, confidence, weight=None):
    """One point per distinct confidence: accept whoever reaches it, delegate the others."""
    weight = [1.0] * len(correct) if weight is None else list(weight)
    cases = [c for c in zip(correct, confidence, weight, strict=True) if c[2] > 0]
    total = math.fsum(w for _, _, w in cases)
    points = []
    for threshold in sorted({r for _, r, _ in cases}):
        accepted = math.fsum(w for _, r, w in cases if r >= threshold)
        right = math.fsum(c * w for c, r, w in cases if r >= threshold)
        points.append(((total - accepted) / total, right / accepted, threshold))
    return tuple(np.array(column, dtype=float) for column in zip(*points, strict=True))


def accuracy_at_share(correct, confidence, weight, share):
    """Accuracy when exactly `share` of the weight is accepted, equals being drawn at random."""
    cases = [c for c in zip(correct, confidence, weight, strict=True) if c[2] > 0]
    wanted = share * math.fsum(w for _, _, w in cases)
    accepted = right = 0.0
    for level in sorted({r for _, r, _ in cases}, reverse=True):
        group = [(c, w) for c, r, w in cases if r == level]
        mass = math.fsum(w for _, w in group)
        taken = min(mass, wanted - accepted)
        right += taken * math.fsum(c * w for c, w in group) / mass
        accepted += taken
        if accepted >= wanted * (1 - 1e-15):
            break
    return right / accepted


def exact_area(correct, confidence, weight=None):
    """The integral over the load of the accuracy with randomised thresholds, by quadrature."""
    weight = [1.0] * len(correct) if weight is None else list(weight)
    loads = [*curve(correct, confidence, weight)[0], 1.0]
    return math.fsum(
        quad(
            lambda load: accuracy_at_share(correct, confidence, weight, 1 - load),
            low,
            high,
            epsabs=1e-12,
            epsrel=1e-12,
            limit=200,
        )[0]
        for low, high in pairwise(loads)
    )


def thresholds_area(correct, confidence):
    """The mean over k = 1 ... n of the accuracy among the k most confident."""
    n = len(correct)
    ones = [1.0] * n
    return (
        math.fsum(accuracy_at_share(correct, confidence, ones, k / n) for k in range(1, n + 1)) / n
    )


def authors_area(correct, confidence, weight=None):
    """Straight lines between the points of the curve."""
    load, accuracy, _ = curve(correct, confidence, weight)
    return math.fsum(
        (load[k + 1] - load[k]) * (accuracy[k] + accuracy[k + 1]) / 2 for k in range(len(load) - 1)
    )


def load_at_accuracy(correct, confidence, target, weight=None):
    """The first point that reaches the target, or everything delegated."""
    load, accuracy, _ = curve(correct, confidence, weight)
    return min((x for x, y in zip(load, accuracy, strict=True) if y >= target - 1e-12), default=1.0)


def accuracy_at_load(correct, confidence, budget, weight=None):
    """The last point that can be afforded."""
    load, accuracy, _ = curve(correct, confidence, weight)
    return [y for x, y in zip(load, accuracy, strict=True) if x <= budget + 1e-12][-1]
