"""Exact kernel sums: every pair of points, a block of rows at a time so that memory stays bounded.

This is the meaning of the formulas and the yardstick of the fast methods. It takes O(n^2) time and
at most a few blocks of memory, so it finishes at any size, slowly.
"""

from __future__ import annotations

import torch
from torch import Tensor

from expertload.losses._kde.kernel_sums import Points, Sums

__all__ = ["DenseSums"]

# Pairs in one block: 2 MB of doubles, which stays in the cache of one core.
PAIRS_PER_BLOCK = 2**18
ROOT_HALF = 0.5**0.5


class DenseSums:
    """Kernel sums over all pairs of sources and thresholds."""

    in_order = False

    def __init__(self, points: Points) -> None:
        self.sources = points.sources / points.width
        self.thresholds = torch.cat((points.thresholds, points.ends)).div_(points.width)

    def to_thresholds(self, values: Tensor) -> Sums:
        """Sum over sources."""
        return _pair_sums(self.sources, self.thresholds, values, sign=1)

    def to_sources(self, values: Tensor) -> Sums:
        """Sum over thresholds; a source is above a threshold when that is below the source."""
        return _pair_sums(self.thresholds, self.sources, values, sign=-1)


def _pair_sums(here: Tensor, there: Tensor, values: Tensor, *, sign: int) -> Sums:
    rows = max(1, PAIRS_PER_BLOCK // max(1, here.numel()))
    blocks = [_block(here, block, values, sign) for block in torch.split(there, rows)]
    above, near = zip(*blocks, strict=True)
    return Sums(torch.cat(above), torch.cat(near, dim=1))


def _block(here: Tensor, there: Tensor, values: Tensor, sign: int) -> tuple[Tensor, Tensor]:
    distance = here - there[:, None] if sign > 0 else there[:, None] - here
    near = values @ distance.square().mul_(-0.5).exp_().T
    # Phi through erfc, which PyTorch vectorises where it does not special.ndtr.
    above = torch.special.erfc(distance.mul_(-ROOT_HALF)) @ values[0]
    return above.mul_(0.5), near
