"""Value and gradient of the weighted MMCE, together, from one sort of the confidences.

With ``u_i = (c_i - r_i) / n_i``, n_i being the number of cases that are right if i is and wrong if
i is, and k the Laplacian kernel of width w::

    A = sum_ij u_i u_j k(r_i, r_j) = sum_i u_i S_i        S_i = sum_j u_j k(r_i, r_j)

    dA/dr_i = -2 S_i / n_i  +  (2 / w) u_i (sum over larger r_j  -  sum over smaller r_j)

the sums on the right being those of S_i. The loss is the root of A. Equal confidences do not push
each other, as with ``abs``, whose derivative at zero is taken to be zero.
"""

from __future__ import annotations

import torch
from torch import Tensor

from expertload.losses._laplacian import kernel_sums
from expertload.losses._top_label import ValueAndSlope

__all__ = ["weighted_mmce"]

KERNEL_WIDTH = 0.4
# What rounding in double precision can leave of a form that is zero.
ROUNDING_FLOOR = 1e-15


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
