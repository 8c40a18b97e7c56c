"""`expertload lab`: data, recipes, training and sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expertload.cli.options import OptionGroup, takes
from expertload.cli.screen import console, table_of

if TYPE_CHECKING:
    from expertload.lab.runs.recipe import LossConfig, Recipe, RunConfig
    from expertload.lab.sweeps.launch import Launcher


def _access(
    data_dir: Path | None = None, device: str = "auto", allow_import: list[str] | None = None
) -> dict[str, Any]:
    """Say where data and networks are used.

    Parameters
    ----------
    data_dir : FOLDER
        Folder of the data files; by default $EXPERTLOAD_DATA or the user's cache.
    device : NAME
        Where networks predict: cpu, cuda, cuda:1, mps; auto is a GPU if there is one.
    allow_import : MODULE:NAME
        Allow importing this network or loss, named in the run's folder. May be repeated.
    """
    return {"data_dir": data_dir, "device": device, "allow": allow_import or ()}


def _training(
    settings: Annotated[list[str] | None, typer.Option("--set")] = None,
    out: Path | None = None,
    devices: Annotated[int, typer.Option(min=1)] = 1,
    nodes: Annotated[int, typer.Option(min=1)] = 1,
    accelerator: str = "auto",
) -> dict[str, Any]:
    """Say how to train.

    Parameters
    ----------
    settings : KEY=VALUE
        Change a setting of the recipe: training.epochs=2. May be repeated.
    out : FOLDER, default runs/RECIPE
        Folder for the run folders.
    devices
        Processes, or GPUs, on each machine.
    nodes
        Number of machines.
    accelerator : NAME
        Where to train: cpu, gpu, mps or auto.
    """
    on = {"accelerator": accelerator, "devices": devices, "nodes": nodes}
    return {"settings": settings or [], "out": out, "on": on}


ACCESS = OptionGroup(_access, _access)
TRAINING = OptionGroup(_training, _training)


@takes(access=ACCESS.only("data_dir"))
def list_data(*, access: dict[str, Any]) -> None:
    """List the data sets, and which of them are on this machine."""
    from expertload.lab.data import describe_datasets

    datasets = describe_datasets(data_dir=access["data_dir"])
    rows = [(data.usage, "yes" if data.present else "no", data.summary) for data in datasets]
    out = console()
    out.print(table_of(["name", "here", "what it is"], rows, left=True))
    out.print("\nTo get one: expertload lab data fetch NAME", style="dim")


@takes(access=ACCESS.only("data_dir"))
def fetch_data(name: str, *, access: dict[str, Any]) -> None:
    """Download a data set from its official address.

    Parameters
    ----------
    name
        A name from 'expertload lab data list'.
    """
    from expertload.lab.data import fetch_dataset

    folder = fetch_dataset(name, data_dir=access["data_dir"], progress=True)
    console().print(f"{name} is in {folder}")


def recipes(name: Annotated[str | None, typer.Argument()] = None) -> None:
    """List the recipes that come with the library, or print one.

    A printed recipe is a good start for your own: `expertload lab recipes digits > mine.toml`. Or
    write only the settings that differ, below a first line `extends = "digits"`.

    Parameters
    ----------
    name
        A recipe to print.
    """
    from expertload.lab.runs.recipe import describe_recipes, read_recipe_text

    if name is not None:
        typer.echo(read_recipe_text(name), nl=False)
        return
    rows = sorted(describe_recipes().items())
    console().print(table_of(["recipe", "what it is"], rows, left=True))


@takes(training=TRAINING, access=ACCESS.without("device"))
def train(
    recipe: str,
    loss: str | None = None,
    seed: Annotated[int | None, typer.Option(min=0)] = None,
    *,
    training: dict[str, Any],
    access: dict[str, Any],
) -> None:
    """Train one run. Run the same command again to continue a stopped run.

    The loss is computed on the combined batch of all processes, so results do not depend on their
    number. `loss.weight` and `loss.options` can be --set as well: --set loss.weight=2.

    Parameters
    ----------
    recipe
        A recipe (a name in experiments/, or a TOML file), or the folder of a run to continue.
    loss : NAME, default ce
        One of the recipe's losses.
    seed, default 0
        The seed of weights, order and augmentation.
    """
    # Lightning and torch take seconds to import, so errors that need neither are found first.
    settings = training["settings"]
    config, folder = _run(recipe, loss, seed, settings, training["out"], access["allow"])

    from expertload.lab.runs.folder import RunFolder
    from expertload.lab.training.loop import train as train_run
    from expertload.lab.training.progress import Reporter

    changed = settings or RunFolder(folder).environment().get("set", [])
    train_run(
        config,
        folder,
        data_dir=access["data_dir"],
        reporter=Reporter(console(), folder=folder),
        changed=changed,
        **training["on"],
    )


def _run(
    recipe: str,
    loss: str | None,
    seed: int | None,
    settings: list[str],
    out: Path | None,
    allow_import: Sequence[str],
) -> tuple[RunConfig, Path]:
    """Return the requested configuration and its folder."""
    from expertload.lab.runs.recipe import load_recipe

    if (Path(recipe) / "config.json").is_file():
        from expertload.lab.runs.folder import RunFolder
        from expertload.lab.runs.origin import refuse_imports

        if loss or seed is not None or settings or out:
            raise typer.BadParameter(f"{recipe} is a run, whose loss, seed and settings are fixed.")
        config = RunFolder(recipe).config()
        refuse_imports(config, Path(recipe), allow=allow_import)
        return config, Path(recipe)
    about_loss = [s for s in settings if s.partition(".")[0].strip() == "loss"]
    loaded = load_recipe(recipe, settings=[s for s in settings if s not in about_loss])
    config = loaded.run(_candidate(loaded, loss or "ce", about_loss), seed or 0)
    return config, (out or Path("runs") / loaded.name) / config.run_name


def _candidate(recipe: Recipe, loss: str, settings: list[str]) -> LossConfig:
    """Return the first candidate of a loss, with the changes of --set."""
    from pydantic import ValidationError

    from expertload.lab.runs.recipe import LossConfig, change, problems_of

    candidates = recipe.candidates(loss)
    if len(candidates) > 1 and not settings:
        console().print(
            f"The recipe has {len(candidates)} candidates for {loss}; this trains the first. "
            "'expertload lab sweep' chooses between them.",
            style="dim",
        )
    changed = change({"loss": candidates[0].model_dump()}, settings)["loss"]
    try:
        return LossConfig.model_validate(changed)
    except ValidationError as error:
        raise typer.BadParameter(f"loss: {problems_of(error, LossConfig)}") from error


def _numbers(text: str) -> list[int]:
    """Read `0-3,7` as 0, 1, 2, 3, 7."""
    numbers: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            numbers += range(int(first), int(last or first) + 1)
    except ValueError:
        numbers = []
    if not numbers:
        raise typer.BadParameter(f"{text!r} is not a list of seeds. Hint: 0-4 or 0,2,7.")
    return list(dict.fromkeys(numbers))


@takes(training=TRAINING, access=ACCESS.only("data_dir"))
def sweep(
    recipe: str,
    losses: str | None = None,
    seeds: str = "0-4",
    tuning_seeds: str | None = None,
    jobs: Annotated[int, typer.Option(min=1)] = 1,
    slurm: bool = False,
    job_settings: Annotated[list[str] | None, typer.Option("--job")] = None,
    *,
    training: dict[str, Any],
    access: dict[str, Any],
) -> None:
    """Train a grid of losses and seeds. Run the same command again to continue a stopped sweep.

    If a loss has several candidates, they are trained with the tuning seeds first. The one that is
    best on validation data is then trained with every seed (see choice.json).

    Parameters
    ----------
    recipe
        A recipe: a name in experiments/, or a TOML file.
    losses : NAMES, default all of the recipe's
        The losses to train, separated by commas.
    seeds : SEEDS
        Seeds, such as 0-9 or 0,2,7.
    tuning_seeds : SEEDS, default the first seed
        Seeds used to choose among the candidates of a loss.
    jobs
        Number of runs to train at a time.
    slurm
        Train each run as a Slurm job.
    job_settings : KEY=VALUE
        A setting of the Slurm jobs: slurm_partition=gpu. May be repeated.
    """
    from expertload.lab.runs.recipe import load_recipe

    settings, data_dir = training["settings"], access["data_dir"]
    loaded = load_recipe(recipe, settings=settings)
    names = [n.strip() for n in losses.split(",")] if losses else list(loaded.losses)
    all_seeds = _numbers(seeds)
    tuning = _numbers(tuning_seeds) if tuning_seeds else None
    folder = training["out"] or Path("runs") / loaded.name

    from expertload.lab.runs.origin import load_run_data
    from expertload.lab.sweeps.sweep import Observer, Sweep, print_report

    # Missing data are reported once here, instead of in the log of every run.
    dataset = load_run_data(loaded.data, data_dir=data_dir)
    grid = Sweep(
        loaded, folder, losses=names, seeds=all_seeds, tuning_seeds=tuning, dataset=dataset
    )
    options = {"data_dir": data_dir and str(data_dir.resolve()), **training["on"]}
    options |= {"allow": grid.imports(), "changed": settings}
    launcher = _launcher(folder, jobs, slurm, job_settings or [], options)
    screen = console()
    report = grid.run(launcher, jobs=jobs, observer=Observer(screen))
    print_report(screen, report)
    if report.failed:
        raise typer.Exit(1)


def _launcher(
    folder: Path, jobs: int, slurm: bool, job_settings: list[str], options: dict[str, Any]
) -> Launcher:
    from expertload.lab.runs.recipe import change
    from expertload.lab.sweeps.launch import ClusterLauncher, ProcessLauncher

    parameters = change({}, job_settings)
    if slurm:
        return ClusterLauncher(folder / "jobs", cluster="slurm", parameters=parameters, **options)
    if parameters:
        raise typer.BadParameter("--job needs --slurm.")
    return ProcessLauncher(jobs=jobs, **options)
