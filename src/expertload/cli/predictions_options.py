"""Options that name the columns of a file of predictions."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = [
    "Classes",
    "Confidence",
    "Correct",
    "Group",
    "Identifier",
    "Label",
    "Logits",
    "ModelColumn",
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
        "--name", help="A name for the model of each FILE, in order.", show_default="FILE"
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
        help="Columns with the probabilities: 'p_*', or names separated by commas.",
        rich_help_panel=COLUMNS,
        show_default="by name",
    ),
]
Logits = Annotated[
    str | None,
    typer.Option(
        metavar="PATTERN",
        help="Columns with logits, instead of probabilities; a softmax is applied.",
        rich_help_panel=COLUMNS,
        show_default="logit_*",
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="The class of each of these columns, in order, separated by commas.",
        rich_help_panel=COLUMNS,
        show_default="the columns' names",
    ),
]
Normalize = Annotated[
    bool,
    typer.Option(
        "--normalize",
        help="Divide rounded probabilities by their sum in each row.",
        rich_help_panel=COLUMNS,
        show_default=False,
    ),
]
Prediction = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The predicted class, with a label and a confidence: right if it equals the label.",
        rich_help_panel=COLUMNS,
        show_default="by name",
    ),
]
Confidence = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The confidence that ranks cases; higher means more certain.",
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
        help="The site, age band, ... of a case; 'none' ignores the column 'group'.",
        rich_help_panel=COLUMNS,
        show_default="by name",
    ),
]
Weight = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The weight of a case; 'none' ignores the column 'sample_weight'.",
        rich_help_panel=COLUMNS,
        show_default="sample_weight",
    ),
]
Identifier = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="COLUMN",
        help="The identifier of a case, to compare models on the same cases; 'none' ignores the "
        "column 'id'.",
        rich_help_panel=COLUMNS,
        show_default="by name",
    ),
]
ModelColumn = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The model of each row, if a file holds the rows of several models.",
        rich_help_panel=COLUMNS,
        show_default=False,
    ),
]
