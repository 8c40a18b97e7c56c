"""Losses of the true class's probability: focal, adaptive focal and generalised cross-entropy.

All are primary losses, and a sum over cases of a function of the negative log-likelihood, which
PyTorch computes in one fused pass over logits of any shape.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from expertload._check import check_fraction, check_option, check_positive
from expertload.losses.base import LossModule, at_least_float32, check_inputs, labelled

Reduction = Literal["mean", "sum", "none"]

SURELY_WRONG = 1000.0  # a negative log-likelihood whose probability no float can hold
SMALLEST_Q = 1e-8  # below this, single precision shows no difference from cross-entropy


class _LikelihoodLoss(LossModule):
    """The reduced terms of the cases, as `_terms` gives them for negative log-likelihoods."""

    def __init__(self, ignore_index: int, reduction: str) -> None:
        super().__init__(ignore_index=ignore_index)
        self.reduction = check_option(reduction, get_args(Reduction), "reduction")

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch; the mean is over the cases that are not ignored."""
        check_inputs(logits, target)
        kept = labelled(target, logits.shape[1], ignore_index=self.ignore_index)
        scores = logits.to(at_least_float32(logits.dtype))
        nll = cross_entropy(scores, target.long(), reduction="none", ignore_index=self.ignore_index)
        terms = self._terms(nll)  # 0 for the ignored
        if self.reduction == "none":
            return terms
        total = terms.sum()
        if self.reduction == "sum":
            return total
        return total / (max(target.numel(), 1) if kept is None else kept.sum().clamp_min(1))

    def _terms(self, nll: Tensor) -> Tensor:
        raise NotImplementedError


def focal_loss(logits: Tensor, target: Tensor, **options: Any) -> Tensor:
    """Compute the focal loss: cross-entropy with less weight on cases that are already right.

    The cross-entropy of a case is scaled by ``(1 - p) ** gamma``, p being the probability of the
    true class (Lin et al. 2017). Mukhoti et al. 2020 found that networks trained with it are better
    calibrated; the expert-load paper uses gamma 3 as one of its two primary losses.

    Parameters
    ----------
    logits : Tensor of shape (N, C) or (N, C, d1, ...)
        Unnormalised scores, never probabilities. Half precision is computed in float32.
    target : Tensor of shape (N,) or (N, d1, ...)
        Class numbers.
    **options
        Those of `FocalLoss`.

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
    return FocalLoss(**options).forward(logits, target)


class FocalLoss(_LikelihoodLoss):
    """Module form of `focal_loss`.

    Parameters
    ----------
    gamma : float, default=3.0
        How fast the weight falls; 0 is cross-entropy.
    ignore_index : int, default=-100
        Cases with this target do not count.
    reduction : {"mean", "sum", "none"}, default="mean"
        ``"none"`` returns a value per case in the shape of `target`, 0 for the ignored.

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
        super().__init__(ignore_index, reduction)
        self.gamma = check_positive(gamma, "gamma", zero=True)

    def _terms(self, nll: Tensor) -> Tensor:
        return _focus(nll, self.gamma)


def _focus(nll: Tensor, gamma: float | Tensor) -> Tensor:
    """Scale negative log-likelihoods by ``(1 - p) ** gamma``."""
    # 1 - p, without the cancellation near p = 1; cut where p is 0, as 0 times infinity has no slope
    doubt = -torch.expm1(-nll.clamp_max(SURELY_WRONG))
    # Below gamma 1 the power has an infinite slope at zero; the floor makes it a finite one.
    return doubt.clamp_min(torch.finfo(doubt.dtype).tiny) ** gamma * nll


def adaptive_focal_loss(logits: Tensor, target: Tensor, **options: Any) -> Tensor:
    """Compute the focal loss with gamma chosen by the probability of the true class.

    Mukhoti et al. 2020 take a larger gamma for cases whose true class has a low probability. Their
    schedule FLSD-53, ``adafocal53`` in the paper's tables, is the default.

    Parameters
    ----------
    logits, target
        As in `focal_loss`.
    **options
        Those of `AdaptiveFocalLoss`.

    Returns
    -------
    Tensor
        The loss; 0 (with a gradient of zeros) if there are no cases.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import adaptive_focal_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
    >>> print(f"{adaptive_focal_loss(logits, torch.tensor([0, 0])):.4f}")
    0.5639
    """
    return AdaptiveFocalLoss(**options).forward(logits, target)


