"""How many independent cases tell as much as weighted or clustered ones.

Weights that differ make cases count for less: Kish's number of cases is the squared sum of the
weights over the sum of their squares. Cases of one cluster, for example of one patient, resemble
each other. How much follows from the cases: let D_g be the sum over a cluster of w (c - a), with w
the weight, c the correctness and a the accuracy. Independent cases would give the accuracy a
variance of sum w^2 (c - a)^2, clusters give it sum D_g^2, both over the squared sum of the weights.
Their ratio is the design effect, by which the number of cases is divided. If the cases of a cluster
were all alike, Kish's number of clusters would be left, so the quotient is kept between that and
the number of cases. Clusters of one case each are independent cases.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from expertload._cases import Cases
from expertload._typing import FloatArray, IntArray
from expertload.tally import Tally

__all__ = ["effective_size", "effective_size_of_rate", "effective_sizes_along_curve", "per_cluster"]

# Squares of differences below this share of the weight are rounding: all cases are equally right.
NO_SPREAD = 1e-12


def effective_size(
    n: int, weight: FloatArray | None = None, cluster: IntArray | None = None
) -> float:
    """Return Kish's effective number of cases; of clusters, if there are any."""
    if weight is None and cluster is None:
        return float(n)
    relative = _relative(n, weight)
    return _kish(relative if cluster is None else per_cluster(relative, cluster))


def effective_size_of_rate(cases: Cases) -> float:
    """Return how many independent cases tell as much about the accuracy over all cases."""
    n = len(cases.correct)
    most = effective_size(n, cases.weight)
    if cases.cluster is None or _are_single(cases.cluster):
        return most
    weight = _relative(n, cases.weight)
    correct = cases.correct.astype(np.float64)
    gap = weight * (correct - np.average(correct, weights=weight))
    together = per_cluster(gap, cases.cluster)
    fewest = effective_size(n, weight, cases.cluster)
    return float(_divided(fewest, most, gap @ gap, together @ together, weight @ weight))


def effective_sizes_along_curve(table: Tally, cases: Cases) -> FloatArray:
    """Return the same for the cases accepted at each threshold of a tally, O(n log n)."""
    if cases.cluster is None and cases.weight is None:
        return table.accepted
    weight = _relative(len(cases.correct), cases.weight)
    present = np.flatnonzero(weight > 0)
    row = np.searchsorted(table.confidence, cases.confidence[present])
    order = present[np.argsort(row, kind="stable")[::-1]]  # from the highest confidence down
    n_accepted = np.cumsum(np.bincount(row, minlength=len(table.confidence))[::-1])[::-1]
    end = n_accepted - 1
    weight = weight[order]
    total = np.cumsum(weight)[end]
    # As a length, by `hypot`, in which the squares of very small weights do not vanish.
    most: FloatArray = (total / np.hypot.accumulate(weight)[end]) ** 2
    if cases.cluster is None or _are_single(cases.cluster):
        return most
    wrong = weight * (1 - cases.correct[order].astype(np.float64))
    rate = np.cumsum(wrong)[end] / total
    none = np.zeros_like(weight)
    alone = _running_squares(weight, wrong, none, none, end)
    cluster = cases.cluster[order]
    together = _running_squares(
        weight, wrong, _before(weight, cluster), _before(wrong, cluster), end
    )
    known = together.weight > 0
    fewest = np.divide(total**2, together.weight, out=np.ones_like(total), where=known)
    return _divided(fewest, most, alone.spread(rate), together.spread(rate), alone.weight)


class _Squares(NamedTuple):
    """Sums over clusters, of those accepted at each threshold."""

    weight: FloatArray  # of squared weights
    mixed: FloatArray  # of weights times weights of errors
    wrong: FloatArray  # of squared weights of errors

    def spread(self, rate: FloatArray) -> FloatArray:
        """The sum of squared differences from an error rate; errors are few, so little cancels."""
        spread: FloatArray = self.wrong - 2 * rate * self.mixed + rate**2 * self.weight
        return spread


def _running_squares(
    weight: FloatArray,
    wrong: FloatArray,
    weight_before: FloatArray,
    wrong_before: FloatArray,
    end: IntArray,
) -> _Squares:
    """Return the sums at the end of each row; a case adds to what its cluster has before it."""
    return _Squares(
        np.cumsum((2 * weight_before + weight) * weight)[end],
        np.cumsum(wrong_before * weight + weight_before * wrong + weight * wrong)[end],
        np.cumsum((2 * wrong_before + wrong) * wrong)[end],
    )


def _before(values: FloatArray, cluster: IntArray) -> FloatArray:
    """Return the sum over the earlier cases of each case's cluster."""
    order = np.argsort(cluster, kind="stable")
    earlier = np.cumsum(values[order]) - values[order]
    starts = np.flatnonzero(np.diff(cluster[order], prepend=-1))
    earlier -= np.repeat(earlier[starts], np.diff(starts, append=len(order)))
    found = np.empty_like(values)
    found[order] = earlier
    return found


def _are_single(cluster: IntArray) -> bool:
    """Whether each case is a cluster of its own."""
    return int(np.bincount(cluster).max()) == 1


def per_cluster(values: FloatArray, cluster: IntArray) -> FloatArray:
    """Return the sum of each cluster."""
    return np.bincount(cluster, weights=values).astype(np.float64, copy=False)


def _divided(
    fewest: float | FloatArray,
    most: float | FloatArray,
    alone: float | FloatArray,
    together: float | FloatArray,
    scale: float | FloatArray,
) -> FloatArray:
    """Divide the number of cases by the design effect; without any spread, clusters are counted."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.clip(most * np.divide(alone, together), fewest, most)
    found = np.where(np.asarray(alone) > NO_SPREAD * np.asarray(scale), found, fewest)
    # The spread is estimated from so many clusters: Student's t varies more than the normal.
    known = np.maximum(np.asarray(fewest) - 3, 0) / np.maximum(np.asarray(fewest) - 1, 1)
    sizes: FloatArray = np.maximum(known * found, 1.0)
    return sizes


def _relative(n: int, weight: FloatArray | None) -> FloatArray:
    """Return the weight of each case, at most 1, so that squares do not overflow."""
    relative: FloatArray = np.ones(n) if weight is None else weight / weight.max()
    return relative


def _kish(weight: FloatArray) -> float:
    return float(weight.sum() ** 2 / (weight @ weight))
