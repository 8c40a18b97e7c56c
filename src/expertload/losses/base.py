"""What the losses share: how they are called, read logits and targets, and differentiate.

Logits are (N, C) or (N, C, d1, ...), targets hold one class number per position, as for
``F.cross_entropy``. Positions whose target is `ignore_index` do not count. Shapes and dtypes are
always checked, which costs nothing. Reading values would make an accelerator wait, so the range of
labels is checked only on the CPU, where it takes one short pass.

**Losses of confidence** depend on a sample's logits z through two numbers only, the log-probability
of the top class, log r = z_top - lse(z), and of the true one, log s = z_true - lse(z). So with
p = softmax(z), A = dL/d(log r) and B = dL/d(log s), one number per sample each,

    dL/dz_j = A [j = top] + B [j = true] - (A + B) p_j

A loss may take the top class's log odds in place of log r, o = z_top - lse(z without z_top). They
distinguish confidences where r is 1 in floating point. With A = dL/do and q the softmax over the
other classes (q_top = 0),

    dL/dz_j = A ([j = top] - q_j) + B ([j = true] - p_j)

As p_j = (1 - r) q_j but for the top class, one exponential for each logit serves both. It is taken
of differences of logits, never of a logit and a log-sum, which cancel where logits are large.

Where targets are probabilities t of classes (mixup, several readers), s = sum_j t_j p_j is the
chance that an answer drawn from p is right, and [j = true] above becomes t_j p_j / s.

The loss gives A and B along with its value, in the forward pass, where both need the same sums.
Three factors and two class numbers are kept for the backward pass: five numbers per sample (with
log odds, also a logit to refer others to), beside the logits, which are kept anyway. The softmax is
recomputed from them. Classes are the second axis and stay there, so that segmentation maps are
neither transposed nor copied.

A and B may be defined otherwise than as derivatives of the value (the paper's are), and they are
constants, so there is no second derivative.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from expertload._check import (
    NOT_LOGITS,
    SUM_TO_ONE,
    check_ignore_index,
    label_range_error,
    look_like_probabilities,
    message,
)
from expertload.exceptions import DataTypeError, ProbabilityError, ShapeError

Loss = Callable[..., Tensor]

ONE_COLUMN = (
    "for the single logit of a binary task, pass torch.cat((torch.zeros_like(logits), logits), 1) "
    "and target.long()"
)
ROWS_TO_LOOK_AT = 64
# Soft targets of half precision sum to one within this.
SOFT_SUM_TOLERANCE = 1e-2
# A sum of odds is exact to rounding down to here; below, they vanish one by one.
SMALLEST_SUM = 1e-30


class LossModule(nn.Module):
    """A loss whose options are attributes of the same names."""

    def __init__(self, *, ignore_index: int | None = -100) -> None:
        super().__init__()
        self.ignore_index: Any = ignore_index

    def extra_repr(self) -> str:
        """Name the options that differ from the defaults."""
        values = self.options()
        return ", ".join(
            f"{option.name}={values[option.name]!r}"
            for option in inspect.signature(type(self)).parameters.values()
            if values[option.name] != option.default
        )

    def options(self) -> dict[str, Any]:
        """Return the options by name."""
        return vars(self)


# ------------------------------------------------------------------ calling a loss


def call_loss(loss: Loss, logits: Tensor, target: Tensor, name: str = "loss") -> Tensor:
    """Call a loss; raise unless it is a scalar."""
    value = loss(logits, target)
    if value.ndim:
        got = f"a tensor of {value.ndim} dimension(s)"
        hint = 'build it with reduction="mean"'
        raise ShapeError(message(name, "must return a scalar", got, hint))
    return value


def on_whole_batch(loss: Loss, logits: Tensor, target: Tensor) -> Tensor:
    """Compute a loss on the rows of all processes; in a single process, the plain loss.

    Losses of a whole batch (AUCOC, MMCE, soft ECE, soft AvUC) have another value on half a batch.
    So every process gathers the logits of all processes, computes the loss of the whole batch, and
    lets the gradient flow only through its own rows. Data-parallel training then averages the
    gradients of the processes, so each gradient is multiplied by their number. The weights get the
    gradient of the loss of the whole batch, as in one process.
    """
    world = _world_size()
    if world == 1:
        return call_loss(loss, logits, target)
    rows = gather_rows(logits.detach())
    rows[dist.get_rank()] = logits
    value = call_loss(loss, torch.cat(rows), torch.cat(gather_rows(target)))
    # Keeps the value, and multiplies the gradient by the number of processes.
    return value + (world - 1) * (value - value.detach())


def gather_rows(own: Tensor) -> list[Tensor]:
    """Return the rows of all processes, in the order of ranks; their numbers may differ."""
    world = _world_size()
    if world == 1:
        return [own]
    sizes = [torch.zeros(1, dtype=torch.int64, device=own.device) for _ in range(world)]
    dist.all_gather(sizes, torch.tensor([len(own)], device=own.device))
    # Gathering needs equal shapes, so shorter ones are padded first and cut afterwards.
    padded = own.new_zeros((max(int(size) for size in sizes), *own.shape[1:]))
    padded[: len(own)] = own
    rows = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(rows, padded)
    return [row[: int(size)] for row, size in zip(rows, sizes, strict=True)]


def _world_size() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


# ------------------------------------------------------------------ logits and targets


def check_inputs(logits: Tensor, target: Tensor) -> None:
    """Raise unless logits (N, C, d1, ...) and class numbers (N, d1, ...) fit together."""
    check_tensor(logits, "logits")
    check_tensor(target, "target")
    _check_logits(logits)
    shape = tuple(logits.shape)
    if "int" not in str(target.dtype):
        is_soft = target.shape == shape
        hint = f"pass target.{'argmax(dim=1)' if is_soft else 'long()'}"
        got = f"a {target.dtype} tensor"
        hint = ONE_COLUMN if shape[1] == 1 else hint
        raise DataTypeError(message("target", "must hold class numbers", got, hint))
    if target.shape != shape[:1] + shape[2:]:
        wanted = f"must have shape {shape[:1] + shape[2:]} for logits of shape {shape}"
        hint = {
            (shape[0], 1, *shape[2:]): "pass target.squeeze(1)",
            shape: "for one-hot labels, pass target.argmax(dim=1)",
        }.get(tuple(target.shape), "one class number per position; classes are the second axis")
        raise ShapeError(message("target", wanted, f"shape {tuple(target.shape)}", hint))


def labelled(target: Tensor, n_classes: int, *, ignore_index: int | None) -> Tensor | None:
    """Return a mask of the positions with a label; None if all have one.

    On the CPU labels out of range raise; on other devices they are left to the indexing kernels,
    as in PyTorch's own losses.
    """
    ignore_index = check_ignore_index(ignore_index)
    keep = None if ignore_index is None else target != ignore_index
    if target.device.type != "cpu":
        return keep
    if keep is not None and bool(keep.all()):
        keep = None
    _check_range(target if keep is None else target[keep], n_classes)
    return keep


def labelled_rows(
    logits: Tensor, target: Tensor, *, ignore_index: int | None
) -> tuple[Tensor, Tensor]:
    """Return the labelled positions as logits (n, C), at least in float32, and target (n,)."""
    check_inputs(logits, target)
    keep = labelled(target, logits.shape[1], ignore_index=ignore_index)
    rows = slice(None) if keep is None else keep.flatten()
    scores = in_rows(logits)[rows]
    return scores.to(at_least_float32(scores.dtype)), target.flatten().long()[rows]


def in_rows(values: Tensor) -> Tensor:
    """Turn (N, C, d1, ...) into one row of C per position."""
    return values.movedim(1, -1).reshape(-1, values.shape[1])


def at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """Return the precision for computation; half precision is not meant for arithmetic."""
    return torch.promote_types(dtype, torch.float32)


def check_tensor(value: object, name: str) -> None:
    """Raise unless an argument is a tensor."""
    if not isinstance(value, Tensor):
        got, hint = f"a {type(value).__name__}", f"pass torch.as_tensor({name})"
        raise DataTypeError(message(name, "must be a tensor", got, hint))


def _check_logits(logits: Tensor) -> None:
    if not logits.is_floating_point():
        got = f"a tensor of {logits.dtype}"
        raise DataTypeError(message("logits", "must be a floating point tensor", got))
    if logits.ndim < 2 or logits.shape[1] == 0:
        wanted = "must have shape (N, C) or (N, C, d1, ...) with at least one class"
        raise ShapeError(message("logits", wanted, f"shape {tuple(logits.shape)}"))


def _check_range(labels: Tensor, n_classes: int) -> None:
    if labels.numel() == 0:
        return
    low, high = (int(value) for value in labels.aminmax())
    if low < 0 or high >= n_classes:
        hints = {"hint": ONE_COLUMN} if n_classes == 1 else {}
        raise label_range_error(low, high, n_classes, **hints)


def warn_of_probabilities(logits: Tensor) -> None:
    """Warn once if logits look like probabilities: none is negative, and rows sum to one.

    Only some rows are looked at, and only on the CPU, where that costs no waiting.
    """
    if logits.device.type != "cpu" or logits.ndim < 2 or min(logits.shape[:2]) < 2:
        return
    some = logits.detach()[:ROWS_TO_LOOK_AT].to(at_least_float32(logits.dtype))
    if look_like_probabilities(some, SOFT_SUM_TOLERANCE):
        _warn_once()


@cache
def _warn_once() -> None:
    hint = "pass the output of the last layer, before the softmax"
    warnings.warn(f"{NOT_LOGITS} Hint: {hint}.", stacklevel=4)


def _check_soft_target(target: Tensor) -> None:
    """Raise unless the target holds probabilities of the classes."""
    if target.device.type != "cpu" or not target.numel():
        return
    low, high = (float(value) for value in target.aminmax())
    sums = target.sum(1, dtype=torch.float64)
    if not (low >= 0 and high <= 1 and (sums - 1).abs().amax() <= SOFT_SUM_TOLERANCE):
        wanted = f"must hold class numbers, or probabilities in [0, 1], which {SUM_TO_ONE}"
        total = f"sums from {float(sums.min()):g} to {float(sums.max()):g}"
        got = f"values from {low:g} to {high:g} with {total}"
        raise ProbabilityError(message("target", wanted, got))


def _two_columns(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
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


# ------------------------------------------------------------------ losses of confidence


class Confidences(NamedTuple):
    """The input of a loss of confidence: one entry per counted position, in double precision.

    `top` and `target` are log-probabilities; `top` is in log odds if these were asked for.
    `correct` is whether the top class is the true one, or its probability where targets are soft.
    `resolution` is the spacing of numbers near one in the precision they were computed in.
    """

    top: Tensor
    target: Tensor
    correct: Tensor
    resolution: float


class Gradient(NamedTuple):
    """The value of a loss, and its gradient by `top` and `target` of `Confidences`."""

    loss: Tensor
    by_top: Tensor
    by_target: Tensor


Solver = Callable[[Confidences], Gradient]


def confidence_loss(
    logits: Tensor,
    target: Tensor,
    solve: Solver,
    *,
    ignore_index: int | None,
    log_odds: bool = False,
    any_target: bool = False,
) -> Tensor:
    """Apply `solve` to the log-probabilities of the top and the true class.

    With `log_odds`, the top class is read in log odds. With `any_target`, targets may also be
    probabilities of classes, and logits a single column of a binary task. Under ``torch.compile``
    this is a break between graphs: the number of steps depends on values.
    """
    check_tensor(logits, "logits")
    check_tensor(target, "target")
    if any_target:
        logits, target = _two_columns(logits, target)
        warn_of_probabilities(logits)
    keep = None
    if any_target and target.is_floating_point() and target.shape == logits.shape:
        _check_logits(logits)
        _check_soft_target(target)
    else:
        check_inputs(logits, target)
        keep = labelled(target, logits.shape[1], ignore_index=ignore_index)
        target = (target if keep is None else target.where(keep, 0)).long()
    apply: Callable[..., Tensor] = _ConfidenceLoss.apply
    if torch.compiler.is_compiling():
        apply = torch.compiler.disable(apply)  # type: ignore[no-untyped-call]
    return apply(logits, target, keep, solve, log_odds)


class _ConfidenceLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, target: Tensor, keep: Tensor | None, solve: Solver, log_odds: bool
    ) -> Tensor:
        highest, top = logits.max(1, keepdim=True)  # the first one among equals
        highest = highest.to(at_least_float32(logits.dtype))
        shifted = logits - highest  # exact where it matters, while a log-softmax may round
        odds = shifted.exp().scatter_(1, top, 0.0).sum(1, keepdim=True)  # against the top class
        log_top = -odds.log1p()
        log_target, correct = _true_class(shifted, target, top)
        others = _others(logits, top, highest, odds) if log_odds else None
        read_top = log_top if others is None else others.log_odds
        rows = torch.stack((read_top, log_target + log_top, correct)).view(3, -1)
        loss, gradient = _solve_counted(solve, rows, None if keep is None else keep.flatten())
        by_top, by_target = gradient.to(log_top.dtype).view(2, *log_top.shape)
        if others is None:
            reference, by_softmax = None, (by_top + by_target) / (1 + odds)
        else:
            reference, by_softmax = others.reference, by_top + by_target * (odds / (1 + odds))
            by_softmax = by_softmax * others.scale
            by_top = by_top - by_target / (1 + odds)
        ctx.save_for_backward(logits, top, target, reference, by_softmax, by_top, by_target)
        return loss.to(log_top.dtype)

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


def _solve_counted(solve: Solver, rows: Tensor, keep: Tensor | None) -> tuple[Tensor, Tensor]:
    """Solve for the positions that count; the others have a gradient of zero."""
    resolution = torch.finfo(rows.dtype).eps
    wide = rows.to(torch.float32 if rows.device.type == "mps" else torch.float64)
    if keep is not None:
        wide = wide[:, keep]
    top, target, correct = wide
    loss, by_top, by_target = solve(Confidences(top, target, correct, resolution))
    gradient = torch.stack((by_top, by_target))
    if keep is not None:
        everywhere = gradient.new_zeros(2, len(keep))
        everywhere[:, keep] = gradient
        gradient = everywhere
    return loss, gradient


def _true_class(shifted: Tensor, target: Tensor, top: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logit of the true class, and whether the top one is it.

    Of soft targets, both are means over the classes.
    """
    if not target.is_floating_point():
        number = target.unsqueeze(1)
        return shifted.gather(1, number), (top == number).to(shifted.dtype)
    target = target.to(shifted.dtype)
    return (shifted + target.log()).logsumexp(1, keepdim=True), target.gather(1, top)


