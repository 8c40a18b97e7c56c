"""Whether values can be looked at without making an accelerator wait."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["on_host", "working_dtype"]


def on_host(tensor: Tensor) -> bool:
    """Whether the tensor lives in the memory of the CPU."""
    return tensor.device.type == "cpu"


def working_dtype(tensor: Tensor) -> torch.dtype:
    """Double precision for the few numbers a sample that the area needs, where there is such."""
    return torch.float32 if tensor.device.type == "mps" else torch.float64
