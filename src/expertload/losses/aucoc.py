"""AUCOCLoss: train for a high area under the confidence operating characteristic.

The loss is -log of the area, as in the paper (equation "AUCOCLoss = -log(AUCOC)"), estimated on
the batch. How the area and its gradient are computed is in ``kde``, and how they reach the logits
in ``base``.

The paper's appendix also has an upper bound, for ablation ("Potential upper bound to AUCOCLoss").
The area is a weighted sum of the samples' true-class probabilities, A = sum_n beta_n s_n, with
weights beta_n >= 0 that depend on the confidences alone. Jensen's inequality pulls the logarithm
inside:

    -log A <= -log B - sum_n (beta_n / B) log s_n        B = sum_n beta_n

The appendix takes the weights to sum to one, B = 1. A Gaussian kernel leaks beyond a confidence of
one, so on a batch B is a little less, and only with the term -log B is this a bound.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import torch
from torch import Tensor

from expertload._check import check_option, incompatible_options_error
from expertload.losses.base import (
    Confidences,
    Gradient,
    LossModule,
    confidence_loss,
    in_rows,
    on_whole_batch,
)
from expertload.losses.kde import LARGEST_LOG_ODDS, Kernel

# The area of an all-wrong batch is zero; the logarithm of this number is used instead.
SMALLEST_AREA = 1e-30
# Logarithms are cut off here, so that the sums of a batch, and their slopes, are numbers.
LOWEST_LOG = -1e30
# The visible share of the curve below which a batch counts as saturated.
LEAST_SEEN = 0.75
# Batches in a row: a single batch may be an exception, but saturated training stays saturated.
PATIENCE = 100
SATURATED = (
    "AUCOCLoss loses a large part of its curve: confidences are so close to 1 that much of the "
    "paper's kernel lies beyond 1, and training with it lowers the confidence of right answers. "
    "Hint: pass smoothing='log_odds', which has no such limit."
)


def aucoc_loss(logits: Tensor, target: Tensor, **options: Any) -> Tensor:
    """Return the negative logarithm of the batch's area under the COC curve.

    Parameters
    ----------
    logits : Tensor of shape (N, C) or (N, C, d1, ...)
        Unnormalised scores, as for ``F.cross_entropy``. Half precision is computed in float32.
        The single logit of a binary task, of the target's shape (N,) or (N, 1), is accepted too, as
        for ``F.binary_cross_entropy_with_logits``.
    target : Tensor of shape (N,) or (N, d1, ...), or of the shape of logits
        Class numbers, or probabilities of the classes (mixup, several readers). Correctness is then
        the probability that an answer drawn from the softmax equals one drawn from these.
    **options
        Those of `AUCOCLoss`.

    Returns
    -------
    Tensor
        A scalar, at least in float32.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import aucoc_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0], [0.0, 3.0]])
    >>> round(aucoc_loss(logits, torch.tensor([0, 1, 1, 1])).item(), 4)
    0.8388
    """
    return AUCOCLoss(**options).forward(logits, target)


class _AreaLoss(LossModule):
    """A loss of the smoothed area of a batch, or of the batch of all processes."""

    def __init__(self, kernel: Kernel, ignore_index: int | None, sync_distributed: bool) -> None:
        super().__init__(ignore_index=ignore_index)
        self.kernel = kernel
        self.sync_distributed = sync_distributed

    def options(self) -> dict[str, Any]:
        """Return the options by name; those of the kernel are among them."""
        return {**super().options(), **vars(self.kernel)}

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss of a batch."""
        if not self.sync_distributed:
            return self._of(logits, target)
        if logits.ndim > 2:  # the sizes of maps may differ between processes
            is_soft = target.shape == logits.shape
            logits, target = in_rows(logits), in_rows(target) if is_soft else target.flatten()
        return on_whole_batch(self._of, logits, target)

    def _of(self, logits: Tensor, target: Tensor) -> Tensor:
        return confidence_loss(
            logits,
            target,
            partial(self._solve, is_learning=self.training and torch.is_grad_enabled()),
            ignore_index=self.ignore_index,
            log_odds=self.kernel.in_log_odds,
            any_target=True,
        )

    def _solve(self, batch: Confidences, *, is_learning: bool) -> Gradient:
        raise NotImplementedError


