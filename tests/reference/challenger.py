"""Evidence that a model in shadow keeps a promise and saves load, case by case."""

from __future__ import annotations

import numpy as np
from scipy.integrate import quad

LAMBDAS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)


def promise_evidence(accepted, wrong, inclusion, rate, target):
    """Return the evidence after each labelled case that B errs in fewer than 1 - target."""
    r = 1 - target
    capitals, path = [1.0] * len(LAMBDAS), []
    for b, x, p in zip(accepted, wrong, inclusion, strict=True):
        if b:
            w = rate / p
            capitals = [
                capital * (1 - share / (1 - r) * w * (x - r))
                for capital, share in zip(capitals, LAMBDAS, strict=True)
            ]
        path.append(sum(capitals) / len(capitals))
    return np.array(path)


def load_evidence(now, then):
    """Return the evidence that B accepts more, from the cases that only one of both accepts."""
    gained = sum(bool(b and not a) for a, b in zip(now, then, strict=True))
    lost = sum(bool(a and not b) for a, b in zip(now, then, strict=True))
    return quad(lambda p: 2 * (2 * p) ** gained * (2 - 2 * p) ** lost, 0.5, 1)[0]