class AdaptiveFocalLoss(_LikelihoodLoss):
    """Module form of `adaptive_focal_loss`.

    Parameters
    ----------
    gamma_below : float, default=5.0
        Gamma of cases whose true class has a probability below `switch_probability`.
    gamma_above : float, default=3.0
        Gamma of all others.
    switch_probability : float, default=0.2
        Where gamma changes. The loss jumps there, and gamma is held fixed in the gradient.
    ignore_index, reduction
        As in `FocalLoss`.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import AdaptiveFocalLoss
    >>> print(f"{AdaptiveFocalLoss()(torch.zeros(1, 2), torch.tensor([0])):.4f}")
    0.0866
    """

    def __init__(
        self,
        *,
        gamma_below: float = 5.0,
        gamma_above: float = 3.0,
        switch_probability: float = 0.2,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(ignore_index, reduction)
        self.gamma_below = check_positive(gamma_below, "gamma_below", zero=True)
        self.gamma_above = check_positive(gamma_above, "gamma_above", zero=True)
        self.switch_probability = check_fraction(switch_probability, "switch_probability")

    def _terms(self, nll: Tensor) -> Tensor:
        is_below = torch.exp(-nll.detach()) < self.switch_probability
        gamma = torch.full_like(nll, self.gamma_above).masked_fill(is_below, self.gamma_below)
        return _focus(nll, gamma)


def generalised_cross_entropy_loss(logits: Tensor, target: Tensor, **options: Any) -> Tensor:
    """Compute the generalised cross-entropy, in which hopeless cases count less.

    A case costs ``(1 - p ** q) / q``, p being the probability of the true class. In the limit q = 0
    this is cross-entropy, and at q = 1 it is ``1 - p``. Its gradient is that of cross-entropy times
    ``p ** q``: the network spends less effort on cases that it gets wrong by far. Those are the
    cases that will be delegated, so the effort goes to cases that will be decided automatically. It
    is the opposite of focal loss, which spends less on cases that are right. Zhang and Sabuncu
    proposed it against wrong labels; here it is a loss for a lower expert load.

    Parameters
    ----------
    logits, target
        As in `focal_loss`.
    **options
        Those of `GeneralisedCrossEntropyLoss`.

    Returns
    -------
    Tensor
        The loss; 0 (with a gradient of zeros) if there are no cases.

    References
    ----------
    Zhang and Sabuncu, "Generalized cross entropy loss for training deep neural networks with noisy
    labels", NeurIPS 2018.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import generalised_cross_entropy_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> print(f"{generalised_cross_entropy_loss(logits, torch.tensor([0, 0]), q=1.0):.4f}")
    0.4251
    """
    return GeneralisedCrossEntropyLoss(**options).forward(logits, target)


class GeneralisedCrossEntropyLoss(_LikelihoodLoss):
    """Module form of `generalised_cross_entropy_loss`.

    Parameters
    ----------
    q : float, default=0.1
        Between 0 (cross-entropy) and 1 (one minus the probability of the true class). The larger,
        the less do hopeless cases count.
    ignore_index, reduction
        As in `FocalLoss`.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import GeneralisedCrossEntropyLoss
    >>> print(f"{GeneralisedCrossEntropyLoss(q=0.5)(torch.zeros(1, 2), torch.tensor([0])):.4f}")
    0.5858
    """

    def __init__(
        self, *, q: float = 0.1, ignore_index: int = -100, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(ignore_index, reduction)
        self.q = check_fraction(q, "q")

    def _terms(self, nll: Tensor) -> Tensor:
        return nll if self.q < SMALLEST_Q else -torch.expm1(-self.q * nll) / self.q
