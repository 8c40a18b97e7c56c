"""From logits to what calibration losses are made of: confidence and correctness."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from expertload.losses._inputs import flatten_logits

__all__ = ["TopLabel", "top_label", "working_dtype"]


class TopLabel(NamedTuple):
    """The probability of the predicted class, differentiable, and whether that class is right."""

    confidence: Tensor
    correct: Tensor


def top_label(logits: Tensor, target: Tensor, ignore_index: int, caller: str) -> TopLabel:
    """Return confidence and correctness of each case that is not ignored."""
    scores, labels = flatten_logits(logits, target, ignore_index=ignore_index, caller=caller)
    confidence, predicted = torch.softmax(scores, dim=1, dtype=working_dtype(scores)).max(dim=1)
    return TopLabel(confidence, predicted == labels)


def working_dtype(logits: Tensor) -> torch.dtype:
    """Return the precision to compute in: half precision is storage, not arithmetic."""
    return torch.promote_types(logits.dtype, torch.float32)
