"""Names of models, one per file."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import typer

from expertload.cli.screen import true_text

__all__ = ["name_models"]


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
        return [true_text(name) for name in given]
    from expertload._opening.files import without_ending

    stems = [true_text(without_ending(file.name)) for file in files]
    if len(set(stems)) == len(files):
        return stems
    paths = [true_text(str(file)) for file in files]
    if len(set(paths)) == len(files):
        return paths
    return [f"{path} ({i})" for path, i in zip(paths, count(1))]
