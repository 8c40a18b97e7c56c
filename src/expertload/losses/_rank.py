"""AUCOC from ranks: what the smoothed area becomes when the kernel is infinitely narrow.

AUCOC = E[v * -ln(1 - F(r))], F the distribution of confidences and v the graded correctness. On a
batch, a sample (or a group of equal confidences) covers the loads from F_below to F_upto, so its
weight is the mean of -ln(1 - F) there, the integral of which is Q(u) = u + (1 - u) ln(1 - u). This
is `expertload.aucoc_score` on a batch. Ranks do not change under a small change of confidence, so
the gradient by confidence is nothing, and learning goes through v alone.
"""

from __future__ import annotations

import torch
from torch import Tensor

from expertload.losses._kde.area import Area, Samples
from expertload.losses._kde.ordering import sort_values

__all__ = ["rank_area"]


def rank_area(samples: Samples) -> Area:
    """Area under the COC curve of a batch, by empirical ranks."""
    r, value, weight, count = samples
    # Ignored samples go last, where they do not count towards any rank.
    ranked = sort_values(r if weight is None else r.masked_fill(weight == 0, torch.inf))
    below = torch.searchsorted(ranked, r).to(r.dtype) / count
    upto = torch.searchsorted(ranked, r, right=True).to(r.dtype) / count
    by_value = (_integral(upto) - _integral(below)).div_(upto.sub_(below).mul_(count))
    if weight is not None:
        by_value = by_value.where(weight > 0, 0)
    return Area(torch.dot(value, by_value), by_value, torch.zeros_like(by_value))


def _integral(load: Tensor) -> Tensor:
    """Q(u), with 0 ln 0 = 0 at a load of one."""
    rest = 1 - load
    return torch.xlogy(rest, rest).add_(load)
