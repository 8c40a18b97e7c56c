"""AUCOC, the area under the COC curve, as a torchmetrics class."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from expertload._area import delegated_mass
from expertload._typing import FloatArray
from expertload.curve import aucoc_score_from_correctness
from expertload.torch_metrics.state import CaseMetric

__all__ = ["AUCOC"]


class AUCOC(CaseMetric):
    """Area under the COC curve, as `expertload.aucoc_score` computes it; higher is better.

    Parameters
    ----------
    bins : int, optional
        Memory in place of exactness: count cases on a fixed grid of confidences with this many
        cells, and take those of one cell for equally confident. `bounds` says between which
        values the exact area lies.
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
    >>> from expertload.torch_metrics import AUCOC
    >>> metric = AUCOC()
    >>> metric.update(torch.tensor([[0.9, 0.1], [0.3, 0.7]]), torch.tensor([0, 1]))
    >>> metric.update(torch.tensor([[0.6, 0.4], [0.8, 0.2]]), torch.tensor([1, 0]))
    >>> print(f"{metric.compute():.4f}")
    0.9658

    On several processes, name the samples, and those that the sampler repeated count once:

    >>> metric.reset()
    >>> proba, target = torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([0, 1])
    >>> metric.update(proba, target, indices=torch.tensor([0, 1]))
    >>> metric.update(proba[:1], target[:1], indices=torch.tensor([0]))
    >>> print(f"{metric.compute():.4f}")
    0.8466
    """

    higher_is_better: bool = True
    plot_lower_bound: float = 0.0
    plot_upper_bound: float = 1.0

    def compute(self) -> Tensor:
        """Compute the area of all cases so far."""
        table = self._table()
        if table is None:
            return self._tensor(float("nan"))
        return self._tensor(aucoc_score_from_correctness(**table._asdict()))

    def bounds(self) -> tuple[float, float]:
        """Return the smallest and the largest area that the cases can have.

        Both are the area itself without `bins`. With them, they are reached if in every cell the
        right cases are the least, or the most, confident ones: no tighter bounds follow from the
        counts.
        """
        with self._over_all_processes():
            table = self._table()
        if table is None:
            return float("nan"), float("nan")
        if table.sample_weight is None:
            area = aucoc_score_from_correctness(**table._asdict())
            return area, area
        return _area_bounds(table.correct, table.sample_weight / table.sample_weight.sum())

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot one value, or a list of them, over time."""
        return self._plot(val, ax)


def _area_bounds(grade: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Areas with the right cases at the bottom and at the top of each cell."""
    right = grade * weight
    above = np.append(np.cumsum(weight[::-1])[::-1][1:], 0.0)  # share of cases in higher cells

    def mass(remaining: FloatArray) -> FloatArray:
        return delegated_mass(np.clip(remaining, 0.0, 1.0), 1.0, "exact")

    lowest = mass(above + weight - right) - mass(above + weight)
    highest = mass(above) - mass(above + right)
    return float(lowest.sum()), float(highest.sum())
