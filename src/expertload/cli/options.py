"""Options that several commands share: every option for files and columns is declared once, here.

A command names the groups of options that it takes, and gets each group as one object::

    @takes(columns=COLUMNS, opening=OPENING)
    def decide(policy: Policy, file: Path, *, columns: ColumnNames, opening: FileOptions) -> None:

So a new option is a field of the library's class and a line in its group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from expertload.operating_point import CertifiedClasses, CertifiedGroups, OperatingPoint


@dataclass(frozen=True)
class OptionGroup:
    """Options that together make one object.

    Attributes
    ----------
    makes : str
        The class, by its name in `expertload.io`; imported when the command runs.
    options : dict
        Of each field of the class: the option's type with its help, and its default.
    """

    makes: str
    options: dict[str, tuple[Any, Any]]

    def only(self, *fields: str) -> OptionGroup:
        """Return the group with these options alone."""
        return replace(self, options={field: self.options[field] for field in fields})

    def without(self, *fields: str) -> OptionGroup:
        """Return the group without these options."""
        return self.only(*(field for field in self.options if field not in fields))

    def build(self, given: dict[str, Any]) -> Any:
        """Take the options of this group out of `given`, and make their object."""
        from expertload import io

        values = {field: given.pop(field) for field in self.options}
        return getattr(io, self.makes)(**values)


def takes(**groups: OptionGroup) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of some groups; it is called with an object for each group."""

    def decorate(run: Callable[..., None]) -> Callable[..., None]:
        @wraps(run)
        def command(**given: Any) -> None:
            objects = {name: group.build(given) for name, group in groups.items()}
            run(**given, **objects)

        unknown_to_run = {group.makes: object for group in groups.values()}  # imported lazily
        types = get_type_hints(run, localns=unknown_to_run, include_extras=True)
        own = [
            each.replace(annotation=types[name], kind=Parameter.KEYWORD_ONLY)
            for name, each in signature(run).parameters.items()
            if name not in groups
        ]
        shared = [
            Parameter(field, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for group in groups.values()
            for field, (annotation, default) in group.options.items()
        ]
        # typer reads both
        command.__signature__ = Signature([*own, *shared])  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in [*own, *shared]}
        return command

    return decorate


def column_option(
    help: str,  # noqa: A002 - typer's name
    *names: str,
    metavar: str | None = "COLUMN",
    default: str | bool = "by name",
) -> Any:
    """Return an option that names columns; `default` is how help texts show its default.

    Examples
    --------
    >>> from expertload.cli.options import column_option
    >>> column_option("The true class.").metavar
    'COLUMN'
    """
    return typer.Option(*names, metavar=metavar, help=help, show_default=default)


def _text(option: Any, default: str | None = None) -> tuple[Any, Any]:
    """Return the type and default of an option that takes text."""
    return Annotated[str | None, option], default


COLUMNS = OptionGroup(
    "ColumnNames",
    {
        "label": _text(column_option("The true class.")),
        "probabilities": _text(
            column_option(
                "Columns with the probabilities: 'p_*', or names separated by commas.",
                metavar="PATTERN",
            )
        ),
        "logits": _text(
            column_option(
                "Columns with logits, instead of probabilities; a softmax is applied.",
                metavar="PATTERN",
                default="logit_*",
            )
        ),
        "classes": _text(
            column_option(
                "The class of each of these columns, in order, separated by commas.",
                metavar="NAMES",
                default="the columns' names",
            )
        ),
        "normalize": (
            Annotated[
                bool,
                column_option(
                    "Divide rounded probabilities by their sum in each row.",
                    "--normalize",
                    metavar=None,
                    default=False,
                ),
            ],
            False,
        ),
        "confidence": _text(
            column_option(
                "The confidence that ranks cases; higher means more certain.",
                default="the top probability",
            )
        ),
        "correct": _text(column_option("Whether a case is right, or its grade from 0 to 1.")),
        "prediction": _text(
            column_option(
                "The predicted class, with a label and a confidence: right if it equals the label."
            )
        ),
        "group": _text(
            column_option("The site, age band, ... of a case; 'none' ignores the column 'group'.")
        ),
        "weight": _text(
            column_option(
                "The weight of a case; 'none' ignores the column 'sample_weight'.",
                default="sample_weight",
            )
        ),
    },
)
IDENTITY = OptionGroup(
    "Identity",
    {
        "identifier": _text(
            column_option(
                "The identifier of a case, to compare models on the same cases; 'none' ignores "
                "the column 'id'.",
                "--id",
            )
        ),
        "model": _text(
            column_option(
                "The model of each row, if a file holds the rows of several models.",
                "--model-column",
                default=False,
            )
        ),
        "cluster": _text(
            column_option(
                "The patient, document, ... that several cases belong to; 'none' turns off the "
                "warning about such columns.",
                default=False,
            )
        ),
        "expert": _text(
            column_option(
                "What an expert alone answered, empty where nobody read a case: measures the team.",
                default=False,
            )
        ),
    },
)
OPENING = OptionGroup(
    "FileOptions",
    {
        "query": _text(
            column_option(
                "Rows to read: 'SELECT ... FROM file', or from the tables of a DuckDB database.",
                metavar="SQL",
                default=False,
            )
        ),
        "format": _text(
            column_option(
                "The format: csv, tsv, parquet, jsonl, json or npz; for standard input, csv by "
                "default.",
                metavar="FORMAT",
            )
        ),
        "delimiter": _text(
            column_option(
                "The character between the values of a CSV.",
                metavar="CHARACTER",
                default="the first of , ; and tab in the header",
            )
        ),
        "decimal": _text(
            column_option(
                "The decimal mark of numbers in a CSV: . or ,", metavar="CHARACTER", default=True
            ),
            ".",
        ),
        "encoding": _text(
            column_option(
                "The encoding of text that is not UTF-8: latin-1, cp1252, utf-16, ...",
                metavar="NAME",
                default="utf-8",
            )
        ),
    },
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
Policy = Annotated[
    Path, typer.Argument(help="A policy saved by 'expertload evaluate --save-policy'.")
]


def load_policy(path: Path) -> OperatingPoint | CertifiedGroups | CertifiedClasses:
    """Read a policy; if the file does not exist, explain how to make one.

    Examples
    --------
    >>> from pathlib import Path
    >>> from expertload.cli.options import load_policy
    >>> load_policy(Path("nowhere.json"))
    Traceback (most recent call last):
    expertload.exceptions.DataNotFoundError: There is no policy nowhere.json. ...
    """
    from expertload.exceptions import DataNotFoundError
    from expertload.operating_point import load_operating_point

    if not path.is_file():
        raise DataNotFoundError(
            f"There is no policy {path}. Hint: expertload evaluate FILE --save-policy {path}"
        )
    return load_operating_point(path)
