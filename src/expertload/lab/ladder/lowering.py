"""Lowers the load on one data set: plan the arms, train them, climb, write the results.

All arms share one recipe. They differ only in augmentation and in the loss, so that the gain of a
step is due to that step. Each arm is a sweep, so a stopped one can be continued.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from rich.console import Console

from expertload._check import check_count, check_targets, require_extra
from expertload._labels import listed
from expertload.ensembling import make_views
from expertload.exceptions import ExpertLoadError, InsufficientDataError, ParameterError
from expertload.lab.data import Augmentation, Dataset
from expertload.lab.ladder.outcome import LowerLoad, write_outcome
from expertload.lab.ladder.steps import Climb, chosen_views
from expertload.lab.results.ensembles import affordable_views, make_ensemble
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.origin import load_run_data, refuse_imports
from expertload.lab.runs.recipe import DataConfig, Recipe, change, merge, problems_of
from expertload.lab.sweeps.launch import Launcher, ProcessLauncher
from expertload.lab.sweeps.sweep import Observer, Sweep

Section = TypeVar("Section", bound=BaseModel)
AUCOC = "ce+aucoc"
LARGE = 24  # images of this size or larger use a residual network
FEW = 2000  # with fewer training images, batches are small
LEAST = {  # images of each split, and what they are for; test images: at least two in each half
    "training": (2, "to learn from"),
    "validation": (2, "to choose by: without them every choice would be made on test images"),
    "test": (4, "to measure and to certify with"),
}


def lower_load(
    data: str,
    *,
    out: str | Path | None = None,
    network: str | None = None,
    epochs: int = 30,
    networks: int = 2,
    target_accuracy: float | Sequence[float] = (0.95, 0.9),
    aucoc: bool = True,
    max_passes: int | None = None,
    start: str | Path | None = None,
    allow: Collection[str] = (),
    settings: Sequence[str] = (),
    data_dir: str | Path | None = None,
    jobs: int | None = None,
    accelerator: str = "auto",
    launcher: Launcher | None = None,
    console: Console | None = None,
) -> LowerLoad:
    """Lower the expert load on a data set step by step, and measure what each step gains.

    The steps are augmentation, averaged weights, test-time augmentation, the mean of several
    networks, and AUCOC in addition to cross-entropy. A step is taken if it does not lower the AUCOC
    on validation images. Test images choose nothing: all of them measure the steps, one half
    certifies the policy, and the other half shows what the policy does. A stopped call can be
    repeated; it continues where it stopped.

    Parameters
    ----------
    data : str
        A name known to `expertload.lab.load_dataset`, ``"folder:PATH"`` or ``"npz:PATH"``.
    out : path, optional
        The folder for runs and results; ``runs/lower-load-DATA`` by default.
    network : str, optional
        A name of `expertload.lab.models` or ``"module:callable"``; by default ``"small-cnn"`` for
        small images and ``"resnet8"`` for others.
    epochs : int, default=30
    networks : int, default=2
        The number of networks to train and average.
    target_accuracy : float or sequence of float, default=(0.95, 0.9)
        The accuracies at which to report the load; a policy is certified for the first.
    aucoc : bool, default=True
        Whether to try AUCOC, which trains as many networks once more.
    max_passes : int, optional
        The most passes through a network that a prediction for one image may take, at least
        `networks`; views of images are limited to it. By default eight for each network.
    start : path, optional
        The folder of an earlier run, or of an earlier ladder, with whose weights the networks
        start.
    allow : collection of str
        Import paths of your own networks that the folder `start` may name. A path passed as
        `network` needs no other permission.
    settings : sequence of str
        Settings of a recipe to change: ``"data.image_size=32"``, ``"data.augment=false"``.
    data_dir : path, optional
        Where data files are.
    jobs : int, optional
        The number of networks to train in parallel; all of an arm by default.
    accelerator : str, default="auto"
        As in `expertload.lab.train`.
    launcher : Launcher, optional
        Starts the training of runs; processes on this machine by default.
    console : rich.console.Console, optional
        Prints a line about each next step; silent by default.

    Returns
    -------
    LowerLoad

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab import lower_load
    >>> with TemporaryDirectory() as folder:  # doctest: +SKIP
    ...     outcome = lower_load("digits", out=folder, epochs=4)
    ...     print(f"{outcome.rows[0].aucoc:.3f} to {outcome.rows[-1].aucoc:.3f}")
    0.983 to 0.987
    """
    check_count(networks, "networks", minimum=2)
    check_count(epochs, "epochs")
    if max_passes is not None:
        check_count(max_passes, "max_passes", minimum=networks)
    targets = check_targets(target_accuracy)
    require_extra("jinja2", "report", "The report of the ladder")
    console = console or Console(quiet=True)
    say = partial(console.print, soft_wrap=True)
    if start is not None:
        if network is None:
            earlier = FinishedRun(start)
            refuse_imports(earlier.config, earlier.folder.path, allow=allow, loss=False)
            network = earlier.config.model.name
        settings = [*settings, f"model.start={json.dumps(str(Path(start).resolve()))}"]
    loaded = load_data(data, settings=settings, data_dir=data_dir)
    notes = look_at(loaded)
    plan = make_plan(
        loaded, network=network, epochs=epochs, target_accuracies=targets, settings=settings
    )
    n = plan.plain.training.epochs
    say(f"{loaded!r}, {plan.plain.model.name}, {n} epoch{'' if n == 1 else 's'}")
    for note in notes:
        say(f"note: {note}")
    most = None if max_passes is None else max_passes // networks
    views = len(make_views(affordable_views(loaded, most)[-1]))
    say(f"a prediction will take at most {networks * views} passes for each image")
    folder = Path(out) if out is not None else Path("runs") / f"lower-load-{_file_name(data)}"
    trainer = Trainer(
        folder=folder,
        data=loaded,
        seeds=range(networks),
        jobs=jobs or networks,
        console=console,
        data_dir=data_dir,
        accelerator=accelerator,
        launcher=launcher,
    )
    ladder = _train_and_climb(plan, trainer, aucoc=aucoc, max_passes=most)
    say("measuring every step on the test images, and certifying a policy on half of them")
    return write_outcome(
        ladder,
        _make_model(ladder, most),
        loaded,
        folder,
        target_accuracies=targets,
        augmentation=plan.augmentation,
        notes=notes,
    )


def _train_and_climb(plan: Plan, trainer: Trainer, *, aucoc: bool, max_passes: int | None) -> Climb:
    """Train each arm; the arm with AUCOC uses the steps taken without it."""
    arms = {"plain": trainer.train(plan.plain, "plain", "ce", "cross-entropy alone")}
    if plan.augmented is not None:
        how = f"with augmentation ({plan.augmentation})"
        arms["augmented"] = trainer.train(plan.augmented, "augmented", "ce", how)
    trainer.console.print(
        "weights and views of each image chosen on validation images", soft_wrap=True
    )
    ladder = Climb(arms, max_passes=max_passes)
    if not aucoc:
        return ladder
    base = plan.augmented if ladder.took("augmentation") else plan.plain
    how = "with AUCOC in addition to cross-entropy"
    arms["aucoc"] = trainer.train(base or plan.plain, "aucoc", AUCOC, how)
    return Climb(arms, max_passes=max_passes)


def _make_model(ladder: Climb, max_passes: int | None) -> FinishedRun:
    """Combine the networks at the top of the ladder into one run, with their views."""
    runs = list(ladder.steps[-1].runs)
    if ladder.took("views") or ladder.took("aucoc"):
        return make_ensemble([chosen_views(run, max_passes=max_passes) for run in runs])
    return make_ensemble(runs)


def _file_name(data: str) -> str:
    """Return the name of the data as a file name; for a path, its last part."""
    kind, _, argument = data.partition(":")
    return Path(argument).stem if kind in ("folder", "npz") else data.replace(":", "-")


# ------------------------------------------------------------------ training


@dataclass(frozen=True, kw_only=True)
class Trainer:
    """Trains the networks of an arm, unless they are trained already.

    Attributes
    ----------
    folder : Path
        The folder that holds a folder for each arm.
    data : Dataset
    seeds : sequence of int
    jobs : int
        The number of networks to train in parallel.
    console : rich.console.Console
    data_dir, accelerator
        As in `expertload.lab.train`.
    launcher : Launcher or None
        None for processes on this machine.
    """

    folder: Path
    data: Dataset
    seeds: Sequence[int]
    jobs: int
    console: Console
    data_dir: str | Path | None = None
    accelerator: str = "auto"
    launcher: Launcher | None = None

    def train(self, recipe: Recipe, arm: str, loss: str, how: str) -> list[FinishedRun]:
        """Return the finished runs of an arm, in the order of seeds."""
        sweep = Sweep(recipe, self.folder / arm, losses=[loss], seeds=self.seeds, dataset=self.data)
        missing = len(sweep.waiting())
        done = "" if missing else "; all are trained"
        self.console.print(f"{len(self.seeds)} networks: {how}{done}", soft_wrap=True)
        if missing:
            launcher = self.launcher or ProcessLauncher(
                jobs=self.jobs,
                data_dir=None if self.data_dir is None else str(Path(self.data_dir).resolve()),
                accelerator=self.accelerator,
                allow=sweep.imports(),
            )
            sweep.run(launcher, jobs=self.jobs, observer=Observer(self.console))
        for name, log in sweep.report.failed.items():
            raise ExpertLoadError(
                f"The run {name} failed: {sweep.report.reason(name)} Hint: {log} has more; then "
                "run the same command again to continue."
            )
        # The import path of the user's own network, which the recipe names, is allowed.
        device = "cpu" if self.accelerator == "cpu" else "auto"
        read = partial(FinishedRun, data_dir=self.data_dir, allow=sweep.imports(), device=device)
        return [read(sweep.folder(run).path) for run in sweep.final_runs(loss)]


# ------------------------------------------------------------------ the plan


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The recipes of the arms.

    Attributes
    ----------
    plain : Recipe
    augmented : Recipe or None
        None if nothing is augmented.
    augmentation : str
        The augmentation in words.
    """

    plain: Recipe
    augmented: Recipe | None
    augmentation: str


