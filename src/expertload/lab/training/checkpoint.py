"""Saves everything a run needs to resume exactly, in one file.

Tensors are in the safetensors format and all else is JSON in its header, so reading a checkpoint
runs no code. One file means one atomic replacement: there is no moment at which weights and
optimiser, or model and history, disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from expertload.exceptions import FileFormatError
from expertload.lab.runs.weights import load_weights, save_weights

__all__ = [
    "Checkpoint",
    "generator_state",
    "load_checkpoint",
    "restore_generator",
    "save_checkpoint",
]


class Checkpoint(NamedTuple):
    """The state of a run; generators are stored by process."""

    model: dict[str, Tensor]
    averaged: dict[str, Tensor]
    loss: dict[str, Tensor]
    optimiser: dict[str, Any]
    generators: dict[int, Tensor]
    progress: dict[str, Any]


def save_checkpoint(
    path: Path,
    *,
    model: Mapping[str, Tensor],
    averaged: Mapping[str, Tensor],
    loss: Mapping[str, Tensor],
    optimiser: Mapping[str, Any],
    generators: Sequence[Tensor],
    progress: Mapping[str, Any],
) -> None:
    """Write the state of a run.

    `averaged` is the mean of the weights, or empty. `loss` is the state of the loss, which is
    usually empty. `optimiser` is the ``state_dict`` of the optimiser, `generators` has one state
    per process, and `progress` is any JSON content.
    """
    tensors = {f"model/{name}": tensor for name, tensor in model.items()}
    tensors |= {f"averaged/{name}": tensor for name, tensor in averaged.items()}
    tensors |= {f"loss/{name}": tensor for name, tensor in loss.items()}
    tensors |= {f"generator/{rank}": state for rank, state in enumerate(generators)}
    scalars: dict[str, Any] = {}
    for index, state in optimiser["state"].items():
        for key, value in state.items():
            if isinstance(value, Tensor):
                tensors[f"optimiser/{index}/{key}"] = value
            else:
                scalars[f"{index}/{key}"] = value
    facts = {
        "progress": progress,
        "optimiser": {"groups": optimiser["param_groups"], "scalars": scalars},
    }
    save_weights(path, tensors, facts)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a file of `save_checkpoint`."""
    tensors, facts = load_weights(path)
    try:
        return _checkpoint_from(tensors, facts)
    except (KeyError, ValueError, TypeError) as error:
        raise FileFormatError(
            f"{path} is not the checkpoint of a run. Hint: remove it to start over."
        ) from error


def _checkpoint_from(tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> Checkpoint:
    """Return tensors and facts as a checkpoint."""
    model: dict[str, Tensor] = {}
    averaged: dict[str, Tensor] = {}
    loss: dict[str, Tensor] = {}
    generators: dict[int, Tensor] = {}
    state: dict[int, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        kind, _, rest = name.partition("/")
        if kind == "model":
            model[rest] = tensor
        elif kind == "averaged":
            averaged[rest] = tensor
        elif kind == "loss":
            loss[rest] = tensor
        elif kind == "generator":
            generators[int(rest)] = tensor
        else:
            index, _, key = rest.partition("/")
            state.setdefault(int(index), {})[key] = tensor
    for name, value in facts["optimiser"]["scalars"].items():
        index, _, key = name.partition("/")
        state.setdefault(int(index), {})[key] = value
    groups = [_with_tuples(group) for group in facts["optimiser"]["groups"]]
    return Checkpoint(
        model,
        averaged,
        loss,
        {"state": state, "param_groups": groups},
        generators,
        facts["progress"],
    )


def _with_tuples(group: Mapping[str, Any]) -> dict[str, Any]:
    """Turn lists back into tuples, which JSON lacks and optimisers need (Adam's betas)."""
    return {
        key: tuple(value) if isinstance(value, list) and key != "params" else value
        for key, value in group.items()
    }


def generator_state(device: torch.device) -> Tensor:
    """Return the state of torch's global generator, which dropout and similar layers use."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def restore_generator(state: Tensor, device: torch.device) -> None:
    """Restore the state that `generator_state` returned."""
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
