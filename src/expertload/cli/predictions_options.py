"""Options that name the columns of a file of predictions."""

from __future__ import annotations

from typing import Annotated, Any

import typer

__all__ = [
    "Classes",
    "Cluster",
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
    "column_option",
]

COLUMNS = "Columns"


def column_option(
    help: str,  # noqa: A002 - typer's name
    *names: str,
    metavar: str | None = "COLUMN",
    default: str | bool = "by name",
) -> Any:
    """Return an option that names columns; `default` is how help texts show its default.

    Examples
    --------
    >>> from expertload.cli.predictions_options import column_option
    >>> column_option("The true class.").metavar
    'COLUMN'
    """
    return typer.Option(
        *names, metavar=metavar, help=help, rich_help_panel=COLUMNS, show_default=default
    )


Names = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="A name for the model of each FILE, in order.",
        show_default="FILE",
    ),
]

Label = Annotated[str | None, column_option("The true class.")]
Probabilities = Annotated[
    str | None,
    column_option(
        "Columns with the probabilities: 'p_*', or names separated by commas.", metavar="PATTERN"
    ),
]
Logits = Annotated[
    str | None,
    column_option(
        "Columns with logits, instead of probabilities; a softmax is applied.",
        metavar="PATTERN",
        default="logit_*",
    ),
]
Classes = Annotated[
    str | None,
    column_option(
        "The class of each of these columns, in order, separated by commas.",
        metavar="NAMES",
        default="the columns' names",
    ),
]
Normalize = Annotated[
    bool,
    column_option(
        "Divide rounded probabilities by their sum in each row.",
        "--normalize",
        metavar=None,
        default=False,
    ),
]
Prediction = Annotated[
    str | None,
    column_option(
        "The predicted class, with a label and a confidence: right if it equals the label."
    ),
]
Confidence = Annotated[
    str | None,
    column_option(
        "The confidence that ranks cases; higher means more certain.",
        default="the top probability",
    ),
]
Correct = Annotated[str | None, column_option("Whether a case is right, or its grade from 0 to 1.")]
Group = Annotated[
    str | None,
    column_option("The site, age band, ... of a case; 'none' ignores the column 'group'."),
]
Weight = Annotated[
    str | None,
    column_option(
        "The weight of a case; 'none' ignores the column 'sample_weight'.",
        default="sample_weight",
    ),
]
Identifier = Annotated[
    str | None,
    column_option(
        "The identifier of a case, to compare models on the same cases; 'none' ignores the "
        "column 'id'.",
        "--id",
    ),
]
Cluster = Annotated[
    str | None,
    column_option(
        "The patient, document, ... that several cases belong to; 'none' turns off the warning "
        "about such columns.",
        default=False,
    ),
]
ModelColumn = Annotated[
    str | None,
    column_option(
        "The model of each row, if a file holds the rows of several models.", default=False
    ),
]
