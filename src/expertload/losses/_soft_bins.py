"""Value and gradient of the soft-binned calibration error, together.

With memberships ``U_ij = softmax_j(-(r_i - x_j)^2 / T)`` in bins of centre x_j, and gaps
``g_i = r_i - c_i`` between confidence and correctness::

    S_j = sum_i U_ij       b_j = sum_i U_ij g_i / S_j       E = (1/n) sum_j S_j |b_j|^p

    dU_ij/dr_i = (2 / T) U_ij (x_j - sum_k U_ik x_k)

    n dE/dr_i  = sum_j a_j U_ij + sum_j (a_j g_i + d_j) dU_ij/dr_i

where ``a_j = p sign(b_j) |b_j|^(p-1)`` and ``d_j = (1 - p) |b_j|^p``. The loss is ``E^(1/p)``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from expertload.losses._top_label import ValueAndSlope

__all__ = ["soft_binned_error"]


def soft_binned_error(
    r: Tensor, correct: Tensor, *, temperature: float, n_bins: int, norm: float
) -> ValueAndSlope:
    """Return the p-norm of the bins' gaps, and its slope by each confidence."""
    n = max(len(r), 1)
    gap = r - correct.to(r.dtype)
    centres = (torch.arange(n_bins, dtype=r.dtype, device=r.device) + 0.5) / n_bins
    membership = torch.softmax((r[:, None] - centres).square_().mul_(-1 / temperature), dim=1)
    size, gaps = torch.stack([torch.ones_like(gap), gap]) @ membership
    # A bin out of everyone's reach may have size zero; so has then its gap, and so it weighs.
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
