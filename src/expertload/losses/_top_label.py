"""Calibration losses: functions of each case's confidence and of whether its top label is right.

A batch is reduced to these two vectors, the loss gives its value and its slope by each confidence,
and the slope goes back to the logits by ``d log r``, through the autograd Function that all losses
of confidence share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from expertload.losses._confidence_function import (
    LogConfidences,
    LossAndGradient,
    confidence_loss,
)
from expertload.losses._inputs import check_inputs, labelled

__all__ = ["ValueAndSlope", "calibration_loss", "working_dtype"]


class ValueAndSlope(NamedTuple):
    """A loss, and its derivative by the confidence of each case."""

    value: Tensor
    slope: Tensor


Formula = Callable[[Tensor, Tensor], ValueAndSlope]


def calibration_loss(
    logits: Tensor, target: Tensor, ignore_index: int, formula: Formula, caller: str
) -> Tensor:
    """Apply `formula` to the confidence and the correctness of all cases that are not ignored."""
    check_inputs(logits, target, caller=caller)
    keep = labelled(target, logits.shape[1], ignore_index=ignore_index, caller=caller)

    def solve(seen: LogConfidences) -> LossAndGradient:
        confidence = seen.log_top.exp()
        if seen.keep is None:
            value, slope = formula(confidence, seen.correct())
        else:
            value, kept_slope = formula(confidence[seen.keep], seen.correct()[seen.keep])
            slope = torch.zeros_like(confidence).masked_scatter_(seen.keep, kept_slope)
        return LossAndGradient(value, slope * confidence, None)

    return confidence_loss(logits, target, keep, solve)


def working_dtype(logits: Tensor) -> torch.dtype:
    """Return the precision to compute in: half precision is storage, not arithmetic."""
    return torch.promote_types(logits.dtype, torch.float32)