def load_data(
    name: str, *, settings: Sequence[str] = (), data_dir: str | Path | None = None
) -> Dataset:
    """Load the data of a ladder, with its settings.

    Examples
    --------
    >>> from expertload.lab.ladder.lowering import load_data
    >>> load_data("digits", settings=["data.train_images=500", "training.epochs=3"])
    Dataset('digits': 500/300/500 images of 8 x 8 x 1, 10 classes)
    """
    chosen = change({"data": {"name": name}}, settings)["data"]
    return load_run_data(_checked(DataConfig, chosen, settings), data_dir=data_dir)


def look_at(data: Dataset) -> list[str]:
    """Refuse data that do not suit a ladder; return remarks about data that do.

    Examples
    --------
    >>> from expertload.lab.data import load_dataset
    >>> from expertload.lab.ladder.lowering import look_at
    >>> look_at(load_dataset("digits"))
    []
    """
    splits = {"training": data.train, "validation": data.validation, "test": data.test}
    if data.num_classes < 2:
        raise InsufficientDataError(
            f"The data {data.name!r} must have at least two classes. Got one."
        )
    for name, split in splits.items():
        least, purpose = LEAST[name]
        if len(split) < least:
            raise InsufficientDataError(
                f"The data {data.name!r} must have at least {least} {name} image(s) {purpose}. Got "
                f"{len(split)}. Hint: docs/lab.md explains how your own data are split."
            )
    everyone = set(range(data.num_classes))
    missing = {name: sorted(everyone - {*split.labels.tolist()}) for name, split in splits.items()}
    return [
        f"No {name} image belongs to the class{'es' if len(places) > 1 else ''} "
        f"{listed([repr(data.class_names[place]) for place in places], 5)}."
        for name, places in missing.items()
        if places
    ]


