"""`expertload lab data list | fetch NAME`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from expertload.cli.screen import console

AllowImport = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-import",
        metavar="MODULE:NAME",
        help="Allow importing this network or loss, named in the run's folder. May be repeated.",
        show_default=False,
    ),
]

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="FOLDER",
        help="Folder of the data files; by default $EXPERTLOAD_DATA or the user's cache.",
        show_default=False,
    ),
]


def list_data(data_dir: DataDir = None) -> None:
    """List the data sets, and which of them are on this machine."""
    from rich.table import Table
    from rich.text import Text

    from expertload.lab.data import describe_datasets

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("name", "here", "what it is"):
        table.add_column(heading, no_wrap=heading == "name")
    for info in describe_datasets(data_dir=data_dir):
        here = Text("yes", style="green") if info.present else "no"
        table.add_row(info.usage, here, info.summary)
    out = console()
    out.print(table)
    out.print("\nTo get one: expertload lab data fetch NAME", style="dim")


def fetch_data(
    name: Annotated[str, typer.Argument(help="A name from 'expertload lab data list'.")],
    data_dir: DataDir = None,
) -> None:
    """Download a data set from its official address; an interrupted download continues."""
    from expertload.lab.data import fetch_dataset

    folder = fetch_dataset(name, data_dir=data_dir, progress=True)
    console().print(f"{name} is in {folder}")
