"""Weighted MMCE: the calibration error seen by a kernel, without bins.

Kumar et al. 2018 embed the gap between correctness c and confidence r in the space of a Laplacian
kernel ``k(r, r') = exp(-|r - r'| / 0.4)``. The weighted form, which they train with, averages the
m right and the n - m wrong cases of a batch apart, so that neither drowns the other::

    MMCE_w^2 =   sum_{wrong, wrong} r_i r_j k_ij / (n - m)^2
               + sum_{right, right} (1 - r_i)(1 - r_j) k_ij / m^2
               - 2 sum_{right, wrong} (1 - r_i) r_j k_ij / (m (n - m))

With ``u_i = (c_i - r_i) / (number of cases that are as right or wrong as i)`` this is the
quadratic form ``sum_ij u_i u_j k_ij = sum_i u_i S_i`` with ``S_i = sum_j u_j k_ij``. The loss is
its root. With n_i the number above, and w the kernel's width, the gradient of the form is::

    dA/dr_i = -2 S_i / n_i  +  (2 / w) u_i (sum over larger r_j  -  sum over smaller r_j)

the sums on the right being those of S_i. Equal confidences do not push each other, as with
``abs``, whose derivative at zero is taken to be zero.

All S_i are computed exactly in O(n log n). On a line the kernel factors: for r_j <= r_i it is
``exp(-r_i / w) * exp(r_j / w)``. So the sum over all smaller positions is a running sum of
``u_j exp(r_j / w)`` along the sorted positions, and the sum over all larger ones what is left of
the total of ``u_j exp(-r_j / w)``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from expertload.losses.top_label import ValueAndSlope, calibration_loss

__all__ = ["MMCELoss", "mmce_loss"]

KERNEL_WIDTH = 0.4
# The rounding error in double precision of a form that is zero.
ROUNDING_FLOOR = 1e-15


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
    return calibration_loss(logits, target, ignore_index, weighted_mmce)


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


def weighted_mmce(confidence: Tensor, correct: Tensor) -> ValueAndSlope:
    """Return the root of the quadratic form, and its slope."""
    # A small difference of large sums, hence double precision wherever the device has it.
    wide = confidence.dtype if confidence.device.type == "mps" else torch.float64
    r, right = confidence.to(wide), correct.to(wide)
    n_right = right.sum()
    share = torch.where(correct, 1 / n_right, 1 / (len(r) - n_right))
    u = (right - r) * share
    sums = kernel_sums(r, u, KERNEL_WIDTH)
    form = u @ sums.total
    positive = form > ROUNDING_FLOOR
    root = torch.where(positive, form, torch.ones_like(form)).sqrt()
    slope = u * sums.larger_less_smaller / KERNEL_WIDTH - share * sums.total
    # Zero, in value and slope, where the form is: zero is in the subgradient of a norm there.
    inverse = positive / root
    return ValueAndSlope(form * inverse, (slope * inverse).to(confidence.dtype))


class PairSums(NamedTuple):
    """For each position: the sum over all, and the sum over larger minus that over smaller ones.

    Equal positions are in the first and not in the second, so that both are the same whatever the
    order of the rows.
    """

    total: Tensor
    larger_less_smaller: Tensor


def kernel_sums(position: Tensor, coefficient: Tensor, width: float) -> PairSums:
    """Sum `coefficient` with kernel weights, for double precision positions in [0, 1].

    Running sums lose ``exp(1 / width)`` in relative precision: nothing at 0.4, all below 0.03.
    """
    ascending, order = position.sort()
    n_smaller = torch.searchsorted(ascending, position)
    n_not_larger = torch.searchsorted(ascending, position, right=True)
    growth = torch.exp(position / width)
    terms = torch.stack([coefficient * growth, coefficient / growth])[:, order]
    rising, falling = pad(terms.cumsum(1), (1, 0))  # sums of the first 0, 1, ..., n terms
    smaller = rising[n_smaller] / growth
    not_larger = rising[n_not_larger] / growth
    larger = (falling[-1] - falling[n_not_larger]) * growth
    return PairSums(not_larger + larger, larger - smaller)
