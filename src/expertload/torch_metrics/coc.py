"""The COC curve as a torchmetrics class."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from expertload.cases import Cases
from expertload.curve import COCCurve
from expertload.display import COCDisplay
from expertload.torch_metrics.state import CaseMetric

__all__ = ["COC"]


class COC(CaseMetric):
    """The COC curve: accuracy among the accepted cases against expert load.

    `compute` returns an `expertload.COCCurve` of tensors, empty where there are no cases.

    Parameters
    ----------
    bins : int, optional
        Memory in place of detail: count cases on a fixed grid of confidences with this many
        cells. The curve then has a point per cell that holds cases, each of which is exact: a
        point of the full curve, at the cell's edge as threshold.
    logits, ignore_index, validate_args, **kwargs
        As in `AUCOC`.

    Examples
    --------
    >>> import torch
    >>> from expertload.torch_metrics import COC
    >>> metric = COC()
    >>> proba = torch.tensor([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]])
    >>> metric.update(proba, torch.tensor([0, 1, 1, 0]))
    >>> metric.compute().accuracy
    tensor([0.7500, 1.0000, 1.0000, 1.0000], dtype=torch.float64)
    """

    higher_is_better: bool | None = None

    def compute(self) -> COCCurve:
        """Compute the curve of all cases so far."""
        table = self._table()
        nothing = np.empty(0)
        curve = COCCurve(nothing, nothing, nothing)
        if table is not None:
            curve = Cases.from_correctness(**table._asdict()).curve()
        tensors: list[Any] = [self._tensor(values) for values in curve]
        return COCCurve(*tensors)

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        """Undo what torchmetrics does to a curve of one point: it makes scalars of its values."""
        wrapped = super()._wrap_compute(compute)

        @functools.wraps(wrapped)
        def curve(*args: Any, **kwargs: Any) -> COCCurve:
            return COCCurve(*(values.reshape(-1) for values in wrapped(*args, **kwargs)))

        return curve

    def plot(self, curve: COCCurve | None = None, ax: Any = None) -> Any:
        """Draw the curve, as `expertload.display.COCDisplay` does.

        Parameters
        ----------
        curve : COCCurve, optional
            What `compute` or a call of the metric returned; that of all cases so far by default.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        tuple of Figure and Axes
        """
        curve = self.compute() if curve is None else curve
        expert_load, accuracy, _ = (torch.as_tensor(values).cpu().numpy() for values in curve)
        display = COCDisplay(expert_load=expert_load, accuracy=accuracy).plot(ax)
        return display.figure_, display.ax_
