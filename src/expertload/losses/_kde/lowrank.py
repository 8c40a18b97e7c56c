"""Kernel sums through a few nodes: a Gaussian is a sum of products of narrower Gaussians.

The convolution of two Gaussians of variance 1/2 is a Gaussian of variance 1. Written as a sum over
equally spaced nodes g_m instead of an integral (h = 1, spacing d),

    exp(-(x - q)^2 / 2) = d sqrt(2 / pi) sum_m exp(-(x - g_m)^2) exp(-(g_m - q)^2)

with a relative error of 2 exp(-pi^2 / (2 d^2)), which is 2e-12 at d = 0.425: the trapezoidal rule
converges faster than any power for such functions. Between the two factors one can put the step
function, limited to the frequencies the nodes carry, H(t) = 1/2 + Si(pi t / d) / pi, and has

    Phi(q - x) = d^2 / pi sum_lm exp(-(x - g_l)^2) H(g_m - g_l) exp(-(g_m - q)^2)

So one thin matrix of exponentials, points by nodes, and a small constant one serve all sums. The
number of nodes is the range of the points in widths over d: some forty for a batch of 512.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from scipy.special import sici
from torch import Tensor

from expertload.losses._kde.kernel_sums import Points, Sums

__all__ = ["LowRankSums", "nodes_for"]

SPACING = 0.425
# Nodes reach this far beyond the outermost points: erfc(4.25) is 2e-9.
MARGIN = 4.25
NEAR_SCALE = SPACING * math.sqrt(2 / math.pi)
ABOVE_SCALE = SPACING**2 / math.pi


def nodes_for(span: float) -> int:
    """Return how many nodes serve points within `span` widths, rounded up so as to repeat often."""
    return 8 * math.ceil((span + 2 * MARGIN) / SPACING / 8 + 0.125)


class LowRankSums:
    """Kernel sums whose cost is points times nodes."""

    in_order = False

    def __init__(self, points: Points, span: float) -> None:
        sources, thresholds, ends, width = points
        start = torch.minimum(sources.amin(), ends[0]) - MARGIN * width
        nodes = torch.arange(nodes_for(span), dtype=ends.dtype, device=ends.device) * SPACING
        self.thresholds = _bumps(torch.cat((thresholds, ends)), start, width, nodes)
        same = sources is thresholds
        self.sources = self.thresholds[:-2] if same else _bumps(sources, start, width, nodes)
        self.step = _step(len(nodes), ends.dtype, ends.device)

    def to_thresholds(self, values: Tensor) -> Sums:
        """Sum over sources."""
        return _through_nodes(values @ self.sources, self.step, self.thresholds)

    def to_sources(self, values: Tensor) -> Sums:
        """Sum over thresholds: the same nodes, walked the other way."""
        return _through_nodes(values @ self.thresholds, self.step.T, self.sources)


def _bumps(points: Tensor, start: Tensor, width: float | Tensor, nodes: Tensor) -> Tensor:
    distance = (points - start).div_(width)[:, None] - nodes
    return distance.square_().neg_().exp_()


def _through_nodes(at_nodes: Tensor, step: Tensor, bumps: Tensor) -> Sums:
    above = torch.mv(step, at_nodes[0])
    sums = torch.cat((above[None], at_nodes * NEAR_SCALE)) @ bumps.T
    return Sums(sums[0], sums[1:])


@lru_cache(maxsize=32)
def _step(n_nodes: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the band-limited step between nodes, threshold's node by source's node."""
    index = np.arange(n_nodes)
    sine_integral, _ = sici(np.pi * (index - index[:, None]))
    return torch.as_tensor((0.5 + sine_integral / np.pi) * ABOVE_SCALE, dtype=dtype, device=device)
