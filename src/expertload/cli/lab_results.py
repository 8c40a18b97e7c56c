"""`expertload lab evaluate`, `table`, `lower-load` and others: from finished runs to results."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expertload._names import CALIBRATOR_NAMES, Objective
from expertload.cli.files import check_output, check_outputs, say_where
from expertload.cli.lab_train import ACCESS
from expertload.cli.options import AsJson, Report, Rows, numbers_in, takes
from expertload.cli.screen import console, neutral, rows_done, table_of
from expertload.lab import TableFormat, TableKind

if TYPE_CHECKING:
    from rich.table import Table

    from expertload.lab.results.evaluate import RunEvaluation
    from expertload.lab.results.outliers import OutlierEvaluation
    from expertload.lab.runs.finished import FinishedRun

Views = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Test-time augmentation: auto (chosen on validation data), none, flip, shift or "
        "symmetries.",
        show_default="none",
    ),
]


@takes(access=ACCESS)
def evaluate(
    runs: list[Path],
    calibrator: Annotated[
        str, typer.Option(metavar="NAME", help=f"The calibrator: {', '.join(CALIBRATOR_NAMES)}.")
    ] = "temperature",
    at: str | None = None,
    views: Views = None,
    out: Report = None,
    save_policy: Path | None = None,
    as_json: AsJson = False,
    *,
    access: dict[str, Any],
) -> None:
    """Evaluate runs, before and after calibration on validation data.

    Several runs of the same data are also evaluated as an ensemble, which averages their
    probabilities. The report and the policy use probabilities before calibration; the policy is
    for the first of the ACCURACIES.

    Parameters
    ----------
    runs : RUN
        Folders of finished runs.
    at : ACCURACIES, default the recipe's
        Accuracies at which to report the expert load: 0.9,0.95.
    save_policy : POLICY.json
        Save the operating point certified on the test split, for 'expertload decide'; for several
        runs, the one of their ensemble.
    """
    targets = None if at is None else numbers_in(at, "accuracies", "0.9,0.95")
    check_outputs(out, save_policy)

    from expertload.lab.results.evaluate import evaluate_runs

    models: Sequence[Path | FinishedRun] = runs
    if views is not None:
        from expertload.lab.results.ensembles import with_views

        models = with_views(runs, views=views, **access)
        for run in models:
            console(stderr=as_json).say(f"{run.name}: {run.choice}")
    evaluation = evaluate_runs(models, calibrator=calibrator, target_accuracies=targets, **access)
    if as_json:
        typer.echo(json.dumps(asdict(evaluation), indent=2))
    else:
        console().print(_numbers(evaluation))
    if out is None and save_policy is None:
        return
    from expertload.lab.results.evaluate import evaluate_test_cases, write_report
    from expertload.lab.results.evaluate import save_policy as write_policy

    tested, screen = evaluate_test_cases(models, target_accuracies=targets), console(stderr=as_json)
    if out is not None:
        write_report(tested, out, title=f"Expert load on {evaluation.data}")
        say_where(screen, out, None)
    if save_policy is not None:
        say_where(screen, None, save_policy, write_policy(tested, save_policy))


def _numbers(evaluation: RunEvaluation) -> Table:
    """Return a table: one row per number, one column per run before and after calibration."""
    from expertload.lab.results.measures import find_measure

    everything = dict(evaluation.runs)
    if evaluation.ensemble is not None:
        everything["ensemble"] = evaluation.ensemble
    title = f"{evaluation.data}, test split, in % except NLL (calibrator: {evaluation.calibrator})"
    headings = ["", *(heading for name in everything for heading in (name, "calibrated"))]
    first = next(iter(everything.values()))["test"]
    columns = [*product(everything.values(), ("test", "test_calibrated"))]
    rows = [
        [find_measure(number).heading, *(_cell(number, numbers[side]) for numbers, side in columns)]
        for number in first
        if not number.startswith("aucoc_")
    ]
    return table_of(headings, rows, title=title)


def _cell(name: str, numbers: dict[str, float]) -> str:
    from expertload.lab.results.measures import find_measure

    show = find_measure(name).show
    if name != "aucoc":
        return show(numbers[name])
    low, high = show(numbers["aucoc_low"]), show(numbers["aucoc_high"])
    return f"{show(numbers[name])} ({low} to {high})"


@takes(access=ACCESS)
def ensemble(
    runs: list[Path],
    out: Path | None = None,
    views: Views = None,
    *,
    access: dict[str, Any],
) -> None:
    """Combine several runs into one model, which averages their probabilities.

    The ensemble is a run like any other: 'expertload lab evaluate' writes its report and policy,
    'lab compare' compares it, and 'lab table' has a row for it.

    Parameters
    ----------
    runs : RUN
        Folders of two or more finished runs.
    out : FOLDER, default next to the first run
        Folder of the ensemble.
    """
    from expertload.ensembling import make_views
    from expertload.lab.results.ensembles import make_ensemble

    made = make_ensemble(runs, out=out, views=views, **access)
    test = made.folder.read_json("results.json")["test"]
    screen = console()
    screen.say(
        f"ensemble of {len(made.members)}: {made.label}\n"
        f"test: AUCOC {test['aucoc']:.4f}  accuracy {test['accuracy']:.4f}"
    )
    passes = sum(len(make_views(member.views)) for member in made.members)
    screen.print(f"cost: {passes} passes for each image")
    screen.say(f"folder: {made.folder.path}")


@takes(access=ACCESS)
def predict(
    runs: list[Path],
    data: Annotated[str, typer.Option()],
    out: Rows = None,
    batch_size: Annotated[int, typer.Option(min=1)] = 512,
    *,
    access: dict[str, Any],
) -> None:
    """Write the probabilities of new images, for 'expertload decide'.

    The output has one row per image: its name, and the probability of each class. Images are
    resized and normalised like the training images.

    Parameters
    ----------
    runs : RUN
        Folder of a finished run, of an ensemble, or of 'lab lower-load'. The probabilities of
        several runs are averaged.
    data : DATA
        New images: folder:PATH, with its subfolders, or npz:PATH with an array 'images'.
    batch_size
        The number of images in a batch.
    """
    from expertload.lab.results.predict import predict_images

    if out is not None:
        check_output(out)
    with rows_done(data) as progress:
        count = predict_images(
            runs,
            data,
            sys.stdout if out is None else out,
            batch_size=batch_size,
            progress=None if out is None and sys.stdout.isatty() else progress,
            **access,
        )
    if out is not None:
        console().say(f"{count:,} images: {out}")


@takes(access=ACCESS)
def ood(
    run: Path,
    against: Annotated[str, typer.Option()],
    objective: Objective = "nll",
    max_images: Annotated[int | None, typer.Option(min=1)] = None,
    as_json: AsJson = False,
    *,
    access: dict[str, Any],
) -> None:
    """Measure how well confidences separate outliers from the run's own test images.

    An ensemble has probabilities but no logits, so MSP is its only score. The results are stored
    in the run's folder; 'expertload lab table --kind ood' shows them.

    Parameters
    ----------
    run
        Folder of a finished run.
    against : DATA
        Data sets, separated by commas: cifar100-c:gaussian_noise,svhn. corrupted:fog:3 is the run's
        own test images under a corruption; 'all' instead of 'fog' is the mean over all corruptions.
    objective
        What the temperature of ODIN without perturbation minimises.
    max_images, default all
        Use at most this many test images and outliers.
    """
    names = [name.strip() for name in against.split(",") if name.strip()]

    from expertload.lab.results.outliers import evaluate_outliers

    evaluation = evaluate_outliers(
        run, names, objective=objective, max_images=max_images, save=True, **access
    )
    if as_json:
        typer.echo(json.dumps(asdict(evaluation), indent=2))
    else:
        _show(evaluation)


def _show(evaluation: OutlierEvaluation) -> None:
    screen = console()
    for name, scores in evaluation.results.items():
        rows = [[s, *(f"{100 * n:.2f}" for n in numbers.values())] for s, numbers in scores.items()]
        screen.print(table_of(["", "AUROC", "AUPR", "FPR95"], rows, title=f"{name}, %"))
        screen.print(f"images: {evaluation.conversions[name]}\n", style="dim")


# ------------------------------------------------------------------ tables


Folder = Annotated[
    Path,
    typer.Argument(help="A folder of runs, or the name of a recipe whose runs are in runs/NAME."),
]


def table(
    runs: Folder,
    kind: TableKind = "performance",
    format: TableFormat = "markdown",  # noqa: A002 - the usual name
    losses: str | None = None,
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
