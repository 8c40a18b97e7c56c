"""`expertload lab train RECIPE --loss NAME --seed N`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expertload.cli.lab_data import AllowImport, DataDir
from expertload.cli.screen import console

if TYPE_CHECKING:
    from expertload.lab.runs.recipe import LossConfig, Recipe, RunConfig


Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting of the recipe: training.epochs=2. May be repeated.",
        show_default=False,
    ),
]
Devices = Annotated[int, typer.Option(min=1, help="Processes, or GPUs, on each machine.")]
Nodes = Annotated[int, typer.Option(min=1, help="Number of machines.")]
Accelerator = Annotated[
    str, typer.Option(metavar="NAME", help="Where to train: cpu, gpu, mps or auto.")
]


def train(
    recipe: Annotated[
        str,
        typer.Argument(
            help="A recipe (a name in experiments/, or a TOML file), or the folder of a run to "
            "continue."
        ),
    ],
    loss: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="One of the recipe's losses.", show_default="ce"),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="The seed of weights, order and augmentation.", show_default="0"),
    ] = None,
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
    allow_import: AllowImport = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write TensorBoard files.")
    ] = False,
) -> None:
    """Train one run. Run the same command again to continue a stopped run.

    The loss is computed on the combined batch of all processes, so results do not depend on their
    number. `loss.weight` and `loss.options` can be --set as well: --set loss.weight=2.
    """
    # Lightning and torch take seconds to import, so errors that need neither are found first.
    config, folder = _run(recipe, loss, seed, settings or [], out, allow_import or [])

    from expertload.lab.runs.folder import RunFolder
    from expertload.lab.training.loop import train as train_run
    from expertload.lab.training.progress import ConsoleReporter, Reporter, Reporters

    changed = settings or RunFolder(folder).environment().get("set", [])
    reporters: list[Reporter] = [ConsoleReporter(console(), folder=folder)]
    if tensorboard:
        from expertload.lab.training.progress import TensorBoardReporter

        reporters.append(TensorBoardReporter(folder / "tensorboard"))
    train_run(
        config,
        folder,
        data_dir=data_dir,
        accelerator=accelerator,
        devices=devices,
        nodes=nodes,
        reporter=Reporters(*reporters),
        changed=changed,
    )


def _run(
    recipe: str,
    loss: str | None,
    seed: int | None,
    settings: list[str],
    out: Path | None,
    allow_import: list[str],
) -> tuple[RunConfig, Path]:
    """Return the requested configuration and its folder."""
    from expertload.lab.runs.recipe_files import load_recipe

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

    from expertload.lab.runs.recipe import LossConfig
    from expertload.lab.runs.recipe_files import change, problems_of

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
