"""Losses of confidence, from logits in one autograd Function.

Such a loss depends on a sample's logits z through two numbers only, the log-probability of the top
class, log r = z_top - lse(z), and of the true one, log s = z_true - lse(z). So with p = softmax(z),
A = dL/d(log r) and B = dL/d(log s), one number per sample each,

    dL/dz_j = A [j = top] + B [j = true] - (A + B) p_j

A loss may take the top class's log odds in place of log r, o = z_top - lse(z without z_top). They
tell confidences apart where r is 1 in floating point. With A = dL/do and q the softmax over the
other classes (q_top = 0),

    dL/dz_j = A ([j = top] - q_j) + B ([j = true] - p_j)

As p_j = (1 - r) q_j but for the top class, one exponential for each logit serves both. It is taken
of differences of logits, never of a logit and a log-sum, which cancel where logits are large.

Where targets are probabilities t of classes (mixup, several readers), s = sum_j t_j p_j is the
chance that an answer drawn from p is right, and [j = true] above becomes t_j p_j / s.

The loss gives A and B along with its value, in the forward pass, where both need the same sums.
What is kept for the backward pass is three factors and two class numbers: five numbers per sample
(with log odds, also a logit to refer others to), beside the logits, which are kept anyway.
The softmax is recomputed from them. Classes are the second axis and stay there, so that
segmentation maps are neither transposed nor copied.

A and B may be defined otherwise than as derivatives of the value (the paper's are), and they are
constants, so there is no second derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from expertload.losses.inputs import (
    check_inputs,
    check_soft_inputs,
    check_tensors,
    labelled,
    two_columns,
)
from expertload.losses.kde.array_namespace import Array, as_mask, as_working

# Classes from which on numpy's argmax is faster than torch's, two to three times at a hundred.
LONG_ROW = 32
# A sum of odds is exact to rounding down to here; below, they vanish one by one.
SMALLEST_SUM = 1e-30

__all__ = ["LogConfidences", "LossAndGradient", "Reading", "confidence_loss"]


class LogConfidences(NamedTuple):
    """The input of a loss of confidence: arrays with one entry per position.

    `correct` is whether the top class is the true one, or its probability where targets are soft.

    `top` and `target` are log-probabilities, in double precision where the device has it; `top`
    is in log odds where the `Reading` asks for them. `resolution` is the spacing of numbers near
    one in the precision they were computed in.
    """

    top: Array
    target: Array
    correct: Callable[[], Array]
    keep: Array | None
    resolution: float


class LossAndGradient(NamedTuple):
    """The value, and its gradient by `top` and `target` of `LogConfidences`, in two rows."""

    loss: Array
    gradient: Array


class Reading(NamedTuple):
    """How logits and target are read: which targets to ignore, what to check, on whose behalf.

    With `log_odds`, the top class is read in log odds. With `any_target`, targets may also be
    probabilities of classes, and logits a single column of a binary task.
    """

    ignore_index: int | None
    check_finite: bool
    log_odds: bool = False
    any_target: bool = False


Solver = Callable[[LogConfidences], LossAndGradient]


def confidence_loss(logits: Tensor, target: Tensor, reading: Reading, solve: Solver) -> Tensor:
    """Apply `solve` to the log-probabilities of the top and the true class.

    Under ``torch.compile`` this is a break between graphs: what happens here looks at values, and
    in numpy at that, so there is nothing to compile.
    """
    if torch.compiler.is_compiling():
        outside = torch.compiler.disable(_read_and_apply)  # type: ignore[no-untyped-call]
        return cast(Tensor, outside(logits, target, reading, solve))
    return _read_and_apply(logits, target, reading, solve)


def _read_and_apply(logits: Tensor, target: Tensor, reading: Reading, solve: Solver) -> Tensor:
    ignore_index, check_finite, log_odds, any_target = reading
    check_tensors(logits, target)
    if any_target:
        logits, target = two_columns(logits, target)
    if any_target and target.is_floating_point() and target.ndim == logits.ndim:
        check_soft_inputs(logits, target, check_finite=check_finite)
        keep = None
    else:
        check_inputs(logits, target, check_finite=check_finite)
        keep = labelled(target, logits.shape[1], ignore_index=ignore_index)
        target = (target if keep is None else target.where(keep, 0)).long()
    loss: Tensor = _ConfidenceLoss.apply(logits, target, keep, solve, log_odds)  # type: ignore[no-untyped-call]
    return loss


class _ConfidenceLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        target: Tensor,
        keep: Tensor | None,
        solve: Solver,
        log_odds: bool,
    ) -> Tensor:
        top = _top_class(logits)
        highest = logits.gather(1, top).to(_at_least_float32(logits.dtype))
        shifted = logits - highest  # exact where it matters, while a log-softmax may round
        odds = shifted.exp().scatter_(1, top, 0.0).sum(1, keepdim=True)  # against the top class
        log_top = -odds.log1p()
        log_target, correct = _true_class(shifted, target, top)
        log_target = log_target + log_top
        others = _others(logits, top, highest, odds) if log_odds else None
        read_top = log_top if others is None else others.log_odds
        pair = torch.cat((read_top, log_target), 1)
        seen_top, seen_target = as_working(pair.movedim(1, 0).reshape(2, -1))
        solution = solve(
            LogConfidences(
                seen_top,
                seen_target,
                lambda: as_working(correct().flatten()),
                None if keep is None else as_mask(keep.flatten()),
                torch.finfo(log_top.dtype).eps,
            )
        )
        gradient = torch.as_tensor(solution.gradient).to(log_top.dtype)
        by_top, by_target = gradient.view(2, len(logits), 1, *logits.shape[2:])
        if others is None:
            reference, by_softmax = None, (by_top + by_target) / (1 + odds)
        else:
            reference, by_softmax = others.reference, by_top + by_target * (odds / (1 + odds))
            by_softmax = by_softmax * others.scale
            by_top = by_top - by_target / (1 + odds)
        ctx.save_for_backward(logits, top, target, reference, by_softmax, by_top, by_target)
        return torch.as_tensor(solution.loss, dtype=log_top.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None, None]:
        logits, top, target, reference, by_softmax, by_top, by_target = ctx.saved_tensors
        if reference is None:
            grad = logits - logits.gather(1, top).to(by_top.dtype)
        else:
            grad = (logits - reference).scatter_(1, top, -torch.inf)
        grad.exp_().mul_(by_softmax * -grad_output)
        grad.scatter_add_(1, top, by_top * grad_output)
        if target.is_floating_point():
            grad.add_(_shares(logits, target.to(grad.dtype)).mul_(by_target * grad_output))
        else:
            grad.scatter_add_(1, target.unsqueeze(1), by_target * grad_output)
        return grad.to(logits.dtype), None, None, None, None


def _true_class(
    shifted: Tensor, target: Tensor, top: Tensor
) -> tuple[Tensor, Callable[[], Tensor]]:
    """Return the logit of the true class, and a function for whether the top one is it.

    Of soft targets, both are means over the classes.
    """
    if not target.is_floating_point():
        number = target.unsqueeze(1)
        return shifted.gather(1, number), lambda: top == number
    target = target.to(shifted.dtype)
    return (shifted + target.log()).logsumexp(1, keepdim=True), lambda: target.gather(1, top)


def _shares(logits: Tensor, target: Tensor) -> Tensor:
    """Return t_j p_j / s, the part that each class has in the probability of soft targets."""
    wanted = logits.to(target.dtype).masked_fill(target == 0, -torch.inf)
    shares = (wanted - wanted.amax(1, keepdim=True)).exp_().mul_(target)
    return shares.div_(shares.sum(1, keepdim=True))


class _Others(NamedTuple):
    """The classes other than the top one, by position.

    `log_odds` are those of the top class against them. The share of each, q above, is the
    exponential of its logit less `reference`, times `scale`.
    """

    log_odds: Tensor
    reference: Tensor
    scale: Tensor


def _others(logits: Tensor, top: Tensor, highest: Tensor, odds: Tensor) -> _Others:
    """Describe the other classes, also where the odds of any of them are tiny."""
    if logits.device.type != "cpu":  # looking for tiny ones would make a device wait
        return _others_alone(logits, top, highest)
    found = _Others(-odds.log(), highest.clone(), odds.reciprocal())
    tiny = (odds < SMALLEST_SUM).squeeze(1)
    if tiny.any():
        rows = (each.movedim(1, -1)[tiny] for each in (logits, top, highest))
        for all_rows, part in zip(found, _others_alone(*rows), strict=True):
            all_rows.movedim(1, -1)[tiny] = part
    return found


def _others_alone(logits: Tensor, top: Tensor, highest: Tensor) -> _Others:
    """Describe them relative to the second highest logit, of which none is too small a share.

    Without any other class, that is the lowest finite number, so that differences stay numbers.
    """
    limits = torch.finfo(highest.dtype)
    rest = logits.to(highest.dtype).scatter(1, top, -torch.inf)
    second = rest.amax(1, keepdim=True).clamp(min=limits.min)
    total = (rest - second).exp_().sum(1, keepdim=True).clamp(min=1.0)
    return _Others(
        (highest - second - total.log()).clamp(max=limits.max), second, total.reciprocal()
    )


def _top_class(logits: Tensor) -> Tensor:
    """Return the class of highest logit, the first one among equals."""
    rows_are_long = logits.ndim == 2 and logits.shape[1] >= LONG_ROW
    if rows_are_long and logits.device.type == "cpu" and logits.dtype != torch.bfloat16:
        return torch.from_numpy(logits.numpy().argmax(1)).unsqueeze(1)
    return logits.max(1, keepdim=True).indices


def _at_least_float32(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
