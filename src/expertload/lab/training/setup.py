"""What training starts with: processes, the network and optimiser on them, loaders, a record."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from expertload.exceptions import ParameterError
from expertload.lab.data import Dataset, Split
from expertload.lab.data.loader import BatchLoader
from expertload.lab.runs.origin import sources_of
from expertload.lab.runs.recipe import RunConfig, TrainingConfig
from expertload.lab.training.processes import synchronise_batch_norm

if TYPE_CHECKING:
    from lightning.fabric import Fabric

PACKAGES = ("expertload", "torch", "lightning", "numpy", "scipy")


def launch_fabric(precision: str, accelerator: str, devices: int, nodes: int) -> Fabric:
    """Start the processes that train together, on the requested devices."""
    from lightning.fabric import Fabric  # imported here, because it takes seconds

    if "TORCHELASTIC_RUN_ID" in os.environ:
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    try:
        fabric = Fabric(
            accelerator=accelerator,
            devices=devices,
            num_nodes=nodes,
            strategy="ddp" if devices * nodes > 1 else "auto",
            precision=precision,  # type: ignore[arg-type]
        )
    except (ValueError, RuntimeError) as error:
        raise ParameterError(
            f"Cannot train on {devices} x {accelerator!r} in precision {precision!r}: {error}"
        ) from error
    fabric.launch()
    torch.backends.cudnn.benchmark = False  # would choose kernels by timing, so that runs differ
    torch.backends.cudnn.deterministic = True
    return fabric


def prepare(
    model: nn.Module, training: TrainingConfig, fabric: Fabric
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Make the optimiser, and move network and optimiser to the devices."""
    # Convolutions are fastest if channels are next to each other in memory: it saves a sixth to a
    # quarter of a ResNet-20's step on a CPU.
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if fabric.world_size > 1:
        model = synchronise_batch_norm(model)
    if training.compile:
        model = torch.compile(model)  # type: ignore[assignment]
    optimiser: torch.optim.Optimizer
    if training.optimiser == "sgd":
        optimiser = torch.optim.SGD(
            model.parameters(),
            lr=training.learning_rate,
            momentum=training.momentum,
            nesterov=training.nesterov,
            weight_decay=training.weight_decay,
        )
    else:
        optimiser = torch.optim.Adam(
            model.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
        )
    model, optimiser = fabric.setup(model, optimiser)
    return model, optimiser


def make_loaders(config: RunConfig, dataset: Dataset, fabric: Fabric) -> dict[str, BatchLoader]:
    """Make the loader of each split."""

    def loader(split: Split, batch_size: int, **options: Any) -> BatchLoader:
        return BatchLoader(
            split,
            batch_size=batch_size,
            normalisation=dataset.normalisation,
            rank=fabric.global_rank,
            world_size=fabric.world_size,
            device=fabric.device,
            **options,
        )

    training = config.training
    return {
        "train": loader(
            dataset.train,
            training.batch_size,
            shuffle=True,
            seed=config.seed,
            augmentation=dataset.augmentation,
            drop_last=training.drop_last,
        ),
        "validation": loader(dataset.validation, training.evaluation_batch_size),
        "test": loader(dataset.test, training.evaluation_batch_size),
    }


def refuse_no_batches(n_images: int, training: TrainingConfig) -> None:
    """Raise if no batch is left without the small last one."""
    if training.drop_last and n_images < training.batch_size:
        raise ParameterError(
            f"There are no batches to train on: {n_images} images are too few for a batch of "
            f"{training.batch_size}, and training.drop_last skips smaller batches. Hint: "
            f"choose a training.batch_size of at most {n_images}."
        )


def describe_environment(
    device: torch.device,
    *,
    processes: int,
    dataset: Dataset,
    config: RunConfig,
    changed: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the environment of this process: machine, devices and versions, for JSON."""
    sources = sources_of(config)
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "processes": processes,
        "data": {
            "source": dataset.source,
            "sha256": dataset.checksum(),
            **dataset.description(),
        },
        **({"sources": sources} if sources else {}),
        **({"set": list(changed)} if changed else {}),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
