"""What a run is trained on and with, for the record: machine, packages and the data themselves."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from expertload.lab.data import Dataset

__all__ = ["describe_environment"]

PACKAGES = ("expertload", "torch", "lightning", "numpy", "scipy")


def describe_environment(
    device: torch.device, *, processes: int, dataset: Dataset
) -> dict[str, Any]:
    """Describe what this process, one of so many, trains with, in words that fit in JSON."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "processes": processes,
        "data": {"source": dataset.source, "sha256": dataset.checksum()},
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
