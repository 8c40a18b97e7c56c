"""`expertload lab ensemble RUN…`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expertload.cli.lab_data import AllowImport, DataDir
from expertload.cli.lab_evaluate import Views
from expertload.cli.screen import console

if TYPE_CHECKING:
    from expertload.lab.runs.finished import FinishedRun


def ensemble(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folders of two or more finished runs.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder of the ensemble.", show_default="next to the first run"
        ),
    ] = None,
    views: Views = None,
    data_dir: DataDir = None,
    allow_import: AllowImport = None,
) -> None:
    """Combine several runs into one model, which averages their probabilities.

    The ensemble is a run like any other: 'expertload lab evaluate' writes its report and policy,
    'lab compare' compares it, and 'lab table' has a row for it.
    """
    from expertload.lab.results.ensembles import make_ensemble

    made = make_ensemble(runs, out=out, views=views, data_dir=data_dir, allow=allow_import or ())
    test = made.folder.read_json("results.json")["test"]
    said = console()
    said.print(
        f"ensemble of {len(made.members)}: {made.label}\n"
        f"test: AUCOC {test['aucoc']:.4f}  accuracy {test['accuracy']:.4f}",
        soft_wrap=True,
    )
    said.print(f"cost: {_passes(made)} passes for each image")
    said.print(f"folder: {made.folder.path}", soft_wrap=True)


def _passes(run: FinishedRun) -> int:
    """Return the number of passes through a network for each image."""
    from expertload.ensembling import make_views

    return sum(len(make_views(member.views)) for member in run.members)
