"""Adaptive focal loss: a larger gamma for cases whose true class has a low probability.

Mukhoti et al. 2020 choose gamma by the probability of the true class. Their schedule FLSD-53,
``adafocal53`` in the paper's tables, takes 5 below a probability of 0.2 and 3 from there on.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from expertload._validation import check_fraction, check_option, check_positive
from expertload.losses.focal import focus
from expertload.losses.reduction import REDUCTIONS, Reduction, negative_log_likelihood, reduce

__all__ = ["AdaptiveFocalLoss", "adaptive_focal_loss"]


def adaptive_focal_loss(
    logits: Tensor,
    target: Tensor,
    *,
    gamma_below: float = 5.0,
    gamma_above: float = 3.0,
    switch_probability: float = 0.2,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute the focal loss with gamma chosen by the probability of the true class.

    Parameters
    ----------
    logits, target, ignore_index, reduction
        As in `focal_loss`.
    gamma_below : float, default=5.0
        Gamma of cases whose true class has a probability below `switch_probability`.
    gamma_above : float, default=3.0
        Gamma of all others.
    switch_probability : float, default=0.2
        Where gamma changes. The loss jumps there, and gamma is held fixed in the gradient.

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
    _check_options(gamma_below, gamma_above, switch_probability, reduction)
    nll, n_cases = negative_log_likelihood(logits, target, ignore_index)
    hopeless = torch.exp(-nll.detach()) < switch_probability
    gamma = torch.where(hopeless, nll.new_tensor(gamma_below), nll.new_tensor(gamma_above))
    return reduce(focus(nll, gamma), n_cases, reduction)


class AdaptiveFocalLoss(nn.Module):
    """Module form of `adaptive_focal_loss`, which documents the options.

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
        super().__init__()
        _check_options(gamma_below, gamma_above, switch_probability, reduction)
        self.gamma_below = gamma_below
        self.gamma_above = gamma_above
        self.switch_probability = switch_probability
        self.ignore_index = ignore_index
        self.reduction = reduction

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch."""
        return adaptive_focal_loss(
            logits,
            target,
            gamma_below=self.gamma_below,
            gamma_above=self.gamma_above,
            switch_probability=self.switch_probability,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )

    def extra_repr(self) -> str:
        """Show the options when printed."""
        return (
            f"gamma_below={self.gamma_below}, gamma_above={self.gamma_above}, "
            f"switch_probability={self.switch_probability}, reduction={self.reduction!r}"
        )


def _check_options(gamma_below: float, gamma_above: float, switch: float, reduction: str) -> None:
    check_positive(gamma_below, "gamma_below", zero=True)
    check_positive(gamma_above, "gamma_above", zero=True)
    check_fraction(switch, "switch_probability")
    check_option(reduction, REDUCTIONS, "reduction")
