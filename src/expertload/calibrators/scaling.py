"""Scaling of logits: a temperature, vector and matrix scaling, and Platt's sigmoids.

Temperature scaling: divide all logits by one number (Guo et al. 2017).

The negative log-likelihood is convex in the inverse temperature, so its minimum is found by
Newton steps inside a bracket, each one pass over the logits.

If every case of the set is right, the likelihood rises without limit as the temperature falls. A
temperature near zero would round all confidences to one, and the COC curve would lose their order.
So in this case the logits are not changed.

The others are logistic regressions: the new logits are linear in the parameters, so a method is
described by that linear map and its adjoint. The prior is a quadratic around the identity. With a
positive prior on every parameter the objective is strictly convex and has one minimum for any data:
one case, a missing class, or no error at all.

Vector scaling: a scale and a shift for each class's logit (Guo et al. 2017).

Guo et al. optimise only the likelihood, which has no optimum if a class is missing or the classes
can be separated without error. Here each scale has a normal prior around one and each
shift around zero. Its weight against the data is that of a few cases, so it fades as the set
grows, and it keeps small sets near the identity.

Matrix scaling: a full linear map of the logits, held near a diagonal (Kull et al. 2019).

With a parameter for each pair of classes the likelihood alone overfits, so Kull et al. penalise
the squares of the off-diagonal entries and of the intercepts (ODIR)::

    mean NLL + off_diagonal_penalty / (k (k - 1)) * sum of squared off-diagonal entries
             + intercept_penalty / k              * sum of squared intercepts

Their diagonal is free, and runs away on a set without errors. So all parameters also have the
prior of vector scaling around the identity, which fades as the set grows, and one minimum exists
for any calibration set.

Platt scaling: a sigmoid of each class's log-odds against the rest (Platt 1999).

Each class is set against all others; its score is the log-odds that the logits give it, which no
constant added to a row can change. Targets are pulled in from 0 and 1 as Platt proposed, to
``(n+ + 1) / (n+ + 2)`` for the class's cases and ``1 / (n- + 2)`` for the others, so that the fit
exists for any set. The sigmoids are then divided by their sum. With two classes their sum is
already one, and this is Platt's method.

The minimum is found by Newton's method with a step that always goes down. The product of gradient
and direction is twice the decrease that the quadratic model predicts. When that is below the
rounding of the value, Newton steps converge quadratically, and one last full step is enough. (The
methods of ``scipy.optimize`` compare values up to the end, and stop some digits earlier.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np
from scipy.special import expit

from expertload._check import check_option, check_positive
from expertload._names import Objective
from expertload._typing import BoolArray, FloatArray, IntArray
from expertload.calibrators.base import (
    WIDEST_GAP,
    Calibrator,
    centre,
    learned,
    log_odds,
    normalise_rows,
    one_hot,
    softmax,
)
from expertload.cases import Cases
from expertload.metrics.calibration import expected_calibration_error

# ------------------------------------------------------------------ temperature

PAPER_GRID = np.arange(1, 101) / 10
PAPER_BINS = 15
# At this multiple of the widest gap the probabilities of a row differ by a part in a thousand.
NEARLY_UNIFORM = 1e3
# Beyond this sharpness, only rounding distinguishes a set with errors from one without.
SHARPEST = 2.0**60
MAX_STEPS = 200
# Blocks of rows that stay in the processor's cache.
BLOCK_VALUES = 2**15


# What to tell if no temperature is best.
NOT_BETTER = (
    "the logits are no better than chance for these cases, so the best temperature is infinite; "
    "the probabilities are nearly uniform."
)
ALL_RIGHT = (
    "every case of the calibration set is right, so no temperature is best; the logits are not "
    "changed (temperature 1). Use more or harder held-out cases."
)


class InverseTemperature(NamedTuple):
    """The inverse temperature with the highest likelihood, and how it was found."""

    value: float
    n_iter: int
    remark: str = ""

    @property
    def converged(self) -> bool:
        """Whether the likelihood has a maximum, and it was found."""
        return not self.remark


@dataclass(kw_only=True, eq=False, repr=False)
class TemperatureScaling(Calibrator):
    """Divides the logits by a temperature fitted to held-out cases.

    Transforming costs one softmax, fitting about ten of them (by NLL) or a hundred (by ECE); both
    grow with cases times classes. The order of a row's classes never changes.

    Parameters
    ----------
    input : {"logits", "probabilities"}, default="logits"
        The kind of input, which is never guessed. Probabilities are converted to logarithms, zeros
        to the smallest normal float.
    objective : {"nll", "ece"}, default="nll"
        ``"nll"``, a proper score, or ``"ece"``: the temperature out of 0.1, 0.2 … 10 with the
        least expected calibration error over 15 bins of equal mass, as in the paper. Among equal
        errors the temperature nearest to one wins.

    Attributes
    ----------
    temperature_ : float
        Positive. If every case is right, no temperature is best: it is then 1, `converged_` is
        False, and there is a `CalibrationWarning`. If the logits are no better than chance, the
        best is infinite: it is then a thousand times the widest gap between logits, also with
        `converged_` False and a warning.
    converged_ : bool
        Whether the minimum was found.
    n_iter_ : int
        The number of temperatures tried.

    Examples
    --------
    >>> logits = [[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [0.0, 4.0]]
    >>> calibrator = TemperatureScaling().fit(logits, [0, 0, 1, 1])
    >>> round(calibrator.temperature_, 3)
    3.641
    >>> float(calibrator.transform([[4.0, 0.0]])[0, 0].round(3))
    0.75
    """

    name = "temperature"
    _learned = learned(temperature_="float", converged_="bool", n_iter_="int")

    input: str = "logits"
    objective: str = "nll"

    def _check_options(self) -> None:
        super()._check_options()
        check_option(self.objective, get_args(Objective), "objective")

    def _fit(self, inputs: FloatArray, target: IntArray, weight: FloatArray) -> None:
        if self.objective == "ece":
            self.temperature_ = _best_on_grid(inputs, target, weight)
            self.converged_, self.n_iter_ = True, len(PAPER_GRID)
            return
        best = fit_inverse_temperature(inputs, target, weight)
        self.temperature_ = 1 / best.value
        self.converged_, self.n_iter_ = best.converged, best.n_iter
        if not best.converged:
            self._warn(best.remark)

    def _transform(self, inputs: FloatArray) -> FloatArray:
        return softmax(centre(inputs) / self.temperature_)

    def _problem(self) -> str | None:
        if self.temperature_ <= 0:
            return f"its 'temperature_' must be positive, not {self.temperature_}"
        return None


# --------------------------------------------------------------------------- by likelihood


def fit_inverse_temperature(
    logits: FloatArray, target: IntArray, weight: FloatArray
) -> InverseTemperature:
    """Return the factor on the logits that minimises the weighted mean NLL."""
    gaps = centre(logits)
    scale = -float(gaps.min())
    if scale <= 1 / WIDEST_GAP:  # practically equal logits: every temperature gives the same result
        return InverseTemperature(1.0, 0)
    gaps /= scale  # in [-1, 0], so that squares cannot overflow
    true_gap = float(weight @ gaps[np.arange(len(gaps)), target] / weight.sum())
    if true_gap == 0:
        return InverseTemperature(1.0, 0, ALL_RIGHT)
    if true_gap <= float(weight @ gaps.mean(axis=1) / weight.sum()):
        return InverseTemperature(1 / (NEARLY_UNIFORM * scale), 0, NOT_BETTER)
    return _newton_in_bracket(gaps, weight, true_gap, scale)


def _newton_in_bracket(
    gaps: FloatArray, weight: FloatArray, true_gap: float, scale: float
) -> InverseTemperature:
    """Find the zero of the slope, which increases with the factor, from temperature one."""
    low, high, factor = 0.0, np.inf, scale
    for step in range(1, MAX_STEPS + 1):
        mean_gap, curvature = _moments(gaps, weight, factor)
        slope = mean_gap - true_gap
        low, high = (factor, high) if slope < 0 else (low, factor)
        if low > SHARPEST:
            return InverseTemperature(1.0, step, ALL_RIGHT)
        proposal = factor - slope / curvature if curvature > 0 else -1.0
        if not low < proposal < min(high, 8 * factor):
            proposal = min((low + high) / 2, 4 * factor)
        if abs(proposal - factor) <= 1e-13 * factor:
            return InverseTemperature(proposal / scale, step)
        factor = proposal
    return InverseTemperature(factor / scale, MAX_STEPS, "the search ran out of steps.")


def _moments(gaps: FloatArray, weight: FloatArray, factor: float) -> tuple[float, float]:
    """Return the weighted mean over cases of a row's mean gap and of its variance."""
    mean = variance = 0.0
    n_rows = max(1, BLOCK_VALUES // gaps.shape[1])
    ones = np.ones(gaps.shape[1])
    for start in range(0, len(gaps), n_rows):
        block, share = gaps[start : start + n_rows], weight[start : start + n_rows]
        proba = np.exp(factor * block)
        total = proba @ ones
        proba *= block
        first = proba @ ones / total
        second = np.einsum("ij,ij->i", proba, block) / total
        mean += float(share @ first)
        variance += float(share @ (second - first**2))
    return mean / float(weight.sum()), variance / float(weight.sum())


# --------------------------------------------------------------------------- by calibration error


def _best_on_grid(logits: FloatArray, target: IntArray, weight: FloatArray) -> float:
    gaps = centre(logits)
    correct = gaps.argmax(axis=1) == target
    tops = (1 / np.exp(gaps / t).sum(axis=1) for t in PAPER_GRID)  # the top column's gap is zero
    tried = (Cases(correct, top, weight) for top in tops)
    errors = np.array([expected_calibration_error(c, n_bins=PAPER_BINS) for c in tried])
    nearest_first = np.lexsort((np.abs(np.log(PAPER_GRID)), errors))
    return float(PAPER_GRID[nearest_first[0]])


LinearMap = Callable[[FloatArray, FloatArray], FloatArray]

# ------------------------------------------------------------------ softmax regression


LARGEST_LOGIT = 1e50
# The largest number of Hessian products per Newton step; fewer still give a descent direction.
MAX_PRODUCTS = 100
MAX_ITERATIONS = 200
MAX_HALVINGS = 60
# A predicted decrease, relative to the value, below the rounding of the value.
UNSEEN = 1e-13


class Prior(NamedTuple):
    """Half the sum of ``strength * (x - mean)**2`` is added to the mean NLL."""

    mean: FloatArray
    strength: FloatArray


class Minimum(NamedTuple):
    """The best point found, whether it is a minimum, and the steps it took."""

    x: FloatArray
    converged: bool
    n_iter: int


@dataclass
class SoftmaxRegression:
    """Mean NLL plus prior, minimised by Newton's method.

    `forward` maps the inputs and the parameters to one row of logits per case, linearly in the
    parameters; `adjoint` is its transpose, applied to the inputs and one row per case.
    """

    forward: LinearMap
    adjoint: LinearMap
    inputs: FloatArray
    target: FloatArray
    weight: FloatArray
    prior: Prior

    def __post_init__(self) -> None:
        self.share = (self.weight / self.weight.sum())[:, None]

    def value(self, x: FloatArray) -> float:
        """Return the objective."""
        gaps = centre(self.forward(self.inputs, x))
        nll = np.log(np.exp(gaps).sum(axis=1)) - np.einsum("ij,ij->i", self.target, gaps)
        return float(self.share[:, 0] @ nll + self.prior.strength @ (x - self.prior.mean) ** 2 / 2)

    def gradient(self, x: FloatArray) -> FloatArray:
        """Return the objective's gradient."""
        residual = softmax(self.forward(self.inputs, x)) - self.target
        pull: FloatArray = self.prior.strength * (x - self.prior.mean)
        return self.adjoint(self.inputs, residual * self.share) + pull

    def direction(self, x: FloatArray, gradient: FloatArray) -> FloatArray:
        """Return a Newton direction by conjugate gradients on Hessian products."""
        from scipy.sparse.linalg import LinearOperator, cg  # slow to import

        proba = softmax(self.forward(self.inputs, x))
        weighted = proba * self.share
        diagonal = self.adjoint(self.inputs**2, weighted * (1 - proba)) + self.prior.strength
        diagonal = np.maximum(diagonal, max(1e-12 * float(diagonal.max()), 1e-300))
        ridge = self.prior.strength + 1e-14 * diagonal  # flat directions keep a little curvature

        def product(v: FloatArray) -> FloatArray:
            rows = self.forward(self.inputs, v)
            rows -= np.einsum("ij,ij->i", proba, rows)[:, None]
            return self.adjoint(self.inputs, rows * weighted) + ridge * v

        # The tolerance tightens towards the minimum, so that Newton's method converges faster than
        # linearly.
        energy = float(gradient @ (gradient / diagonal))
        shape = (len(x), len(x))
        step, _ = cg(
            LinearOperator(shape, product),
            -gradient,
            rtol=min(0.1, energy**0.5),
            maxiter=min(2 * len(x), MAX_PRODUCTS),
            M=LinearOperator(shape, lambda v: v / diagonal),
        )
        return np.asarray(step)

    def minimise(self, start: FloatArray) -> Minimum:
        """Return the minimum, by Newton's method with step halving."""
        x, value = start, self.value(start)
        for iteration in range(MAX_ITERATIONS):
            gradient = self.gradient(x)
            direction = self.direction(x, gradient)
            promise = -float(gradient @ direction)
            if promise <= UNSEEN * max(1.0, abs(value)):
                return Minimum(x + direction, True, iteration + 1)
            for length in 0.5 ** np.arange(MAX_HALVINGS):
                reached = self.value(x + length * direction)
                if reached < value - 1e-4 * length * promise:
                    break
            else:
                return Minimum(x, False, iteration)
            x, value = x + length * direction, reached
        return Minimum(x, False, MAX_ITERATIONS)


class _Linear(Calibrator):
    """A linear map of the logits with a prior around the identity."""

    def _fit_map(
        self,
        forward: LinearMap,
        adjoint: LinearMap,
        inputs: FloatArray,
        target: IntArray,
        weight: FloatArray,
        prior: Prior,
    ) -> FloatArray:
        logits = bounded(inputs)
        soft = one_hot(target, self.n_classes_)
        problem = SoftmaxRegression(forward, adjoint, logits, soft, weight, prior)
        # Start at a scale where the logits are not saturated.
        factor = min(fit_inverse_temperature(logits, target, weight).value, 1.0)
        x, self.converged_, self.n_iter_ = problem.minimise(factor * prior.mean)
        if not self.converged_:
            self._warn("the fit did not converge; use a larger penalty.")
        return x


def bounded(logits: FloatArray) -> FloatArray:
    """Return logits whose squares and products with each other stay finite."""
    return np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT)


# ------------------------------------------------------------------ vector scaling


@dataclass(kw_only=True, eq=False, repr=False)
class VectorScaling(_Linear):
    """Multiplies each class's logit by a scale and adds a shift.

    Fitting takes about ten Newton steps, each a few dozen passes over the logits; it grows with
    cases times classes. Unlike a temperature, this may change the predicted class, and it depends
    on constants added to all logits of a row, so pass the model's own logits. With
    ``input="probabilities"`` it is diagonal Dirichlet calibration.

    Parameters
    ----------
    input : {"logits", "probabilities"}, default="logits"
        The kind of input, which is never guessed. Probabilities are converted to logarithms, zeros
        to the smallest normal float.
    penalty : float, default=1
        The prior's precision: ``penalty / 2`` times the squared distance of scales from one and
        shifts from zero is added to the summed NLL. Zero is Guo et al.'s method; if that has no
        minimum, parameters grow until the likelihood no longer changes.

    Attributes
    ----------
    scale_, shift_ : ndarray of shape (n_classes,)
        One number per class.
    converged_, n_iter_ : bool, int
        Whether the minimum was found, and the number of Newton steps.

    Examples
    --------
    >>> logits = [[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [0.0, 4.0]]
    >>> calibrator = VectorScaling().fit(logits, [0, 0, 1, 1])
    >>> float(calibrator.transform([[4.0, 0.0]])[0, 0].round(3))
    0.723
    """

    name = "vector_scaling"
    _learned = learned(
        scale_="array classes", shift_="array classes", converged_="bool", n_iter_="int"
    )

    input: str = "logits"
    penalty: float = 1.0

    def _check_options(self) -> None:
        super()._check_options()
        check_positive(self.penalty, "penalty", zero=True)

    def _fit(self, inputs: FloatArray, target: IntArray, weight: FloatArray) -> None:
        k = self.n_classes_
        prior = Prior(np.repeat([1.0, 0.0], k), np.full(2 * k, self.penalty / weight.sum()))
        x = self._fit_map(_scale, _scale_adjoint, inputs, target, weight, prior)
        self.scale_, self.shift_ = np.split(x, 2)

    def _transform(self, inputs: FloatArray) -> FloatArray:
        return softmax(bounded(inputs) * self.scale_ + self.shift_)


def _scale(logits: FloatArray, x: FloatArray) -> FloatArray:
    """Parameters are the scales, then the shifts."""
    scale, shift = np.split(x, 2)
    return np.asarray(logits * scale + shift)


def _scale_adjoint(logits: FloatArray, rows: FloatArray) -> FloatArray:
    return np.concatenate([np.einsum("ij,ij->j", rows, logits), rows.sum(axis=0)])


# ------------------------------------------------------------------ matrix scaling


@dataclass(kw_only=True, eq=False, repr=False)
class MatrixScaling(_Linear):
    """Multiplies the logits by a matrix and adds an intercept, with the ODIR penalty.

    Each Newton step takes a few dozen products that grow with cases times the square of classes.
    It may change the predicted class, and it depends on constants added to all logits of a row, so
    pass the model's own logits. With ``input="probabilities"`` it is Dirichlet calibration.

    Parameters
    ----------
    input : {"logits", "probabilities"}, default="logits"
        The kind of input, which is never guessed. Probabilities are converted to logarithms, zeros
        to the smallest normal float.
    off_diagonal_penalty : float, optional
        Kull et al.'s lambda in the formula above, which they chose by cross-validation. None
        means k (k - 1), with which each squared entry has weight one: strong enough to keep a
        hundred classes from overfitting five thousand cases.
    intercept_penalty : float, default=0.1
        Kull et al.'s mu.
    penalty : float, default=1
        The precision of a normal prior around the identity, on the summed NLL.

    Attributes
    ----------
    matrix_, intercept_ : ndarray of shape (n_classes, n_classes) and (n_classes,)
        The logits become ``logits @ matrix_.T + intercept_``.
    converged_, n_iter_ : bool, int
        Whether the minimum was found, and the number of Newton steps.

    Examples
    --------
    >>> logits = [[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [0.0, 4.0]]
    >>> calibrator = MatrixScaling().fit(logits, [0, 0, 1, 1])
    >>> float(calibrator.transform([[4.0, 0.0]])[0, 0].round(3))
    0.719
    """

    name = "matrix_scaling"
    _learned = learned(
        matrix_="array classes classes",
        intercept_="array classes",
        converged_="bool",
        n_iter_="int",
    )

    input: str = "logits"
    off_diagonal_penalty: float | None = None
    intercept_penalty: float = 0.1
    penalty: float = 1.0

    def _check_options(self) -> None:
        super()._check_options()
        for name in ("off_diagonal_penalty", "intercept_penalty", "penalty"):
            value = getattr(self, name)
            if value is not None or name != "off_diagonal_penalty":
                check_positive(value, name, zero=True)

    def _fit(self, inputs: FloatArray, target: IntArray, weight: FloatArray) -> None:
        k = self.n_classes_
        prior = self._prior(weight.sum())
        x = self._fit_map(_multiply, _multiply_adjoint, inputs, target, weight, prior)
        self.matrix_, self.intercept_ = x[:-k].reshape(k, k), x[-k:]

    def _prior(self, total_weight: float) -> Prior:
        k = self.n_classes_
        off_diagonal = self.off_diagonal_penalty
        entry = 1.0 if off_diagonal is None else off_diagonal / (k * (k - 1))
        matrix = 2 * entry * (1 - np.eye(k))
        intercept = np.full(k, 2 * self.intercept_penalty / k)
        mean = np.concatenate([np.eye(k).ravel(), np.zeros(k)])
        odir = np.concatenate([matrix.ravel(), intercept])
        return Prior(mean, odir + self.penalty / total_weight)

    def _transform(self, inputs: FloatArray) -> FloatArray:
        return softmax(bounded(inputs) @ self.matrix_.T + self.intercept_)


def _multiply(logits: FloatArray, x: FloatArray) -> FloatArray:
    """Parameters are the matrix, row by row, then the intercepts."""
    k = logits.shape[1]
    return np.asarray(logits @ x[:-k].reshape(k, k).T + x[-k:])


def _multiply_adjoint(logits: FloatArray, rows: FloatArray) -> FloatArray:
    return np.concatenate([(rows.T @ logits).ravel(), rows.sum(axis=0)])


# ------------------------------------------------------------------ platt


@dataclass(kw_only=True, eq=False, repr=False)
class PlattScaling(Calibrator):
    """Fit one sigmoid per class, one class against the rest.

    Fitting takes about ten Newton steps a class and grows with cases times classes. It may change
    the predicted class of a problem with more than two.

    Parameters
    ----------
    input : {"logits", "probabilities"}, default="logits"
        The kind of input, which is never guessed. Probabilities are converted to logarithms, zeros
        to the smallest normal float.

    Attributes
    ----------
    slope_, intercept_ : ndarray of shape (n_classes,)
        One number per class: its probability is ``expit(slope * log_odds + intercept)`` before
        rows are divided by their sums. A class without cases gets a slope of zero and the low
        probability that Platt's targets leave it.
    converged_, n_iter_ : bool, int
        Whether all fits converged, and the largest number of Newton steps.

    Examples
    --------
    >>> logits = [[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [0.0, 4.0]]
    >>> calibrator = PlattScaling().fit(logits, [0, 0, 1, 1])
    >>> float(calibrator.transform([[4.0, 0.0]])[0, 0].round(3))
    0.583
    """

    name = "platt"
    _learned = learned(
        slope_="array classes", intercept_="array classes", converged_="bool", n_iter_="int"
    )

    input: str = "logits"

    def _fit(self, inputs: FloatArray, target: IntArray, weight: FloatArray) -> None:
        scores = log_odds(inputs)
        if self.n_classes_ == 2:  # the other sigmoid is its mirror image
            fit = fit_logistic(scores[:, 1], target == 1, weight)
            fits = [fit._replace(x=fit.x * np.array([1.0, -1.0])), fit]
        else:
            fits = [fit_logistic(scores[:, k], target == k, weight) for k in range(self.n_classes_)]
        self.slope_, self.intercept_ = np.array([fit.x for fit in fits]).T.copy()
        self.converged_ = all(fit.converged for fit in fits)
        self.n_iter_ = max(fit.n_iter for fit in fits)
        if not self.converged_:
            self._warn("a sigmoid's fit did not converge; the scores may differ too much in size.")

    def _transform(self, inputs: FloatArray) -> FloatArray:
        sigmoids = expit(log_odds(inputs) * self.slope_ + self.intercept_)
        return normalise_rows(sigmoids, softmax(inputs))


def fit_logistic(
    odds: FloatArray,
    right: BoolArray,
    weight: FloatArray,
    groups: IntArray | None = None,
    *,
    n_groups: int = 0,
    ridge: float = 0.0,
) -> Minimum:
    """Return the slope, the intercept and each group's offset that fit Platt's targets best."""
    total, n_right = float(weight.sum()), float(weight @ right)
    high, low = (n_right + 1) / (n_right + 2), 1 / (total - n_right + 2)
    soft = np.where(right, high, low)
    scale = max(float(np.abs(odds).max()), 1e-300)
    group = np.zeros(len(odds), np.int64) if groups is None else groups

    def forward(odds: FloatArray, x: FloatArray) -> FloatArray:
        # Without groups, every case has the offset that is appended.
        score = x[0] * odds + x[1] + np.append(x[2:], 0.0)[group]
        return np.column_stack([np.zeros_like(score), score])

    def adjoint(odds: FloatArray, rows: FloatArray) -> FloatArray:
        own = rows[:, 1]
        by_group = np.bincount(group, own, n_groups)[:n_groups]
        return np.concatenate([[odds @ own, own.sum()], by_group])

    start = np.zeros(2 + n_groups)
    start[1] = np.log((n_right + 1) / (total - n_right + 1))
    strength = np.append([0.0, 0.0], np.full(n_groups, ridge / total))
    target = np.column_stack([1 - soft, soft])
    prior = Prior(np.zeros_like(start), strength)
    problem = SoftmaxRegression(forward, adjoint, odds / scale, target, weight, prior)
    minimum = problem.minimise(start)
    minimum.x[0] /= scale
    return minimum
