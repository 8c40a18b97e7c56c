"""The certified load: one half of the test cases certifies a threshold, the other measures it.

No step of the ladder is chosen by test cases, so a threshold that is certified on some of them
keeps its guarantee. The load that it then has is read from cases that it has not seen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from expertload._typing import FloatArray, IntArray
from expertload.operating_point import CertifiedPoint, certify

__all__ = ["CertifiedLoad", "certified_load", "halves"]


def halves(n: int, seed: int = 0) -> tuple[IntArray, IntArray]:
    """Divide n cases in two at random; of an odd number, the second half has one more.

    Each half is a simple random sample, so cases that were independent stay so.

    Examples
    --------
    >>> from expertload.lab.ladder.certified import halves
    >>> [len(half) for half in halves(7)]
    [3, 4]
    """
    # The raw stream of a seeded generator is the same in every version of numpy.
    order = np.argsort(np.random.default_rng(seed).random(n), kind="stable")
    return np.sort(order[: n // 2]), np.sort(order[n // 2 :])


class CertifiedLoad(NamedTuple):
    """What a threshold that one half of the test cases certified does to the other half.

    Attributes
    ----------
    point : CertifiedPoint
        The point certified on the first half.
    load : float
        The share of the second half that is delegated: all of it if nothing was certified.
    accuracy : float
        The accuracy of the automatic decisions there; NaN if there are none.
    """

    point: CertifiedPoint
    load: float
    accuracy: float


def certified_load(
    labels: IntArray,
    proba: FloatArray,
    *,
    target_accuracy: float,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> CertifiedLoad:
    """Certify a threshold on one half of the test cases, and see on the other what it does.

    Parameters
    ----------
    labels : ndarray of int64, shape (n,)
        Column numbers.
    proba : ndarray, shape (n, classes)
    target_accuracy : float
    confidence_level : float, default=0.95
    seed : int, default=0
        The seed of the division.

    Returns
    -------
    CertifiedLoad

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.ladder.certified import certified_load
    >>> rng = np.random.default_rng(0)
    >>> proba = rng.dirichlet(np.full(3, 0.2), size=2000)
    >>> labels = (proba.cumsum(axis=1) > rng.random((2000, 1))).argmax(axis=1)
    >>> found = certified_load(labels, proba, target_accuracy=0.9)
    >>> print(f"load {found.load:.2f}, accuracy {found.accuracy:.2f}")
    load 0.35, accuracy 0.92
    """
    first, second = halves(len(labels), seed)
    point = certify(
        labels[first],
        proba[first],
        target_accuracy=target_accuracy,
        confidence_level=confidence_level,
        labels=np.arange(proba.shape[1]),
    )
    accepted = proba[second].max(axis=1) >= point.threshold
    right = proba[second].argmax(axis=1) == labels[second]
    accuracy = float(right[accepted].mean()) if accepted.any() else float("nan")
    return CertifiedLoad(point, float(1 - accepted.mean()), accuracy)