def make_plan(
    data: Dataset,
    *,
    network: str | None = None,
    epochs: int = 30,
    target_accuracies: Sequence[float] = (0.95, 0.9),
    settings: Sequence[str] = (),
) -> Plan:
    """Make the recipes of a ladder.

    Parameters
    ----------
    data : Dataset
    network : str, optional
        A name of `expertload.lab.models`, or ``"module:callable"``. By default ``"small-cnn"``
        for small images and ``"resnet8"`` for others.
    epochs : int, default=30
    target_accuracies : sequence of float
    settings : sequence of str
        Settings to change in the recipe, as in `expertload.lab.load_recipe`. ``data.augment``
        applies from the augmentation step on; ``"data.augment=false"`` skips that step.

    Examples
    --------
    >>> from expertload.lab.data import load_dataset
    >>> from expertload.lab.ladder.lowering import make_plan
    >>> plan = make_plan(load_dataset("digits"), epochs=20)
    >>> plan.augmentation, plan.plain.training.ema_epochs
    ('shifts by up to 1 pixel', 5.0)
    """
    side = min(data.image_shape[:2])
    content = change(
        {
            "name": "lower-load",
            "data": {"name": data.name},
            "model": {"name": network or ("resnet8" if side >= LARGE else "small-cnn")},
            "training": {
                "epochs": epochs,
                "batch_size": 64 if len(data.train) < FEW else 128,
                "optimiser": "adam",
                "learning_rate": 0.001 if side >= LARGE else 0.003,
                "ema_epochs": min(5.0, max(1.0, epochs / 4)),
            },
            "evaluation": {"target_accuracies": list(target_accuracies)},
            "losses": {"ce": {}, AUCOC: {"weight": 0.3, "smoothing": "log_odds"}},
        },
        settings,
    )
    augment = content["data"].pop("augment", None)
    if augment is None or augment is True:
        augment = _usual_augmentation(data, side)
    plain = _checked(Recipe, merge(content, {"data": {"augment": False}}), settings)
    if augment is False:
        return Plan(plain=plain, augmented=None, augmentation="none")
    augmented = _checked(Recipe, merge(content, {"data": {"augment": augment}}), settings)
    return Plan(plain=plain, augmented=augmented, augmentation=_in_words(augmented))


def _usual_augmentation(data: Dataset, side: int) -> dict[str, Any]:
    """Return the usual augmentation of the data; for others, small shifts, which suit most data."""
    own = data.augmentation
    if own == Augmentation():
        return {"padding": max(1, side // 16)}
    return own.model_dump(exclude_defaults=True)


def _checked(section: type[Section], content: dict[str, Any], settings: Sequence[str]) -> Section:
    try:
        return section.model_validate(content)
    except ValidationError as error:
        changed = f" with {', '.join(settings)}" if settings else ""
        problems = problems_of(error, section)
        raise ParameterError(f"There is no ladder{changed}: {problems}") from error


def _in_words(recipe: Recipe) -> str:
    how = recipe.data.augment
    if isinstance(how, bool):
        return "the usual one" if how else "none"
    parts = {
        f"shifts by up to {how.padding} pixel{'s' if how.padding > 1 else ''}": how.padding,
        "mirror images": how.flip,
        "upside down": how.flip_vertical,
        "the eight symmetries": how.symmetries,
    }
    return ", ".join(words for words, used in parts.items() if used) or "none"
