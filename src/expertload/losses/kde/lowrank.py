"""Kernel sums through a few nodes: a Gaussian is a sum of products of narrower Gaussians.

The convolution of two Gaussians of variance 1/2 is a Gaussian of variance 1. Written as a sum over
equally spaced nodes g_m instead of an integral (h = 1, spacing d),

    exp(-(x - q)^2 / 2) = d sqrt(2 / pi) sum_m exp(-(x - g_m)^2) exp(-(g_m - q)^2)

with a relative error of 2 exp(-pi^2 / (2 d^2)), which is 2e-7 at d = 0.55: the trapezoidal rule
converges faster than any power for such functions. Between the two factors one can put the step
function, limited to the frequencies the nodes carry, H(t) = 1/2 + Si(pi t / d) / pi, and has

    Phi(q - x) = d^2 / pi sum_lm exp(-(x - g_l)^2) H(g_m - g_l) exp(-(g_m - q)^2)

So one thin matrix of exponentials, nodes by points, and a small constant one serve all sums. The
number of nodes is the range of the points in widths over d: some forty for a batch of 512.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from scipy.special import sici

from expertload.losses.kde.array_namespace import Array, integers_below, namespace, on_host
from expertload.losses.kde.kernel_sums import Points, Sums

__all__ = ["LowRankSums", "nodes_for"]

SPACING = 0.55
# Nodes reach this far beyond the outermost points: erfc(3.5) is 7e-7, of the outermost source.
MARGIN = 3.5
NEAR_SCALE = SPACING * math.sqrt(2 / math.pi)
ABOVE_SCALE = SPACING**2 / math.pi


def nodes_for(span: float) -> int:
    """Return the number of nodes for points within `span` widths, rounded up to repeat often."""
    return 4 * math.ceil((span + 2 * MARGIN) / SPACING / 4 + 0.25)


class LowRankSums:
    """Kernel sums whose cost is points times nodes."""

    in_order = False

    def __init__(self, points: Points, span: float) -> None:
        sources, thresholds, ends, width = points
        xp = namespace(ends)
        same = sources is thresholds
        start = (ends[0] if same else sources.min()) - MARGIN * width
        nodes = integers_below(nodes_for(span), ends) * SPACING
        self.thresholds = _bumps(xp.concatenate((thresholds, ends)), start, width, nodes)
        self.sources = self.thresholds[:, :-2] if same else _bumps(sources, start, width, nodes)
        self.step = _step_like(ends, len(nodes))

    def to_thresholds(self, values: Array) -> Sums:
        """Sum over sources."""
        return _through_nodes(values @ self.sources.T, self.step, self.thresholds)

    def to_sources(self, values: Array) -> Sums:
        """Sum over thresholds, with the same nodes in the other direction."""
        return _through_nodes(values @ self.thresholds.T, self.step.T, self.sources)


def _bumps(points: Array, start: Array, width: float | Array, nodes: Array) -> Array:
    position = points - start
    position /= width
    # A matrix is large enough for torch to be the faster one on the CPU too.
    distance = torch.as_tensor(position) - torch.as_tensor(nodes)[:, None]
    bumps = distance.square_().neg_().exp_()
    return bumps.numpy() if on_host(points) else bumps


def _through_nodes(at_nodes: Array, step: Array, bumps: Array) -> Sums:
    above = step @ at_nodes[0]
    at_nodes *= NEAR_SCALE
    xp = namespace(above)
    sums = xp.concatenate((above[None], at_nodes)) @ bumps
    return Sums(sums[0], sums[1:])


def _step_like(like: Array, n_nodes: int) -> Array:
    return _step(n_nodes) if on_host(like) else _step_on_device(n_nodes, like.dtype, like.device)


@lru_cache(maxsize=64)
def _step(n_nodes: int) -> Array:
    """Return the band-limited step between nodes, threshold's node by source's node."""
    index = np.arange(n_nodes)
    sine_integral, _ = sici(np.pi * (index - index[:, None]))
    return (0.5 + sine_integral / np.pi) * ABOVE_SCALE


@lru_cache(maxsize=64)
def _step_on_device(n_nodes: int, dtype: torch.dtype, device: torch.device) -> Array:
    return torch.as_tensor(_step(n_nodes), dtype=dtype, device=device)
