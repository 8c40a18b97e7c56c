"""Named tensors in a file, with facts about them: safetensors, with JSON in the header.

Reading one runs no code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from expertload.exceptions import FileFormatError
from expertload.lab.runs.folder import write_whole

__all__ = ["load_weights", "save_weights"]


def save_weights(path: Path, weights: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write named tensors, with facts about them that fit in JSON."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    content = save(_with_own_memory(tensors), metadata={"facts": json.dumps(facts)})
    write_whole(path, content)


def _with_own_memory(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Give each tensor its own memory, because the format does not support tied weights."""
    taken: set[int] = set()
    apart = {}
    for name, tensor in tensors.items():
        place = tensor.untyped_storage().data_ptr()
        apart[name] = tensor.clone() if place in taken else tensor
        taken.add(place)
    return apart


def load_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a file of `save_weights`."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            facts = json.loads((file.metadata() or {})["facts"])
            if not isinstance(facts, dict):
                raise ValueError("its header has no facts")
            return tensors, facts
    except FileNotFoundError:
        raise FileFormatError(f"There are no weights at {path}.") from None
    except (SafetensorError, KeyError, ValueError, RecursionError, OSError) as error:
        raise FileFormatError(
            f"{path} is damaged or not a checkpoint: {error}. Hint: remove it to start over."
        ) from error
