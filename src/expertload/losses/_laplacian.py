"""The quadratic form of the Laplacian kernel, exactly, in O(n log n).

For positions r and coefficients u::

    A = sum_ij u_i u_j exp(-|r_i - r_j| / w)

takes n^2 exponentials when written out. On a line, however, the kernel factors: for r_j < r_i it
is ``exp(-r_i / w) * exp(r_j / w)``, so the sum over all smaller positions is a running sum of
``u_j exp(r_j / w)``, and the sum over all larger ones a running sum from the other end. With L_i
and R_i for these two and T_i for the coefficients at r_i itself, ``S_i = L_i + T_i + R_i``, and ::

    A = sum_i u_i S_i        dA/du_i = 2 S_i        dA/dr_i = 2 u_i (R_i - L_i) / w

Equal positions do not push each other, as with ``abs``, whose derivative at zero is taken to be
zero; so the gradient does not depend on the order of the rows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["laplacian_form"]


def laplacian_form(position: Tensor, coefficient: Tensor, width: float) -> Tensor:
    """Return the quadratic form; `position` is in [0, 1] and `width` not far below 0.1.

    Sums run in double precision where the device has it, and so does the result: it is a
    difference of large terms when the coefficients nearly balance.
    """
    wide = position.dtype if position.device.type == "mps" else torch.float64
    apply = _LaplacianForm.apply
    form: Tensor = apply(position.to(wide), coefficient.to(wide), width)  # type: ignore[no-untyped-call]
    return form


class _LaplacianForm(torch.autograd.Function):
    """Value and gradient together, from one sort; backward keeps two vectors."""

    @staticmethod
    def forward(ctx: Any, position: Tensor, coefficient: Tensor, width: float) -> Tensor:
        left, same, right = _kernel_sums(position, coefficient, width)
        smoothed = left + same + right
        ctx.save_for_backward(2 * coefficient * (right - left) / width, 2 * smoothed)
        return coefficient @ smoothed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        position_grad, coefficient_grad = ctx.saved_tensors
        return grad * position_grad, grad * coefficient_grad, None


def _kernel_sums(r: Tensor, u: Tensor, width: float) -> tuple[Tensor, Tensor, Tensor]:
    """Kernel-weighted sums of `u` over the smaller, the equal and the larger positions."""
    ascending, order = r.sort()
    first = torch.searchsorted(ascending, r)  # number of smaller positions
    last = torch.searchsorted(ascending, r, right=True)  # ... of smaller or equal ones
    rising, u_sorted = torch.exp(ascending / width), u[order]
    here = torch.exp(r / width)
    left = _running_sum(u_sorted * rising)[first] / here
    same = torch.diff(_running_sum(u_sorted)[torch.stack([first, last])], dim=0)[0]
    right = _running_sum((u_sorted / rising).flip(0)).flip(0)[last] * here
    return left, same, right


def _running_sum(values: Tensor) -> Tensor:
    """Sums of the first 0, 1, ..., n values."""
    return torch.cat([values.new_zeros(1), values.cumsum(0)])
