"""Uses numpy for arrays in the memory of the CPU, and torch for those of an accelerator.

The area needs a few dozen operations on one number per sample. For a batch of some hundreds, the
overhead of the calls dominates. It is several times less in numpy, and numpy's sorts are faster at
any size. So the code uses only operators and functions that both libraries have under the same
name. The few exceptions are here.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

__all__ = [
    "Array",
    "as_index",
    "as_mask",
    "as_working",
    "at_least",
    "at_most",
    "deposit",
    "erfc",
    "in_rows",
    "integers_below",
    "namespace",
    "new_zeros",
    "on_host",
    "sorted_values",
]

Array: TypeAlias = Any
"""A numpy array or a tensor of an accelerator."""

HOST_TYPES = (np.ndarray, np.generic)


def on_host(array: Array) -> bool:
    """Whether values can be read without making an accelerator wait."""
    return isinstance(array, HOST_TYPES)


def namespace(array: Array) -> ModuleType:
    """Return the module whose functions apply to an array: numpy or torch."""
    return np if on_host(array) else torch


def as_working(tensor: Tensor) -> Array:
    """Return the tensor in double precision (where the device has it), never sharing its memory."""
    if tensor.device.type == "cpu":
        return tensor.numpy().astype(np.float64)
    return tensor.to(torch.float32 if tensor.device.type == "mps" else torch.float64, copy=True)


def as_mask(tensor: Tensor) -> Array:
    """Return a boolean tensor as an array."""
    return tensor.numpy() if tensor.device.type == "cpu" else tensor


def new_zeros(like: Array, *shape: int) -> Array:
    """Return zeros of the kind of `like`."""
    return np.zeros(shape, dtype=like.dtype) if on_host(like) else like.new_zeros(shape)


def in_rows(first: Array, second: Array) -> Array:
    """Stack two arrays of the same shape, with less overhead than ``numpy.stack``."""
    if on_host(first):
        return np.array((first, second))
    return torch.stack((first, second))


def at_least(array: Array, bound: Array) -> Array:
    """Return the larger of each value and the bound."""
    return np.maximum(array, bound) if on_host(array) else array.clamp(min=bound)


def at_most(array: Array, bound: Array) -> Array:
    """Return the smaller of each value and the bound."""
    return np.minimum(array, bound) if on_host(array) else array.clamp(max=bound)


def integers_below(stop: int, like: Array) -> Array:
    """Return 0, 1, ... as floating point numbers of the kind of `like`."""
    if on_host(like):
        return np.arange(stop, dtype=like.dtype)
    return torch.arange(stop, dtype=like.dtype, device=like.device)


def as_index(position: Array) -> Array:
    """Return positions, which are not negative, rounded down to integers."""
    return position.astype(np.int64) if on_host(position) else position.long()


def sorted_values(values: Array) -> Array:
    """Return the values in ascending order."""
    return np.sort(values) if on_host(values) else values.sort().values


def deposit(cell: Array, values: Array, size: int) -> Array:
    """Add up the values of each cell."""
    if on_host(values):
        return np.bincount(cell, values, size)
    # torch.bincount would wait for the largest cell number.
    return values.new_zeros(size).index_add_(0, cell, values)


def erfc(z: Array) -> Array:
    """Return the complementary error function."""
    if on_host(z):
        return torch.special.erfc(torch.from_numpy(z)).numpy()  # vectorised, unlike scipy's
    return torch.special.erfc(z)