def _shares(logits: Tensor, target: Tensor) -> Tensor:
    """Return t_j p_j / s, the part that each class has in the probability of soft targets."""
    wanted = logits.to(target.dtype).masked_fill(target == 0, -torch.inf)
    shares = (wanted - wanted.amax(1, keepdim=True)).exp_().mul_(target)
    return shares.div_(shares.sum(1, keepdim=True))


class _Others(NamedTuple):
    """The classes other than the top one, by position.

    `log_odds` are those of the top class against them. The share of each class, q above, is the
    exponential of its logit less `reference`, times `scale`.
    """

    log_odds: Tensor
    reference: Tensor
    scale: Tensor


def _others(logits: Tensor, top: Tensor, highest: Tensor, odds: Tensor) -> _Others:
    """Describe the other classes, also where the odds of any of them are tiny."""
    others = _Others(-odds.log(), highest.clone(), odds.reciprocal())
    tiny = (odds < SMALLEST_SUM).squeeze(1)
    if tiny.any():
        rows = (values.movedim(1, -1)[tiny] for values in (logits, top, highest))
        for all_rows, part in zip(others, _others_alone(*rows), strict=True):
            all_rows.movedim(1, -1)[tiny] = part
    return others


def _others_alone(logits: Tensor, top: Tensor, highest: Tensor) -> _Others:
    """Describe them relative to the second highest logit, so that no share underflows.

    Without any other class, that is the lowest finite number, so that differences stay numbers.
    """
    limits = torch.finfo(highest.dtype)
    rest = logits.to(highest.dtype).scatter(1, top, -torch.inf)
    second = rest.amax(1, keepdim=True).clamp(min=limits.min)
    total = (rest - second).exp_().sum(1, keepdim=True).clamp(min=1.0)
    log_odds = (highest - second - total.log()).clamp(max=limits.max)
    return _Others(log_odds, second, total.reciprocal())
