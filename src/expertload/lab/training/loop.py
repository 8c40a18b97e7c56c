"""Training, from top to bottom: data, network, loss, epochs, selection, results.

The same function trains in one process, in several, and on several machines, and it resumes killed
runs. Both follow from one rule: everything random is a function of (seed, epoch, batch), or is
saved in the checkpoint at the end of each epoch.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from expertload._typing import FloatArray, IntArray
from expertload.exceptions import FileFormatError, ParameterError, TrainingDivergedError
from expertload.lab.data import Dataset
from expertload.lab.data.loader import BatchLoader
from expertload.lab.results.evaluate import evaluate_logits
from expertload.lab.results.measures import cases_of, find_measure
from expertload.lab.runs.finished import probabilities_of
from expertload.lab.runs.folder import Labelled, RunFolder, Weights
from expertload.lab.runs.network import build_network, load_weights
from expertload.lab.runs.origin import load_run_data, refuse_changed_origin
from expertload.lab.runs.recipe import RunConfig, TrainingConfig
from expertload.lab.training.progress import Reporter
from expertload.lab.training.setup import (
    continue_from,
    describe_environment,
    launch_fabric,
    make_loaders,
    prepare,
    refuse_too_few,
)
from expertload.lab.training.state import TrainingState, key_of
from expertload.lab.training.step import Step, WeightAverage, make_average
from expertload.losses import CombinedLoss, build_loss
from expertload.losses.base import gather_rows

if TYPE_CHECKING:
    from lightning.fabric import Fabric


def train(
    config: RunConfig,
    folder: str | Path,
    *,
    data_dir: str | Path | None = None,
    accelerator: str = "auto",
    devices: int = 1,
    nodes: int = 1,
    reporter: Reporter | None = None,
    changed: Sequence[str] = (),
) -> dict[str, Any]:
    """Train one run to its end, resuming it if possible, and return its results.

    Parameters
    ----------
    config : RunConfig
        Everything that determines the result.
    folder : path
        The run's folder: new, or with the same configuration, which is then resumed. If the run is
        finished, its results are returned and nothing is trained. A folder is refused if its data,
        or its imported network or loss, have changed.
    data_dir : path, optional
        The folder with the data files; the cache by default.
    accelerator, devices, nodes
        Where to run, as in Lightning Fabric. Batch size and loss are those of all processes
        together. Under ``torchrun`` or Slurm, their counts are used.
    reporter : Reporter, optional
        Receives every step and epoch; silent by default.
    changed : sequence of str
        Settings that differ from the recipe, such as ``"training.epochs=2"``. They are recorded,
        and tables of such runs show them.

    Returns
    -------
    dict
        The content of `results.json`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab import RunConfig, train
    >>> config = RunConfig.model_validate({
    ...     "data": {"name": "digits"},
    ...     "model": {"name": "small-cnn"},
    ...     "loss": {"name": "ce"},
    ...     "training": {"epochs": 1, "batch_size": 64, "learning_rate": 0.05},
    ... })
    >>> with TemporaryDirectory() as folder:
    ...     results = train(config, folder)
    >>> results["best_epoch"]
    1
    """
    run = RunFolder(folder)
    if run.is_ensemble:
        raise ParameterError(
            f"{run.path} is an ensemble of runs, which is not trained. Hint: choose another folder."
        )
    # Errors in the configuration are found here, before other processes are started.
    if run.is_done:
        run.create(config)  # refuses a folder with another configuration
    dataset = load_run_data(config.data, data_dir=data_dir)
    refuse_changed_origin(run, config, dataset)
    if run.is_done:
        return _results_of(run, reporter or Reporter())
    refuse_too_few(dataset, config.training)
    loss = build_loss(config.loss.name, weight=config.loss.weight, **config.loss.options)
    torch.manual_seed(config.seed)
    model = build_network(config.model, dataset)
    continue_from(config, model, dataset)
    run.create(config)
    fabric = launch_fabric(config.training.precision, accelerator, devices, nodes)
    only_one = run.held() if fabric.is_global_zero else contextlib.nullcontext()
    heard = reporter if reporter is not None and fabric.is_global_zero else Reporter()
    with only_one:
        # Checked again: the process that held the lock may have finished the run. The first process
        # decides for all, because others might look at another moment.
        if fabric.broadcast(RunFolder(folder).is_done):
            return _results_of(run, heard)
        if fabric.is_global_zero:
            run.record_environment(describe_environment(fabric, dataset, config, changed))
        return _train(config, run, dataset, model, loss, fabric, heard)


def _results_of(run: RunFolder, reporter: Reporter) -> dict[str, Any]:
    """Report the results of a run that was finished before, and return them."""
    results: dict[str, Any] = run.read_json("results.json")
    reporter.found(results, finished=run.finished)
    return results


def _train(
    config: RunConfig,
    run: RunFolder,
    dataset: Dataset,
    network: nn.Module,
    loss: nn.Module,
    fabric: Fabric,
    reporter: Reporter,
) -> dict[str, Any]:
    """Train a network from its last checkpoint."""
    # The wrapped network (Fabric, data parallelism, compilation) is trained. The network itself,
    # which shares its weights, is saved and restored.
    model, optimiser = prepare(network, config.training, fabric)
    torch.manual_seed(config.seed + fabric.global_rank)  # each process draws its own dropout
    loaders = make_loaders(config, dataset, fabric)
    average = make_average(network, config.training, _steps(loaders["train"], config.training))
    state = TrainingState(
        run, network, loss, optimiser, fabric, select_by=config.training.select_by, average=average
    )
    state.resume()
    step = Step(model, loss, optimiser, config.training, fabric, average)

    reporter.start(config, first_epoch=state.epoch)
    while state.epoch < config.training.epochs:
        started = time.perf_counter()
        set_weight(loss, config, state.epoch)
        train_loss, clipped = _train_epoch(step, loaders["train"], state.epoch)
        logits, labels = predict(model, loaders["validation"])
        _refuse_divergence(train_loss, logits, state.epoch)
        record = {
            "epoch": state.epoch + 1,
            "learning_rate": optimiser.param_groups[-1]["lr"],
            "train_loss": train_loss,
            "clipped": clipped,
            **_validation_metrics(logits, labels),
            **_averaged_metrics(model, average, loaders, state.epoch),
            "seconds": round(time.perf_counter() - started, 3),
        }
        state.advance(record)
        best_epoch = state.best_epoch(state.best_kind()) + 1
        reporter.epoch(record, n_epochs=config.training.epochs, best_epoch=best_epoch)
    results = _finish(config, model, loaders, state)
    reporter.done(results)
    return results


# ------------------------------------------------------------------ one epoch


def _steps(loader: BatchLoader, training: TrainingConfig) -> int:
    """Return the number of optimiser steps in an epoch."""
    return math.ceil(len(loader) / training.accumulate)


def _train_epoch(step: Step, loader: BatchLoader, epoch: int) -> tuple[float, float]:
    """Train one epoch; return the mean loss, and the share of clipped steps."""
    step.begin()
    accumulate = step.training.accumulate
    for number, batch in enumerate(loader.epoch(epoch)):
        group_start = number - number % accumulate
        group = min(accumulate, len(loader) - group_start)
        _set_learning_rate(step.optimiser, step.training, epoch + number / len(loader))
        step.take(batch, group, is_last=number == group_start + group - 1)
    return float(step.total) / len(loader), float(step.clipped) / _steps(loader, step.training)


def _averaged_metrics(
    model: nn.Module, average: WeightAverage | None, loaders: dict[str, BatchLoader], epoch: int
) -> dict[str, float]:
    """Return the validation metrics of the averaged weights, if weights are averaged."""
    if average is None:
        return {}
    with average.applied((batch.images for batch in loaders["train"].epoch(epoch)), model):
        logits, labels = predict(model, loaders["validation"])
    metrics = _validation_metrics(logits, labels)
    return {key_of(name, "averaged"): value for name, value in metrics.items()}


@torch.no_grad()
def predict(model: nn.Module, loader: BatchLoader) -> Labelled:
    """Return the logits and labels of a whole split, in order, in every process."""
    model.eval()
    logits, labels, indices = [], [], []
    for batch in loader.epoch(0):
        logits.append(model(batch.images).float())
        labels.append(batch.labels)
        indices.append(batch.indices)

    def whole(parts: list[Tensor]) -> Tensor:
        return torch.cat(gather_rows(torch.cat(parts))).cpu()

    order = whole(indices).argsort()
    return whole(logits)[order].numpy(), whole(labels)[order].numpy()


def _refuse_divergence(train_loss: float, logits: FloatArray, epoch: int) -> None:
    """Raise if the loss or the logits of an epoch are not finite.

    Both are checked, because the last batch can spoil the weights after the last loss.
    """
    if not (math.isfinite(train_loss) and np.isfinite(logits).all()):
        raise TrainingDivergedError(
            f"Training diverged in epoch {epoch + 1}: the loss is {train_loss:g}, and the network "
            f"gives {'numbers' if np.isfinite(logits).all() else 'NaN or infinity'}. The state "
            "before that epoch is kept. Hint: lower the learning rate or the weight of the second "
            "loss."
        )


def _validation_metrics(logits: FloatArray, labels: IntArray) -> dict[str, float]:
    cases = cases_of(labels, probabilities_of(logits))
    return {name: find_measure(name).of(cases) for name in ("aucoc", "accuracy", "ece")}


def _set_learning_rate(
    optimiser: torch.optim.Optimizer, training: TrainingConfig, epochs_done: float
) -> None:
    if training.schedule == "one-cycle":
        share = _one_cycle(epochs_done / training.epochs)
    else:
        share = training.gamma ** sum(place <= epochs_done for place in training.milestones)
    for group in optimiser.param_groups:
        group["lr"] = training.learning_rate * share * group.get("share", 1.0)


def _one_cycle(done: float) -> float:
    """Return the share of the peak rate: up from 1/25 over 30 % of training, then down to 0.

    Both ways are half a cosine, as in `torch.optim.lr_scheduler.OneCycleLR`. It is a function of
    the progress alone, so a resumed run needs no state of the schedule.
    """
    low, peak_at = 1 / 25, 0.3
    if done < peak_at:
        return 1 - (1 - low) * (1 + math.cos(math.pi * done / peak_at)) / 2
    return (1 + math.cos(math.pi * (done - peak_at) / (1 - peak_at))) / 2


def set_weight(loss: nn.Module, config: RunConfig, epoch: int) -> None:
    """Set the weight of a loss's second part, which rises gradually; a single loss has none."""
    if isinstance(loss, CombinedLoss) and config.training.warm_up:
        full = 1.0 if config.loss.weight is None else config.loss.weight
        loss.weight = full * min(1.0, epoch / config.training.warm_up)


