"""Roots that stay differentiable at zero, where a perfectly calibrated batch sits."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["safe_root"]


def safe_root(value: Tensor, degree: float = 2, *, floor: float = 0.0) -> Tensor:
    """Return ``value ** (1 / degree)``; at or below `floor` the root and its gradient are zero.

    The plain root has an infinite slope at zero, which turns into NaN once it is multiplied by
    the zero slope of what is under it. The root of a sum of powers is a norm: zero belongs to its
    subgradient at zero.
    """
    positive = value > floor
    root = torch.where(positive, value, torch.ones_like(value)) ** (1 / degree)
    return torch.where(positive, root, torch.zeros_like(root))
