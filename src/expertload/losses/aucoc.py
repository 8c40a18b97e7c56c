"""AUCOCLoss: train for a high area under the confidence operating characteristic.

The loss is -log of the area, as in the paper (equation "AUCOCLoss = -log(AUCOC)"), estimated on
the batch. How the area and its gradient are computed is in ``kde.area``, and how they reach the
logits in ``confidence_function``.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from expertload._validation import check_count, incompatible_options_error
from expertload.losses.confidence_function import (
    LogConfidences,
    LossAndGradient,
    Reading,
    confidence_loss,
)
from expertload.losses.estimate import Batch, estimate_areas
from expertload.losses.kde.array_namespace import Array, at_least, at_most, in_rows, namespace
from expertload.losses.kde.bandwidth import LARGEST_LOG_ODDS
from expertload.losses.memory import Memory
from expertload.losses.options import AreaOptions, checked_options
from expertload.losses.saturation import SaturationWatch

__all__ = ["AUCOCLoss", "aucoc_loss"]

# The area of an all-wrong batch is zero; the logarithm of this number is used instead.
SMALLEST_AREA = 1e-30
USUAL = AreaOptions(smoothing="log_odds")


def aucoc_loss(
    logits: Tensor,
    target: Tensor,
    *,
    correctness: str = "target_probability",
    bandwidth: str | float = "scott",
    boundary: str = "none",
    estimator: str = "kde",
    method: str = "auto",
    ignore_index: int | None = -100,
    check_finite: bool = False,
    sync_distributed: bool = False,
    gradient: str = "both",
    smoothing: str = "log_odds",
) -> Tensor:
    """Return the negative logarithm of the batch's area under the COC curve.

    Confidences are smoothed by a Gaussian kernel, and the expert load is held fixed when
    differentiating. With ``smoothing="probability"`` value and gradient are those of the paper; by
    default the same formulas are applied to log odds, whose kernels are not cut off at a confidence
    of 1. As the paper found, the loss works best together with one that is faster to optimise, such
    as cross-entropy.

    Parameters
    ----------
    logits : Tensor of shape (N, C) or (N, C, d1, ...)
        Unnormalised scores, as for ``F.cross_entropy``. Half precision is computed in float32.
        The single logit of a binary task, of the target's shape (N,) or (N, 1), is accepted too, as
        for ``F.binary_cross_entropy_with_logits``.
    target : Tensor of shape (N,) or (N, d1, ...), or of the shape of logits
        Class numbers, or probabilities of the classes (mixup, several readers). Correctness is then
        the probability that an answer drawn from the softmax equals one drawn from these.
    correctness : {"target_probability", "hard"}
        The measure of correctness: the probability of the true class, from which wrong samples
        also learn, or 1 and 0.
    bandwidth : {"scott", "silverman"} or float
        Width of the kernel: a rule, or a number on the scale of `smoothing`, at least 0.01 in log
        odds and 1e-4 in probabilities.
    boundary : {"none", "reflect"}
        Whether the part of a kernel beyond a probability of 0 or 1 is folded back.
    estimator : {"kde", "rank"}
        The smoothed area, or the area by ranks, which needs no bandwidth and has a gradient only
        through the probability of the true class.
    method : {"auto", "exact", "fast"}
        Sum over all pairs of samples, or in time proportional to their number, with the loss within
        1e-5 and the gradient within 1e-4 of the former; by default whichever is faster.
    ignore_index : int or None
        Positions with this target do not count.
    check_finite : bool
        Whether NaN or infinite logits raise `NonFiniteError`; by default the loss is then NaN.
    sync_distributed : bool
        Whether the batch is that of all ``torch.distributed`` processes, which may hold different
        numbers of samples. The value is then the same everywhere. The gradient is multiplied by the
        number of processes, so that its average over processes, which is what
        ``DistributedDataParallel`` takes, is the gradient on the whole batch.
    gradient : {"both", "correctness", "ranking"}
        Which part of the gradient to keep: the part that raises the probability of the true class,
        the part that orders samples by confidence, or both. The value is the same.
    smoothing : {"log_odds", "probability"}
        The scale in which confidences are smoothed: the log odds of the top class, or its
        probability, as in the paper. The kernel of a probability extends beyond 1 and cannot
        distinguish confidences near 1. Log odds are unbounded, so a confident error counts.

    Returns
    -------
    Tensor
        A scalar, at least in float32.

    Notes
    -----
    If all confidences are equal (one sample, equal logits, a saturated softmax), the curve is flat
    and the loss is -log of the mean correctness, unless the bandwidth is a number. If no sample
    counts, the loss is 0 with a gradient of zero. The area is kept above 1e-30. The module warns
    once in training, if confidences are so close to 1 that the paper's kernel cannot distinguish
    them.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import aucoc_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0], [0.0, 3.0]])
    >>> round(aucoc_loss(logits, torch.tensor([0, 1, 1, 1])).item(), 4)
    0.4505
    """
    options = checked_options(
        AreaOptions(
            correctness,
            bandwidth,
            boundary,
            estimator,
            method,
            bool(sync_distributed),
            gradient,
            smoothing,
        )
    )
    reading = Reading(ignore_index, check_finite, options.in_log_odds, True)
    return confidence_loss(logits, target, reading, partial(_solve, options=options))


class AUCOCLoss(nn.Module):
    """Negative logarithm of the area under the COC curve, as a module; see `aucoc_loss`.

    Parameters
    ----------
    correctness, bandwidth, boundary, estimator, method, ignore_index, check_finite, \
    sync_distributed, gradient, smoothing
        As in `aucoc_loss`.
    memory : int, default=0
        The number of samples of earlier batches that are added to the curve, with their old
        values; only this batch has gradients. Batches are stored in training mode, if gradients
        are computed; they are part of ``state_dict``.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import AUCOCLoss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0], [0.0, 3.0]])
    >>> round(AUCOCLoss(estimator="rank")(logits, torch.tensor([0, 1, 1, 1])).item(), 4)
    0.1182
    """

    def __init__(
        self,
        *,
        correctness: str = "target_probability",
        bandwidth: str | float = "scott",
        boundary: str = "none",
        estimator: str = "kde",
        method: str = "auto",
        ignore_index: int | None = -100,
        check_finite: bool = False,
        sync_distributed: bool = False,
        gradient: str = "both",
        smoothing: str = "log_odds",
        memory: int = 0,
    ) -> None:
        super().__init__()
        self.options = checked_options(
            AreaOptions(
                correctness,
                bandwidth,
                boundary,
                estimator,
                method,
                bool(sync_distributed),
                gradient,
                smoothing,
            )
        )
        self.ignore_index = ignore_index
        self.check_finite = check_finite
        self._saturation = SaturationWatch(self.options)
        size = check_count(memory, "memory", minimum=0)
        self.memory = Memory(size) if size else None
        if size and sync_distributed:
            raise incompatible_options_error(
                "memory and sync_distributed",
                "a memory holds the samples of one process; gather logits beforehand instead",
            )

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of a batch."""
        log_odds = self.options.in_log_odds
        reading = Reading(self.ignore_index, self.check_finite, log_odds, True)
        learning = self.training and torch.is_grad_enabled()
        solve = partial(
            _solve,
            options=self.options,
            memory=self.memory,
            remember=learning,
            watch=self._saturation if learning else None,
        )
        return confidence_loss(logits, target, reading, solve)

    def extra_repr(self) -> str:
        """Name the options that differ from the defaults."""
        size = f"memory={self.memory.size}" if self.memory else ""
        return ", ".join(filter(None, (self.options.describe(USUAL), size)))


