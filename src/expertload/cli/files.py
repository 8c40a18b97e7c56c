"""Files of a command: the models it reads; outputs, which are written completely or not at all."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from expertload._files import check_replaceable, explained_write_errors, write_atomically
from expertload._names import ColumnNames, FileOptions, Identity
from expertload.cli.screen import Screen, complain, rows_done, true_text
from expertload.exceptions import FileWriteError

if TYPE_CHECKING:
    from expertload.io import PredictionsTable

SUFFIXES = (".png", ".svg", ".pdf")


# ------------------------------------------------------------------ models


def check_models(
    files: Sequence[Path], probabilities: Sequence[str], model_column: str | None
) -> None:
    """Refuse options that do not determine the models.

    Examples
    --------
    >>> from pathlib import Path
    >>> from expertload.cli.files import check_models
    >>> check_models([Path("a.csv"), Path("b.csv")], [], None)
    """
    several_in_one = len(probabilities) > 1, model_column not in (None, "none")
    if any(several_in_one) and len(files) > 1:
        raise typer.BadParameter(
            "Repeated --probabilities and --model-column need a single FILE with several models. "
            f"Got {len(files)} files."
        )
    if all(several_in_one):
        raise typer.BadParameter("Pass either several --probabilities or --model-column, not both.")


def read_models(
    files: list[Path],
    called: list[str] | None,
    names: ColumnNames,
    probabilities: Sequence[str],
    identity: Identity,
    options: FileOptions,
) -> dict[str, PredictionsTable]:
    r"""Return the predictions of each model, by name.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from expertload.cli.files import read_models
    >>> from expertload.io import ColumnNames, FileOptions, Identity
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "all.csv"
    ...     _ = file.write_text("label,a_1,b_1\n0,0.2,0.3\n1,0.9,0.6\n")
    ...     tables = read_models(
    ...         [file], None, ColumnNames(), ["a_1", "b_1"], Identity(), FileOptions()
    ...     )
    >>> {name: table.columns.probabilities for name, table in tables.items()}
    {'a_1': ('a_1',), 'b_1': ('b_1',)}
    """
    from expertload.io import read_predictions

    def read(file: Path, pattern: str | None) -> PredictionsTable:
        own = replace(names, probabilities=pattern)
        with rows_done(file.name) as progress:
            return read_predictions(
                file, names=own, options=options, identity=identity, progress=progress
            )

    if len(probabilities) > 1:
        chosen = _named(called, probabilities)
        tables = [_by_row(read(files[0], pattern)) for pattern in probabilities]
        return dict(zip(chosen, tables, strict=True))
    pattern = next(iter(probabilities), None)
    if identity.model not in (None, "none"):
        parts = read(files[0], pattern).by_model()
        return dict(zip(_named(called, list(parts)), parts.values(), strict=True))
    named = zip(files, _named(called, name_files(files)), strict=True)
    return {name: read(file, pattern) for file, name in named}


def print_warnings(tables: Iterable[PredictionsTable]) -> None:
    """Print what may be wrong with cases although they can be read, each warning once.

    Examples
    --------
    >>> from expertload.cli.files import print_warnings
    >>> print_warnings([])
    """
    for warning in dict.fromkeys(table.warning for table in tables if table.warning):
        complain(f"Warning: {warning}", style="yellow")


def name_files(files: Sequence[Path]) -> list[str]:
    """Return the names of files without their endings; whole paths if names repeat.

    Examples
    --------
    >>> from pathlib import Path
    >>> from expertload.cli.files import name_files
    >>> name_files([Path("runs/a.csv"), Path("b.v1.csv.gz"), Path("-")])
    ['a', 'b.v1', 'standard input']
    """
    from expertload.io.files import without_ending

    names = ["standard input" if str(file) == "-" else file.name for file in files]
    stems = [true_text(without_ending(name)) for name in names]
    if len(set(stems)) == len(files):
        return stems
    paths = [true_text(str(file)) for file in files]
    if len(set(paths)) == len(files):
        return paths
    return [f"{path} ({i})" for i, path in enumerate(paths, start=1)]


def _named(called: Sequence[str] | None, own: Sequence[str]) -> list[str]:
    """Return the names given for the models, or else the models' own names."""
    names = [true_text(name) for name in called or own]
    if len(names) != len(own):
        raise typer.BadParameter(
            f"--name must be given once for each model, {len(own)} in all. Got {len(names)}."
        )
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise typer.BadParameter(
            f"Every model needs a name of its own. Got '{twice}' more than once. Hint: name each "
            "with --name, in order."
        )
    return names


