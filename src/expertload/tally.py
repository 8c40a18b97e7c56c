"""Cases added up by confidence: the table from which all numbers of the curve are computed.

Cases of equal confidence are accepted or delegated together, so their order must not matter. A
`Tally` keeps one row per distinct confidence, with the weight and the correct weight found there.
The curve, its area, and every selective metric depend only on that table. So they cannot depend on
the order of rows, and weights, repeats and merged shards give the same results.

The area has a closed form. Write v for the share of cases that remain accepted as the threshold
rises. Below a threshold at v, cases carry a total weight in the area of::

    Q(v) = (1 - v) + v * L(v)

and a row of the tally that spans the shares v_high to v_low adds its mean correctness times
Q(v_low) - Q(v_high). What L is makes the convention:

==============  ===================  =============================================================
convention      L(v)                 the area it gives
==============  ===================  =============================================================
``exact``       ln v                 accuracy averaged over all loads, thresholds randomised inside
                                     a row: on the hyperbola that a random share of equals traces
``thresholds``  H(v n) - H(n)        accuracy averaged over the n sample-wise thresholds, H the
                                     harmonic numbers: one minus the AURC of the literature
==============  ===================  =============================================================

Since Q runs from 0 to 1, a perfect classifier scores 1 and an always-wrong one 0, at any n.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy.special import digamma, xlogy

from expertload._check import as_array, as_floats, check_option, message, percent_hint
from expertload._typing import AnyArray, ArrayLike, BoolArray, FloatArray, IntArray
from expertload.exceptions import CorrectnessError, MissingExtraError, ShapeError, WeightError

__all__ = ["COCCurve", "Convention", "Tally", "cumulative_from_bottom", "cumulative_from_top"]

Convention = Literal["exact", "thresholds", "authors"]
CONVENTIONS: tuple[Convention, ...] = get_args(Convention)

FrameLibrary = Literal["pandas", "polars", "pyarrow"]
FRAME_LIBRARIES: tuple[FrameLibrary, ...] = get_args(FrameLibrary)

# If the largest weight is between these, weights are not changed. Otherwise sums of squares could
# overflow or underflow, so weights are rescaled: only their ratios matter.
SMALLEST, LARGEST = 2.0**-400, 2.0**400
# The smallest share of the largest weight that arithmetic can distinguish from zero.
WIDEST = 2.0**-600
# Tolerance for comparing a computed accuracy or load with a target: far below 1/n for any
# realistic n, and far above the rounding error of a sum of weights.
COMPARISON_SLACK = 1e-12


class COCCurve(NamedTuple):
    """A COC curve: one point per distinct confidence, loads ascending from 0.

    Attributes
    ----------
    expert_load : ndarray of shape (n_points,)
        Share of cases delegated, those with a confidence below the threshold.
    accuracy : ndarray of shape (n_points,)
        Mean correctness of the cases accepted.
    thresholds : ndarray of shape (n_points,)
        Cases are accepted if and only if their confidence is at least this.
    """

    expert_load: FloatArray
    accuracy: FloatArray
    thresholds: FloatArray

    def load_at_accuracy(self, target: float) -> float:
        """Return the smallest load whose accuracy reaches a target, 1 where none does.

        Examples
        --------
        >>> from expertload import Cases
        >>> curve = Cases.from_correctness([0, 1, 1, 1], [0.6, 0.7, 0.8, 0.9]).curve()
        >>> curve.load_at_accuracy(0.95)
        0.25
        """
        reached = self.accuracy >= target - COMPARISON_SLACK
        # argmax over an all-False mask is 0, which would mean "delegate nothing".
        return float(self.expert_load[reached.argmax()]) if reached.any() else 1.0

    def row_at_load(self, expert_load: float) -> int:
        """Return the last point that delegates no more than a load.

        Examples
        --------
        >>> from expertload import Cases
        >>> curve = Cases.from_correctness([0, 1, 1, 1], [0.6, 0.7, 0.8, 0.9]).curve()
        >>> curve.row_at_load(0.6)
        2
        """
        allowed = expert_load + COMPARISON_SLACK
        return int(np.searchsorted(self.expert_load, allowed, side="right")) - 1

    def to_frame(self, backend: FrameLibrary = "pandas") -> Any:
        """Return the points as a data frame, one row per point.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"
            The library of the frame, which must be installed.

        Examples
        --------
        >>> from expertload import Cases
        >>> curve = Cases.from_correctness([0, 1, 1, 1], [0.6, 0.7, 0.8, 0.9]).curve()
        >>> print(curve.to_frame().head(2).to_string(index=False))
         expert_load  accuracy  thresholds
                0.00      0.75         0.6
                0.25      1.00         0.7
        """
        check_option(backend, FRAME_LIBRARIES, "backend")
        try:
            library = import_module(backend)
        except ImportError as error:
            raise MissingExtraError(
                f"to_frame needs {backend}, which is not installed. Hint: pip install {backend}, "
                f"or pass backend= one of {', '.join(FRAME_LIBRARIES)}"
            ) from error
        make = library.table if backend == "pyarrow" else library.DataFrame
        return make(self._asdict())


class Tally(NamedTuple):
    """Cases added up by confidence.

    Attributes
    ----------
    confidence : ndarray of shape (n_rows,)
        The distinct confidences, ascending.
    weight : ndarray of shape (n_rows,)
        The weight of the cases in each row; their number if no weights were given.
    correct : ndarray of shape (n_rows,)
        The weight of the correct ones among them, or the weighted sum of their grades.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.tally import Tally
    >>> table = Tally(np.array([0.5, 0.7]), np.array([2.0, 1.0]), np.array([1.0, 1.0]))
    >>> table.accepted_errors.tolist()
    [1.0, 0.0]
    >>> print(f"{table.area():.4f}")
    0.8498
    """

    confidence: FloatArray
    weight: FloatArray
    correct: FloatArray

    @classmethod
    def add_up(
        cls, correct: AnyArray, confidence: FloatArray, weight: FloatArray | None = None
    ) -> Tally:
        """Add up validated arrays."""
        if weight is None and correct.dtype == np.bool_:
            return _count(correct, confidence)
        weight = np.ones(len(correct)) if weight is None else weight
        present = weight > 0  # cases of weight zero are left out
        confidence, weight = confidence[present], weight[present]
        correct = correct[present] * weight
        order = np.argsort(confidence, kind="stable")
        distinct, end = run_ends(confidence[order])
        start = np.concatenate(([0], end[:-1]))
        return cls(
            distinct, np.add.reduceat(weight[order], start), np.add.reduceat(correct[order], start)
        )

    # ------------------------------------------------------------------ of each row

    @property
    def total(self) -> float:
        """The weight of all cases."""
        return float(self.weight.sum())

    @property
    def errors(self) -> FloatArray:
        """The weight of errors in each row: weight minus correct weight."""
        return self.weight - self.correct

    @property
    def grade(self) -> FloatArray:
        """The mean correctness of each row."""
        return self.correct / self.weight

    def row_of(self, confidence: FloatArray) -> IntArray:
        """Return the row of each case; above all rows, where only weight zero can be, the last."""
        return np.minimum(np.searchsorted(self.confidence, confidence), len(self.confidence) - 1)

    # ------------------------------------------------------------------ accepted from each row on

    @property
    def accepted(self) -> FloatArray:
        """The weight that a threshold at each row accepts."""
        return cumulative_from_top(self.weight)

    @property
    def accepted_correct(self) -> FloatArray:
        """The correct weight that a threshold at each row accepts."""
        return cumulative_from_top(self.correct)

    @property
    def accepted_errors(self) -> FloatArray:
        """The errors that a threshold at each row accepts."""
        return cumulative_from_top(self.errors)

    @property
    def remaining(self) -> FloatArray:
        """The share of weight at or above each row, from 1 at the first row, then a final 0."""
        shares = np.zeros(len(self.weight) + 1)
        np.cumsum(self.weight[::-1], out=shares[-2::-1])
        shares /= shares[0]
        return shares

    # ------------------------------------------------------------------ the curve

    def curve(self) -> COCCurve:
        """Return the curve through the rows."""
        accepted = self.accepted
        load = np.cumsum(self.weight)
        load -= self.weight
        load /= accepted[0]
        accuracy = self.accepted_correct
        accuracy /= accepted
        return COCCurve(load, accuracy, self.confidence)

    def area(self, convention: Convention = "exact") -> float:
        """Return the area under the curve, as `expertload.aucoc_score` defines it."""
        if convention == "authors":
            curve = self.curve()
            return float(np.trapezoid(curve.accuracy, curve.expert_load))
        mass = np.diff(delegated_mass(self.remaining, self.total, convention))
        return float(self.grade @ mass)

    def load_at_accuracy(self, target: float) -> float:
        """Return the smallest load whose accuracy reaches a target, 1 where none does."""
        return self.curve().load_at_accuracy(target)

    def accuracy_at_load(self, expert_load: float) -> float:
        """Return the accuracy at the strictest threshold that delegates no more than a load."""
        curve = self.curve()
        return float(curve.accuracy[curve.row_at_load(expert_load)])


def cumulative_from_top(values: FloatArray) -> FloatArray:
    """Return the sum of each row and all rows above it.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        One value per row, confidences ascending.

    Returns
    -------
    ndarray of shape (n_rows,)
        The sums; the first is that of all.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.tally import cumulative_from_top
    >>> cumulative_from_top(np.array([1.0, 2.0, 3.0])).tolist()
    [6.0, 5.0, 3.0]
    """
    return np.asarray(np.cumsum(values[::-1])[::-1])


def cumulative_from_bottom(values: FloatArray) -> FloatArray:
    """Return the sum of all rows before each row, and at the end that of all.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        One value per row, confidences ascending.

    Returns
    -------
    ndarray of shape (n_rows + 1,)
        The sums; the first is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.tally import cumulative_from_bottom
    >>> cumulative_from_bottom(np.array([1.0, 2.0, 3.0])).tolist()
    [0.0, 1.0, 3.0, 6.0]
    """
    sums = np.zeros(len(values) + 1)
    np.cumsum(values, out=sums[1:])
    return sums


# ------------------------------------------------------------------ adding up


def _count(correct: AnyArray, confidence: FloatArray) -> Tally:
    """Add up unweighted right-or-wrong cases, by sorting, which is faster than an argsort."""
    distinct, end = run_ends(np.sort(confidence))
    weight = np.diff(end, prepend=0).astype(np.float64)
    rarer_is_right = 2 * np.count_nonzero(correct) < len(correct)
    rarer = np.sort(confidence[correct if rarer_is_right else ~correct])
    n_rarer = np.bincount(np.searchsorted(distinct, rarer), minlength=len(distinct))
    return Tally(distinct, weight, n_rarer.astype(float) if rarer_is_right else weight - n_rarer)


def run_ends(ascending: FloatArray) -> tuple[FloatArray, AnyArray]:
    """Return the distinct values of a sorted array, and where each run of equals ends."""
    is_last = np.append(ascending[1:] != ascending[:-1], True)
    return ascending[is_last] + 0, np.flatnonzero(is_last) + 1  # + 0 turns minus zero into zero


# ------------------------------------------------------------------ the area


def delegated_mass(
    remaining: FloatArray, total: float = 1.0, convention: str = "exact"
) -> FloatArray:
    """Return Q: the weight in the area of all cases below the point with the share `remaining`.

    `total` is the number of cases; only the ``thresholds`` convention depends on it.
    """
    if convention == "exact":
        mass: FloatArray = xlogy(remaining, remaining)
    else:
        mass = remaining * (digamma(remaining * total + 1) - digamma(total + 1))
    mass += 1 - remaining
    return mass


def counted_area(correct: AnyArray, confidence: FloatArray, convention: str) -> float:
    """Return the area for unweighted right-or-wrong cases, without a tally of all of them.

    Right and wrong cases are sorted separately, which numpy does with vector instructions, and only
    rows with a case of the rarer kind are visited.
    """
    n, n_right = len(correct), int(np.count_nonzero(correct))
    rarer_is_right = 2 * n_right < n
    rarer = np.sort(confidence[correct if rarer_is_right else ~correct])
    other = np.sort(confidence[~correct if rarer_is_right else correct])
    if not len(rarer):
        return float(not rarer_is_right)
    distinct, end = run_ends(rarer)
    count = np.diff(end, prepend=0)
    below = end - count + np.searchsorted(other, distinct, side="left")
    upto = end + np.searchsorted(other, distinct, side="right")
    mass = delegated_mass((n - upto) / n, n, convention)
    mass -= delegated_mass((n - below) / n, n, convention)
    area = float((count / (upto - below)) @ mass)
    return area if rarer_is_right else 1 - area


# ------------------------------------------------------------------ bounds of a rounded table

# A rounded table has one row per cell of confidences, ``[k, k + 1) * 2**-bits``. Its rows are true
# points of the exact curve, because accepting from the lower edge of a cell on accepts the whole
# cell. What is lost is the order of the cases inside a cell, and with it the curve's points in
# between. Each number is bounded by the worst and the best order that the row allows: all its
# correct weight first, or all of it last. Nothing is assumed about the data, and an order that
# reaches the bound exists, so without more columns nothing tighter is true. A cell whose cases all
# lie on its lower edge (`tied`), such as the many at confidence 1, has no order to lose.
#
# For the area this also gives a rule of thumb before any data are seen. With M the largest share of
# cases in one cell and m the share in the top cell, no order moves it by more than
# M * (1 + ln(1/M) + ln(1/m) / 2): halving the cells about halves the error.


class Bounds(NamedTuple):
    """The smallest and the largest value that the exact number can have."""

    low: float
    high: float


def area_bounds(table: Tally, tied: BoolArray) -> Bounds:
    """Bound the exact area: in each cell, the correct weight is delegated first, or last."""
    share = table.correct / table.total
    start, stop = table.remaining[:-1], table.remaining[1:]
    mass_start, mass_stop = delegated_mass(start), delegated_mass(stop)
    known = table.grade * (mass_stop - mass_start)
    low = np.where(tied, known, delegated_mass(np.maximum(start - share, 0)) - mass_start)
    high = np.where(tied, known, mass_stop - delegated_mass(np.minimum(stop + share, 1)))
    return Bounds(float(low.sum()), float(high.sum()))


def load_bounds(
    table: Tally, tied: BoolArray, target: float, *, is_counted: bool = False
) -> Bounds:
    """Bound the exact load at a target: the curve inside some cell may reach it sooner.

    Say x of a cell's weight is accepted, the correct part of it first. Then the accuracy falls
    from x = correct on, so the target is reached up to the x where all correct weight accepted,
    divided by the target, is all weight accepted; if that x is below `correct`, nowhere. Of cases
    that are counted, not weighted, only a whole number can be accepted.
    """
    high = table.load_at_accuracy(target)
    if high == 0:  # a target of zero would mean division by zero
        return Bounds(0.0, 0.0)
    above = table.accepted - table.weight
    accepted = table.accepted_correct / (target - COMPARISON_SLACK)
    accepted = np.floor(accepted) if is_counted else accepted
    reached = ~tied & (accepted >= above + table.correct)
    best = np.minimum(accepted, above + table.weight)[reached].max(initial=0.0)
    return Bounds(min(high, float(1 - best / table.total)), high)


def accuracy_bounds(table: Tally, tied: BoolArray, load: float) -> Bounds:
    """Bound the exact accuracy at a load: the load ends somewhere inside one cell.

    Of that cell, a weight x is still accepted, no less than the load asks for. With the correct
    part accepted first the accuracy is best where x is that part; with the wrong part accepted
    first it is worst where x is that part.
    """
    curve = table.curve()
    cell = curve.row_at_load(load)
    if tied[cell]:
        return Bounds(float(curve.accuracy[cell]), float(curve.accuracy[cell]))
    weight, right = float(table.weight[cell]), float(table.correct[cell])
    above, right_above = (float(a[cell + 1 :].sum()) for a in (table.weight, table.correct))
    needed = min(max((1 - load - COMPARISON_SLACK) * table.total - above, 0.0), weight)
    best, worst = max(right, needed), max(weight - right, needed)
    high = (right_above + right) / (above + best) if above + best else 0.0
    low = (right_above + right - weight + worst) / (above + worst) if above + worst else 1.0
    return Bounds(low, high)


# ------------------------------------------------------------------ what is added up


def check_weight(sample_weight: ArrayLike | None, n: int) -> FloatArray | None:
    """Return weights as float64, or None if there are none."""
    if sample_weight is None:
        return None
    weight = as_floats(sample_weight, "sample_weight").astype(np.float64, copy=False)
    if len(weight) != n:
        wanted = f"must have one value per case ({n})"
        raise ShapeError(message("sample_weight", wanted, len(weight)))
    if (weight < 0).any():
        got = f"a smallest of {weight.min():g}"
        raise WeightError(message("sample_weight", "must not be negative", got))
    largest = float(weight.max())
    if largest == 0:
        raise WeightError(message("sample_weight", "must not be all zero", "zeros alone"))
    smallest = float(weight.min(where=weight > 0, initial=largest))
    if smallest < largest * WIDEST:
        wanted = f"must be within a factor of {1 / WIDEST:.0e} of each other (zeros aside)"
        raise WeightError(message("sample_weight", wanted, f"{smallest:g} and {largest:g}"))
    # Dividing by a power of two is exact.
    is_usual = SMALLEST < largest < LARGEST
    return weight if is_usual else np.ldexp(weight, -math.frexp(largest)[1])


def check_grades(correct: ArrayLike) -> AnyArray:
    """Return correctness as booleans if it is only right or wrong, else as grades."""
    array = as_array(correct, "correct")
    if array.dtype == np.bool_ and array.ndim == 1 and array.size:
        return array
    grades = as_floats(array, "correct")
    if grades.min() < 0 or grades.max() > 1:
        wanted = "must be in [0, 1]: 1 for right, 0 for wrong, or a grade between"
        got = f"values from {grades.min():g} to {grades.max():g}"
        raise CorrectnessError(message("correct", wanted, got, percent_hint(float(grades.max()))))
    right = grades == 1
    return right if (right | (grades == 0)).all() else grades


def check_whole_weight(weight: FloatArray | None) -> None:
    """Raise unless weights are counts, for metrics that depend on the number of cases."""
    if weight is not None and (weight != np.floor(weight)).any():
        wanted = "must hold whole numbers for convention='thresholds', which counts cases"
        got = f"fractions such as {weight[weight != np.floor(weight)][0]:g}"
        hint = "use convention='exact', which takes any weights"
        raise WeightError(message("sample_weight", wanted, got, hint))
