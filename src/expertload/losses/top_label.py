"""Calibration losses: functions of each case's confidence and correctness of its top label.

A batch is reduced to these two vectors, the loss gives its value and its slope by each confidence,
and the slope goes back to the logits by ``d log r``, through the autograd Function that all losses
of confidence share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from expertload.losses.confidence_function import (
    LogConfidences,
    LossAndGradient,
    Reading,
    confidence_loss,
)

__all__ = ["ValueAndSlope", "calibration_loss", "working_dtype"]


class ValueAndSlope(NamedTuple):
    """A loss, and its derivative by the confidence of each case."""

    value: Tensor
    slope: Tensor


Formula = Callable[[Tensor, Tensor], ValueAndSlope]


def calibration_loss(logits: Tensor, target: Tensor, ignore_index: int, formula: Formula) -> Tensor:
    """Apply `formula` to the confidence and the correctness of all cases that are not ignored."""

    def solve(seen: LogConfidences) -> LossAndGradient:
        confidence = torch.as_tensor(seen.top).exp()
        correct = torch.as_tensor(seen.correct()).bool()
        if seen.keep is None:
            value, slope = formula(confidence, correct)
        else:
            keep = torch.as_tensor(seen.keep)
            value, kept_slope = formula(confidence[keep], correct[keep])
            slope = torch.zeros_like(confidence).masked_scatter_(keep, kept_slope)
        by_log_top = slope * confidence
        return LossAndGradient(value, torch.stack((by_log_top, torch.zeros_like(by_log_top))))

    return confidence_loss(logits, target, Reading(ignore_index, False), solve)


def working_dtype(logits: Tensor) -> torch.dtype:
    """Return the precision for computation; half precision is not meant for arithmetic."""
    return torch.promote_types(logits.dtype, torch.float32)
