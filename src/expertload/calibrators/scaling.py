"""Temperature scaling: divide all logits by one number (Guo et al. 2017).

The negative log-likelihood is convex in the inverse temperature, so its minimum is found by
Newton steps inside a bracket, each one pass over the logits.

If every case of the set is right, the likelihood rises without limit as the temperature falls. A
temperature near zero would round all confidences to one, and the COC curve would lose their order.
So in this case the logits are not changed.
"""

from __future__ import annotations

from typing import NamedTuple, get_args

import numpy as np

from expertload._check import check_option
from expertload._names import Objective
from expertload._typing import FloatArray, IntArray
from expertload.calibrators.base import (
    WIDEST_GAP,
    Calibrator,
    centre,
    learned,
    softmax,
)
from expertload.cases import Cases
from expertload.metrics.calibration import expected_calibration_error

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
