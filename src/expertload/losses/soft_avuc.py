"""Soft AvUC: be certain where right and uncertain where wrong.

AvUC (Krishnan and Tickoo 2020) counts a case as certain or uncertain by a threshold on the entropy
h of its prediction, which has no gradient. Karandikar et al. 2021 (eq. 14 and 15) put a soft step
in its place, t, on the entropy divided by its largest value, log C, with threshold kappa and
temperature T::

    t = sigmoid( (logit(h / log C) - logit(kappa)) / T )

    right cases:   AC = sum (1 - t)(1 - tanh h)      AU = sum t tanh h
    wrong cases:   IC = sum (1 - t)(1 - tanh h)      IU = sum t tanh h

    loss = log( 1 + (AU + IC) / (AC + IU) )
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from expertload._validation import check_fraction, check_positive
from expertload.losses.entropy import SoftmaxEntropy
from expertload.losses.inputs import flatten_logits
from expertload.losses.top_label import working_dtype

__all__ = ["SoftAvUCLoss", "soft_avuc_loss"]

# The share of agreement (AC + IU) is kept from zero by this much, as in the original.
SMALLEST_AGREEMENT = 1e-5


def soft_avuc_loss(
    logits: Tensor,
    target: Tensor,
    *,
    temperature: float = 1.0,
    threshold: float = 0.4,
    ignore_index: int = -100,
) -> Tensor:
    """Compute the soft accuracy-versus-uncertainty loss of a batch.

    A secondary loss: combine it with cross-entropy or focal loss (`CombinedLoss`).

    Parameters
    ----------
    logits : Tensor of shape (N, C) or (N, C, d1, ...)
        Unnormalised scores, never probabilities. Half precision is computed in float32.
    target : Tensor of shape (N,) or (N, d1, ...)
        Class numbers.
    temperature : float, default=1.0
        Softness of the step. The paper's grid is 0.01, 0.1, 1, 10.
    threshold : float, default=0.4
        The relative entropy, in (0, 1), above which a case counts as uncertain. The paper's grid
        is 0.2, 0.4, 0.7.
    ignore_index : int, default=-100
        Cases with this target count for nothing.

    Returns
    -------
    Tensor
        The loss; 0 (with a gradient of zeros) if there are no cases.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import soft_avuc_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> print(f"{soft_avuc_loss(logits, torch.tensor([0, 0])):.4f}")
    0.3255
    """
    _check_options(temperature, threshold)
    scores, labels = flatten_logits(logits, target, ignore_index=ignore_index)
    certain, uncertain = _soft_counts(scores, temperature, threshold)
    correct = scores.max(dim=1).indices == labels
    agreement = torch.where(correct, certain, uncertain).sum()
    disagreement = torch.where(correct, uncertain, certain).sum()
    return torch.log1p(disagreement / agreement.clamp_min(SMALLEST_AGREEMENT))


class SoftAvUCLoss(nn.Module):
    """Module form of `soft_avuc_loss`, which documents the options.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import SoftAvUCLoss
    >>> loss = SoftAvUCLoss(temperature=0.1, threshold=0.7)
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> print(f"{loss(logits, torch.tensor([0, 0])):.4f}")
    0.0003
    """

    def __init__(
        self, *, temperature: float = 1.0, threshold: float = 0.4, ignore_index: int = -100
    ) -> None:
        super().__init__()
        _check_options(temperature, threshold)
        self.temperature = temperature
        self.threshold = threshold
        self.ignore_index = ignore_index

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch."""
        return soft_avuc_loss(
            logits,
            target,
            temperature=self.temperature,
            threshold=self.threshold,
            ignore_index=self.ignore_index,
        )

    def extra_repr(self) -> str:
        """Show the options when printed."""
        return f"temperature={self.temperature}, threshold={self.threshold}"


def _soft_counts(logits: Tensor, temperature: float, threshold: float) -> tuple[Tensor, Tensor]:
    """Return how much each case counts as certain, and as uncertain."""
    entropy: Tensor = SoftmaxEntropy.apply(logits.to(working_dtype(logits)))  # type: ignore[no-untyped-call]
    # With one class there is no uncertainty, and the largest entropy is zero.
    relative = entropy / math.log(max(logits.shape[1], 2))
    # The logit is infinite at 0 and 1; within rounding of them it is constant, with slope zero.
    margin = 8 * torch.finfo(relative.dtype).eps
    step = (torch.logit(relative, margin) - math.log(threshold / (1 - threshold))) / temperature
    size = torch.tanh(entropy)
    return torch.sigmoid(-step) * (1 - size), torch.sigmoid(step) * size


def _check_options(temperature: float, threshold: float) -> None:
    check_positive(temperature, "temperature")
    check_fraction(threshold, "threshold", inclusive=False)
