"""The expert load that a target accuracy costs, as a torchmetrics class."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from expertload._typing import FloatArray
from expertload._validation import check_fraction
from expertload.curve import load_at_accuracy_from_correctness
from expertload.tally import COMPARISON_SLACK
from expertload.torch_metrics.state import CaseMetric, Table

__all__ = ["LoadAtAccuracy"]


class LoadAtAccuracy(CaseMetric):
    """Smallest expert load at which the accuracy reaches a target; lower is better.

    As `expertload.load_at_accuracy` computes it: 1 where no threshold reaches the target.

    Parameters
    ----------
    target_accuracy : float
        The accuracy wanted among the accepted cases, in [0, 1].
    bins : int, optional
        Memory in place of exactness: count cases on a fixed grid of confidences with this many
        cells, and consider the cells' edges alone as thresholds. The load is then never too low,
        and `bounds` says how low the exact one may be.
    logits : bool, default=False
        Whether `preds` are logits, which a softmax is applied to (a sigmoid to a single column).
        Never guessed.
    ignore_index : int, optional
        Cases with this target do not count.
    validate_args : bool, default=True
        Whether to look at the values of every batch, for logits, labels out of range and the
        like. Takes one wait for the device.
    **kwargs
        Options of ``torchmetrics.Metric``.

    Notes
    -----
    NaN where there are no cases, as for a batch that is all padding.

    Examples
    --------
    >>> import torch
    >>> from expertload.torch_metrics import LoadAtAccuracy
    >>> metric = LoadAtAccuracy(0.95)
    >>> proba = torch.tensor([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]])
    >>> metric.update(proba, torch.tensor([0, 1, 1, 0]))
    >>> print(f"{metric.compute():.2f}")
    0.25
    """

    higher_is_better: bool = False
    plot_lower_bound: float = 0.0
    plot_upper_bound: float = 1.0

    def __init__(self, target_accuracy: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.target_accuracy = check_fraction(target_accuracy, "target_accuracy", "LoadAtAccuracy")

    def compute(self) -> Tensor:
        """Compute the load for all cases so far."""
        table = self._table()
        return self._tensor(float("nan") if table is None else self._load(table))

    def bounds(self) -> tuple[float, float]:
        """Return the smallest and the largest load that the cases can have.

        Both are the load itself without `bins`. With them, the smallest is reached if in every
        cell the right cases are the most confident ones.
        """
        with self._over_all_processes():
            table = self._table()
        if table is None:
            return float("nan"), float("nan")
        load = self._load(table)
        if table.sample_weight is None:
            return load, load
        return min(load, self._lowest(table.correct, table.sample_weight)), load

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot one value, or a list of them, over time."""
        return self._plot(val, ax)

    def _load(self, table: Table) -> float:
        return load_at_accuracy_from_correctness(
            **table._asdict(), target_accuracy=self.target_accuracy
        )

    def _lowest(self, grade: FloatArray, weight: FloatArray) -> float:
        """The load if a threshold inside a cell could accept its right cases first.

        With K of A cases above right, a cell adds its k right ones, which only helps, and then as
        many wrong ones as the target affords: A + k + y <= (K + k) / target.
        """
        wanted = max(self.target_accuracy - COMPARISON_SLACK, COMPARISON_SLACK)
        accepted = np.cumsum(weight[::-1])
        right = np.cumsum((grade * weight)[::-1])
        above = np.append(0.0, accepted[:-1])
        right_only = above + np.diff(right, prepend=0.0)
        most = np.minimum(np.floor(right / wanted), accepted)
        feasible = most >= right_only
        return float(1 - most[feasible].max() / accepted[-1]) if feasible.any() else 1.0
