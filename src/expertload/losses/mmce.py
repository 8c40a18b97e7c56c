"""Weighted MMCE: the calibration error seen by a kernel, without bins.

Kumar et al. 2018 embed the gap between correctness c and confidence r in the space of a Laplacian
kernel ``k(r, r') = exp(-|r - r'| / 0.4)``. The weighted form, which they train with, averages the
m right and the n - m wrong cases of a batch apart, so that neither drowns the other::

    MMCE_w^2 =   sum_{wrong, wrong} r_i r_j k_ij / (n - m)^2
               + sum_{right, right} (1 - r_i)(1 - r_j) k_ij / m^2
               - 2 sum_{right, wrong} (1 - r_i) r_j k_ij / (m (n - m))

With ``u_i = (c_i - r_i) / (number of cases that are as right or wrong as i)`` this is the
quadratic form ``sum_ij u_i u_j k_ij``, computed exactly in O(n log n). The loss is its root.
"""

from __future__ import annotations

from torch import Tensor, nn

from expertload.losses._top_label import calibration_loss
from expertload.losses._weighted_mmce import weighted_mmce

__all__ = ["MMCELoss", "mmce_loss"]


def mmce_loss(logits: Tensor, target: Tensor, *, ignore_index: int = -100) -> Tensor:
    """Compute the weighted maximum mean calibration error of a batch.

    A secondary loss: combine it with cross-entropy or focal loss (`CombinedLoss`).

    Parameters
    ----------
    logits : Tensor of shape (N, C) or (N, C, d1, ...)
        Unnormalised scores, never probabilities. Half precision is computed in float32.
    target : Tensor of shape (N,) or (N, d1, ...)
        Class numbers.
    ignore_index : int, default=-100
        Cases with this target count for nothing.

    Returns
    -------
    Tensor
        The error, zero or more. Where all cases are right, or all wrong, the terms of the missing
        group are zero; where there are no cases, so are the loss and its gradient.

    Notes
    -----
    Exact at every batch size in O(n log n) time and O(n) memory: the kernel factors along the
    sorted confidences. Differentiable once, except where two confidences are equal; there, equals
    do not push each other.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import mmce_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> print(f"{mmce_loss(logits, torch.tensor([0, 0])):.4f}")
    0.6548
    """
    return calibration_loss(logits, target, ignore_index, weighted_mmce, "mmce_loss")


class MMCELoss(nn.Module):
    """Module form of `mmce_loss`, which documents the options.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import MMCELoss
    >>> print(f"{MMCELoss()(torch.zeros(1, 2), torch.tensor([0])):.4f}")
    0.5000
    """

    def __init__(self, *, ignore_index: int = -100) -> None:
        super().__init__()
        self.ignore_index = ignore_index

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch."""
        return mmce_loss(logits, target, ignore_index=self.ignore_index)
