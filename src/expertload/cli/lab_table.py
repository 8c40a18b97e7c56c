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
    kind: TableKind = "performance",
    format: TableFormat = "markdown",  # noqa: A002 - the usual name
    losses: str | None = None,
    number: OutlierNumber = "auroc",
    ensembles: bool = False,
    as_published: bool = False,
    save_rows: Path | None = None,
) -> None:
    """Make the paper's tables from runs, with the published figures next to ours.

    Mean and spread are over seeds; the best is bold and the second underlined. If a loss was
    trained with several options, the table shows those that were best on validation data.

    Parameters
    ----------
    kind
        What the table shows.
    format
        The format of the table.
    losses : NAMES, default all there are
        Losses to show, separated by commas.
    number
        The number to show, with --kind ood.
    ensembles
        Also show the mean probability over the seeds of each loss.
    as_published
        Compute AUCOC, loads, KS and class-wise ECE as the authors' code does, and calibrate by
        their grid of temperatures, to compare with the published figures.
    save_rows : FILE.csv
        Also write every number of every run to this CSV file, with seeds, settings and versions.
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
    first: str,
    second: str,
    runs: Path | None = None,
    number: str = "aucoc",
    rounds: Annotated[int, typer.Option(min=1)] = 1000,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Test whether two runs, or groups of runs, differ on the same test cases.

    Groups are compared as ensembles, and seed by seed if both have the same seeds.

    Parameters
    ----------
    first
        A run's folder, several separated by commas, or a loss.
    second
        The same, for the runs to compare with.
    runs : FOLDER
        Folder of runs, or a recipe's name: FIRST and SECOND are then losses.
    number : NAME
        The number to compare: aucoc, accuracy, load@95, ece, ks, brier, cwece or nll.
    rounds
        Rounds of the permutation test.
    seed
        Seed of the permutation test.
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
