"""Soft-binned ECE: the expected calibration error with differentiable bins.

A case belongs to every bin a little: its membership is a softmax over minus the squared distances
of its confidence to the bins' centres, divided by a temperature (Karandikar et al. 2021, eq. 8 to
11, SB-ECE of the binned kind). With S_j the total membership of bin j, A_j and C_j the accuracy
and the confidence averaged with it::

    SB-ECE = ( sum_j S_j / n * |A_j - C_j|^p ) ^ (1 / p)

As the temperature goes to zero this becomes the ECE with equal-width bins (for p = 1).

Value and gradient are computed together. With memberships ``U_ij = softmax_j(-(r_i - x_j)^2 / T)``
in bins of centre x_j, and gaps ``g_i = r_i - c_i`` between confidence and correctness::

    S_j = sum_i U_ij       b_j = sum_i U_ij g_i / S_j       E = (1/n) sum_j S_j |b_j|^p

    dU_ij/dr_i = (2 / T) U_ij (x_j - sum_k U_ik x_k)

    n dE/dr_i  = sum_j a_j U_ij + sum_j (a_j g_i + d_j) dU_ij/dr_i

where ``a_j = p sign(b_j) |b_j|^(p-1)`` and ``d_j = (1 - p) |b_j|^p``. The loss is ``E^(1/p)``.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from expertload._validation import check_count, check_minimum, check_positive
from expertload.losses.top_label import ValueAndSlope, calibration_loss

__all__ = ["SoftECELoss", "soft_ece_loss"]


def soft_ece_loss(
    logits: Tensor,
    target: Tensor,
    *,
    temperature: float = 0.01,
    n_bins: int = 15,
    norm: float = 2.0,
    ignore_index: int = -100,
) -> Tensor:
    """Compute the soft-binned expected calibration error of a batch.

    A secondary loss: combine it with cross-entropy or focal loss (`CombinedLoss`).

    Parameters
    ----------
    logits : Tensor of shape (N, C) or (N, C, d1, ...)
        Unnormalised scores, never probabilities. Half precision is computed in float32.
    target : Tensor of shape (N,) or (N, d1, ...)
        Class numbers.
    temperature : float, default=0.01
        Softness of the bins. The paper's grid is 0.01, 0.1, 1, 10.
    n_bins : int, default=15
        Number of bins, their centres evenly spread over [0, 1].
    norm : float, default=2.0
        The power p, at least 1.
    ignore_index : int, default=-100
        Cases with this target count for nothing.

    Returns
    -------
    Tensor
        The error, in [0, 1]; 0 (with a gradient of zeros) if there are no cases.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import soft_ece_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> print(f"{soft_ece_loss(logits, torch.tensor([0, 0])):.4f}")
    0.4452
    """
    _check_options(temperature, n_bins, norm)
    formula = partial(soft_binned_error, temperature=temperature, n_bins=n_bins, norm=norm)
    return calibration_loss(logits, target, ignore_index, formula)


class SoftECELoss(nn.Module):
    """Module form of `soft_ece_loss`, which documents the options.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import SoftECELoss
    >>> print(f"{SoftECELoss()(torch.zeros(1, 2), torch.tensor([0])):.4f}")
    0.5000
    """

    def __init__(
        self,
        *,
        temperature: float = 0.01,
        n_bins: int = 15,
        norm: float = 2.0,
        ignore_index: int = -100,
    ) -> None:
        super().__init__()
        _check_options(temperature, n_bins, norm)
        self.temperature = temperature
        self.n_bins = n_bins
        self.norm = norm
        self.ignore_index = ignore_index

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch."""
        return soft_ece_loss(
            logits,
            target,
            temperature=self.temperature,
            n_bins=self.n_bins,
            norm=self.norm,
            ignore_index=self.ignore_index,
        )

    def extra_repr(self) -> str:
        """Show the options when printed."""
        return f"temperature={self.temperature}, n_bins={self.n_bins}, norm={self.norm}"


def _check_options(temperature: float, n_bins: int, norm: float) -> None:
    check_positive(temperature, "temperature")
    check_count(n_bins, "n_bins")
    check_minimum(norm, 1, "norm", "use norm=2 for the paper's error, norm=1 for the usual ECE")


def soft_binned_error(
    r: Tensor, correct: Tensor, *, temperature: float, n_bins: int, norm: float
) -> ValueAndSlope:
    """Return the p-norm of the bins' gaps, and its slope by each confidence."""
    n = max(len(r), 1)
    gap = r - correct.to(r.dtype)
    centres = (torch.arange(n_bins, dtype=r.dtype, device=r.device) + 0.5) / n_bins
    membership = torch.softmax((r[:, None] - centres).square_().mul_(-1 / temperature), dim=1)
    size, gaps = torch.stack([torch.ones_like(gap), gap]) @ membership
    # A bin that is far from all cases may have size zero; its gap and weight are then zero.
    bin_gap = gaps / size.clamp_min(torch.finfo(size.dtype).tiny)
    power = bin_gap.abs() ** norm
    error = size @ power / n
    by_gap = norm * bin_gap.sign() * bin_gap.abs() ** (norm - 1)
    direct, through_gap, through_size = _slopes(membership, centres, by_gap, (1 - norm) * power)
    slope = direct + (2 / temperature) * (gap * through_gap + through_size)
    # Zero, in value and slope, where the error is: zero is in the subgradient of a norm there.
    positive = error > 0
    root = torch.where(positive, error, torch.ones_like(error)) ** (1 / norm)
    outer = positive * root ** (1 - norm) / (norm * n)
    return ValueAndSlope(torch.where(positive, root, error), slope * outer)


def _slopes(
    membership: Tensor, centres: Tensor, by_gap: Tensor, by_size: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums over bins of `by_gap` U, and of `by_gap` and `by_size` times dU/dr (without 2/T)."""
    direct, mean_centre = (membership @ torch.stack([by_gap, centres], dim=1)).unbind(1)
    moving = (centres - mean_centre[:, None]).mul_(membership)
    through_gap, through_size = (moving @ torch.stack([by_gap, by_size], dim=1)).unbind(1)
    return direct, through_gap, through_size
