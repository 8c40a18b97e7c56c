"""A penalty on confidence: minus the mean entropy of the predictions (Pereyra et al. 2017).

Added to cross-entropy, it keeps a network from being certain of everything, like label smoothing.
It serves as a control: a loss that ranks cases must gain more than this simple penalty.
"""

from __future__ import annotations

from torch import Tensor, nn

from expertload.losses.entropy import SoftmaxEntropy
from expertload.losses.inputs import flatten_logits
from expertload.losses.top_label import working_dtype

__all__ = ["ConfidencePenalty", "confidence_penalty"]


def confidence_penalty(logits: Tensor, target: Tensor, *, ignore_index: int = -100) -> Tensor:
    """Compute minus the mean entropy, in nats, of a batch's predictions.

    A secondary loss: combine it with cross-entropy (`CombinedLoss`); 0.1 is a usual weight.

    Parameters
    ----------
    logits : Tensor of shape (N, C) or (N, C, d1, ...)
        Unnormalised scores, never probabilities. Half precision is computed in float32.
    target : Tensor of shape (N,) or (N, d1, ...)
        Class numbers. Only which of them are ignored matters.
    ignore_index : int, default=-100
        Cases with this target count for nothing.

    Returns
    -------
    Tensor
        Between -log C (uniform) and 0 (certain); 0 if there are no cases.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import confidence_penalty
    >>> logits = torch.tensor([[0.0, 0.0], [0.0, 9.0]])
    >>> print(f"{confidence_penalty(logits, torch.tensor([0, 1])):.4f}")
    -0.3472
    """
    scores, _ = flatten_logits(logits, target, ignore_index=ignore_index)
    entropy: Tensor = SoftmaxEntropy.apply(scores.to(working_dtype(scores)))  # type: ignore[no-untyped-call]
    return -entropy.sum() / max(len(entropy), 1)


class ConfidencePenalty(nn.Module):
    """Module form of `confidence_penalty`, which documents the options.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import ConfidencePenalty
    >>> print(f"{ConfidencePenalty()(torch.zeros(1, 2), torch.tensor([0])):.4f}")
    -0.6931
    """

    def __init__(self, *, ignore_index: int = -100) -> None:
        super().__init__()
        self.ignore_index = ignore_index

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch."""
        return confidence_penalty(logits, target, ignore_index=self.ignore_index)
