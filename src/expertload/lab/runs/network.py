"""The network of a run: its weights in files, and its predictions.

Weights are in the safetensors format, with facts about them as JSON in the header; reading them
runs no code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from expertload._check import message
from expertload._typing import FloatArray
from expertload.exceptions import FileFormatError, ParameterError
from expertload.lab.data import Dataset, Normalisation, Split
from expertload.lab.data.loader import BatchLoader
from expertload.lab.models import build_model
from expertload.lab.runs.folder import write_whole
from expertload.lab.runs.recipe import ModelConfig, RunConfig


def save_weights(path: Path, weights: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write named tensors, with facts about them that fit in JSON."""
    # Copied, because the format does not support tensors that share memory (tied weights).
    tensors = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in weights.items()
    }
    write_whole(path, save(tensors, metadata={"facts": json.dumps(facts)}))


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


def build_network(model: ModelConfig, data: Dataset) -> nn.Module:
    """Build the network of a recipe for some data, with random weights."""
    return build_model(
        model.name, num_classes=data.num_classes, in_channels=data.image_shape[-1], **model.options
    )


def build_trained_network(
    config: RunConfig, weights: Path, data: Dataset, device: str
) -> nn.Module:
    """Build the network of a run with weights from a file, ready to predict on a device."""
    network = build_network(config.model, data)
    tensors = fill_network(network, weights, config.model.name)
    kinds = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
    dtype = torch.float64 if torch.float64 in kinds else torch.float32
    return network.to(find_device(device), dtype).eval()


def fill_network(network: nn.Module, weights: Path, name: str) -> dict[str, Tensor]:
    """Give a network the weights of a file; return them."""
    tensors, _ = load_weights(weights)
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        reasons = str(error).splitlines()[1:2]  # the first line has only the class name
        raise FileFormatError(
            f"{weights} does not fit the network {name!r}: {' '.join(reasons).strip()}"
        ) from error
    return tensors


def find_device(name: str) -> torch.device:
    """Return a device by name; ``"auto"`` is an accelerator if there is one, or else the CPU."""
    best = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if name == "auto":
        return best or torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ParameterError(f"There is no device {name!r}: {error}") from error
    if device.type not in ("cpu", "meta") and (best is None or best.type != device.type):
        hint = "pass cpu, or auto for an accelerator if there is one"
        raise ParameterError(message("device", "must exist on this machine", repr(name), hint))
    return device


@torch.no_grad()
def apply_network(
    network: nn.Module,
    split: Split,
    normalisation: Normalisation,
    function: Callable[[Tensor], Tensor] | None = None,
    *,
    batch_size: int = 512,
) -> FloatArray:
    """Call a function on all images of a split, in batches and without gradients.

    Parameters
    ----------
    network : Module
        The network; images are moved to its device and precision.
    split : Split
    normalisation : Normalisation
        The normalisation of the training data.
    function : callable, optional
        Maps images (n, channels, height, width) to a tensor with one row per image; by default the
        network itself.
    batch_size : int, default=512

    Returns
    -------
    ndarray
        The rows of the split, in its order.

    Examples
    --------
    >>> from expertload.lab.data import load_dataset
    >>> from expertload.lab.runs.network import apply_network
    >>> from expertload.lab.models import build_model
    >>> digits = load_dataset("digits")
    >>> network = build_model("small-cnn", num_classes=10, in_channels=1).eval()
    >>> apply_network(network, digits.test, digits.normalisation).shape
    (500, 10)
    """
    parameter = next(network.parameters())
    loader = BatchLoader(
        split, batch_size=batch_size, normalisation=normalisation, device=parameter.device
    )
    apply = function or network
    rows = [apply(batch.images.to(parameter.dtype)).cpu().numpy() for batch in loader.epoch(0)]
    return np.concatenate(rows)