# ------------------------------------------------------------------ the end


def _finish(
    config: RunConfig, model: nn.Module, loaders: dict[str, BatchLoader], state: TrainingState
) -> dict[str, Any]:
    """Write the selected weights' logits and results."""
    run, fabric = state.run, state.fabric
    predicted = {kind: _predict_best(kind, model, loaders, state) for kind in state.kinds}
    targets = config.evaluation.target_accuracies
    numbers = {
        kind: {"best_epoch": state.best_epoch(kind) + 1, **evaluate_logits(*splits, targets)}
        for kind, splits in predicted.items()
    }
    chosen = state.best_kind()
    results: dict[str, Any] = {
        "seconds": round(sum(record["seconds"] for record in state.history), 1),
        "clipped": fmean(record["clipped"] for record in state.history),
        **numbers[chosen],
    }
    if state.average is not None:  # wait until both are written
        results |= {"weights": chosen, **{str(kind): own for kind, own in numbers.items()}}
    if fabric.is_global_zero:
        run.write_logits("validation", *predicted[chosen][0])
        run.write_logits("test", *predicted[chosen][1])
        run.write_json("results.json", results)
        run.last.unlink(missing_ok=True)
    fabric.barrier()
    return results


def _predict_best(
    kind: Weights, model: nn.Module, loaders: dict[str, BatchLoader], state: TrainingState
) -> tuple[Labelled, Labelled]:
    """Return the logits and labels of validation and test, for the best weights of a kind."""
    file = state.run.best_of(kind)
    best, facts = load_weights(file)
    if facts.get("epoch") != state.best_epoch(kind):
        raise FileFormatError(
            f"{file} does not hold the weights of the selected epoch, "
            f"{state.best_epoch(kind) + 1}. Hint: it may be copied from another run; remove the "
            "folder to start over."
        )
    state.network.load_state_dict(best)
    return predict(model, loaders["validation"]), predict(model, loaders["test"])