def _solve(
    logs: LogConfidences,
    options: AreaOptions,
    memory: Memory | None = None,
    *,
    remember: bool = False,
    watch: SaturationWatch | None = None,
) -> LossAndGradient:
    xp = namespace(logs.top)
    hard = options.correctness == "hard"
    value = logs.correct() if hard else xp.exp(logs.target)
    confidence, slope, resolution = _confidence(logs, in_log_odds=options.in_log_odds)
    batch = Batch(confidence, (value,), logs.keep, resolution)
    if memory is None:
        (area,), empty = estimate_areas(batch, options)
    else:
        (area,), empty = memory.estimate(batch, options)
        if remember:
            memory.add(batch)
    if watch is not None and empty is False:
        watch.see(area)
    floored = at_least(area.area, SMALLEST_AREA)
    loss = -xp.log(floored)
    if empty is not False:
        loss = xp.where(empty, 0.0, loss)
    nothing = xp.zeros_like(value)
    by_log_top = nothing if options.gradient == "correctness" else area.by_confidence * slope
    fixed = hard or options.gradient == "ranking"
    by_log_target = nothing if fixed else area.by_value * value
    gradient = in_rows(by_log_top, by_log_target)
    gradient /= -floored
    return LossAndGradient(loss, gradient)


def _confidence(logs: LogConfidences, *, in_log_odds: bool) -> tuple[Array, Array, float]:
    """Return the quantity to smooth, its derivative by `logs.top`, and its resolution."""
    if not in_log_odds:
        confidence = namespace(logs.top).exp(logs.top)
        return confidence, confidence, logs.resolution
    cut = at_most(at_least(logs.top, -LARGEST_LOG_ODDS), LARGEST_LOG_ODDS)
    # Larger numbers have a coarser resolution; values at the limit cannot be ranked.
    return cut, 1.0 * (cut == logs.top), logs.resolution * LARGEST_LOG_ODDS
