"""`expertload lab ood RUN --against cifar100-c:gaussian_noise,svhn,…`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expertload._names import Objective, Positive
from expertload.cli.lab_data import AllowImport, DataDir
from expertload.cli.outputs import AsJson
from expertload.cli.screen import console
from expertload.lab import Resize

if TYPE_CHECKING:
    from expertload.lab.results.outliers import OutlierEvaluation


def ood(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    against: Annotated[
        str,
        typer.Option(
            metavar="DATA",
            help="Data sets, separated by commas: cifar100-c:gaussian_noise,svhn. "
            "corrupted:fog:3 is the run's own test images under a corruption; 'all' instead of "
            "'fog' is the mean over all corruptions.",
        ),
    ],
    epsilon: Annotated[
        float,
        typer.Option(min=0, metavar="SHARE", help="ODIN's step, as a share of black to white."),
    ] = 0.0014,
    odin_temperature: Annotated[
        float, typer.Option(help="Temperature of ODIN with perturbation.")
    ] = 1000.0,
    objective: Annotated[
        Objective, typer.Option(help="What the temperature of ODIN without perturbation minimises.")
    ] = "nll",
    positive: Annotated[
        Positive, typer.Option(help="The positive class of AUPR and FPR95.")
    ] = "outlier",
    resize: Annotated[
        Resize, typer.Option(help="How to resize outliers of another size.")
    ] = "bilinear",
    max_images: Annotated[
        int | None,
        typer.Option(
            min=1, help="Use at most this many test images and outliers.", show_default="all"
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(metavar="NAME", help="The device of the network: cpu or cuda.")
    ] = "cpu",
    data_dir: DataDir = None,
    allow_import: AllowImport = None,
    as_json: AsJson = False,
) -> None:
    """Measure how well confidences separate outliers from the run's own test images.

    An ensemble has probabilities but no logits, so MSP is its only score. The results are stored
    in the run's folder; 'expertload lab table --kind ood' shows them.
    """
    names = [name.strip() for name in against.split(",") if name.strip()]

    from expertload.lab.results.outliers import evaluate_outliers

    evaluation = evaluate_outliers(
        run,
        names,
        epsilon=epsilon,
        odin_temperature=odin_temperature,
        objective=objective,
        positive=positive,
        resize=resize,
        max_images=max_images,
        device=device,
        data_dir=data_dir,
        save=True,
        allow=allow_import or (),
    )
    if as_json:
        typer.echo(json.dumps(evaluation.to_dict(), indent=2))
    else:
        _show(evaluation)


def _show(evaluation: OutlierEvaluation) -> None:
    from rich.table import Table

    screen = console()
    for name, scores in evaluation.results.items():
        table = Table(title=f"{name}, %", title_justify="left", box=None, pad_edge=False)
        table.add_column("")
        for heading in ("AUROC", "AUPR", "FPR95"):
            table.add_column(heading, justify="right")
        for score, numbers in scores.items():
            table.add_row(score, *(f"{100 * value:.2f}" for value in numbers.values()))
        screen.print(table)
        screen.print(f"images: {evaluation.conversions[name]}\n", style="dim")
