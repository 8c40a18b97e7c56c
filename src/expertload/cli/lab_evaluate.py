"""`expertload lab evaluate RUN…`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expertload._names import CALIBRATOR_NAMES
from expertload.cli.lab_data import AllowImport, DataDir
from expertload.cli.outputs import AsJson, Report, check_output
from expertload.cli.screen import console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from expertload.lab.results.evaluate import RunEvaluation
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


def evaluate(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of finished runs.")],
    calibrator: Annotated[
        str, typer.Option(metavar="NAME", help=f"The calibrator: {', '.join(CALIBRATOR_NAMES)}.")
    ] = "temperature",
    at: Annotated[
        str | None,
        typer.Option(
            metavar="ACCURACIES",
            help="Accuracies at which to report the expert load: 0.9,0.95.",
            show_default="the recipe's",
        ),
    ] = None,
    views: Views = None,
    out: Report = None,
    save_policy: Annotated[
        Path | None,
        typer.Option(
            metavar="POLICY.json",
            help="Save the operating point certified on the test split, for 'expertload decide'; "
            "for several runs, the one of their ensemble.",
            show_default=False,
        ),
    ] = None,
    data_dir: DataDir = None,
    allow_import: AllowImport = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate runs, before and after calibration on validation data.

    Several runs of the same data are also evaluated as an ensemble, which averages their
    probabilities. The report and the policy use probabilities before calibration; the policy is
    for the first of the ACCURACIES.
    """
    targets = None if at is None else _fractions(at)
    if out is not None:
        check_output(out)
    if save_policy is not None:
        check_output(save_policy, others=[] if out is None else [out])

    from expertload.lab.results.evaluate import evaluate_runs

    models: Sequence[Path | FinishedRun] = runs
    if views is not None:
        models = _with_views(runs, views, data_dir, allow_import or [], console(stderr=as_json))
    evaluation = evaluate_runs(
        models,
        calibrator=calibrator,
        target_accuracies=targets,
        data_dir=data_dir,
        allow=allow_import or (),
    )
    if as_json:
        typer.echo(json.dumps(evaluation.to_dict(), indent=2))
    else:
        console().print(_table(evaluation))
    if out is not None or save_policy is not None:
        _write_outputs(models, targets, evaluation.data, out, save_policy, console(stderr=as_json))


def _with_views(
    runs: list[Path], views: str, data_dir: Path | None, allow: list[str], said: Console
) -> Sequence[FinishedRun]:
    """Predict again with several views of each image, and print how many passes that takes."""
    from expertload.lab.results.ensembles import with_views

    viewed = with_views(runs, views=views, data_dir=data_dir, allow=allow)
    for run in viewed:
        said.print(f"{run.name}: {run.choice}", soft_wrap=True)
    return viewed


def _write_outputs(
    runs: Sequence[Path | FinishedRun],
    targets: list[float] | None,
    data: str,
    out: Path | None,
    policy: Path | None,
    said: Console,
) -> None:
    """Write the report and the policy."""
    from expertload.lab.results.evaluate import evaluate_test_cases, save_policy, write_report

    models = evaluate_test_cases(runs, target_accuracies=targets)
    if out is not None:
        write_report(models, out, title=f"Expert load on {data}")
        said.print(f"The report is in {out}.", soft_wrap=True)
    if policy is not None:
        name = save_policy(models, policy)
        said.print(
            f"The policy of {name} is in {policy}: expertload decide {policy} NEW_FILE",
            soft_wrap=True,
        )


def _fractions(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a list of accuracies. Hint: write them as 0.9,0.95."
        ) from None


def _table(evaluation: RunEvaluation) -> Table:
    """Return a table: one row per number, one column per run before and after calibration."""
    from rich.table import Table

    from expertload.lab.results.measures import find_measure

    everything = dict(evaluation.runs)
    if evaluation.ensemble is not None:
        everything["ensemble"] = evaluation.ensemble
    title = f"{evaluation.data}, test split, in % except NLL (calibrator: {evaluation.calibrator})"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    for name in everything:
        table.add_column(name, justify="right")
        table.add_column("calibrated", justify="right")
    first = next(iter(everything.values()))["test"]
    for number in (name for name in first if not name.startswith("aucoc_")):
        cells = [
            _cell(number, results[split])
            for results in everything.values()
            for split in ("test", "test_calibrated")
        ]
        table.add_row(find_measure(number).heading, *cells)
    return table


def _cell(name: str, numbers: dict[str, float]) -> str:
    from expertload.lab.results.measures import find_measure

    show = find_measure(name).show
    if name != "aucoc":
        return show(numbers[name])
    low, high = show(numbers["aucoc_low"]), show(numbers["aucoc_high"])
    return f"{show(numbers[name])} ({low} to {high})"
