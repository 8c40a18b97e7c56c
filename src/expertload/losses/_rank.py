"""AUCOC from ranks: what the smoothed area becomes when the kernel is infinitely narrow.

AUCOC = E[v * -ln(1 - F(r))], F the distribution of confidences and v the graded correctness. On a
batch, a sample (or a group of equal confidences) covers the loads from F_below to F_upto, so its
weight is the mean of -ln(1 - F) there, the integral of which is Q(u) = u + (1 - u) ln(1 - u). This
is `expertload.aucoc_score` on a batch. Ranks do not change under a small change of confidence, so
the gradient by confidence is nothing, and learning goes through v alone.
"""

from __future__ import annotations

import math

from expertload.losses._kde.area import Area, Samples
from expertload.losses._kde.host import Array, namespace, sorted_values

__all__ = ["rank_area"]


def rank_area(samples: Samples) -> Area:
    """Area under the COC curve of a batch, by empirical ranks."""
    r, value, weight, total = samples
    xp = namespace(r)
    # Ignored samples go last, where they do not count towards any rank.
    ranked = sorted_values(r if weight is None else xp.where(weight > 0, r, math.inf))
    nothing = xp.zeros_like(r)  # added, it turns counts into numbers of r's precision
    below = (nothing + xp.searchsorted(ranked, r, side="left")) / total
    upto = (nothing + xp.searchsorted(ranked, r, side="right")) / total
    by_value = (_integral(upto) - _integral(below)) / ((upto - below) * total)
    if weight is not None:
        by_value = xp.where(weight > 0, by_value, 0.0)
    return Area(value @ by_value, by_value, xp.zeros_like(by_value))


def _integral(load: Array) -> Array:
    """Q(u), with 0 ln 0 = 0 at a load of one."""
    xp = namespace(load)
    rest = 1 - load
    return load + rest * xp.log(xp.where(rest > 0, rest, 1.0))
