"""Gaussian kernel sums over pairs of cases, block by block so that memory stays bounded.

Distances in a row are taken relative to the nearest case, whose kernel is then one: a point far
from everything gets its nearest neighbours' classes instead of zero over zero.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from expertload._typing import FloatArray, IntArray
from expertload._validation import insufficient
from expertload.calibrators.logits import SMALLEST_PROBABILITY, normalise_rows

BLOCK_BYTES = 32 * 2**20
COARSE = np.geomspace(10.0, 1e-3, 17)  # widest first: of equal ones, the smoothest wins
FINE = np.geomspace(COARSE[0] / COARSE[1], COARSE[1] / COARSE[0], 9)


def class_posterior(
    points: FloatArray, support: FloatArray, class_weight: FloatArray, bandwidth: float
) -> FloatArray:
    """Return each point's class probabilities.

    `class_weight` has one row per support case, which is zero except in the column of its class.
    """
    weight = class_weight / class_weight.max()
    uniform = np.full(weight.shape[1], 1 / weight.shape[1])
    result = np.empty((len(points), weight.shape[1]))
    for rows in _blocks(len(points), len(support)):
        kernel = _kernel(_relative_distances(points[rows], support), bandwidth)
        sums = kernel @ weight
        result[rows] = normalise_rows(sums, np.broadcast_to(uniform, sums.shape))
    return result


def choose_bandwidth(
    support: FloatArray, target: IntArray, class_weight: FloatArray, share: FloatArray
) -> float:
    """Return the bandwidth with the highest leave-one-out log-probability of the true class."""
    asked = np.flatnonzero(np.bincount(target)[target] > 1)
    if len(asked) == 0:
        raise insufficient(
            "two cases of one class to choose a bandwidth",
            f"{len(target)} case(s), no two of the same class",
            "pass bandwidth=<number>, or more calibration cases",
        )
    spread = float(np.sqrt(2 * (support - support.mean(axis=0)).var(axis=0).sum()))
    if spread == 0:
        return 1.0  # equal features: every bandwidth gives the same answer
    best = spread
    for grid in (COARSE, FINE):
        score = _leave_one_out(support, target, class_weight, share, asked, best * grid)
        best *= float(grid[score.argmax()])
    return best


def _leave_one_out(
    support: FloatArray,
    target: IntArray,
    class_weight: FloatArray,
    share: FloatArray,
    asked: IntArray,
    bandwidths: FloatArray,
) -> FloatArray:
    """Return for each bandwidth the mean log-probability that the others give a case's class."""
    weight = class_weight.max(axis=1) / class_weight.max()
    total = np.zeros(len(bandwidths))
    for rows in _blocks(len(asked), len(support)):
        cases = asked[rows]
        gaps = _relative_distances(support[cases], support, left_out=cases)
        own = np.where(target[cases, None] == target, weight, 0.0)
        for i, bandwidth in enumerate(bandwidths):
            kernel = _kernel(gaps, float(bandwidth))
            proba = np.einsum("ij,ij->i", kernel, own) / (kernel @ weight)
            total[i] += share[cases] @ np.log(np.maximum(proba, SMALLEST_PROBABILITY))
    return total


def _relative_distances(
    points: FloatArray, support: FloatArray, left_out: IntArray | None = None
) -> FloatArray:
    """Return squared distances less their row's least; infinite to the case left out."""
    squares: FloatArray = points @ support.T
    squares *= -2
    squares += np.einsum("ij,ij->i", points, points)[:, None]
    squares += np.einsum("ij,ij->i", support, support)
    if left_out is not None:
        squares[np.arange(len(points)), left_out] = np.inf
    squares -= squares.min(axis=1, keepdims=True)
    return squares


def _kernel(squares: FloatArray, bandwidth: float) -> FloatArray:
    width = float(np.clip(bandwidth, 1e-100, 1e100))
    with np.errstate(over="ignore"):
        exponent: FloatArray = squares / (-2 * width**2)
    return np.exp(exponent, out=exponent)


def _blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    size = max(1, BLOCK_BYTES // (8 * n_columns))
    return (slice(start, start + size) for start in range(0, n_rows, size))
