"""From a batch of probabilities to the confidence and the correctness of each case, on the device.

One look at the values, with one wait for the device, decides whether anything is amiss; only then
are they copied to the host, where the library's own checks say what it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from expertload._validation import (
    ROW_SUM_TOLERANCE,
    check_labels,
    check_probabilities,
    check_update_layout,
)

__all__ = ["BatchCases", "batch_cases"]


class BatchCases(NamedTuple):
    """What a metric keeps of a batch."""

    confidence: Tensor
    correct: Tensor
    indices: Tensor | None


def batch_cases(
    preds: Any, target: Any, valid: Any, indices: Any, *, validate: bool, caller: str
) -> BatchCases:
    """Reduce a batch to its cases, leaving out the rows that are not valid."""
    given = {"preds": preds, "target": target, "valid": valid, "indices": indices}
    device = torch.as_tensor(preds).device
    tensors = {
        name: torch.as_tensor(value, device=device)
        for name, value in given.items()
        if value is not None
    }
    _check_layout(tensors, caller)
    mask = tensors.pop("valid", None)
    if mask is not None:
        tensors = {name: tensor[mask] for name, tensor in tensors.items()}
    if validate and _is_suspect(tensors["preds"], tensors["target"]):
        _name_the_error(tensors["preds"], tensors["target"], caller)
    predicted, confidence = _top_label(tensors["preds"])
    return BatchCases(confidence, predicted == tensors["target"], tensors.get("indices"))


def _top_label(preds: Tensor) -> tuple[Tensor, Tensor]:
    """Predicted class and its probability; among equals class 0 wins, as in the whole library."""
    scores = preds.detach().to(torch.promote_types(preds.dtype, torch.float32))
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if scores.ndim == 1:
        scores = torch.stack([1 - scores, scores], dim=1)
    confidence, predicted = scores.max(dim=1)
    return predicted, confidence


def _check_layout(tensors: dict[str, Tensor], caller: str) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    dtypes = {name: str(tensor.dtype) for name, tensor in tensors.items()}
    check_update_layout(shapes, dtypes, caller)


def _is_suspect(preds: Tensor, target: Tensor) -> bool:
    """Whether values may be out of range; NaN is, since it fails every comparison."""
    if target.numel() == 0:
        return False
    n_classes = _n_classes(preds)
    fine = (preds.amin() >= 0) & (preds.amax() <= 1)
    fine &= (target.amin() >= 0) & (target.amax() < n_classes)
    if preds.ndim == 2 and preds.shape[1] > 1:
        fine &= (preds.sum(1, dtype=torch.float32) - 1).abs().amax() <= ROW_SUM_TOLERANCE
    return not bool(fine)


def _name_the_error(preds: Tensor, target: Tensor, caller: str) -> None:
    check_probabilities(preds, "preds", caller)
    check_labels(target, _n_classes(preds), None, caller)


def _n_classes(preds: Tensor) -> int:
    return 2 if preds.ndim == 1 else max(preds.shape[1], 2)
