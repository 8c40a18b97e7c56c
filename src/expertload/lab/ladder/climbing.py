"""Runs the whole ladder on one data set: train, measure, certify, write the results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from expertload._validation import check_count, check_targets, require_extra
from expertload.lab.ladder.answers import Questions
from expertload.lab.ladder.outcome import LowerLoad, write_outcome
from expertload.lab.ladder.plan import AUCOC, Plan, load_data, look_at, make_plan
from expertload.lab.ladder.steps import Ladder, Network, climb
from expertload.lab.ladder.training import Narrator, Silent, Trainer
from expertload.lab.results.ensembles import make_ensemble
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.sweeps.launch import Launcher

__all__ = ["lower_load"]

Arms = dict[str, list[FinishedRun]]


def lower_load(
    data: str,
    *,
    out: str | Path | None = None,
    network: str | None = None,
    epochs: int = 30,
    networks: int = 2,
    target_accuracy: float | Sequence[float] = (0.95, 0.9),
    aucoc: bool = True,
    first_seed: int = 0,
    settings: Sequence[str] = (),
    data_dir: str | Path | None = None,
    jobs: int | None = None,
    accelerator: str = "auto",
    launcher: Launcher | None = None,
    narrator: Narrator | None = None,
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
    first_seed : int, default=0
        The seed of the first network; the others have the next seeds.
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
    narrator : Narrator, optional
        Receives a line about each next step; silent by default.

    Returns
    -------
    LowerLoad

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab import lower_load
    >>> with TemporaryDirectory() as folder:  # doctest: +SKIP
    ...     found = lower_load("digits", out=folder, epochs=4)
    ...     print(f"{found.rows[0].numbers.aucoc:.3f} to {found.rows[-1].numbers.aucoc:.3f}")
    0.983 to 0.987
    """
    check_count(networks, "networks", minimum=2)
    check_count(epochs, "epochs")
    targets = check_targets(target_accuracy)
    require_extra("jinja2", "report", "The report of the ladder")
    told = narrator or Silent()
    loaded = load_data(data, settings=settings, data_dir=data_dir)
    notes = look_at(loaded)
    plan = make_plan(
        loaded, network=network, epochs=epochs, target_accuracies=targets, settings=settings
    )
    told.say(f"{loaded!r}, {plan.plain.model.name}, {plan.plain.training.epochs} epochs")
    for note in notes:
        told.say(f"note: {note}")
    folder = Path(out) if out is not None else Path("runs") / f"lower-load-{_file_name(data)}"
    trainer = Trainer(
        folder=folder,
        data=loaded,
        seeds=range(first_seed, first_seed + networks),
        jobs=jobs or networks,
        narrator=told,
        data_dir=data_dir,
        accelerator=accelerator,
        launcher=launcher,
    )
    questions = Questions(data_dir=data_dir, allow=_imports(plan))
    ladder = _train_and_climb(plan, trainer, questions, aucoc=aucoc)
    told.say("measuring every step on the test images, and certifying a policy on half of them")
    return write_outcome(
        ladder,
        _make_model(ladder, questions),
        loaded,
        folder,
        target_accuracies=targets,
        augmentation=plan.augmentation,
        notes=notes,
    )


def _train_and_climb(plan: Plan, trainer: Trainer, questions: Questions, *, aucoc: bool) -> Ladder:
    """Train each arm; the arm with AUCOC uses the steps taken without it."""
    arms: Arms = {"plain": trainer.train(plan.plain, "plain", "ce", "cross-entropy alone")}
    if plan.augmented is not None:
        how = f"with augmentation ({plan.augmentation})"
        arms["augmented"] = trainer.train(plan.augmented, "augmented", "ce", how)
    trainer.narrator.say("weights and views of each image chosen on validation images")
    ladder = climb(_networks(arms), questions)
    if not aucoc:
        return ladder
    is_augmented = {step.name: step.is_taken for step in ladder.steps}.get("augmentation", False)
    base = plan.augmented if is_augmented and plan.augmented is not None else plan.plain
    arms["aucoc"] = trainer.train(base, "aucoc", AUCOC, "with AUCOC in addition to cross-entropy")
    return climb(_networks(arms), questions)


def _networks(arms: Arms) -> list[Network]:
    """Return the runs of each network, for all arms that were trained."""
    seeds = zip(*arms.values(), strict=True)
    return [Network(**{"plain": None, **dict(zip(arms, own, strict=True))}) for own in seeds]


def _make_model(ladder: Ladder, questions: Questions) -> FinishedRun:
    """Combine the networks at the top of the ladder into one run, with their views."""
    taken = {step.name: step.is_taken for step in ladder.steps}
    runs = ladder.steps[-1].runs
    if taken["views"] or taken.get("aucoc", False):
        return make_ensemble([questions.view(run) for run in runs])
    return make_ensemble(list(runs))


def _imports(plan: Plan) -> list[str]:
    """Return the import path of the user's own network, which this call named."""
    return [name for name in [plan.plain.model.name] if ":" in name]


def _file_name(data: str) -> str:
    """Return the name of the data as a file name; for a path, its last part."""
    kind, _, argument = data.partition(":")
    return Path(argument).stem if kind in ("folder", "npz") else data.replace(":", "-")
