"""KCal: class probabilities from the labels of nearby calibration cases (Lin et al. 2022).

Instead of transforming the model's outputs, this method uses the position of a case in the model's
feature space (its penultimate layer), and weights the calibration cases by a Gaussian kernel::

    p(k | x) = sum of K(x, x_i) over cases i of class k / sum of K(x, x_i) over all cases

Lin et al. learn a projection of the features with this posterior as its output: a small network,
trained together with the classifier. ``projection="learned"`` does the same for a linear map, on
the calibration cases; pass your own network as a function. Without either, distances are taken
between the features themselves, or between their leading principal components.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np

from expertload._label_arrays import count_classes
from expertload._store import Learned
from expertload._typing import ArrayLike, FloatArray, IntArray
from expertload._validation import (
    as_floats,
    check_columns,
    check_count,
    check_option,
    check_positive,
    check_same_length,
)
from expertload.calibrators.base import Calibrator
from expertload.calibrators.kernel import choose_bandwidth, class_posterior
from expertload.calibrators.learned_projection import learn_axes, principal_axes
from expertload.calibrators.logits import one_hot
from expertload.exceptions import ParameterError

__all__ = ["KCal"]

Projection = Callable[[FloatArray], ArrayLike] | ArrayLike | str | None
# Features of real models are smaller; beyond this, squares would overflow.
FARTHEST = 1e100


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
    projection : None, "pca", "learned", matrix or callable, default=None
        ``None``; ``"pca"``; ``"learned"``, a linear map under which neighbours share labels,
        found by maximising what ``"loo"`` measures over at most 2000 of the cases; a matrix with
        a row per feature, which multiplies features from the right; or a function from features to
        features, which cannot be saved to a file.
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
        Features become ``(features - centre_) @ axes_`` (after a projection function).
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
    _learned: ClassVar[Mapping[str, Learned]] = {
        "bandwidth_": Learned("float"),
        "centre_": Learned("array", ("features",)),
        "axes_": Learned("array", ("features", "components")),
        "support_": Learned("array", ("cases", "components")),
        "target_": Learned("indices", ("cases",)),
        "weight_": Learned("array", ("cases",)),
    }

    bandwidth_: float
    centre_: FloatArray
    axes_: FloatArray
    support_: FloatArray
    target_: IntArray
    weight_: FloatArray

    def __init__(
        self,
        *,
        bandwidth: float | str = "loo",
        projection: Projection = None,
        n_components: int = 16,
        prior: str = "calibration",
        n_classes: int | None = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.projection = projection
        self.n_components = n_components
        self.prior = prior
        self.n_classes = n_classes

    def _check_options(self) -> None:
        if isinstance(self.bandwidth, str):
            check_option(self.bandwidth, ("loo",), "bandwidth")
        else:
            check_positive(self.bandwidth, "bandwidth")
        if isinstance(self.projection, str):
            check_option(self.projection, ("pca", "learned"), "projection")
        elif self.projection is not None and not callable(self.projection):
            as_floats(self.projection, "projection", ndim=(2,))
        check_count(self.n_components, "n_components")
        check_option(self.prior, ("calibration", "uniform"), "prior")
        if self.n_classes is not None:
            check_count(self.n_classes, "n_classes", minimum=2)

    # ----------------------------------------------------------------------- features

    def _check_inputs(self, inputs: ArrayLike) -> FloatArray:
        features = as_floats(inputs, "inputs", ndim=(2,)).astype(np.float64, copy=False)
        if not callable(self.projection):
            return features
        projected = as_floats(self.projection(features), "projection", ndim=(2,))
        check_same_length(inputs=features, projection=projected)
        return projected.astype(np.float64, copy=False)

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
        n_features = features.shape[1]
        share = weight / weight.sum()
        self.centre_ = share @ features
        if self.projection is None or callable(self.projection):
            self.axes_ = np.eye(n_features)
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

    def _check_writable(self) -> None:
        if callable(self.projection):
            raise _unwritable(
                "KCal", "projection", "the projection's matrix, or projected features"
            )

    def _problem(self) -> str | None:
        if self.bandwidth_ <= 0:
            return "its 'bandwidth_' must be positive"
        if self.target_.max() >= self.n_classes_:
            return "its 'target_' names a class that does not exist"
        if (self.weight_ <= 0).any():
            return "its 'weight_' must be positive"
        return None


def _unwritable(what: str, name: str, instead: str) -> ParameterError:
    """Return the error for an option that cannot be written to a file."""
    return ParameterError(
        f"A {what} whose '{name}' is a function cannot be written to a file. Hint: pass {instead}."
    )
