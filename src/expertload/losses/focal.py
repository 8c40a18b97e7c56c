"""Focal loss: cross-entropy with less weight on cases that are already right.

Each case's cross-entropy is scaled by ``(1 - p) ** gamma``, p being the probability of the true
class (Lin et al. 2017). Mukhoti et al. 2020 found that networks trained with it are better
calibrated; the expert-load paper uses gamma 3 as one of its two primary losses.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from expertload._validation import check_option, check_positive
from expertload.losses.reduction import REDUCTIONS, Reduction, negative_log_likelihood, reduce

__all__ = ["FocalLoss", "focal_loss"]

SURELY_WRONG = 1000.0  # a negative log-likelihood whose probability no float can hold


def focal_loss(
    logits: Tensor,
    target: Tensor,
    *,
    gamma: float = 3.0,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute the focal loss.

    Parameters
    ----------
    logits : Tensor of shape (N, C) or (N, C, d1, ...)
        Unnormalised scores, never probabilities. Half precision is computed in float32.
    target : Tensor of shape (N,) or (N, d1, ...)
        Class numbers.
    gamma : float, default=3.0
        How fast the weight falls; 0 is cross-entropy.
    ignore_index : int, default=-100
        Cases with this target count for nothing.
    reduction : {"mean", "sum", "none"}, default="mean"
        ``"none"`` returns a value per case in the shape of `target`, 0 for the ignored.

    Returns
    -------
    Tensor
        The loss; 0 (with a gradient of zeros) if there are no cases.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import focal_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> print(f"{focal_loss(logits, torch.tensor([0, 0])):.4f}")
    0.2567
    """
    _check_options(gamma, reduction)
    nll, n_cases = negative_log_likelihood(logits, target, ignore_index)
    return reduce(focus(nll, gamma), n_cases, reduction)


class FocalLoss(nn.Module):
    """Module form of `focal_loss`, which documents the options.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import FocalLoss
    >>> print(f"{FocalLoss(gamma=2.0)(torch.zeros(1, 2), torch.tensor([0])):.4f}")
    0.1733
    """

    def __init__(
        self, *, gamma: float = 3.0, ignore_index: int = -100, reduction: Reduction = "mean"
    ) -> None:
        super().__init__()
        _check_options(gamma, reduction)
        self.gamma = gamma
        self.ignore_index = ignore_index
        self.reduction = reduction

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch."""
        return focal_loss(
            logits,
            target,
            gamma=self.gamma,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )

    def extra_repr(self) -> str:
        """Show the options when printed."""
        return f"gamma={self.gamma}, reduction={self.reduction!r}"


def focus(nll: Tensor, gamma: float | Tensor) -> Tensor:
    """Scale negative log-likelihoods by ``(1 - p) ** gamma``."""
    # 1 - p, without the cancellation near p = 1; cut where p is 0, as 0 times infinity has no slope
    doubt = -torch.expm1(-nll.clamp_max(SURELY_WRONG))
    # Below gamma 1 the power has an infinite slope at zero; the floor makes it a finite one.
    return doubt.clamp_min(torch.finfo(doubt.dtype).tiny) ** gamma * nll


def _check_options(gamma: float, reduction: str) -> None:
    check_positive(gamma, "gamma", zero=True)
    check_option(reduction, REDUCTIONS, "reduction")
