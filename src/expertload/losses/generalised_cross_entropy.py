"""Generalised cross-entropy: cases that the network has no hope for count less.

Each case costs ``(1 - p ** q) / q``, p being the probability of the true class. In the limit q = 0
this is cross-entropy, and at q = 1 it is ``1 - p``. Its gradient is that of cross-entropy times
``p ** q``: the network spends less effort on cases that it gets wrong by far. Those are the cases
that will be delegated, so the effort goes to cases that will be decided automatically. It is the
opposite of focal loss, which spends less on cases that are right.

Zhang and Sabuncu proposed it against wrong labels; here it is a loss for a lower expert load.

References
----------
Zhang and Sabuncu, "Generalized cross entropy loss for training deep neural networks with noisy
labels", NeurIPS 2018.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from expertload._validation import check_fraction, check_option
from expertload.losses.reduction import REDUCTIONS, Reduction, negative_log_likelihood, reduce

__all__ = ["GeneralisedCrossEntropyLoss", "generalised_cross_entropy_loss"]

SMALLEST = 1e-8  # below this, single precision shows no difference from cross-entropy


def generalised_cross_entropy_loss(
    logits: Tensor,
    target: Tensor,
    *,
    q: float = 0.1,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute the generalised cross-entropy.

    Parameters
    ----------
    logits : Tensor of shape (N, C) or (N, C, d1, ...)
        Unnormalised scores, never probabilities. Half precision is computed in float32.
    target : Tensor of shape (N,) or (N, d1, ...)
        Class numbers.
    q : float, default=0.1
        Between 0 (cross-entropy) and 1 (one minus the probability of the true class). The larger,
        the less do hopeless cases count.
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
    >>> from expertload.losses import generalised_cross_entropy_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> print(f"{generalised_cross_entropy_loss(logits, torch.tensor([0, 0]), q=1.0):.4f}")
    0.4251
    """
    _check_options(q, reduction)
    nll, n_cases = negative_log_likelihood(logits, target, ignore_index)
    terms = nll if q < SMALLEST else -torch.expm1(-q * nll) / q
    return reduce(terms, n_cases, reduction)


class GeneralisedCrossEntropyLoss(nn.Module):
    """Module form of `generalised_cross_entropy_loss`, which documents the options.

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
        super().__init__()
        _check_options(q, reduction)
        self.q = q
        self.ignore_index = ignore_index
        self.reduction = reduction

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch."""
        return generalised_cross_entropy_loss(
            logits,
            target,
            q=self.q,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )

    def extra_repr(self) -> str:
        """Show the options when printed."""
        return f"q={self.q}, reduction={self.reduction!r}"


def _check_options(q: float, reduction: str) -> None:
    check_fraction(q, "q")
    check_option(reduction, REDUCTIONS, "reduction")
