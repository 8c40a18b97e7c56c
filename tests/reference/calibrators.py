"""Slow, readable versions of what the calibrators compute."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from scipy.integrate import quad
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp


def softmax_loss(logits, target, weight=None):
    """The weighted mean negative log-likelihood."""
    rows = [-log_softmax(row)[y] for row, y in zip(logits, target, strict=True)]
    return float(np.average(rows, weights=weight))


def temperature_by_search(logits, target, weight=None):
    """The best temperature by a grid in log T, then a bounded search around its best point."""
    grid = np.linspace(-4, 4, 81)

    def loss(log_temperature):
        return softmax_loss(np.asarray(logits) / math.exp(log_temperature), target, weight)

    best = grid[np.argmin([loss(g) for g in grid])]
    found = minimize_scalar(
        loss, bounds=(best - 0.1, best + 0.1), method="bounded", options={"xatol": 1e-10}
    )
    return math.exp(found.x)


def log_odds(row, k):
    """Log-odds of class k against all the others."""
    others = [z for j, z in enumerate(row) if j != k]
    return row[k] - logsumexp(others)


def histogram_curve(scores, hits, weights, n_bins, strategy, smoothing):
    """The bins of one class as a function, by plain loops."""
    cases = sorted(zip(scores, hits, weights, strict=True))
    total = sum(w for _, _, w in cases)
    if strategy == "width":
        edges = [(b + 1) / n_bins for b in range(n_bins)]
    else:
        edges = []
        for b in range(1, n_bins):
            reached = 0.0
            for score in sorted(set(scores)):
                reached += sum(w for s, _, w in cases if s == score)
                if reached * n_bins >= b * total:
                    edges.append(score)
                    break
        edges = sorted({edge for edge in edges if edge < 1} | {1.0})
    values = []
    for low, high in zip([-1.0, *edges[:-1]], edges, strict=True):
        inside = [(s, h, w) for s, h, w in cases if low < s <= high]
        weight = sum(w for _, _, w in inside)
        if not inside:
            values.append((max(low, 0.0) + high) / 2)
            continue
        mean = sum(s * w for s, _, w in inside) / weight
        hit = sum(w for _, h, w in inside if h)
        values.append((hit + smoothing * mean) / (weight + smoothing))

    def curve(p):
        return next(v for edge, v in zip(edges, values, strict=True) if p <= edge)

    return curve


def spline_heights(scores, correct, n_knots):
    """Heights of the least squares natural spline, each integral by adaptive quadrature."""
    order = np.argsort(scores)
    scores, correct = np.asarray(scores)[order], np.asarray(correct, float)[order]
    n = len(scores)
    ends = np.arange(n + 1) / n
    error = np.concatenate([[0.0], np.cumsum(correct - scores) / n])
    knots = np.linspace(0, 1, n_knots)
    basis = [CubicSpline(knots, row, bc_type="natural") for row in np.eye(n_knots)]
    breaks = np.union1d(ends, knots)

    def integral(f):
        return sum(quad(f, a, b)[0] for a, b in pairwise(breaks))

    gram = [[integral(lambda t, f=f, g=g: f(t) * g(t)) for g in basis] for f in basis]
    right = [integral(lambda t, f=f: f(t) * np.interp(t, ends, error)) for f in basis]
    return np.linalg.solve(gram, right)


def sampled_spline_correction(scores, correct, n_knots):
    """What Gupta et al. add to each sorted score: a spline fitted at the cases themselves."""
    order = np.argsort(scores)
    scores, correct = np.asarray(scores)[order], np.asarray(correct, float)[order]
    share = np.linspace(0, 1, len(scores))
    error = np.cumsum(correct - scores) / len(scores)
    knots = np.linspace(0, 1, n_knots)
    basis = CubicSpline(knots, np.eye(n_knots), bc_type="natural")
    heights = np.linalg.lstsq(basis(share), error, rcond=None)[0]
    return scores, CubicSpline(knots, heights, bc_type="natural")(share, 1)


def kernel_posterior(x, support, target, n_classes, bandwidth, weight, uniform=False, skip=None):
    """Class probabilities of one point by a loop over the calibration cases."""
    sums = np.zeros(n_classes)
    totals = np.zeros(n_classes)
    for i, (case, y, w) in enumerate(zip(support, target, weight, strict=True)):
        if i == skip:
            continue
        square = sum((a - b) ** 2 for a, b in zip(x, case, strict=True))
        sums[y] += w * math.exp(-square / (2 * bandwidth**2))
        totals[y] += w
    if uniform:
        sums = np.divide(sums, totals, out=np.zeros(n_classes), where=totals > 0)
    return sums / sums.sum()
