"""Calibration, selective and outlier metrics, straight from their definitions."""

from __future__ import annotations

import math

import numpy as np

from tests.reference import coc


def binned_gaps(correct, confidence, n_bins, strategy, weight=None):
    """(share, mean confidence, mean correctness) of each bin, by looking at every case."""
    weight = [1.0] * len(correct) if weight is None else list(weight)
    if strategy == "width":
        parts = _equal_width_parts(confidence, n_bins, weight)
    else:
        parts = _equal_mass_parts(confidence, n_bins, weight)
    total = math.fsum(weight)
    rows = []
    for part in parts:
        mass = math.fsum(part)
        if mass > 0:
            mean_confidence = math.fsum(w * r for w, r in zip(part, confidence, strict=True)) / mass
            mean_correct = math.fsum(w * c for w, c in zip(part, correct, strict=True)) / mass
            rows.append((mass / total, mean_confidence, mean_correct))
    return rows


def _equal_width_parts(confidence, n_bins, weight):
    parts = []
    for b in range(n_bins):
        low, high = b / n_bins, (b + 1) / n_bins
        inside = [
            (low < r <= high) or (b == 0 and r == 0) or (b == n_bins - 1 and r == 1)
            for r in confidence
        ]
        parts.append([w if i else 0.0 for w, i in zip(weight, inside, strict=True)])
    return parts


def _equal_mass_parts(confidence, n_bins, weight):
    """Each distinct confidence spans a stretch of the cumulated weight; cut that at the marks."""
    total = math.fsum(weight)
    parts = [[0.0] * len(weight) for _ in range(n_bins)]
    low = 0.0
    for level in sorted(set(confidence)):
        mass = math.fsum(w for w, r in zip(weight, confidence, strict=True) if r == level)
        for b, part in enumerate(parts):
            start, stop = b * total / n_bins, (b + 1) * total / n_bins
            share = max(0.0, min(stop, low + mass) - max(start, low)) / mass if mass else 0.0
            for i, r in enumerate(confidence):
                if r == level:
                    part[i] = weight[i] * share
        low += mass
    return parts


def expected_calibration_error(correct, confidence, n_bins, strategy, weight=None):
    rows = binned_gaps(correct, confidence, n_bins, strategy, weight)
    return math.fsum(share * abs(r - c) for share, r, c in rows)


def maximum_calibration_error(correct, confidence, n_bins, strategy, weight=None):
    return max(abs(r - c) for _, r, c in binned_gaps(correct, confidence, n_bins, strategy, weight))


def kolmogorov_smirnov_error(correct, confidence):
    levels = sorted(set(confidence))
    drifts = [
        math.fsum(c - r for c, r in zip(correct, confidence, strict=True) if r <= level)
        for level in levels
    ]
    return max(abs(d) for d in drifts) / len(correct)


def augrc(correct, confidence):
    """Mean over coverages of P(accepted and wrong), by a fine midpoint rule: it is piecewise linear
    in the coverage, so the rule is exact when every knot is a grid point."""
    n = len(correct)
    ones = [1.0] * n
    midpoints = (np.arange(n) + 0.5) / n
    return (
        math.fsum(s * (1 - coc.accuracy_at_share(correct, confidence, ones, s)) for s in midpoints)
        / n
    )


def samplewise_risks(correct, confidence):
    """Risk among the k most confident, k = 1 ... n, rows in the order of a stable sort."""
    order = sorted(range(len(correct)), key=lambda i: -confidence[i])
    wrong = np.cumsum([1 - correct[i] for i in order])
    return wrong / np.arange(1, len(correct) + 1)


def torch_uncertainty_aurc(correct, confidence):
    """The trapezoid over coverages 1/n ... 1, divided by its width."""
    n = len(correct)
    coverage = np.arange(1, n + 1) / n
    return float(np.trapezoid(samplewise_risks(correct, confidence), coverage) / (1 - 1 / n))


def fd_shifts_aurc(correct, confidence):
    """The trapezoid over the curve's points, extended flat to coverage 0, times 1000."""
    load, accuracy, _ = coc.curve(correct, confidence)
    coverage = np.append(1 - load, 0.0)
    risk = np.append(1 - accuracy, 1 - accuracy[-1])
    return float(1000 * np.trapezoid(risk[::-1], coverage[::-1]))
