"""`expertload lab predict RUN… --data folder:NEW`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from expertload.cli.lab_data import AllowImport, DataDir
from expertload.cli.outputs import Rows, check_output
from expertload.cli.screen import console, rows_done


def predict(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            help="Folder of a finished run, of an ensemble, or of 'lab lower-load'. The "
            "probabilities of several runs are averaged.",
        ),
    ],
    data: Annotated[
        str,
        typer.Option(
            metavar="DATA",
            help="New images: folder:PATH, with its subfolders, or npz:PATH with an array "
            "'images'.",
        ),
    ],
    out: Rows = None,
    batch_size: Annotated[int, typer.Option(min=1, help="The number of images in a batch.")] = 512,
    data_dir: DataDir = None,
    allow_import: AllowImport = None,
) -> None:
    """Write the probabilities of new images, for 'expertload decide'.

    The output has one row per image: its name, and the probability of each class. Images are
    resized and normalised like the training images.
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
            data_dir=data_dir,
            allow=allow_import or (),
            progress=None if out is None and sys.stdout.isatty() else progress,
        )
    if out is not None:
        console().print(f"{count:,} images: {out}", soft_wrap=True)
