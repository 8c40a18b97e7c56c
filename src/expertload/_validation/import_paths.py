"""Imports users' own networks and losses by path: ``"my_package.nets:build"``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

from expertload.exceptions import MissingExtraError, ParameterError

Built = TypeVar("Built")


def import_callable(path: str, what: str) -> Callable[..., Any]:
    """Return the callable of a ``"module:callable"`` path; raise if it cannot be imported."""
    module_name, _, attribute = path.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), attribute]):
        raise ParameterError(
            f"The import path of a {what} must be of the form module:callable. Got {path!r} "
            "instead."
        )
    try:
        found = import_module(module_name)
    except ImportError as error:
        raise MissingExtraError(
            f"The {what} {path!r} needs the module {module_name!r}, which cannot be imported: "
            f"{error}. Hint: install it, or add its folder to PYTHONPATH."
        ) from error
    builder = getattr(found, attribute, None)
    if not callable(builder):
        raise ParameterError(f"The module {module_name!r} has nothing to call named {attribute!r}.")
    return builder  # type: ignore[no-any-return]


def call_builder(
    builder: Callable[..., Any],
    arguments: Mapping[str, Any],
    *,
    name: str,
    what: str,
    kind: type[Built],
) -> Built:
    """Call a builder, and check that it returns a torch module."""
    try:
        built = builder(**arguments)
    except TypeError as error:
        given = ", ".join(arguments) or "none"
        raise ParameterError(
            f"The {what} {name!r} does not take the options it was given ({given}): {error}."
        ) from error
    if not isinstance(built, kind):
        raise ParameterError(
            f"The {what} {name!r} must be a torch module. Got {type(built).__name__} instead."
        )
    return built
