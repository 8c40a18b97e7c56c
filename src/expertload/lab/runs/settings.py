"""Changes single settings of a recipe or a run, written as in TOML."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from expertload.exceptions import ParameterError

__all__ = ["change", "key_of", "merge"]


def change(content: Mapping[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """Return nested settings with some of them changed, each by a line such as ``"a.b=2"``.

    Examples
    --------
    >>> from expertload.lab.runs.settings import change
    >>> change({"training": {"epochs": 100, "optimiser": "sgd"}}, ["training.epochs=2"])
    {'training': {'epochs': 2, 'optimiser': 'sgd'}}
    """
    changed = dict(content)
    for setting in settings:
        changed = merge(changed, _parse(setting))
    return changed


def key_of(setting: str) -> list[str]:
    """Return the parts of the key of a setting.

    Examples
    --------
    >>> from expertload.lab.runs.settings import key_of
    >>> key_of("training.epochs=2")
    ['training', 'epochs']
    """
    parts, content = [], _parse(setting)
    while isinstance(content, dict) and len(content) == 1:
        (name, content), *_ = content.items()
        parts.append(name)
    return parts


def _parse(setting: str) -> dict[str, Any]:
    """Read `key=value` as TOML; a value that is not TOML is a string."""
    key, equals, value = setting.partition("=")
    for line in (setting, f"{key}={json.dumps(value.strip())}"):
        try:
            if equals and key.strip():
                return tomllib.loads(line)
        except tomllib.TOMLDecodeError:
            continue
    raise ParameterError(
        f"A setting must have the form section.key=value. Got {setting!r} instead. Hint: write, "
        "for example, training.epochs=2."
    )


def merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested settings into others; an empty table replaces the old one.

    Examples
    --------
    >>> from expertload.lab.runs.settings import merge
    >>> merge({"training": {"epochs": 9}}, {"training": {"gamma": 0.1}})
    {'training': {'epochs': 9, 'gamma': 0.1}}
    """
    merged = dict(old)
    for key, value in new.items():
        into = isinstance(value, dict) and value and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if into else value
    return merged
