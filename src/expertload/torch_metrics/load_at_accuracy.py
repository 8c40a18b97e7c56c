"""The expert load that a target accuracy costs, as a torchmetrics class."""

from __future__ import annotations

from typing import Any

import numpy as np

from expertload._validation import check_fraction
from expertload.cases import Cases
from expertload.tally import Bounds, Tally, load_bounds
from expertload.torch_metrics.state import NumberMetric, Table

__all__ = ["LoadAtAccuracy"]


class LoadAtAccuracy(NumberMetric):
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
    logits, ignore_index, validate_args, **kwargs
        As in `AUCOC`.

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

    def __init__(self, target_accuracy: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.target_accuracy = check_fraction(target_accuracy, "target_accuracy")

    def _number(self, table: Table) -> float:
        cases = Cases.from_correctness(**table._asdict())
        return cases.load_at_accuracy(self.target_accuracy)

    def _number_bounds(self, cells: Tally) -> Bounds:
        tied = np.zeros(len(cells.weight), dtype=np.bool_)
        return load_bounds(cells, tied, self.target_accuracy, is_counted=True)
