"""What training starts with: processes, the network and optimiser on them, loaders, a record.

``torch.nn.SyncBatchNorm`` works only on GPUs. The batch normalisation here is built from
differentiable reductions, so that two processes on CPUs train to the weights that one process
would. GPUs use it too, so the code that is tested on CPUs is the code that runs on GPUs.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce  # the sum; so is that of its gradients
from torch.nn.modules.batchnorm import _BatchNorm

from expertload.exceptions import ParameterError
from expertload.lab.data import Dataset
from expertload.lab.data.loader import BatchLoader
from expertload.lab.models import last_linear
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.network import fill_network
from expertload.lab.runs.origin import sources_of
from expertload.lab.runs.recipe import RunConfig, TrainingConfig

if TYPE_CHECKING:
    from lightning.fabric import Fabric


PACKAGES = ("expertload", "torch", "lightning", "numpy", "scipy")


def continue_from(config: RunConfig, network: nn.Module, data: Dataset) -> None:
    """Give a network the weights of the earlier run that the recipe names, if it names one."""
    if config.model.start is None:
        return
    run = FinishedRun(config.model.start)
    runs = run.member_runs() or [run]
    chosen = runs[config.seed % len(runs)]
    classes = chosen.load_description().class_names
    if classes != data.class_names:
        raise ParameterError(
            f"The run in {config.model.start} was trained for other classes "
            f"({', '.join(classes)}) than those of {data.name} ({', '.join(data.class_names)})."
        )
    fill_network(network, chosen.folder.best, config.model.name)


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
    options: dict[str, Any] = {"lr": training.learning_rate, "weight_decay": training.weight_decay}
    kind: type[torch.optim.Optimizer] = torch.optim.Adam
    if training.optimiser == "sgd":
        kind = torch.optim.SGD
        options |= {"momentum": training.momentum, "nesterov": training.nesterov}
    optimiser = kind(parameter_groups(model, training.body_rate), **options)
    model, optimiser = fabric.setup(model, optimiser)
    return model, optimiser


def parameter_groups(network: nn.Module, body_rate: float) -> list[dict[str, Any]]:
    """Return the parameters of a network by their `share` of the learning rate.

    The last linear layer learns at the full rate, all others at `body_rate` of it.
    """
    if body_rate == 1:
        return [{"params": list(network.parameters()), "share": 1.0}]
    head = list(last_linear(network, "training.body_rate").parameters())
    own = {id(parameter) for parameter in head}
    body = [parameter for parameter in network.parameters() if id(parameter) not in own]
    return [{"params": body, "share": body_rate}, {"params": head, "share": 1.0}]


def make_loaders(config: RunConfig, dataset: Dataset, fabric: Fabric) -> dict[str, BatchLoader]:
    """Make the loader of each split."""
    training = config.training
    loader = partial(
        BatchLoader,
        normalisation=dataset.normalisation,
        rank=fabric.global_rank,
        world_size=fabric.world_size,
        device=fabric.device,
    )
    return {
        "train": loader(
            dataset.train,
            batch_size=training.batch_size,
            shuffle=True,
            seed=config.seed,
            augmentation=dataset.augmentation,
            drop_last=training.drop_last,
        ),
        "validation": loader(dataset.validation, batch_size=training.evaluation_batch_size),
        "test": loader(dataset.test, batch_size=training.evaluation_batch_size),
    }


def refuse_too_few(dataset: Dataset, training: TrainingConfig) -> None:
    """Raise if a part of the data is too small, or no batch is left without the small last one."""
    for part in ("train", "validation", "test"):
        if (n := len(getattr(dataset, part))) < 2:
            raise ParameterError(
                f"The part '{part}' of {dataset.name} must have at least 2 images. Got {n}. Hint: "
                "add images; without a part of its own, a tenth of each class is for validation."
            )
    n_images = len(dataset.train)
    if training.drop_last and n_images < training.batch_size:
        raise ParameterError(
            f"There are no batches to train on: {n_images} images are too few for a batch of "
            f"{training.batch_size}, and training.drop_last skips smaller batches. Hint: "
            f"choose a training.batch_size of at most {n_images}."
        )


def describe_environment(
    fabric: Fabric, dataset: Dataset, config: RunConfig, changed: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the environment of this process: machine, devices and versions, for JSON."""
    device, sources = fabric.device, sources_of(config)
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "processes": fabric.world_size,
        "data": {"source": dataset.source, "sha256": dataset.checksum(), **dataset.description()},
        **({"sources": sources} if sources else {}),
        **({"set": list(changed)} if changed else {}),
        "versions": {name: import_module(name).__version__ for name in PACKAGES},
    }


