"""The options by which columns of a file of predictions are named."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = [
    "Classes",
    "Confidence",
    "Correct",
    "Group",
    "Label",
    "Logits",
    "Names",
    "Normalize",
    "Prediction",
    "Probabilities",
    "Weight",
]

COLUMNS = "Columns"

Names = Annotated[
    list[str] | None,
    typer.Option(
        "--name", help="What to call the model of each FILE, in order.", show_default="FILE"
    ),
]

Label = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="The true class.", rich_help_panel=COLUMNS, show_default="by name"
    ),
]
Probabilities = Annotated[
    str | None,
    typer.Option(
        metavar="PATTERN",
        help="The probabilities of the classes: 'p_*', or names with commas between them.",
        rich_help_panel=COLUMNS,
        show_default="by name",
    ),
]
Logits = Annotated[
    str | None,
    typer.Option(
        metavar="PATTERN",
        help="The logits of the classes, instead of probabilities: their softmax is taken.",
        rich_help_panel=COLUMNS,
        show_default="logit_*",
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="The class of each of these columns, in their order, with commas between them.",
        rich_help_panel=COLUMNS,
        show_default="the columns' names",
    ),
]
Normalize = Annotated[
    bool,
    typer.Option(
        "--normalize",
        help="Divide probabilities by their sum in each row, where they were rounded.",
        rich_help_panel=COLUMNS,
        show_default=False,
    ),
]
Prediction = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The predicted class, with a label and a confidence: right where it is the label.",
        rich_help_panel=COLUMNS,
        show_default="by name",
    ),
]
Confidence = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="What to rank cases by.",
        rich_help_panel=COLUMNS,
        show_default="the top probability",
    ),
]
Correct = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Whether a case is right, or its grade from 0 to 1.",
        rich_help_panel=COLUMNS,
        show_default="by name",
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The site, age band, ... of a case; 'none' if the column 'group' is something else.",
        rich_help_panel=COLUMNS,
        show_default="by name",
    ),
]
Weight = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="How much a case counts; 'none' if 'sample_weight' is something else.",
        rich_help_panel=COLUMNS,
        show_default="sample_weight",
    ),
]
