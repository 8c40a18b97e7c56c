"""Sums over all pairs of the Laplacian kernel on a line, exactly, in O(n log n).

For positions r and coefficients u, ``S_i = sum_j u_j exp(-|r_i - r_j| / w)`` takes n^2
exponentials when written out. On a line, however, the kernel factors: for r_j <= r_i it is
``exp(-r_i / w) * exp(r_j / w)``, so the sum over all smaller positions is a running sum of
``u_j exp(r_j / w)`` along the sorted positions, and the sum over all larger ones what is left of
the total of ``u_j exp(-r_j / w)``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

__all__ = ["KernelSums", "kernel_sums"]


class KernelSums(NamedTuple):
    """For each position, the sum over all, and the sum over the larger less that over the smaller.

    Equal positions are in the first and not in the second, so that both are the same whatever the
    order of the rows.
    """

    total: Tensor
    larger_less_smaller: Tensor


def kernel_sums(position: Tensor, coefficient: Tensor, width: float) -> KernelSums:
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
    return KernelSums(not_larger + larger, larger - smaller)
