"""A stand-in for an accelerator: tensors that say they are elsewhere, and compute on the CPU.

Their device is ``meta``, which needs no driver, but they have numbers. As on an accelerator, an
operation on tensors of two devices is an error, unless it copies or one of them is a single number.
"""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

DEVICE = torch.device("meta")
COPIES = {
    "aten._to_copy.default",
    "aten.copy_.default",
    "aten.index.Tensor",
    "aten.index_put_.default",
}


class Elsewhere(torch.Tensor):
    """A tensor on the stand-in."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=DEVICE,
            requires_grad=inner.requires_grad,
        )

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return f"Elsewhere({self.inner!r})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return compute(func, args, kwargs or {})


class Accelerator(TorchDispatchMode):
    """Makes new tensors of the device meta stand-ins too."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return compute(func, args, kwargs or {})


def compute(func, args, kwargs):
    leaves, _ = tree_flatten((args, kwargs))
    ours = {id(leaf.inner): leaf for leaf in leaves if isinstance(leaf, Elsewhere)}
    here = [t for t in leaves if isinstance(t, torch.Tensor) and not isinstance(t, Elsewhere)]
    if ours and any(t.ndim for t in here) and str(func) not in COPIES:
        raise RuntimeError(f"{func}: expected all tensors to be on the same device")
    wanted = kwargs.get("device")
    if wanted is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    args, kwargs = tree_map(lambda t: t.inner if isinstance(t, Elsewhere) else t, (args, kwargs))
    found = func(*args, **kwargs)
    is_elsewhere = bool(ours) if wanted is None else torch.device(wanted) == DEVICE

    def wrapped(value):
        if not isinstance(value, torch.Tensor) or not is_elsewhere:
            return value
        return ours[id(value)] if id(value) in ours else Elsewhere(value)

    flat, spec = tree_flatten(found)
    return tree_unflatten([wrapped(value) for value in flat], spec)


def to_accelerator(tensor):
    """Return a copy on the stand-in."""
    return Elsewhere(tensor.detach().clone()).requires_grad_(tensor.requires_grad)


def to_cpu(tensor):
    """Return the numbers of a tensor."""
    return tensor.detach().inner if isinstance(tensor.detach(), Elsewhere) else tensor.detach()
