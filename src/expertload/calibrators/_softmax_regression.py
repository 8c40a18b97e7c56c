"""Multinomial logistic regression on logits, the heart of vector and matrix scaling.

The new logits are linear in the parameters, so a method is described by a `Map`: the linear map
itself, its adjoint, and the squares that the Hessian's diagonal needs. The prior is a quadratic
around the identity. With a positive prior on every parameter the objective is strictly convex and
has one minimum for any data: one case, a missing class, or no error at all.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from expertload._typing import FloatArray, IntArray
from expertload.calibrators._logits import centre, one_hot, softmax
from expertload.calibrators._newton import conjugate_gradient

LARGEST_LOGIT = 1e50
# Products with the Hessian in one Newton step; a direction cut short still leads down.
MAX_PRODUCTS = 100


class Map(Protocol):
    """A map from parameters to one row of logits a case, linear in the parameters."""

    def forward(self, x: FloatArray) -> FloatArray:
        """Return the logits that parameters `x` give."""

    def adjoint(self, rows: FloatArray) -> FloatArray:
        """Return the transpose of `forward` applied to one row a case."""

    def adjoint_squared(self, rows: FloatArray) -> FloatArray:
        """Return `adjoint` with each coefficient squared."""


class Prior(NamedTuple):
    """Half the sum of ``strength * (x - mean)**2`` is added to the mean NLL."""

    mean: FloatArray
    strength: FloatArray


class SoftmaxRegression:
    """Mean NLL plus prior, as a problem for Newton's method."""

    def __init__(self, linear: Map, target: IntArray, weight: FloatArray, prior: Prior) -> None:
        self._linear = linear
        self._prior = prior
        self._target = target
        self._share = weight / weight.sum()

    def value(self, x: FloatArray) -> float:
        """Return the objective."""
        gaps = centre(self._linear.forward(x))
        true_gap = gaps[np.arange(len(gaps)), self._target]
        nll = np.log(np.exp(gaps, out=gaps).sum(axis=1)) - true_gap
        offset = x - self._prior.mean
        return float(self._share @ nll + self._prior.strength @ offset**2 / 2)

    def gradient(self, x: FloatArray) -> FloatArray:
        """Return the objective's gradient."""
        residual = softmax(self._linear.forward(x))
        residual -= one_hot(self._target, residual.shape[1])
        residual *= self._share[:, None]
        prior: FloatArray = self._prior.strength * (x - self._prior.mean)
        return self._linear.adjoint(residual) + prior

    def direction(self, x: FloatArray, gradient: FloatArray) -> FloatArray:
        """Return a Newton direction by conjugate gradients on Hessian products."""
        proba = softmax(self._linear.forward(x))
        share, strength = self._share[:, None], self._prior.strength

        def product(v: FloatArray) -> FloatArray:
            rows = self._linear.forward(v)
            rows -= np.einsum("ij,ij->i", proba, rows)[:, None]
            rows *= proba
            rows *= share
            return self._linear.adjoint(rows) + strength * v

        diagonal = self._linear.adjoint_squared(share * proba * (1 - proba)) + strength
        diagonal = np.maximum(diagonal, max(1e-12 * float(diagonal.max()), 1e-300))
        return conjugate_gradient(
            product, -gradient, diagonal, max_steps=min(2 * len(x), MAX_PRODUCTS)
        )


def bounded(logits: FloatArray) -> FloatArray:
    """Return logits whose squares and products with each other stay finite."""
    return np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT)
