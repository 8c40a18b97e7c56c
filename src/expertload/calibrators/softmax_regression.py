"""Multinomial logistic regression on logits, used by vector and matrix scaling.

The new logits are linear in the parameters, so a method is described by a `Map`: the linear map
itself, its adjoint, and the squares that the Hessian's diagonal needs. The prior is a quadratic
around the identity. With a positive prior on every parameter the objective is strictly convex and
has one minimum for any data: one case, a missing class, or no error at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from expertload._typing import FloatArray, IntArray
from expertload.calibrators.logits import centre, softmax
from expertload.calibrators.newton import conjugate_gradient

LARGEST_LOGIT = 1e50
# The largest number of Hessian products per Newton step; fewer still give a descent direction.
MAX_PRODUCTS = 100
BLOCK_VALUES = 2**18


class Map(Protocol):
    """A map from parameters to one row of logits per case, linear in the parameters."""

    def forward(self, x: FloatArray) -> FloatArray:
        """Return the logits that parameters `x` give."""

    def adjoint(self, rows: FloatArray) -> FloatArray:
        """Return the transpose of `forward` applied to one row per case."""

    def adjoint_squared(self, rows: FloatArray) -> FloatArray:
        """Return `adjoint` with each coefficient squared."""


class Prior(NamedTuple):
    """Half the sum of ``strength * (x - mean)**2`` is added to the mean NLL."""

    mean: FloatArray
    strength: FloatArray


class SoftmaxRegression:
    """Mean NLL plus prior, as a problem for Newton's method.

    Cases are visited in blocks small enough for the processor's cache; `make_map` builds the map
    of a block from its logits.
    """

    def __init__(
        self,
        make_map: Callable[[FloatArray], Map],
        logits: FloatArray,
        target: IntArray,
        weight: FloatArray,
        prior: Prior,
    ) -> None:
        n_rows = max(1, BLOCK_VALUES // logits.shape[1])
        starts = range(0, len(logits), n_rows)
        slices = [slice(start, start + n_rows) for start in starts]
        share = weight / weight.sum()
        self._blocks = [_Block(make_map(logits[s]), target[s], share[s]) for s in slices]
        self._prior = prior

    def value(self, x: FloatArray) -> float:
        """Return the objective."""
        nll = sum(block.value(x) for block in self._blocks)
        return nll + float(self._prior.strength @ (x - self._prior.mean) ** 2) / 2

    def gradient(self, x: FloatArray) -> FloatArray:
        """Return the objective's gradient."""
        total: FloatArray = self._prior.strength * (x - self._prior.mean)
        for block in self._blocks:
            total += block.gradient(x)
        return total

    def direction(self, x: FloatArray, gradient: FloatArray) -> FloatArray:
        """Return a Newton direction by conjugate gradients on Hessian products."""
        proba = [softmax(block.linear.forward(x)) for block in self._blocks]
        diagonal = self._prior.strength.copy()
        for block, p in zip(self._blocks, proba, strict=True):
            diagonal += block.hessian_diagonal(p)
        diagonal = np.maximum(diagonal, max(1e-12 * float(diagonal.max()), 1e-300))

        def product(v: FloatArray) -> FloatArray:
            total: FloatArray = self._prior.strength * v
            for block, p in zip(self._blocks, proba, strict=True):
                total += block.hessian_product(p, v)
            return total

        max_steps = min(2 * len(x), MAX_PRODUCTS)
        return conjugate_gradient(product, -gradient, diagonal, max_steps=max_steps)


class _Block(NamedTuple):
    """Some of the cases: their map, their classes and their shares of all weight."""

    linear: Map
    target: IntArray
    share: FloatArray

    def value(self, x: FloatArray) -> float:
        gaps = centre(self.linear.forward(x))
        true_gap = gaps[np.arange(len(gaps)), self.target]
        nll = np.log(np.exp(gaps, out=gaps).sum(axis=1)) - true_gap
        return float(self.share @ nll)

    def gradient(self, x: FloatArray) -> FloatArray:
        residual = softmax(self.linear.forward(x))
        residual[np.arange(len(residual)), self.target] -= 1.0
        residual *= self.share[:, None]
        return self.linear.adjoint(residual)

    def hessian_product(self, proba: FloatArray, v: FloatArray) -> FloatArray:
        rows = self.linear.forward(v)
        rows -= np.einsum("ij,ij->i", proba, rows)[:, None]
        rows *= proba
        rows *= self.share[:, None]
        return self.linear.adjoint(rows)

    def hessian_diagonal(self, proba: FloatArray) -> FloatArray:
        return self.linear.adjoint_squared(self.share[:, None] * proba * (1 - proba))


def bounded(logits: FloatArray) -> FloatArray:
    """Return logits whose squares and products with each other stay finite."""
    return np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT)
