"""`expertload lab table RUNS` and `expertload lab compare FIRST SECOND`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from expertload.cli.screen import console, neutral
from expertload.lab import OutlierNumber, TableFormat, TableKind

Folder = Annotated[
    Path,
    typer.Argument(help="A folder of runs, or the name of a recipe whose runs are in runs/NAME."),
]


def table(
    runs: Folder,
    kind: Annotated[TableKind, typer.Option(help="What the table shows.")] = "performance",
    format: Annotated[  # noqa: A002 - the usual name
        TableFormat, typer.Option(help="The format of the table.")
    ] = "markdown",
    losses: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Losses to show, separated by commas.",
            show_default="all there are",
        ),
    ] = None,
    number: Annotated[
        OutlierNumber, typer.Option(help="The number to show, with --kind ood.")
    ] = "auroc",
    ensembles: Annotated[
        bool,
        typer.Option(
            "--ensembles", help="Also show the mean probability over the seeds of each loss."
        ),
    ] = False,
    as_published: Annotated[
        bool,
        typer.Option(
            "--as-published",
            help="Compute AUCOC, loads, KS and class-wise ECE as the authors' code does, and "
            "calibrate by their grid of temperatures, to compare with the published figures.",
        ),
    ] = False,
    save_rows: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="Also write every number of every run to this CSV file, with seeds, settings "
            "and versions.",
        ),
    ] = None,
) -> None:
    """Make the paper's tables from runs, with the published figures next to ours.

    Mean and spread are over seeds; the best is bold and the second underlined. If a loss was
    trained with several options, the table shows those that were best on validation data.
    """
    from expertload.lab.results.ensembles import collect_ensembles
    from expertload.lab.results.rows import collect, write_rows
    from expertload.lab.results.tables import make_table

    rows = collect(_find(runs), as_published=as_published)
    if ensembles:
        rows += collect_ensembles(_find(runs))
    text = make_table(
        rows,
        kind=kind,
        format=format,
        losses=None if losses is None else [name.strip() for name in losses.split(",")],
        outlier_number=number,
    )
    if save_rows is not None:
        write_rows(save_rows, rows)
    if not text:
        what = "runs that are done" if not rows else f"results for --kind {kind}"
        console(stderr=True).print(f"There are no {what} in {_find(runs)}.")
        raise typer.Exit(1)
    if as_published and format == "markdown":
        text = f"Computed as the authors' code does.\n\n{text}"
    typer.echo(neutral(text))


def compare(
    first: Annotated[
        str, typer.Argument(help="A run's folder, several separated by commas, or a loss.")
    ],
    second: Annotated[str, typer.Argument(help="The same, for the runs to compare with.")],
    runs: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder of runs, or a recipe's name: FIRST and SECOND are then losses.",
        ),
    ] = None,
    number: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The number to compare: aucoc, accuracy, load@95, ece, ks, brier, cwece or nll.",
        ),
    ] = "aucoc",
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of the permutation test.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the permutation test.")] = 0,
) -> None:
    """Test whether two runs, or groups of runs, differ on the same test cases.

    Groups are compared as ensembles, and seed by seed if both have the same seeds.
    """
    from expertload.lab.results.compare import compare_runs

    sides = [_side(words, runs) for words in (first, second)]
    result = compare_runs(sides[0], sides[1], number=number, n_rounds=rounds, random_state=seed)
    typer.echo(neutral(str(result)))


def _side(words: str, runs: Path | None) -> list[Path]:
    if runs is None:
        return [Path(word.strip()) for word in words.split(",")]
    from expertload.lab.results.rows import runs_of_loss

    return runs_of_loss(_find(runs), words)


def _find(runs: Path) -> Path:
    """Return the named folder, or the folder of the runs of a recipe with that name."""
    usual = Path("runs") / runs
    return usual if usual.is_dir() and not runs.is_dir() else runs
