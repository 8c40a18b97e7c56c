"""Reads logits and targets like ``F.cross_entropy``, and refuses invalid ones.

Logits are (N, C) or (N, C, d1, ...), targets hold one class number per position. Positions whose
target is `ignore_index` do not count. Shapes and dtypes are always checked, which costs nothing.
Reading values would make an accelerator wait, so the range of labels is checked only on the CPU,
where it takes one short pass.
"""

from __future__ import annotations

import torch
from torch import Tensor

from expertload._validation import SUM_TO_ONE, check_ignore_index, label_range_error, message
from expertload.exceptions import DataTypeError, NonFiniteError, ProbabilityError, ShapeError

__all__ = [
    "check_inputs",
    "check_soft_inputs",
    "check_tensors",
    "flatten_logits",
    "labelled",
    "two_columns",
]

ONE_COLUMN = (
    "for the single logit of a binary task, pass torch.cat((torch.zeros_like(logits), logits), 1) "
    "and target.long()"
)
# Soft targets of half precision sum to one within this.
SOFT_SUM_TOLERANCE = 1e-2


def check_inputs(logits: Tensor, target: Tensor, *, check_finite: bool = False) -> None:
    """Raise a named exception unless `logits` and `target` fit together."""
    check_tensors(logits, target)
    _check_logits_layout(
        (tuple(logits.shape), str(logits.dtype)), (tuple(target.shape), str(target.dtype))
    )
    if check_finite and not bool(torch.isfinite(logits).all()):
        raise _non_finite_logits_error()


def check_tensors(logits: object, target: object) -> None:
    """Raise unless both are tensors."""
    for name, value in (("logits", logits), ("target", target)):
        if not isinstance(value, Tensor):
            got, hint = f"a {type(value).__name__}", f"pass torch.as_tensor({name})"
            raise DataTypeError(message(name, "must be a tensor", got, hint))


def check_soft_inputs(logits: Tensor, target: Tensor, *, check_finite: bool = False) -> None:
    """Raise unless `target` holds, for logits (N, C, d1, ...), probabilities of the classes."""
    if target.shape != logits.shape:
        check_inputs(logits, target)  # raises the error
    positions = tuple(logits.shape[:1] + logits.shape[2:])
    _check_logits_layout((tuple(logits.shape), str(logits.dtype)), (positions, "int64"))
    if check_finite and not bool(torch.isfinite(logits).all()):
        raise _non_finite_logits_error()
    if target.device.type == "cpu" and target.numel():
        sums = target.sum(1, dtype=torch.float64)
        low, high = (float(value) for value in target.aminmax())
        if not (low >= 0 and high <= 1 and (sums - 1).abs().amax() <= SOFT_SUM_TOLERANCE):
            raise _soft_target_error(low, high, float(sums.min()), float(sums.max()))


def two_columns(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Turn the single logit of a binary task, as ``BCEWithLogitsLoss`` takes it, into two.

    Logits are a single logit if they have the shape of target, (N,) or (N, 1, ...). Other logits
    are returned unchanged.
    """
    single = logits.ndim == 1 or (logits.ndim > 1 and logits.shape[1] == 1)
    if not single or target.shape != logits.shape:
        return logits, target
    if logits.ndim > 1:
        logits, target = logits[:, 0], target[:, 0]
    if target.is_floating_point():
        target = torch.stack((1 - target, target), 1)
    return torch.stack((torch.zeros_like(logits), logits), 1), target


def labelled(target: Tensor, n_classes: int, *, ignore_index: int | None) -> Tensor | None:
    """Return a mask of the positions with a label; None if all have one.

    On the CPU labels out of range raise; on other devices they are left to the indexing kernels,
    as in PyTorch's own losses.
    """
    ignore_index = check_ignore_index(ignore_index)
    on_cpu = target.device.type == "cpu"
    if on_cpu and (target.numel() == 0 or _all_in_range(target, n_classes, ignore_index)):
        return None
    if ignore_index is None:
        keep = torch.ones_like(target, dtype=torch.bool) if on_cpu else None
    else:
        keep = target != ignore_index
    if on_cpu and keep is not None:
        _check_range(target[keep], n_classes)
    return keep


def flatten_logits(
    logits: Tensor, target: Tensor, *, ignore_index: int | None, check_finite: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the labelled positions as logits (n, C) and target (n,)."""
    check_inputs(logits, target, check_finite=check_finite)
    keep = labelled(target, logits.shape[1], ignore_index=ignore_index)
    if logits.ndim > 2:
        logits = logits.movedim(1, -1).reshape(-1, logits.shape[1])
        target = target.reshape(-1)
        keep = None if keep is None else keep.reshape(-1)
    target = target.long()
    return (logits, target) if keep is None else (logits[keep], target[keep])


def _all_in_range(target: Tensor, n_classes: int, ignore_index: int | None) -> bool:
    if ignore_index is not None and 0 <= ignore_index < n_classes:
        return False
    numbers = target.numpy()
    return bool(numbers.min() >= 0) and bool(numbers.max() < n_classes)


def _check_range(kept: Tensor, n_classes: int) -> None:
    if kept.numel() == 0:
        return
    low, high = (int(value) for value in kept.aminmax())
    if low < 0 or high >= n_classes:
        hints = {"hint": ONE_COLUMN} if n_classes == 1 else {}
        raise label_range_error(low, high, n_classes, **hints)


def _check_logits_layout(
    logits: tuple[tuple[int, ...], str], target: tuple[tuple[int, ...], str]
) -> None:
    """Raise unless logits (N, C, d1, ...) and target (N, d1, ...), as (shape, dtype), agree."""
    (shape, dtype), (target_shape, target_dtype) = logits, target
    if "float" not in dtype:
        raise DataTypeError(
            message("logits", "must be a floating point tensor", f"a tensor of {dtype}")
        )
    if len(shape) < 2 or shape[1] == 0:
        wanted = "must have shape (N, C) or (N, C, d1, ...) with at least one class"
        raise ShapeError(message("logits", wanted, f"shape {shape}"))
    if "int" not in target_dtype:
        hint = "for one-hot or soft labels, pass target.argmax(dim=1); for class numbers, .long()"
        hint = ONE_COLUMN if shape[1] == 1 else hint
        raise DataTypeError(
            message("target", "must hold class numbers", f"a {target_dtype} tensor", hint)
        )
    if target_shape != shape[:1] + shape[2:]:
        wanted = f"must have shape {shape[:1] + shape[2:]} for logits of shape {shape}"
        hint = "one class number per position; classes are the second axis of logits"
        raise ShapeError(message("target", wanted, f"shape {target_shape}", hint))


def _soft_target_error(
    low: float, high: float, least_sum: float, most_sum: float
) -> ProbabilityError:
    """Return the error for soft targets that are not probabilities of the classes."""
    wanted = f"must hold class numbers, or probabilities in [0, 1], which {SUM_TO_ONE}"
    got = f"values from {low:g} to {high:g} with sums from {least_sum:g} to {most_sum:g}"
    return ProbabilityError(message("target", wanted, got))


def _non_finite_logits_error() -> NonFiniteError:
    """Return the error for logits that are NaN or infinite."""
    hint = "lower the learning rate, clip gradients, or look for a division by zero in the model"
    return NonFiniteError(message("logits", "must be finite", "NaN or infinity", hint))