def _by_row(table: PredictionsTable) -> PredictionsTable:
    """Mark rows of one file as the same cases, with or without an identifier column."""
    import numpy as np

    if table.identifiers is not None:
        return table
    identity = replace(table.identity, identifier="row")
    return replace(table, identity=identity, identifiers=np.arange(table.n_cases))


# ------------------------------------------------------------------ outputs


def check_output(target: Path, *, others: Iterable[Path] = ()) -> None:
    """Refuse, before any work, a path that cannot be written or would replace an input.

    Examples
    --------
    >>> from pathlib import Path
    >>> from expertload.cli.files import check_output
    >>> check_output(Path("report.html"), others=[Path("predictions.csv")])
    """
    for other in others:
        if _is_same(target, other):
            raise FileWriteError(
                f"{target} would replace {other}, which this command reads. Hint: name another "
                "file."
            )
    check_replaceable(target)
    if not target.absolute().parent.is_dir():
        raise FileWriteError(f"There is no folder {target.parent} to write {target.name} into.")


def check_outputs(report: Path | None, policy: Path | None, *, others: Iterable[Path] = ()) -> None:
    """Refuse, before any work, a report or a policy that cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from expertload.cli.files import check_outputs
    >>> check_outputs(Path("report.pdf"), None)
    Traceback (most recent call last):
    expertload.exceptions.ParameterError: '--out' must end in .html. Got report.pdf instead. ...
    """
    if report is not None:
        from expertload.report.page import check_page_name

        check_output(report, others=others)
        check_page_name(report, "--out")
    if policy is not None:
        check_output(policy, others=[*others, *filter(None, [report])])


def _is_same(target: Path, other: Path) -> bool:
    """Whether two paths are the same file, also through links, and before the file exists."""
    if target.exists() and other.exists():
        return target.samefile(other)
    return target.resolve() == other.resolve()


def say_where(
    screen: Screen, report: Path | None, policy: Path | None, model: str | None = None
) -> None:
    """Print where a report and the policy of a model are, and what the policy is for.

    Examples
    --------
    >>> from pathlib import Path
    >>> from expertload.cli.files import say_where
    >>> from expertload.cli.screen import console
    >>> say_where(console(), Path("report.html"), None)
    The report is in report.html.
    """
    if report is not None:
        screen.say(f"The report is in {report}.")
    if policy is not None:
        whose = "" if model is None else f" of {model}"
        how = f"expertload decide {policy} NEW_FILE"
        screen.say(f"The policy{whose} is in {policy}: {how}")


def check_picture(out: Path, *, others: Iterable[Path] = ()) -> None:
    """Refuse, before any work, a path without a picture format, or that cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from expertload.cli.files import check_picture
    >>> check_picture(Path("coc.png"))
    """
    if out.suffix.lower() not in SUFFIXES:
        raise FileWriteError(
            f"The plot must be written as {', '.join(SUFFIXES)}. Got --out {out}. Hint: name a "
            f"file such as {out.stem or 'coc'}.png; 'expertload evaluate --out' writes HTML "
            "reports."
        )
    check_output(out, others=others)


def save_picture(draw: Callable[[], Any], out: Path) -> None:
    """Draw, and write the figure completely or not at all; the same input gives the same file.

    Parameters
    ----------
    draw : callable
        Draws and returns a display.
    out : Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from expertload import Cases
    >>> from expertload.cli.files import save_picture
    >>> from expertload.display import COCDisplay
    >>> cases = Cases.from_correctness([0, 1], [0.6, 0.9])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     out = Path(folder) / "coc.svg"
    ...     save_picture(lambda: COCDisplay.from_cases(cases), out)
    ...     out.read_text()[:5]
    '<?xml'
    """
    from expertload._check import require_extra

    matplotlib = require_extra("matplotlib", "plot", "A plot")
    matplotlib.use("Agg")  # draws without a display
    kind = out.suffix.lower().removeprefix(".")
    undated = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    picture = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "expertload"}):
        draw().figure_.savefig(picture, format=kind, dpi=200, metadata=undated)
    with explained_write_errors(out):
        write_atomically(out, picture.getvalue())
