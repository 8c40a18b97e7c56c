"""Policies as arguments of commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from expertload.operating_point import CertifiedGroups, OperatingPoint

__all__ = ["Policy", "load_policy"]

Policy = Annotated[
    Path, typer.Argument(help="A policy saved by 'expertload evaluate --save-policy'.")
]


def load_policy(path: Path) -> OperatingPoint | CertifiedGroups:
    """Read a policy; if the file does not exist, explain how to make one.

    Examples
    --------
    >>> from pathlib import Path
    >>> from expertload.cli.policies import load_policy
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
