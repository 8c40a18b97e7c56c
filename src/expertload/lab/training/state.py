"""The state of a run: saved completely at the end of each epoch, and restored on resume.

A checkpoint is one file. Tensors are in the safetensors format and all else is JSON in its header,
so reading it runs no code. One file means one atomic replacement: there is no moment at which
weights and optimiser, or model and history, disagree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from expertload.exceptions import FileFormatError
from expertload.lab.results.measures import find_measure
from expertload.lab.runs.folder import KINDS, RunFolder, Weights, reading
from expertload.lab.runs.network import load_weights, save_weights
from expertload.losses.base import gather_rows

if TYPE_CHECKING:
    from lightning.fabric import Fabric

    from expertload.lab.training.step import WeightAverage


@dataclass(eq=False)
class TrainingState:
    """The state of a run: next epoch, history and best epochs.

    Parameters
    ----------
    run : RunFolder
    network, loss : Module
    optimiser : Optimizer
    fabric : Fabric
    select_by : str
        The validation metric by which the best epoch is chosen.
    average : WeightAverage, optional
        The average of the weights, evaluated in addition to the raw weights.
    """

    run: RunFolder
    network: nn.Module
    loss: nn.Module
    optimiser: torch.optim.Optimizer
    fabric: Fabric
    select_by: str = "aucoc"
    average: WeightAverage | None = None
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def epoch(self) -> int:
        """The epoch to train next."""
        return len(self.history)

    @property
    def kinds(self) -> list[Weights]:
        """The kinds of weights that are evaluated: raw, and averaged if there is an average."""
        return [kind for kind in KINDS if kind == "raw" or self.average is not None]

    def best_epoch(self, kind: Weights) -> int:
        """Return the index of the best epoch of a kind of weights; the first one if equal."""
        return int(np.argmax([self._score(record, kind) for record in self.history]))

    def best_kind(self) -> Weights:
        """The kind of weights with the best epoch; raw if they are equal."""
        return max(
            self.kinds, key=lambda kind: self._score(self.history[self.best_epoch(kind)], kind)
        )

    def _score(self, record: dict[str, Any], kind: Weights) -> float:
        """Return a score, higher is better."""
        sign = 1 if find_measure(self.select_by).higher_is_better else -1
        return sign * float(record[key_of(self.select_by, kind)])

    def resume(self) -> None:
        """Restore the end of the last saved epoch, if there is one."""
        if not self.run.last.exists():
            return
        tensors, optimiser, progress = load_checkpoint(self.run.last)
        try:
            self.network.load_state_dict(tensors["model"])
            self.loss.load_state_dict(tensors["loss"])
            self.optimiser.load_state_dict(optimiser)
            _lay_out_like_parameters(self.optimiser)
            self.fabric.strategy.precision.load_state_dict(progress["precision"])
            self.history = list(progress["history"])
            if self.average is not None:
                self.average.resume(tensors["averaged"], progress["averaged"])
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise FileFormatError(
                f"{self.run.last} does not fit this network: {error}. Hint: if the network was "
                "changed, choose another folder, or remove this one to start over."
            ) from error
        # A process that did not exist before keeps its new generator.
        generator = tensors["generator"].get(str(self.fabric.global_rank))
        if generator is not None:
            restore_generator(generator, self.fabric.device)
        if self.fabric.is_global_zero:
            self._write_derived_files()
        self.fabric.barrier()

    def advance(self, record: dict[str, Any]) -> None:
        """Record a finished epoch and save everything."""
        self.history.append(record)
        generators = gather_generators(self.fabric.device)
        if self.fabric.is_global_zero:
            self._save(generators)
        self.fabric.barrier()

    def _save(self, generators: list[Tensor]) -> None:
        # The checkpoint comes first: it determines the best epoch, and `resume` writes missing
        # files. In the reverse order, an epoch that is worse when it is trained again (possible
        # with another number of processes) could replace the best.
        tensors = {
            "model": self.network.state_dict(),
            "averaged": {} if self.average is None else self.average.state,
            "loss": self.loss.state_dict(),
            "generator": {str(rank): state for rank, state in enumerate(generators)},
        }
        progress = {
            "history": self.history,
            "averaged": 0 if self.average is None else self.average.count,
            # The scale of half-precision gradients; empty at other precisions.
            "precision": self.fabric.strategy.precision.state_dict(),
        }
        save_checkpoint(self.run.last, tensors, self.optimiser.state_dict(), progress)
        self._write_derived_files()

    def _write_derived_files(self) -> None:
        """Write the metrics, and the best weights if they are those of the checkpoint."""
        for kind in self.kinds:
            if self.best_epoch(kind) == self.epoch - 1:
                save_weights(
                    self.run.best_of(kind), self._weights(kind), {"epoch": self.best_epoch(kind)}
                )
        self.run.write_metrics(self.history)

    def _weights(self, kind: Weights) -> dict[str, Tensor]:
        if kind == "averaged" and self.average is not None:
            return self.average.state
        return self.network.state_dict()


def key_of(metric: str, kind: Weights) -> str:
    """Return the key in a record for a metric of a kind of weights."""
    return metric if kind == "raw" else f"averaged_{metric}"


def gather_generators(device: torch.device) -> list[Tensor]:
    """Return the generator states of all processes, in the order of ranks."""
    # torch keeps the generator state of a GPU in main memory, where NCCL cannot gather.
    own = generator_state(device).to(device)
    return [rows[0].cpu() for rows in gather_rows(own[None])]


def _lay_out_like_parameters(optimiser: torch.optim.Optimizer) -> None:
    """Give moments the memory layout of their weights, which files do not store."""
    for group in optimiser.param_groups:
        for parameter in group["params"]:
            state = optimiser.state[parameter]
            for key, value in state.items():
                if isinstance(value, Tensor) and value.shape == parameter.shape:
                    state[key] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)


# ------------------------------------------------------------------ checkpoints


Tensors = dict[str, dict[str, Tensor]]  # by part and name
State = dict[str, Any]


def save_checkpoint(path: Path, tensors: Tensors, optimiser: State, progress: State) -> None:
    """Write the state of a run.

    `tensors` has the parts ``model``, ``averaged`` (empty if weights are not averaged), ``loss``
    (usually empty), and ``generator``, which has one state per process. `optimiser` is the
    ``state_dict`` of the optimiser, and `progress` is any JSON content.
    """
    parts = {**tensors, "optimiser": {}}
    scalars: dict[str, Any] = {}
    for index, state in optimiser["state"].items():
        for key, value in state.items():
            kept: dict[str, Any] = parts["optimiser"] if isinstance(value, Tensor) else scalars
            kept[f"{index}/{key}"] = value
    facts = {
        "progress": progress,
        "optimiser": {"groups": optimiser["param_groups"], "scalars": scalars},
    }
    save_weights(path, {f"{part}/{k}": own[k] for part, own in parts.items() for k in own}, facts)


def load_checkpoint(path: Path) -> tuple[Tensors, State, State]:
    """Return the tensors, the optimiser and the progress in a file of `save_checkpoint`."""
    tensors, facts = load_weights(path)
    parts: Tensors = {part: {} for part in ("model", "averaged", "loss", "generator", "optimiser")}
    state: dict[int, dict[str, Any]] = {}
    with reading(path):
        for name, tensor in tensors.items():
            part, _, rest = name.partition("/")
            parts[part][rest] = tensor
        for name, value in {**parts.pop("optimiser"), **facts["optimiser"]["scalars"]}.items():
            index, _, key = name.partition("/")
            state.setdefault(int(index), {})[key] = value
        groups = [_with_tuples(group) for group in facts["optimiser"]["groups"]]
        return parts, {"state": state, "param_groups": groups}, facts["progress"]


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
