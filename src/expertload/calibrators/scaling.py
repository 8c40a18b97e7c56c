"""Calibrators with one or two numbers per class: temperature and Platt scaling.

Both are fitted by Newton's method with a step that always goes down. The problem provides its
value, its gradient and a Newton direction; `minimise` only decides how far to go and when to stop.
The product of gradient and direction is twice the decrease that the quadratic model predicts. When
that is below the rounding of the value, Newton steps converge quadratically, and one last full step
is enough. (The methods of ``scipy.optimize`` compare values up to the end, and stop some digits
earlier.)

Temperature scaling: divide all logits by one number (Guo et al. 2017).

The negative log-likelihood is convex in the inverse temperature, so its minimum is found by
Newton steps inside a bracket, each one pass over the logits.

If every case of the set is right, the likelihood rises without limit as the temperature falls. A
temperature near zero would round all confidences to one, and the COC curve would lose their order.
So in this case the logits are not changed.

Platt scaling: a sigmoid of each class's log-odds against the rest (Platt 1999).

Each class is set against all others; its score is the log-odds that the logits give it, which no
constant added to a row can change. Targets are pulled in from 0 and 1 as Platt proposed, to
``(n+ + 1) / (n+ + 2)`` for the class's cases and ``1 / (n- + 2)`` for the others, so that the fit
exists for any set. The sigmoids are then divided by their sum. With two classes their sum is
already one, and this is Platt's method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, get_args

import numpy as np
from scipy.special import expit

from expertload._check import check_option
from expertload._names import Objective
from expertload._typing import BoolArray, FloatArray, IntArray
from expertload.calibrators.base import (
    WIDEST_GAP,
    Calibrator,
    centre,
    learned,
    log_odds,
    normalise_rows,
    softmax,
)
from expertload.cases import Cases
from expertload.metrics.calibration import expected_calibration_error

# ------------------------------------------------------------------ newton


MAX_ITERATIONS = 200
MAX_HALVINGS = 60
# A predicted decrease, relative to the value, below the rounding of the value.
UNSEEN = 1e-13


class Problem(Protocol):
    """A smooth convex function of a vector."""

    def value(self, x: FloatArray) -> float:
        """Return the function at `x`."""

    def gradient(self, x: FloatArray) -> FloatArray:
        """Return its gradient at `x`."""

    def direction(self, x: FloatArray, gradient: FloatArray) -> FloatArray:
        """Return a descent direction, near minus the inverse Hessian times the gradient."""


class Minimum(NamedTuple):
    """The best point found, whether it is a minimum, and the steps it took."""

    x: FloatArray
    converged: bool
    n_iter: int


def minimise(problem: Problem, start: FloatArray) -> Minimum:
    """Return the minimum of a convex problem."""
    x, value = start, problem.value(start)
    for iteration in range(MAX_ITERATIONS):
        gradient = problem.gradient(x)
        direction = problem.direction(x, gradient)
        promise = -float(gradient @ direction)
        if promise <= UNSEEN * max(1.0, abs(value)):
            return Minimum(x + direction, True, iteration + 1)
        step = _line_search(problem, x, value, direction, promise)
        if step is None:
            return Minimum(x, False, iteration)
        x, value = step
    return Minimum(x, False, MAX_ITERATIONS)


def _line_search(
    problem: Problem, x: FloatArray, value: float, direction: FloatArray, promise: float
) -> tuple[FloatArray, float] | None:
    """Halve the step until it keeps a small part of what the slope promises."""
    length = 1.0
    for _ in range(MAX_HALVINGS):
        candidate = x + length * direction
        reached = problem.value(candidate)
        if reached < value - 1e-4 * length * promise:
            return candidate, reached
        length /= 2
    return None


def conjugate_gradient(
    product: Callable[[FloatArray], FloatArray],
    right: FloatArray,
    diagonal: FloatArray,
    *,
    max_steps: int,
) -> FloatArray:
    """Solve ``A x = right`` roughly, given products with A and A's diagonal.

    The tolerance tightens with the square root of the right side's size, which makes the outer
    Newton iteration converge faster than linearly.
    """
    x = np.zeros_like(right)
    residual = right.copy()
    scaled = residual / diagonal
    search, energy = scaled.copy(), float(residual @ scaled)
    goal = energy * min(0.1, energy**0.5) ** 2
    for _ in range(max_steps):
        image = product(search)
        curvature = float(search @ image)
        if energy <= goal or curvature <= 0:
            break
        x += energy / curvature * search
        residual -= energy / curvature * image
        scaled = residual / diagonal
        previous, energy = energy, float(residual @ scaled)
        search = scaled + energy / previous * search
    return x


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


class InverseTemperature(NamedTuple):
    """The inverse temperature with the highest likelihood, and how it was found."""

    value: float
    converged: bool
    n_iter: int
    remark: str = ""


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

    def __init__(self, *, input: str = "logits", objective: str = "nll") -> None:  # noqa: A002
        self.input = input
        self.objective = objective

    def _check_options(self) -> None:
        super()._check_options()
        check_option(self.objective, get_args(Objective), "objective")

    def _fit(self, inputs: FloatArray, target: IntArray, weight: FloatArray) -> None:
        if self.objective == "ece":
            self.temperature_ = _best_on_grid(inputs, target, weight)
            self.converged_, self.n_iter_ = True, len(PAPER_GRID)
            return
        found = fit_inverse_temperature(inputs, target, weight)
        self.temperature_ = 1 / found.value
        self.converged_, self.n_iter_ = found.converged, found.n_iter
        if not found.converged:
            self._warn(found.remark)

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
        return InverseTemperature(1.0, True, 0)
    gaps /= scale  # in [-1, 0], so that squares cannot overflow
    true_gap = float(weight @ gaps[np.arange(len(gaps)), target] / weight.sum())
    if true_gap == 0:
        return _unbounded(0)
    if true_gap <= float(weight @ gaps.mean(axis=1) / weight.sum()):
        return InverseTemperature(
            1 / (NEARLY_UNIFORM * scale),
            False,
            0,
            "the logits are no better than chance for these"
            " cases, so the best temperature is infinite; the probabilities are nearly uniform.",
        )
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
            return _unbounded(step)
        proposal = factor - slope / curvature if curvature > 0 else -1.0
        if not low < proposal < min(high, 8 * factor):
            proposal = min((low + high) / 2, 4 * factor)
        if abs(proposal - factor) <= 1e-13 * factor:
            return InverseTemperature(proposal / scale, True, step)
        factor = proposal
    return InverseTemperature(factor / scale, False, MAX_STEPS, "the search ran out of steps.")


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


def _unbounded(n_iter: int) -> InverseTemperature:
    return InverseTemperature(
        1.0,
        False,
        n_iter,
        "every case of the calibration set is right, so no temperature is best; the logits are "
        "not changed (temperature 1). Use more or harder held-out cases.",
    )


# --------------------------------------------------------------------------- by calibration error


def _best_on_grid(logits: FloatArray, target: IntArray, weight: FloatArray) -> float:
    gaps = centre(logits)
    correct = gaps.argmax(axis=1) == target
    errors = np.array(
        [
            expected_calibration_error(
                # the top column's gap is zero
                Cases(correct, 1 / np.exp(gaps / temperature).sum(axis=1), weight),
                n_bins=PAPER_BINS,
                strategy="mass",
            )
            for temperature in PAPER_GRID
        ]
    )
    nearest_first = np.lexsort((np.abs(np.log(PAPER_GRID)), errors))
    return float(PAPER_GRID[nearest_first[0]])


# ------------------------------------------------------------------ platt


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

    def __init__(self, *, input: str = "logits") -> None:  # noqa: A002
        self.input = input

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
    scale = max(float(np.abs(odds).max()), 1e-300)
    problem = _Logistic(odds / scale, np.where(right, high, low), weight, groups, n_groups, ridge)
    start = np.zeros(2 + n_groups)
    start[1] = np.log((n_right + 1) / (total - n_right + 1))
    found = minimise(problem, start)
    found.x[0] /= scale
    return found


class _Logistic:
    """Weighted mean cross-entropy with soft targets, plus a ridge on the offsets of groups.

    The Hessian is diagonal in the offsets, with a border of two rows for slope and intercept, so
    a Newton step takes time in proportion to cases and groups. Without groups there are no offsets.
    """

    def __init__(
        self,
        odds: FloatArray,
        soft: FloatArray,
        weight: FloatArray,
        groups: IntArray | None,
        n_groups: int,
        ridge: float,
    ) -> None:
        total = float(weight.sum())
        self._odds, self._soft, self._share = odds, soft, weight / total
        self._groups, self._n_groups, self._ridge = groups, n_groups, ridge / total

    def value(self, x: FloatArray) -> float:
        """Return the objective."""
        score = self._score(x)
        entropy = np.logaddexp(0, score) - self._soft * score
        return float(self._share @ entropy) + self._ridge * float(x[2:] @ x[2:]) / 2

    def gradient(self, x: FloatArray) -> FloatArray:
        """Return its gradient."""
        residual = self._share * (expit(self._score(x)) - self._soft)
        by_offset = self._per_group(residual) + self._ridge * x[2:]
        return np.concatenate(([residual @ self._odds, residual.sum()], by_offset))

    def direction(self, x: FloatArray, gradient: FloatArray) -> FloatArray:
        """Return the Newton step: offsets eliminated first, then two equations."""
        proba = expit(self._score(x))
        curvature = self._share * proba * (1 - proba)
        diagonal = self._per_group(curvature) + self._ridge
        border = np.stack([self._per_group(curvature * self._odds), self._per_group(curvature)])
        mixed = curvature @ self._odds
        core = np.array([[curvature @ self._odds**2, mixed], [mixed, curvature.sum()]])
        left = core - (border / diagonal) @ border.T
        right = gradient[:2] - (border / diagonal) @ gradient[2:]
        # With equal log odds, slope and intercept are not unique; the shortest step is used.
        common = np.linalg.lstsq(left, right, rcond=1e-13)[0]
        offsets = (gradient[2:] - common @ border) / diagonal
        return -np.concatenate((common, offsets))

    def _score(self, x: FloatArray) -> FloatArray:
        score: FloatArray = x[0] * self._odds + x[1]
        return score if self._groups is None else score + x[2:][self._groups]

    def _per_group(self, values: FloatArray) -> FloatArray:
        if self._groups is None:
            return np.empty(0)
        sums: Any = np.bincount(self._groups, values, self._n_groups)
        return np.asarray(sums, dtype=np.float64)
