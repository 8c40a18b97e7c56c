"""Options: a command's help is its docstring, and options for files and columns are declared once.

The section `Parameters` of a docstring explains arguments and options, in the order of the
signature. After the name stand the word for its value and how help texts show its default::

    order : NAME, default decision
        The order of audits.

Commands share groups of options. A docstring explains the fields of a class, and a command gets one
object made of them::

    @takes(columns=COLUMNS, opening=OPENING)
    def decide(policy: Policy, file: Path, *, columns: ColumnNames, opening: FileOptions) -> None:

So a new option is a field of the library's class, and an entry in the docstring here.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from copy import copy
from dataclasses import dataclass, replace
from functools import wraps
from inspect import Parameter, Signature, cleandoc, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer

from expertload._names import ColumnNames, FileOptions, Identity
from expertload.exceptions import DataNotFoundError, FileFormatError

if TYPE_CHECKING:
    from expertload.operating_point.storage import Saved

EXPLAINED = "\n\nParameters\n----------\n"
ENTRY = re.compile(r"(\w+)(?: : (.+?))?(?:, default (.+))?")


@dataclass(frozen=True)
class OptionGroup:
    """Options that together make one object.

    Attributes
    ----------
    makes : callable
        The class, or a function that makes the object.
    declared : callable
        A function whose parameters are the options, explained in its docstring.
    left_out : tuple of str
        Options that a command does not have.
    """

    makes: Callable[..., Any]
    declared: Callable[..., Any]
    left_out: tuple[str, ...] = ()

    def without(self, *names: str) -> OptionGroup:
        """Return the group without these options, which then have their defaults."""
        return replace(self, left_out=(*self.left_out, *names))

    def only(self, *names: str) -> OptionGroup:
        """Return the group with these options alone."""
        return self.without(
            *(name for name in signature(self.declared).parameters if name not in names)
        )


def takes(**groups: OptionGroup) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of some groups; it is called with an object for each group.

    An object that can be opened, such as a desk, is closed when the command ends.
    """

    def decorate(run: Callable[..., None]) -> Callable[..., None]:
        shared = {
            name: [*_parameters(group.declared, group.left_out)] for name, group in groups.items()
        }

        @wraps(run)
        def command(**given: Any) -> None:
            with ExitStack() as opened:
                for name, options in shared.items():
                    made = groups[name].makes(**{o.name: given.pop(o.name) for o in options})
                    is_open = isinstance(made, AbstractContextManager)
                    given[name] = opened.enter_context(made) if is_open else made
                run(**given)

        every = [
            *_parameters(run, tuple(groups)),
            *(option for options in shared.values() for option in options),
        ]
        # typer reads both
        command.__signature__ = Signature(every)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
        command.__doc__ = cleandoc(run.__doc__ or "").partition(EXPLAINED)[0]
        return command

    return decorate


def _parameters(run: Callable[..., Any], left_out: tuple[str, ...]) -> Iterator[Parameter]:
    """Yield a function's parameters for typer, as its docstring explains them."""
    explained = _explained(run)
    unknown = {run.__annotations__[name] for name in left_out} - {*run.__globals__, *dir(builtins)}
    lazily = dict.fromkeys(unknown, object)  # classes that are imported when the command runs
    types = get_type_hints(run, localns=lazily, include_extras=True)
    for name, parameter in signature(run).parameters.items():
        if name in left_out:
            continue
        kind, *given = (
            get_args(types[name]) if get_origin(types[name]) is Annotated else [types[name]]
        )
        info = copy(given[0]) if given else _info(name, parameter.default)
        vars(info).update(explained.get(name, {}))
        yield parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=Annotated[kind, info])


def _explained(run: Callable[..., Any]) -> dict[str, dict[str, Any]]:
    """Return what the docstring says about each parameter, as typer's settings."""
    explained: dict[str, dict[str, Any]] = {}
    for line in cleandoc(run.__doc__ or "").partition(EXPLAINED)[2].splitlines():
        entry = None if line.startswith(" ") else ENTRY.fullmatch(line)
        if entry is not None:
            name, metavar, default = entry.groups()
            shown = {"metavar": metavar, "show_default": default}
            explained[name] = {key: value for key, value in shown.items() if value}
        else:
            begun = explained[name].get("help", "")
            explained[name]["help"] = f"{begun} {line.strip()}".lstrip()
    return explained


def _info(name: str, default: Any) -> Any:
    """Return typer's description of a parameter: without a default, it is an argument."""
    if default is Parameter.empty:
        return typer.Argument()
    return typer.Option(f"--{name.replace('_', '-')}") if default is False else typer.Option()


