"""AUCOCLoss written out: the paper's appendix, one sum after another, with loops over pairs."""

from __future__ import annotations

import math

import numpy as np


def phi(z):
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def cdf(z):
    return math.erfc(-z / math.sqrt(2)) / 2


class Kernel:
    """A Gaussian around each confidence, with its images behind 0 and 1 under reflection.

    Confidences lie between `low` and `high`: 0 and 1, or two infinities in log odds.
    """

    def __init__(self, width, *, reflect=False, low=0.0, high=1.0):
        self.width = width
        self.low, self.high = low, high
        # Centre of each copy as (offset, sign): offset + sign * confidence.
        self.copies = [(0, 1), (0, -1), (2, -1)] if reflect else [(0, 1)]

    def density(self, x, r):
        return sum(phi((x - o - s * r) / self.width) / self.width for o, s in self.copies)

    def mass(self, low, high, r):
        """Integral of the density from low to high."""
        h = self.width
        return sum(cdf((high - o - s * r) / h) - cdf((low - o - s * r) / h) for o, s in self.copies)

    def mass_slope(self, low, high, r):
        """Derivative of the mass by the confidence."""
        h = self.width
        return sum(
            -s / h * (phi((high - o - s * r) / h) - phi((low - o - s * r) / h))
            for o, s in self.copies
        )


def scott(r):
    return np.std(r, ddof=1) * len(r) ** -0.2


def area_and_gradient(r, value, kernel):
    """(A, dA/dvalue, dA/dr): tau is held fixed, so thresholds move instead."""
    n = len(r)
    thresholds = sorted(r)
    tau = [sum(kernel.mass(kernel.low, x, q) for q in r) / n for x in thresholds]
    rest = [max(1 - t, 1 / (2 * n)) for t in tau]
    curve = [
        sum(v * kernel.mass(x, kernel.high, q) for q, v in zip(r, value, strict=True)) / n / rest[k]
        for k, x in enumerate(thresholds)
    ]
    expected = [
        sum(v * kernel.density(x, q) for q, v in zip(r, value, strict=True))
        / sum(kernel.density(x, q) for q in r)
        for x in thresholds
    ]
    area = curve[0] * tau[0] / 2
    for k in range(1, n):
        area += (curve[k] + curve[k - 1]) * (tau[k] - tau[k - 1]) / 2

    by_value, by_r = np.zeros(n), np.zeros(n)
    for k, x in enumerate(thresholds):
        before = tau[k] - (tau[k - 1] if k else 0.0)
        after = tau[k + 1] - tau[k] if k + 1 < n else 0.0
        a = (before + after) / 2 / rest[k]
        for i, (q, v) in enumerate(zip(r, value, strict=True)):
            by_value[i] += a * kernel.mass(x, kernel.high, q) / n
            by_r[i] += a * v * kernel.mass_slope(x, kernel.high, q) / n
            by_r[i] += a * expected[k] * kernel.mass_slope(kernel.low, x, q) / n
    return area, by_value, by_r


def softmax(logits):
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def through_softmax(p, by_top, by_target, target):
    """Gradient by logits from the gradients by the top and the true-class probability."""
    grad = np.zeros_like(p)
    for i, row in enumerate(p):
        top, true = int(row.argmax()), int(target[i])
        for j in range(len(row)):
            grad[i, j] += by_top[i] * row[top] * ((j == top) - row[j])
            grad[i, j] += by_target[i] * row[true] * ((j == true) - row[j])
    return grad


def aucoc_loss(logits, target, *, correctness="target_probability", width=None, reflect=False):
    """(loss, gradient by logits) of a batch."""
    p = softmax(np.asarray(logits, dtype=float))
    r = p.max(axis=1)
    s = p[np.arange(len(p)), target]
    kernel = Kernel(scott(r) if width is None else width, reflect=reflect)
    if correctness == "hard":
        value = (p.argmax(axis=1) == target).astype(float)
        area, by_value, by_r = area_and_gradient(r, value, kernel)
        by_value = np.zeros_like(by_value)
    else:
        area, by_value, by_r = area_and_gradient(r, s, kernel)
    return -math.log(area), through_softmax(p, -by_r / area, -by_value / area, target)


def log_odds(logits):
    """Of the top class against all others, without ever forming a probability near one."""
    rows = []
    for row in np.asarray(logits, dtype=float):
        top = int(row.argmax())
        others = np.delete(row, top)
        peak = others.max()
        rows.append(row[top] - peak - math.log(sum(math.exp(z - peak) for z in others)))
    return np.array(rows)


def aucoc_loss_in_log_odds(logits, target, *, correctness="target_probability", width=None):
    """(loss, gradient by logits) with confidences smoothed in log odds, which have no ends."""
    logits = np.asarray(logits, dtype=float)
    p, odds = softmax(logits), log_odds(logits)
    kernel = Kernel(scott(odds) if width is None else width, low=-math.inf, high=math.inf)
    s = p[np.arange(len(p)), target]
    value = (p.argmax(axis=1) == target).astype(float) if correctness == "hard" else s
    area, by_value, by_odds = area_and_gradient(odds, value, kernel)
    by_value = np.zeros_like(by_value) if correctness == "hard" else by_value
    grad = through_softmax(p, np.zeros_like(s), -by_value / area, target)
    for i, row in enumerate(p):
        top = int(row.argmax())
        rest = np.delete(logits[i], top)
        others = softmax(rest[None])[0]  # of the classes that are not the top one
        for j, q in zip((j for j in range(len(row)) if j != top), others, strict=True):
            grad[i, j] += by_odds[i] / area * q
        grad[i, top] -= by_odds[i] / area
    return -math.log(area), grad


def upper_bound(logits, target):
    """(bound, gradient by logits): -log B - sum_n beta_n log s_n / B."""
    p = softmax(np.asarray(logits, dtype=float))
    r = p.max(axis=1)
    s = p[np.arange(len(p)), target]
    kernel = Kernel(scott(r))
    logs, beta, logs_by_r = area_and_gradient(r, np.log(s), kernel)
    mass, _, mass_by_r = area_and_gradient(r, np.ones_like(s), kernel)
    by_r = -mass_by_r / mass - logs_by_r / mass + logs * mass_by_r / mass**2
    return -math.log(mass) - logs / mass, through_softmax(p, by_r, -beta / mass / s, target)
