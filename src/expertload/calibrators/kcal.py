"""KCal: class probabilities from the labels of nearby calibration cases (Lin et al. 2022).

Instead of transforming the model's outputs, this method uses the position of a case in the model's
feature space (its penultimate layer), and weights the calibration cases by a Gaussian kernel::

    p(k | x) = sum of K(x, x_i) over cases i of class k / sum of K(x, x_i) over all cases

Lin et al. learn a projection of the features with this posterior as its output: a small network,
trained together with the classifier. ``projection="learned"`` does the same for a linear map, on
the calibration cases; pass your own network as a function. Without either, distances are taken
between the features themselves, or between their leading principal components.

Gaussian kernel sums over pairs of cases, block by block so that memory stays bounded.

Distances in a row are taken relative to the nearest case, whose kernel is then one: a point far
from everything gets its nearest neighbours' classes instead of zero over zero.

A projection of features under which neighbours share labels.

The axes A maximise the mean log-probability that the other cases give a case's class under a
Gaussian kernel of distances between projected features z = x A. With S_ij = |z_i - z_j|^2 and
K_ij = exp(-S_ij / 2), let P_ij be case j's share in the sum of kernels around case i, and Q_ij its
share in the sum over i's own class. Then the gradient by S_ij of the mean of -log p_i is
G_ij = (Q_ij - P_ij) / 2 times i's share, and that by z follows from S, a matrix product each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from expertload._check import as_floats, check_count, check_option, check_positive, insufficient
from expertload._label_arrays import count_classes
from expertload._typing import ArrayLike, FloatArray, IntArray
from expertload.calibrators.base import (
    SMALLEST_PROBABILITY,
    Calibrator,
    check_columns,
    learned,
    normalise_rows,
    one_hot,
)

# ------------------------------------------------------------------ kcal


# Features of real models are smaller; beyond this, squares would overflow.
FARTHEST = 1e100


@dataclass(kw_only=True, eq=False, repr=False)
class KCal(Calibrator):
    """Estimate class probabilities from calibration cases with similar features.

    `fit` and `transform` take features, one row per case, not logits. Predictions follow the
    neighbours, so accuracy may change in either direction, and a class without cases gets
    probability zero. Choosing the bandwidth takes 26 passes over all pairs of calibration
    cases, transforming one pass over pairs of new and calibration cases, in blocks of bounded
    memory. The saved file holds the (projected) calibration features.

    Parameters
    ----------
    bandwidth : float or "loo", default="loo"
        The kernel's standard deviation in the (projected) feature space, or ``"loo"``: the one
        under which leaving each calibration case out, the others give its class the highest mean
        log-probability. Cases that are the only one of their class are not asked.
    projection : None, "pca", "learned" or matrix, default=None
        ``None``; ``"pca"``; ``"learned"``, a linear map under which neighbours share labels,
        found by maximising what ``"loo"`` measures over at most 2000 of the cases; or a matrix
        with a row per feature, which multiplies features from the right.
    n_components : int, default=16
        Components that ``"pca"`` and ``"learned"`` keep, or fewer where there are fewer.
    prior : {"calibration", "uniform"}, default="calibration"
        ``"calibration"`` takes the classes to be as frequent as in the calibration set,
        ``"uniform"`` takes them to be equally frequent.
    n_classes : int, optional
        The number of classes. By default the largest label plus one, or as many as there are
        names in `labels`.

    Attributes
    ----------
    bandwidth_ : float
        The bandwidth in use.
    centre_, axes_ : ndarray of shape (n_features,) and (n_features, n_components)
        Features become ``(features - centre_) @ axes_``.
    support_, target_, weight_ : ndarray with one row per calibration case
        The calibration cases after that, their classes and weights.

    Examples
    --------
    >>> features = [[0.0], [1.0], [2.0], [3.0]]
    >>> calibrator = KCal(bandwidth=1.0).fit(features, [0, 0, 1, 1])
    >>> float(calibrator.transform([[0.5]])[0, 0].round(3))
    0.827
    """

    name = "kcal"
    _learned = learned(
        bandwidth_="float",
        centre_="array features",
        axes_="array features components",
        support_="array cases components",
        target_="indices cases",
        weight_="array cases",
    )

    bandwidth: float | str = "loo"
    projection: ArrayLike | str | None = None
    n_components: int = 16
    prior: str = "calibration"
    n_classes: int | None = None

    def _check_options(self) -> None:
        if isinstance(self.bandwidth, str):
            check_option(self.bandwidth, ("loo",), "bandwidth")
        else:
            check_positive(self.bandwidth, "bandwidth")
        if isinstance(self.projection, str):
            check_option(self.projection, ("pca", "learned"), "projection")
        elif self.projection is not None:
            as_floats(self.projection, "projection", ndim=(2,))
        check_count(self.n_components, "n_components")
        check_option(self.prior, ("calibration", "uniform"), "prior")
        if self.n_classes is not None:
            check_count(self.n_classes, "n_classes", minimum=2)

    # ----------------------------------------------------------------------- features

    def _check_inputs(self, inputs: ArrayLike) -> FloatArray:
        return as_floats(inputs, "inputs", ndim=(2,)).astype(np.float64, copy=False)

    def _class_columns(self, inputs: ArrayLike) -> None:
        """Columns are features, whose names say nothing about classes."""

    def _count_classes(
        self, inputs: FloatArray, y_true: ArrayLike, labels: ArrayLike | None
    ) -> int:
        if self.n_classes is not None:
            return self.n_classes
        return count_classes(y_true, labels)

    def _n_columns(self) -> int:
        return len(self.centre_)

    # ----------------------------------------------------------------------- fit and transform

    def _fit(self, inputs: FloatArray, target: IntArray, weight: FloatArray) -> None:
        self._fit_projection(inputs, target, weight)
        self.support_ = self._project(inputs)
        self.target_, self.weight_ = target, weight
        if isinstance(self.bandwidth, str):
            self.bandwidth_ = choose_bandwidth(self.support_, target, self._class_weight(), weight)
        else:
            self.bandwidth_ = float(self.bandwidth)

    def _fit_projection(self, features: FloatArray, target: IntArray, weight: FloatArray) -> None:
        share = weight / weight.sum()
        self.centre_: FloatArray = share @ features
        if self.projection is None:
            self.axes_: FloatArray = np.eye(features.shape[1])
        elif isinstance(self.projection, str):
            offset = features - self.centre_
            self.axes_ = (
                principal_axes(offset, share, self.n_components)
                if self.projection == "pca"
                else learn_axes(offset, target, weight, self.n_components)
            )
        else:
            self.axes_ = as_floats(self.projection, "projection", ndim=(2,)) * 1.0
            check_columns(features, len(self.axes_), "inputs")

    def _project(self, features: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            offset = np.clip(features - self.centre_, -FARTHEST, FARTHEST)
        return offset @ self.axes_

    def _class_weight(self) -> FloatArray:
        """Return one row per calibration case: its weight in its class's column."""
        indicator = one_hot(self.target_, self.n_classes_) * self.weight_[:, None]
        if self.prior == "uniform":
            total = indicator.sum(axis=0)
            indicator /= np.where(total > 0, total, 1.0)
        return indicator

    def _transform(self, inputs: FloatArray) -> FloatArray:
        return class_posterior(
            self._project(inputs), self.support_, self._class_weight(), self.bandwidth_
        )

    # ----------------------------------------------------------------------- saving and loading

    def _problem(self) -> str | None:
        if self.bandwidth_ <= 0:
            return "its 'bandwidth_' must be positive"
        if self.target_.max() >= self.n_classes_:
            return "its 'target_' names a class that does not exist"
        if (self.weight_ <= 0).any():
            return "its 'weight_' must be positive"
        return None


# ------------------------------------------------------------------ kernel


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
    result = np.empty((len(points), weight.shape[1]))
    for rows in _blocks(len(points), len(support)):
        sums = _kernel(_relative_distances(points[rows], support), bandwidth) @ weight
        result[rows] = normalise_rows(sums, np.full_like(sums, 1 / sums.shape[1]))
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


# ------------------------------------------------------------------ learned projection


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

    minimum = minimize(
        objective, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS}
    )
    return np.asarray(minimum.x).reshape(start.shape)


def loss_and_gradient(
    axes: FloatArray, features: FloatArray, target: IntArray, weight: FloatArray
) -> tuple[float, FloatArray]:
    """Return the mean of -log p over cases with others in their class, and its gradient."""
    z = features @ axes
    same = target[:, None] == target
    np.fill_diagonal(same, False)
    asked = np.where(same.any(axis=1), weight, 0.0)
    asked = asked / asked.sum()
    # Relative to the nearest case: shares do not change, and nothing underflows.
    kernel = _kernel(_relative_distances(z, z, left_out=np.arange(len(z))), 1.0) * weight
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
