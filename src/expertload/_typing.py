"""The array types used in signatures."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["AnyArray", "ArrayLike", "BoolArray", "FloatArray", "IntArray", "Seed"]

AnyArray: TypeAlias = NDArray[Any]
BoolArray: TypeAlias = NDArray[np.bool_]
IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.floating[Any]]
Seed: TypeAlias = int | np.random.Generator | None
