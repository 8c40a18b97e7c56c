"""Computes the confidence and correctness of each case of a batch, on the device.

One check of the values, with one wait for the device, decides whether anything is wrong. Only then
are they copied to the host, where the library's own checks raise the error.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from expertload._validation import (
    ROW_SUM_TOLERANCE,
    check_probabilities,
    label_range_error,
    message,
)
from expertload.exceptions import DataTypeError, ParameterError, ShapeError

__all__ = ["BatchCases", "Reading", "batch_cases"]


class BatchCases(NamedTuple):
    """The confidence and correctness of a batch."""

    confidence: Tensor
    correct: Tensor
    indices: Tensor | None


class Reading(NamedTuple):
    """How batches are read: logits or probabilities, targets to leave out, whether to check."""

    from_logits: bool = False
    ignore_index: int | None = None
    validate: bool = True


def batch_cases(
    preds: Any, target: Any, valid: Any, indices: Any, *, reading: Reading
) -> BatchCases:
    """Reduce a batch to its cases, leaving out the rows that are not valid or ignored."""
    given = {"preds": preds, "target": target, "valid": valid, "indices": indices}
    device = _tensor(preds, "preds").device
    tensors = {
        name: _tensor(value, name).to(device) for name, value in given.items() if value is not None
    }
    tensors = _in_rows(tensors)
    _check_layout(tensors)
    if reading.from_logits:
        tensors["preds"] = _probabilities(tensors["preds"])
    mask = tensors.pop("valid", None)
    if reading.ignore_index is not None:
        counted = tensors["target"] != reading.ignore_index
        mask = counted if mask is None else mask & counted
    if mask is not None:
        tensors = {name: tensor[mask] for name, tensor in tensors.items()}
    if reading.validate and _is_suspect(tensors["preds"], tensors["target"]):
        _name_the_error(tensors["preds"], tensors["target"])
    predicted, confidence = _top_label(tensors["preds"])
    return BatchCases(confidence, predicted == tensors["target"], tensors.get("indices"))


def _tensor(value: Any, name: str) -> Tensor:
    """Return a tensor as it is; lists and arrays of numbers as tensors."""
    try:
        return value if isinstance(value, Tensor) else torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        got = f"a {type(value).__name__}"
        raise DataTypeError(message(name, "must be a tensor", got)) from error


def _in_rows(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return dense predictions (n, classes, d1, ...) as rows, one a position."""
    preds, target = tensors["preds"], tensors["target"]
    if preds.ndim < 3 or target.shape != preds.shape[:1] + preds.shape[2:]:
        return tensors
    if "indices" in tensors:
        raise ParameterError(
            "'indices' needs one prediction per sample: these are "
            "dense, with a case at every position. Hint: mark repeated samples with valid=..., see "
            "expertload.torch_metrics.not_padding."
        )
    rows = {"preds": preds.movedim(1, -1).flatten(0, -2), "target": target.flatten()}
    if "valid" in tensors:
        valid = tensors["valid"]
        if valid.shape == target.shape[:1]:  # a sample counts with all of its positions
            valid = valid.view(-1, *[1] * (target.ndim - 1)).expand(target.shape)
        rows["valid"] = valid.flatten() if valid.shape == target.shape else valid
    return rows


def _probabilities(logits: Tensor) -> Tensor:
    """Softmax over the classes; the sigmoid of a single column."""
    wide = logits.detach().to(torch.promote_types(logits.dtype, torch.float32))
    single = wide.ndim == 1 or wide.shape[1] == 1
    return wide.sigmoid() if single else wide.softmax(1)


def _top_label(preds: Tensor) -> tuple[Tensor, Tensor]:
    """Predicted class and its probability; among equals class 0 wins, as in the whole library."""
    scores = preds.detach().to(torch.promote_types(preds.dtype, torch.float32))
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if scores.ndim == 1:
        scores = torch.stack([1 - scores, scores], dim=1)
    confidence, predicted = scores.max(dim=1)
    return predicted, confidence


def _check_layout(tensors: dict[str, Tensor]) -> None:
    """Raise unless `preds`, `target` and, where given, `valid` and `indices` fit together."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    dtypes = {name: str(tensor.dtype) for name, tensor in tensors.items()}
    if "float" not in dtypes["preds"]:
        hint = "pass probabilities, not predicted classes"
        raise DataTypeError(
            message("preds", "must hold probabilities", f"{dtypes['preds']} values", hint)
        )
    if len(shapes["preds"]) not in (1, 2):
        wanted = "must have shape (n, classes, ...), or (n,) for the probability of class 1"
        hint = f"target, of shape {shapes['target']}, must have the same without the second axis"
        raise ShapeError(message("preds", wanted, f"shape {shapes['preds']}", hint))
    kinds = {"target": ("int", "bool"), "valid": ("bool",), "indices": ("int",)}
    for name, allowed in kinds.items():
        if name in shapes and shapes[name] != shapes["preds"][:1]:
            rows = f"must have shape {shapes['preds'][:1]}, one value per row of preds"
            raise ShapeError(message(name, rows, f"shape {shapes[name]}"))
        if name in shapes and not any(kind in dtypes[name] for kind in allowed):
            kind, cast = ("booleans", "bool") if allowed == ("bool",) else ("whole numbers", "long")
            got, hint = f"{dtypes[name]} values", f"pass {name}.{cast}()"
            raise DataTypeError(message(name, f"must hold {kind}", got, hint))


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


def _name_the_error(preds: Tensor, target: Tensor) -> None:
    softmax = "pass logits=True to the metric, or preds.softmax(dim=1)"
    check_probabilities(preds, "preds", for_logits=softmax)
    low, high, n_classes = int(target.min()), int(target.max()), _n_classes(preds)
    if low < 0 or high >= n_classes:
        marker = low if low < 0 else high
        hint = f"leave out rows without a label: ignore_index={marker} in the metric, or valid=..."
        raise label_range_error(low, high, n_classes, hint)


def _n_classes(preds: Tensor) -> int:
    return 2 if preds.ndim == 1 else max(preds.shape[1], 2)
