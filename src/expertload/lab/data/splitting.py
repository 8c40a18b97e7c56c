"""Splits of images that are the same on every machine, with each class in proportion.

The order inside each class comes from the raw stream of a seeded bit generator, which numpy
keeps fixed between versions, so a split made today is the split made in ten years.
"""

from __future__ import annotations

import numpy as np

from expertload._typing import AnyArray, IntArray

__all__ = ["carve", "long_tail_counts", "pick_of_each_class", "stratified_holdout"]

from expertload.lab.data.dataset import Split


def pick_of_each_class(labels: IntArray, counts: IntArray, seed: int) -> IntArray:
    """Return the indices, ascending, of ``counts[c]`` random members of each class c.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.data.splitting import pick_of_each_class
    >>> labels = np.array([0, 0, 0, 1, 1, 1])
    >>> labels[pick_of_each_class(labels, np.array([2, 1]), seed=0)]
    array([0, 0, 1])
    """
    shuffled = np.lexsort((np.random.default_rng(seed).random(len(labels)), labels))
    sizes = np.bincount(labels, minlength=len(counts))
    first = np.cumsum(sizes) - sizes
    grouped = labels[shuffled]
    rank = np.arange(len(labels)) - first[grouped]
    return np.sort(shuffled[rank < counts[grouped]])


def stratified_holdout(labels: IntArray, share: float, seed: int) -> tuple[IntArray, IntArray]:
    """Split indices in two, each class in proportion.

    Parameters
    ----------
    labels : ndarray of int64
    share : float
        The part to hold out; the total is rounded to the nearest whole number.
    seed : int

    Returns
    -------
    kept, held_out : ndarrays of int64, ascending

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.data.splitting import stratified_holdout
    >>> kept, held_out = stratified_holdout(np.repeat([0, 1], 10), 0.2, seed=0)
    >>> len(kept), len(held_out)
    (16, 4)
    """
    wanted = np.bincount(labels) * share
    quota = np.floor(wanted).astype(np.int64)
    missing = round(len(labels) * share) - int(quota.sum())
    # The remainder from rounding down goes to the classes that lost most.
    quota[np.argsort(quota - wanted, kind="stable")[:missing]] += 1
    held_out = pick_of_each_class(labels, quota, seed)
    return np.setdiff1d(np.arange(len(labels)), held_out), held_out


def carve(split: Split, share: float, seed: int) -> tuple[Split, Split]:
    """Split images in two, each class in proportion; see `stratified_holdout`."""
    kept, held_out = stratified_holdout(split.labels, share, seed)
    return split.take(kept), split.take(held_out)


def long_tail_counts(largest: int, num_classes: int, imbalance: float) -> IntArray:
    """Return the number of images each class keeps, so that sizes fall exponentially.

    Class c of C keeps ``largest * imbalance ** (-c / (C - 1))``, rounded down, but at least one
    (Cui et al., CVPR 2019).

    Examples
    --------
    >>> from expertload.lab.data.splitting import long_tail_counts
    >>> long_tail_counts(500, 3, 100)
    array([500,  50,   5])
    """
    steps: AnyArray = np.arange(num_classes) / max(num_classes - 1, 1)
    # The small addition keeps 50 from becoming 49.999...
    return np.maximum(np.floor(largest * imbalance**-steps + 1e-9), 1).astype(np.int64)