class _GlobalStatistics(_BatchNorm):
    """Batch norm with the statistics of the rows of all processes."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name torch gave it
        """Normalise a batch of shape (n, channels, ...)."""
        of_the_batch = self.training or self.running_mean is None
        if not of_the_batch or dist.get_world_size() == 1:
            return super().forward(input)
        self._check_input_dim(input)  # type: ignore[no-untyped-call]
        # Half precision cannot hold the size of a large batch, and has few digits for its sums.
        wide = input.to(torch.promote_types(input.dtype, torch.float32))
        rows = wide.transpose(0, 1).flatten(1)  # (channels, positions)
        count = rows.new_full((1,), rows.shape[1])
        sums: Tensor = all_reduce(torch.cat([rows.sum(dim=1), count]))  # type: ignore[no-untyped-call]
        mean = sums[:-1] / sums[-1]
        # A second pass for the squares: the one-pass formula loses digits in float32.
        gaps = rows - mean[:, None]
        squares: Tensor = all_reduce((gaps**2).sum(dim=1))  # type: ignore[no-untyped-call]
        if self.training and self.track_running_stats:
            self._update_statistics(mean.detach(), squares.detach(), sums[-1].detach())
        scale = torch.rsqrt(squares / sums[-1] + self.eps)
        if self.weight is not None:
            scale = scale * self.weight
        shift = -mean * scale
        if self.bias is not None:
            shift = shift + self.bias
        channels = (-1, *(1,) * (input.dim() - 2))
        return (wide * scale.view(channels) + shift.view(channels)).to(input.dtype)

    @torch.no_grad()
    def _update_statistics(self, mean: Tensor, squares: Tensor, count: Tensor) -> None:
        if self.running_mean is None or self.running_var is None:
            return
        momentum = self.momentum
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if momentum is None:  # then the running mean covers all batches so far
                momentum = 1 / float(self.num_batches_tracked)
        unbiased = squares / (count - 1).clamp_min(1)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum or 0.0)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), momentum or 0.0)


@cache
def _global(kind: type[_BatchNorm]) -> type[_BatchNorm]:
    """Derive a class from `kind` that uses the statistics of all processes."""
    return type(f"Global{kind.__name__}", (_GlobalStatistics, kind), {})


def synchronise_batch_norm(model: nn.Module) -> nn.Module:
    """Let every batch norm layer of a model use the combined batch of all processes.

    Names and shapes of all weights stay the same, so checkpoints fit both kinds.

    Raises
    ------
    ParameterError
        If the model has a kind of batch norm that normalises in its own way.
    """
    for module in model.modules():
        if isinstance(module, nn.SyncBatchNorm | _GlobalStatistics):
            continue  # already synchronised
        if isinstance(module, _BatchNorm):
            if type(module).forward is not _BatchNorm.forward:
                raise ParameterError(
                    f"Training in several processes cannot synchronise {type(module).__name__}, "
                    "which normalises in its own way (it has a forward). Hint: use torch's "
                    "BatchNorm, or train in one process."
                )
            module.__class__ = _global(type(module))  # type: ignore[arg-type]
    return model