class AUCOCLoss(_AreaLoss):
    """Negative logarithm of the area under the COC curve of a batch.

    Without options, value and gradient are those of the paper: confidences are smoothed by a
    Gaussian kernel, and the expert load is held fixed when differentiating. As the paper found, the
    loss works best together with one that is faster to optimise, such as cross-entropy. It is
    called with logits and target; see `aucoc_loss`.

    Parameters
    ----------
    correctness : {"target_probability", "hard"}
        The measure of correctness: the probability of the true class, from which wrong samples
        also learn, or 1 and 0.
    bandwidth : {"scott", "silverman"} or float
        Width of the kernel: a rule, or a number on the scale of `smoothing`, at least 0.01 in log
        odds and 1e-4 in probabilities.
    boundary : {"none", "reflect"}
        Whether the part of a kernel beyond a probability of 0 or 1 is folded back.
    method : {"auto", "exact", "fast"}
        Sum over all pairs of samples, or in time proportional to their number, with the loss within
        1e-5 and the gradient within 1e-4 of the former; by default whichever is faster.
    ignore_index : int or None
        Positions with this target do not count.
    sync_distributed : bool
        Whether the batch is that of all ``torch.distributed`` processes, which may hold different
        numbers of samples; their logits are gathered. The value is then the same everywhere. The
        gradient is multiplied by the number of processes, so that its average over processes, which
        is what ``DistributedDataParallel`` takes, is the gradient on the whole batch.
    gradient : {"both", "correctness", "ranking"}
        Which part of the gradient to keep: the part that raises the probability of the true class,
        the part that orders samples by confidence, or both. The value is the same.
    smoothing : {"probability", "log_odds"}
        The scale in which confidences are smoothed: the probability of the top class, as in the
        paper, or its log odds. The kernel of a probability extends beyond 1 and cannot distinguish
        confidences near 1. Log odds are unbounded, so a confident error counts.

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
    >>> from expertload.losses import AUCOCLoss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0], [0.0, 3.0]])
    >>> target = torch.tensor([0, 1, 1, 1])
    >>> round(AUCOCLoss()(logits, target).item(), 4)  # the paper's loss
    0.8388
    >>> round(AUCOCLoss(smoothing="log_odds")(logits, target).item(), 4)
    0.4505
    """

    def __init__(
        self,
        *,
        correctness: str = "target_probability",
        bandwidth: str | float = "scott",
        boundary: str = "none",
        method: str = "auto",
        ignore_index: int | None = -100,
        sync_distributed: bool = False,
        gradient: str = "both",
        smoothing: str = "probability",
    ) -> None:
        kernel = Kernel(bandwidth, boundary, method, smoothing)
        super().__init__(kernel, ignore_index, sync_distributed)
        self.correctness = check_option(correctness, ("target_probability", "hard"), "correctness")
        self.gradient = check_option(gradient, ("both", "correctness", "ranking"), "gradient")
        if correctness == "hard" and gradient == "correctness":
            raise incompatible_options_error(
                "correctness='hard' and gradient='correctness'",
                "the gradient would always be zero, so nothing could be learned",
            )
        self._n_saturated = 0  # batches in a row

    def _solve(self, batch: Confidences, *, is_learning: bool) -> Gradient:
        hard = self.correctness == "hard"
        value = batch.correct if hard else batch.target.exp()
        confidence, slope, resolution = self._confidence(batch)
        area, by_value, by_confidence = self.kernel.area(confidence, value, resolution)
        if is_learning and len(value):
            self._watch(float(by_value.sum()))
        floored = area.clamp(min=SMALLEST_AREA)
        loss = -floored.log() if len(value) else torch.zeros_like(floored)
        nothing = torch.zeros_like(value)
        by_top = nothing if self.gradient == "correctness" else by_confidence * slope
        by_target = nothing if hard or self.gradient == "ranking" else by_value * value
        return Gradient(loss, by_top / -floored, by_target / -floored)

    def _confidence(self, batch: Confidences) -> tuple[Tensor, Tensor, float]:
        """Return the quantity to smooth, its derivative by `batch.top`, and its resolution."""
        if not self.kernel.in_log_odds:
            confidence = batch.top.exp()
            return confidence, confidence, batch.resolution
        cut = batch.top.clamp(-LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)
        # Larger numbers have a coarser resolution; values at the limit cannot be ranked.
        return cut, (cut == batch.top).to(cut.dtype), batch.resolution * LARGEST_LOG_ODDS

    def _watch(self, visible: float) -> None:
        """Warn if the paper's kernel loses much of the confident half of many batches in a row.

        A kernel in probabilities is not folded back at 1. Of a case whose confidence is near 1, up
        to half of the kernel lies beyond 1 and does not count, so the area of a perfect batch,
        which is the sum of dA/dv, falls below one. While it is low, the gradient pushes down the
        confidence of cases that are right (docs/reproduction.md, "Why").
        """
        is_papers = self.kernel.smoothing == "probability" and self.kernel.boundary == "none"
        if self._n_saturated < PATIENCE and is_papers:
            self._n_saturated = self._n_saturated + 1 if visible < LEAST_SEEN else 0
            if self._n_saturated == PATIENCE:  # and never again
                warnings.warn(SATURATED, stacklevel=2)


