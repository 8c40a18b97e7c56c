"""`expertload lab sweep RECIPE --losses … --seeds …`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expertload.cli.lab_data import DataDir
from expertload.cli.lab_train import Accelerator, Devices, Nodes, Settings
from expertload.cli.screen import console

if TYPE_CHECKING:
    from expertload.lab.sweeps.launch import Launcher


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


def sweep(
    recipe: Annotated[
        str, typer.Argument(help="A recipe: a name in experiments/, or a TOML file.")
    ],
    losses: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="The losses to train, separated by commas.",
            show_default="all of the recipe's",
        ),
    ] = None,
    seeds: Annotated[
        str, typer.Option(metavar="SEEDS", help="Seeds, such as 0-9 or 0,2,7.")
    ] = "0-4",
    tuning_seeds: Annotated[
        str | None,
        typer.Option(
            metavar="SEEDS",
            help="Seeds used to choose among the candidates of a loss.",
            show_default="the first seed",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of runs to train at a time.")] = 1,
    settings: Settings = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder for the run folders.", show_default="runs/RECIPE"
        ),
    ] = None,
    data_dir: DataDir = None,
    devices: Devices = 1,
    nodes: Nodes = 1,
    accelerator: Accelerator = "auto",
    slurm: Annotated[bool, typer.Option("--slurm", help="Train each run as a Slurm job.")] = False,
    job_settings: Annotated[
        list[str] | None,
        typer.Option(
            "--job",
            metavar="KEY=VALUE",
            help="A setting of the Slurm jobs: slurm_partition=gpu. May be repeated.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Train a grid of losses and seeds. Run the same command again to continue a stopped sweep.

    If a loss has several candidates, they are trained with the tuning seeds first. The one that is
    best on validation data is then trained with every seed (see choice.json).
    """
    from expertload.lab.runs.recipe_files import load_recipe

    loaded = load_recipe(recipe, settings=settings or [])
    names = [n.strip() for n in losses.split(",")] if losses else list(loaded.losses)
    all_seeds = _numbers(seeds)
    tuning = _numbers(tuning_seeds) if tuning_seeds else None
    folder = out or Path("runs") / loaded.name

    from expertload.lab.runs.origin import load_run_data
    from expertload.lab.sweeps.display import observing, print_report
    from expertload.lab.sweeps.sweep import Sweep

    # Missing data are reported once here, instead of in the log of every run.
    dataset = load_run_data(loaded.data, data_dir=data_dir)
    grid = Sweep(
        loaded, folder, losses=names, seeds=all_seeds, tuning_seeds=tuning, dataset=dataset
    )
    options: dict[str, Any] = {"data_dir": data_dir and str(data_dir.resolve())}
    options |= {"accelerator": accelerator, "devices": devices, "nodes": nodes}
    options |= {"allow": grid.imports(), "changed": settings or []}
    launcher = _launcher(folder, jobs, slurm, job_settings or [], options)
    screen = console()
    with observing(screen) as observer:
        report = grid.run(launcher, jobs=jobs, observer=observer)
    print_report(screen, report)
    if report.failed:
        raise typer.Exit(1)


def _launcher(
    folder: Path, jobs: int, slurm: bool, job_settings: list[str], options: dict[str, Any]
) -> Launcher:
    from expertload.lab.runs.recipe_files import change
    from expertload.lab.sweeps.launch import ClusterLauncher, ProcessLauncher

    parameters = change({}, job_settings)
    if slurm:
        return ClusterLauncher(folder / "jobs", cluster="slurm", parameters=parameters, **options)
    if parameters:
        raise typer.BadParameter("--job needs --slurm.")
    return ProcessLauncher(jobs=jobs, **options)
