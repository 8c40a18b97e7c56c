"""Names of models, one per file."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import typer

from expertload.cli.screen import true_text

__all__ = ["check_distinct", "name_models"]


def check_distinct(names: list[str]) -> list[str]:
    """Refuse two models of one name, of which only one would be seen.

    Examples
    --------
    >>> from expertload.cli.model_names import check_distinct
    >>> check_distinct(["a", "b"])
    ['a', 'b']
    """
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise typer.BadParameter(
            f"Every model needs a name of its own. Got '{twice}' more than once. Hint: name each "
            "with --name, in order."
        )
    return names


def name_models(files: list[Path], given: list[str] | None) -> list[str]:
    """Return the given names, or file names without their endings; whole paths if names repeat.

    Examples
    --------
    >>> from pathlib import Path
    >>> from expertload.cli.model_names import name_models
    >>> name_models([Path("runs/a.csv"), Path("b.v1.csv.gz")], None)
    ['a', 'b.v1']
    """
    if given:
        if len(given) != len(files):
            raise typer.BadParameter(f"--name must be given for each of the {len(files)} files.")
        return check_distinct([true_text(name) for name in given])
    from expertload._opening.files import without_ending

    stems = [true_text(without_ending(file.name)) for file in files]
    if len(set(stems)) == len(files):
        return stems
    paths = [true_text(str(file)) for file in files]
    if len(set(paths)) == len(files):
        return paths
    return [f"{path} ({i})" for path, i in zip(paths, count(1))]