def aucoc_upper_bound_loss(logits: Tensor, target: Tensor, **options: Any) -> Tensor:
    """Return Jensen's upper bound on the paper's `aucoc_loss`, whose arguments it shares.

    Options are those of `AUCOCUpperBoundLoss`.

    The paper found it too loose to train with: it is a cross-entropy that weighs confident samples
    more. The gradient is taken as that of `aucoc_loss` is, with the expert load held fixed.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import aucoc_loss, aucoc_upper_bound_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0], [0.0, 3.0]])
    >>> target = torch.tensor([0, 1, 1, 1])
    >>> round(aucoc_upper_bound_loss(logits, target).item(), 4)
    0.8655
    >>> bool(aucoc_loss(logits, target) <= aucoc_upper_bound_loss(logits, target))
    True
    """
    return AUCOCUpperBoundLoss(**options).forward(logits, target)


class AUCOCUpperBoundLoss(_AreaLoss):
    """Jensen's upper bound on the paper's `AUCOCLoss`, as a module; see `aucoc_upper_bound_loss`.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import AUCOCUpperBoundLoss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0], [0.0, 3.0]])
    >>> round(AUCOCUpperBoundLoss()(logits, torch.tensor([0, 1, 1, 1])).item(), 4)
    0.8655
    """

    def __init__(
        self,
        *,
        bandwidth: str | float = "scott",
        boundary: str = "none",
        method: str = "auto",
        ignore_index: int | None = -100,
        sync_distributed: bool = False,
    ) -> None:
        kernel = Kernel(bandwidth, boundary, method, "probability")
        super().__init__(kernel, ignore_index, sync_distributed)

    def _solve(self, batch: Confidences, *, is_learning: bool) -> Gradient:
        """Differentiate -log B - C / B, C the area with log s in place of s."""
        confidence, logs = batch.top.exp(), batch.target.clamp(min=LOWEST_LOG)
        logarithms = self.kernel.area(confidence, logs, batch.resolution)
        weights = self.kernel.area(confidence, torch.ones_like(logs), batch.resolution)
        total = weights.area if len(logs) else torch.ones_like(weights.area)
        mean_log = logarithms.area / total
        by_weights = weights.by_confidence * ((mean_log - 1) / total)
        by_confidence = by_weights - logarithms.by_confidence / total
        return Gradient(
            -total.log() - mean_log, by_confidence * confidence, logarithms.by_value / -total
        )