def fields_of(made: type, **spelled: str) -> Callable[[Any], Any]:
    """Give a function the fields of a class as parameters; some options are spelled otherwise."""
    other = {name: Annotated[str | None, typer.Option(option)] for name, option in spelled.items()}

    def decorate(run: Any) -> Any:
        run.__signature__, run.__annotations__ = signature(made), made.__annotations__ | other
        return run

    return decorate


@fields_of(ColumnNames)
def _columns() -> None:
    """Name the columns of predictions.

    Parameters
    ----------
    label : COLUMN, default by name
        The true class.
    probabilities : PATTERN, default by name
        Columns with the probabilities: 'p_*', or names separated by commas.
    logits : PATTERN, default logit_*
        Columns with logits, instead of probabilities; a softmax is applied.
    classes : NAMES, default the columns' names
        The class of each of these columns, in order, separated by commas.
    normalize
        Divide rounded probabilities by their sum in each row.
    confidence : COLUMN, default the top probability
        The confidence that ranks cases; higher means more certain.
    correct : COLUMN, default by name
        Whether a case is right, or its grade from 0 to 1.
    prediction : COLUMN, default by name
        The predicted class, with a label and a confidence: right if it equals the label.
    group : COLUMN, default by name
        The site, age band, ... of a case; 'none' ignores the column 'group'.
    weight : COLUMN, default sample_weight
        The weight of a case; 'none' ignores the column 'sample_weight'.
    """


@fields_of(Identity, identifier="--id", model="--model-column")
def _identity() -> None:
    """Name the columns that identify cases.

    Parameters
    ----------
    identifier : COLUMN, default by name
        The identifier of a case, to compare models on the same cases; 'none' ignores the column
        'id'.
    model : COLUMN
        The model of each row, if a file holds the rows of several models.
    cluster : COLUMN
        The patient, document, ... that several cases belong to; 'none' turns off the warning about
        such columns.
    expert : COLUMN
        What an expert alone answered, empty where nobody read a case: measures the team.
    """


@fields_of(FileOptions)
def _opening() -> None:
    """Say how a file is opened.

    Parameters
    ----------
    query : SQL
        Rows to read: 'SELECT ... FROM file', or from the tables of a DuckDB database.
    format : FORMAT, default by name
        The format: csv, tsv, parquet, jsonl, json or npz; for standard input, csv by default.
    delimiter : CHARACTER, default the first of , ; and tab in the header
        The character between the values of a CSV.
    decimal : CHARACTER
        The decimal mark of numbers in a CSV: . or ,
    encoding : NAME, default utf-8
        The encoding of text that is not UTF-8: latin-1, cp1252, utf-16, ...
    """


COLUMNS = OptionGroup(ColumnNames, _columns)
IDENTITY = OptionGroup(Identity, _identity)
OPENING = OptionGroup(FileOptions, _opening)
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="A name for the model of each FILE, in order.",
        show_default="FILE",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Report = Annotated[Path | None, typer.Option(metavar="REPORT.html", help="Write a report.")]
Rows = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A .csv, .jsonl or .parquet file, written completely or not at all.",
        show_default="CSV to standard output",
    ),
]
Policy = Annotated[
    Path, typer.Argument(help="A policy saved by 'expertload evaluate --save-policy'.")
]


def numbers_in(text: str, what: str, example: str) -> list[float]:
    """Read numbers separated by commas.

    Examples
    --------
    >>> from expertload.cli.options import numbers_in
    >>> numbers_in("0.9,0.95", "accuracies", "0.9,0.95")
    [0.9, 0.95]
    """
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a list of {what}. Hint: write them as {example}."
        ) from None


def check_policy(path: Path) -> None:
    """Explain how to make a policy, if the file does not exist."""
    if not path.is_file():
        raise DataNotFoundError(
            f"There is no policy {path}. Hint: expertload evaluate FILE --save-policy {path}"
        )


def load_policy(path: Path) -> Saved:
    """Read a policy.

    Examples
    --------
    >>> from pathlib import Path
    >>> from expertload.cli.options import load_policy
    >>> load_policy(Path("nowhere.json"))
    Traceback (most recent call last):
    expertload.exceptions.DataNotFoundError: There is no policy nowhere.json. ...
    """
    from expertload.operating_point import load_operating_point

    check_policy(path)
    try:
        return load_operating_point(path)
    except FileFormatError as error:
        if path.suffix.lower() == ".json":
            raise
        raise FileFormatError(f"{error} The policy comes first, before the file.") from None
