"""The certified load: certify a threshold on one half of the test cases, measure it on the other.

No step of the ladder is chosen on test cases, so a threshold certified on some of them keeps its
guarantee. Its load is measured on cases that were not used to certify it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from expertload._typing import FloatArray, IntArray
from expertload.operating_point import CertifiedPoint, certify

__all__ = ["CertifiedLoad", "certified_load", "halves"]


def halves(n: int) -> tuple[IntArray, IntArray]:
    """Split n cases into two random halves; if n is odd, the second half has one more.

    Each half is a simple random sample, so independent cases stay independent.

    Examples
    --------
    >>> from expertload.lab.ladder.certified import halves
    >>> [len(half) for half in halves(7)]
    [3, 4]
    """
    # The raw stream of a seeded generator is the same in every version of numpy.
    order = np.argsort(np.random.default_rng(0).random(n), kind="stable")
    return np.sort(order[: n // 2]), np.sort(order[n // 2 :])


class CertifiedLoad(NamedTuple):
    """The effect of a threshold on one half of the test cases, certified on the other half.

    Attributes
    ----------
    point : CertifiedPoint
        The point certified on the first half.
    load : float
        The share of the second half that is delegated; 1 if nothing was certified.
    accuracy : float
        The accuracy of the automatic decisions there; NaN if there are none.
    """

    point: CertifiedPoint
    load: float
    accuracy: float


def certified_load(labels: IntArray, proba: FloatArray, *, target_accuracy: float) -> CertifiedLoad:
    """Certify a threshold on one half of the test cases, and measure it on the other.

    Parameters
    ----------
    labels : ndarray of int64, shape (n,)
        Column numbers.
    proba : ndarray, shape (n, classes)
    target_accuracy : float

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
    first, second = halves(len(labels))
    point = certify(
        labels[first],
        proba[first],
        target_accuracy=target_accuracy,
        labels=np.arange(proba.shape[1]),
    )
    accepted = point.accepts(proba[second].max(axis=1))
    right = proba[second].argmax(axis=1) == labels[second]
    accuracy = float(right[accepted].mean()) if accepted.any() else float("nan")
    return CertifiedLoad(point, float(1 - accepted.mean()), accuracy)
