"""A projection of features under which neighbours share labels.

The axes A maximise the mean log-probability that the other cases give a case's class under a
Gaussian kernel of distances between projected features z = x A. With S_ij = |z_i - z_j|^2 and
K_ij = exp(-S_ij / 2), let P_ij be case j's share in the sum of kernels around case i, and Q_ij its
share in the sum over i's own class. Then the gradient by S_ij of the mean of -log p_i is
G_ij = (Q_ij - P_ij) / 2 times i's share, and that by z follows from S, a matrix product each.
"""

from __future__ import annotations

import numpy as np

from expertload._typing import FloatArray, IntArray
from expertload.calibrators.kernel import choose_bandwidth
from expertload.calibrators.logits import SMALLEST_PROBABILITY

__all__ = ["learn_axes", "principal_axes"]

# Every step uses all pairs of this many cases; larger sets are thinned.
MOST_CASES = 2000
# Few steps from a good start: stopping early keeps the axes from fitting noise.
MOST_STEPS = 50


def principal_axes(features: FloatArray, share: FloatArray, n_components: int) -> FloatArray:
    """Return the directions of largest variance of centred features, as columns."""
    axes = np.linalg.svd(np.sqrt(share)[:, None] * features, full_matrices=False)[2]
    return axes[:n_components].T.copy()


def learn_axes(
    features: FloatArray, target: IntArray, weight: FloatArray, n_components: int
) -> FloatArray:
    """Return axes learned from centred features, starting from the principal ones."""
    kept = _thinned(features)
    x, y, w = features[kept], target[kept], weight[kept]
    start = principal_axes(x, w / w.sum(), n_components)
    class_weight = np.where(y[:, None] == np.arange(y.max() + 1), w[:, None], 0.0)
    start /= choose_bandwidth(x @ start, y, class_weight, w)

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        loss, gradient = loss_and_gradient(flat.reshape(start.shape), x, y, w)
        return loss, gradient.ravel()

    from scipy.optimize import minimize  # slow to import

    found = minimize(
        objective, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS}
    )
    return np.asarray(found.x).reshape(start.shape)


def loss_and_gradient(
    axes: FloatArray, features: FloatArray, target: IntArray, weight: FloatArray
) -> tuple[float, FloatArray]:
    """Return the mean of -log p over cases with others in their class, and its gradient."""
    z = features @ axes
    squares = np.einsum("ij,ij->i", z, z)
    distance = squares[:, None] + squares - 2 * z @ z.T
    np.fill_diagonal(distance, np.inf)
    same = target[:, None] == target
    np.fill_diagonal(same, False)
    asked = np.where(same.any(axis=1), weight, 0.0)
    asked = asked / asked.sum()
    # Relative to the nearest case: shares do not change, and nothing underflows.
    kernel = np.exp((distance.min(axis=1, keepdims=True) - distance) / 2) * weight
    everyone = kernel.sum(axis=1)
    own = np.maximum(np.where(same, kernel, 0.0).sum(axis=1), SMALLEST_PROBABILITY)
    loss = -float(asked @ np.log(np.maximum(own / everyone, SMALLEST_PROBABILITY)))
    pull = (np.where(same, 1 / own[:, None], 0.0) - 1 / everyone[:, None]) * kernel
    pull *= asked[:, None] / 2
    pull += pull.T
    by_z = 2 * (pull.sum(axis=1)[:, None] * z - pull @ z)
    return loss, features.T @ by_z


def _thinned(features: FloatArray) -> IntArray:
    """Return the rows to learn from: all, or evenly spaced ones of a random order."""
    if len(features) <= MOST_CASES:
        return np.arange(len(features))
    order = np.lexsort(features.T)
    return order[np.linspace(0, len(features) - 1, MOST_CASES).astype(np.int64)]
