"""Newton's method for smooth convex functions, with a step that always goes down.

The problem provides its value, its gradient and a Newton direction; this module only decides how
far to go and when to stop. The product of gradient and direction is twice the decrease that the
quadratic model predicts. When that is below the rounding of the value, Newton steps converge
quadratically, and one last full step is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from expertload._typing import FloatArray

MAX_ITERATIONS = 200
MAX_HALVINGS = 60
# A predicted decrease, relative to the value, below the rounding of the value.
UNSEEN = 1e-13


class Problem(Protocol):
    """A smooth convex function of a vector."""

    def value(self, x: FloatArray) -> float:
        """Return the function at `x`."""

    def gradient(self, x: FloatArray) -> FloatArray:
        """Return its gradient at `x`."""

    def direction(self, x: FloatArray, gradient: FloatArray) -> FloatArray:
        """Return a descent direction, near minus the inverse Hessian times the gradient."""


class Minimum(NamedTuple):
    """The best point found, whether it is a minimum, and the steps it took."""

    x: FloatArray
    converged: bool
    n_iter: int


def minimise(problem: Problem, start: FloatArray) -> Minimum:
    """Return the minimum of a convex problem."""
    x, value = start, problem.value(start)
    for iteration in range(MAX_ITERATIONS):
        gradient = problem.gradient(x)
        direction = problem.direction(x, gradient)
        promise = -float(gradient @ direction)
        if promise <= UNSEEN * max(1.0, abs(value)):
            return Minimum(x + direction, True, iteration + 1)
        step = _line_search(problem, x, value, direction, promise)
        if step is None:
            return Minimum(x, False, iteration)
        x, value = step
    return Minimum(x, False, MAX_ITERATIONS)


def _line_search(
    problem: Problem, x: FloatArray, value: float, direction: FloatArray, promise: float
) -> tuple[FloatArray, float] | None:
    """Halve the step until it keeps a small part of what the slope promises."""
    length = 1.0
    for _ in range(MAX_HALVINGS):
        candidate = x + length * direction
        reached = problem.value(candidate)
        if reached < value - 1e-4 * length * promise:
            return candidate, reached
        length /= 2
    return None


def conjugate_gradient(
    product: Callable[[FloatArray], FloatArray],
    right: FloatArray,
    diagonal: FloatArray,
    *,
    max_steps: int,
) -> FloatArray:
    """Solve ``A x = right`` roughly, given products with A and A's diagonal.

    The tolerance tightens with the square root of the right side's size, which makes the outer
    Newton iteration converge faster than linearly.
    """
    x = np.zeros_like(right)
    residual = right.copy()
    scaled = residual / diagonal
    search, energy = scaled.copy(), float(residual @ scaled)
    goal = energy * min(0.1, energy**0.5) ** 2
    for _ in range(max_steps):
        image = product(search)
        curvature = float(search @ image)
        if energy <= goal or curvature <= 0:
            break
        x += energy / curvature * search
        residual -= energy / curvature * image
        scaled = residual / diagonal
        previous, energy = energy, float(residual @ scaled)
        search = scaled + energy / previous * search
    return x
