"""AUCOC, the area under the COC curve, as a torchmetrics class."""

from __future__ import annotations

import numpy as np

from expertload.cases import Cases
from expertload.tally import Bounds, Tally, area_bounds
from expertload.torch_metrics.state import NumberMetric, Table

__all__ = ["AUCOC"]


class AUCOC(NumberMetric):
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

    def _number(self, table: Table) -> float:
        return Cases.from_correctness(**table._asdict()).aucoc()

    def _number_bounds(self, cells: Tally) -> Bounds:
        return area_bounds(cells, np.zeros(len(cells.weight), dtype=np.bool_))
