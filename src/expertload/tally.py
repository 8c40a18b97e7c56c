"""Cases added up by confidence: the table from which all numbers of the curve are computed.

Cases of equal confidence are accepted or delegated together, so their order must not matter. A
`Tally` keeps one row per distinct confidence, with the weight and the correct weight found there.
The curve, its area, and every selective metric depend only on that table. So they cannot depend on
the order of rows, and weights, repeats and merged shards give the same results.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from expertload._area import delegated_mass
from expertload._blocks import blocks, differences
from expertload._typing import AnyArray, FloatArray
from expertload._validation import check_option
from expertload.exceptions import MissingExtraError

if TYPE_CHECKING:
    from expertload.cases import Cases

__all__ = [
    "COCCurve",
    "Convention",
    "Tally",
    "cumulative_from_bottom",
    "cumulative_from_top",
    "keys_of",
]

Convention = Literal["exact", "thresholds", "authors"]
CONVENTIONS: tuple[Convention, ...] = get_args(Convention)

FrameLibrary = Literal["pandas", "polars", "pyarrow"]
FRAME_LIBRARIES: tuple[FrameLibrary, ...] = get_args(FrameLibrary)

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
        >>> from expertload import coc_curve_from_correctness
        >>> curve = coc_curve_from_correctness([0, 1, 1, 1], [0.6, 0.7, 0.8, 0.9])
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
        >>> from expertload import coc_curve_from_correctness
        >>> curve = coc_curve_from_correctness([0, 1, 1, 1], [0.6, 0.7, 0.8, 0.9])
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
        >>> from expertload import coc_curve_from_correctness
        >>> curve = coc_curve_from_correctness([0, 1, 1, 1], [0.6, 0.7, 0.8, 0.9])
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
    def from_cases(cls, cases: Cases) -> Tally:
        """Add up validated cases."""
        if cases.is_counted:
            return _count(cases.correct, cases.confidence)
        return _add_up(cases)

    @classmethod
    def from_keys(cls, keys: AnyArray, dtype: np.dtype[Any]) -> Tally:
        """Count the cases of some `keys_of` confidences of a type; the keys are used up."""
        keys.sort()
        distinct, weight, right = _count_runs(keys)
        return cls(distinct.view(dtype), weight, right)

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
        mass = differences(delegated_mass(self.remaining, self.total, convention))
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
    sums: FloatArray = np.cumsum(values[::-1])[::-1]
    return sums


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

# The whole numbers that have as many bits as a float.
BITS = {np.dtype(np.float32): np.uint32, np.dtype(np.float64): np.uint64}


def _count(correct: AnyArray, confidence: FloatArray) -> Tally:
    """Tally unweighted right-or-wrong cases, with a sort, which is faster than an argsort."""
    keys = keys_of(correct, confidence)
    if keys is None:
        distinct, end = _run_ends(np.sort(confidence))
        right = np.searchsorted(np.sort(confidence[correct]), distinct, side="right")
        return Tally(distinct, _steps(end), _steps(right))
    return Tally.from_keys(keys, confidence.dtype)


def keys_of(correct: AnyArray, confidence: FloatArray) -> AnyArray | None:
    """Return integers that sort like the confidences and contain whether each case is right.

    The bits of a number from zero on, read as a whole number, are in the same order, and the first
    of them, the sign, is always zero. That leaves room for one bit at the other end. There are no
    such keys of negative numbers, and of other precisions than single and double.

    Parameters
    ----------
    correct : ndarray of bool of shape (n_cases,)
        Whether each case is right.
    confidence : ndarray of shape (n_cases,)
        The confidence of each case.

    Returns
    -------
    ndarray of shape (n_cases,) or None
        One key per case.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.tally import Tally, keys_of
    >>> confidence = np.array([0.9, 0.5, 0.9])
    >>> keys = keys_of(np.array([True, False, False]), confidence)
    >>> Tally.from_keys(keys, confidence.dtype).weight.tolist()
    [1.0, 2.0]
    """
    if confidence.dtype not in BITS or confidence.min() < 0:
        return None
    keys: AnyArray = (confidence + 0).view(BITS[confidence.dtype])  # + 0 turns minus zero into zero
    for rows in blocks(len(keys)):
        keys[rows] <<= 1
        keys[rows] |= correct[rows]
    return keys


def _count_runs(keys: AnyArray) -> tuple[AnyArray, FloatArray, FloatArray]:
    """Return the distinct confidences of sorted keys, and the cases and right cases of each."""
    is_last = np.ones(len(keys), dtype=np.bool_)
    for rows in blocks(len(keys) - 1):
        # the last of its confidence, if the next key differs in more than the bit of correctness
        following = keys[rows.start + 1 : rows.stop + 1]
        np.greater(keys[rows] ^ following, 1, out=is_last[rows])
    n_rows = int(np.count_nonzero(is_last))
    distinct, weight, right = np.empty(n_rows, keys.dtype), np.empty(n_rows), np.empty(n_rows)
    n_done = n_cases = n_right = 0  # up to the last complete row
    n_right_seen = 0
    for rows in blocks(len(keys)):
        last = np.flatnonzero(is_last[rows])
        right_upto = np.cumsum(keys[rows] & 1, dtype=np.int64)
        right_upto += n_right_seen
        n_right_seen = int(right_upto[-1])
        if not len(last):
            continue
        own = slice(n_done, n_done + len(last))
        distinct[own] = keys[rows][last] >> 1
        ends, right_ends = last + (rows.start + 1), right_upto[last]
        weight[own] = np.diff(ends, prepend=n_cases)
        right[own] = np.diff(right_ends, prepend=n_right)
        n_done, n_cases, n_right = own.stop, int(ends[-1]), int(right_ends[-1])
    return distinct, weight, right


def _add_up(cases: Cases) -> Tally:
    weight = np.ones(len(cases.correct)) if cases.weight is None else cases.weight
    present = weight > 0  # cases of weight zero are left out
    confidence, weight = cases.confidence[present], weight[present]
    correct = cases.correct[present] * weight
    order = np.argsort(confidence, kind="stable")
    distinct, end = _run_ends(confidence[order])
    start = np.concatenate(([0], end[:-1]))
    return Tally(
        distinct,
        np.add.reduceat(weight[order], start),
        np.add.reduceat(correct[order], start),
    )


def _run_ends(ascending: FloatArray) -> tuple[FloatArray, AnyArray]:
    """Return the distinct values of a sorted array, and the end of each run."""
    last = np.ones(len(ascending), dtype=np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=last[:-1])
    end = np.flatnonzero(last)
    end += 1
    return ascending[last], end


def _steps(cumulative: AnyArray) -> FloatArray:
    steps = np.empty(len(cumulative))
    steps[:1] = cumulative[:1]
    np.subtract(cumulative[1:], cumulative[:-1], out=steps[1:])
    return steps
