"""Reads recipe files: finds them by name, merges what they extend, applies single settings.

Settings are written as in TOML: ``training.epochs=2``.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from expertload.exceptions import FileFormatError, ParameterError
from expertload.lab.runs.recipe import AugmentationConfig, Recipe

SUBFOLDERS = ("ablations", "ladder", "claim")  # folders of recipes in addition to the paper's
KINDS = ("bool", AugmentationConfig.__name__)


def load_recipe(recipe: str | Path, *, settings: Sequence[str] = ()) -> Recipe:
    """Read a recipe.

    Parameters
    ----------
    recipe : str or path
        A TOML file, or the name of a recipe that comes with the library (see `describe_recipes`).
        It may begin with ``extends = "other"``: that recipe, a file in the same folder or one of
        the library, then supplies all settings that this one leaves out.
    settings : sequence of str
        Settings to change, each written as in TOML: ``"training.epochs=2"``.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab import load_recipe
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "tiny.toml"
    ...     _ = path.write_text('''
    ... data.name = "digits"
    ... model.name = "small-cnn"
    ... training = { epochs = 2, batch_size = 64, learning_rate = 0.1 }
    ... [losses]
    ... ce = {}
    ... "ce+aucoc" = { weight = [0.1, 1.0] }
    ... ''')
    ...     recipe = load_recipe(path, settings=["training.epochs=9"])
    >>> len(list(recipe.runs(["ce", "ce+aucoc"], seeds=[0, 1]))), recipe.training.epochs
    (6, 9)
    """
    path = _find(recipe)
    content = {**_read(path, ()), "name": path.stem}
    try:
        return Recipe.model_validate(change(content, settings))
    except ValidationError as error:
        _blame_settings(error, settings)
        raise FileFormatError(f"{path} is not a recipe. {problems_of(error, Recipe)}") from error


def describe_recipes() -> dict[str, str]:
    """Return every recipe that can be named, with the first comment of its file.

    Examples
    --------
    >>> from expertload.lab.runs.recipe_files import describe_recipes
    >>> "digits" in describe_recipes()
    True
    """
    found: dict[str, str] = {}
    for folder in _folders():
        for path in sorted(folder.glob("*.toml")):
            found.setdefault(path.stem, _first_comment(path))
    return found


def read_recipe_text(name: str | Path) -> str:
    """Return the text of a recipe, to read it or to copy and change it.

    Examples
    --------
    >>> from expertload.lab.runs.recipe_files import read_recipe_text
    >>> "[training]" in read_recipe_text("digits")
    True
    """
    return _text(_find(name))


# ------------------------------------------------------------------ files


def _folders() -> list[Path]:
    """Return the folders of named recipes: in the working folder, and in the library."""
    here = Path(__file__).resolve()
    roots = [Path("experiments"), here.parents[1] / "recipes", here.parents[4] / "experiments"]
    return [folder for root in roots for folder in (root, *(root / name for name in SUBFOLDERS))]


def _find(recipe: str | Path) -> Path:
    """Return the path of a file, or of a recipe that comes with the library."""
    candidates = [Path(recipe), *(folder / f"{recipe}.toml" for folder in _folders())]
    for path in candidates:
        if path.is_file():
            return path
    near = difflib.get_close_matches(Path(recipe).stem, describe_recipes(), n=1)
    hint = f"did you mean {near[0]!r}?" if near else "'expertload lab recipes' lists them all."
    if Path(f"{recipe}.toml").is_file():  # the name that tables and comparisons know it by
        hint = f"pass the file, {recipe}.toml."
    raise FileFormatError(f"There is no recipe at {recipe}. Hint: {hint}")


def _find_base(base: str, chain: tuple[Path, ...]) -> Path:
    """Return the recipe that the last of a chain extends: in its folder, or of the library."""
    named = [folder / f"{base}.toml" for folder in (chain[-1].parent, *_folders())]
    found = [path for path in named if path.is_file()]
    used = {path.resolve() for path in chain}
    for path in found:
        if path.resolve() not in used:  # so that your digits.toml can extend the library's digits
            return path
    if found:
        raise FileFormatError(f"{chain[-1]} extends itself.")
    raise FileFormatError(
        f"{chain[-1]} extends {base!r}, but there is neither a file {named[0]} nor a recipe of "
        "that name in the library. Hint: 'expertload lab recipes' lists the recipes."
    )


def _read(path: Path, extended_by: tuple[Path, ...]) -> dict[str, Any]:
    """Read a file and merge it into the recipe that it extends."""
    try:
        content = tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError as error:
        raise FileFormatError(f"{path} is not valid TOML: {error}.") from error
    base = content.pop("extends", None)
    if base is None:
        return content
    chain = (*extended_by, path)
    return merge(_read(_find_base(str(base), chain), chain), content)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path} is not valid TOML: {error}.") from error
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error.strerror}.") from error


def _first_comment(path: Path) -> str:
    lines = _text(path).splitlines()
    return lines[0].removeprefix("#").strip() if lines and lines[0].startswith("#") else ""


# ------------------------------------------------------------------ what is wrong with one


def _blame_settings(error: ValidationError, settings: Sequence[str]) -> None:
    """Raise if a problem is due to a setting on the command line, not to the file."""
    for place, problem in _problems(error):
        for setting in reversed(settings):
            key = key_of(setting)
            if key and (place[: len(key)] == key or key[: len(place)] == place):
                why = _sentence(place, problem, Recipe)
                raise ParameterError(f"The setting {setting} is not valid: {why}.") from error


def problems_of(error: ValidationError, section: type[BaseModel]) -> str:
    """Return a sentence about what is wrong with the settings of a section.

    Examples
    --------
    >>> from pydantic import ValidationError
    >>> from expertload.lab.runs.recipe import TrainingConfig
    >>> from expertload.lab.runs.recipe_files import problems_of
    >>> try:
    ...     TrainingConfig(epoch=3, batch_size=64, learning_rate=0.1)
    ... except ValidationError as error:
    ...     problems_of(error, TrainingConfig)
    "epochs: Field required; there is no key 'epoch' (did you mean 'epochs'?)."
    """
    problems = [_sentence(place, problem, section) for place, problem in _problems(error)]
    return "; ".join(problems[:3]) + "."


def _problems(error: ValidationError) -> Iterator[tuple[list[str], Any]]:
    """Return the location and description of each problem.

    `data.augment` is a table or a boolean. For a table, pydantic also reports that it is not a
    boolean, and adds the class name to the keys; neither helps.
    """
    for problem in error.errors():
        if problem["type"] == "bool_type" and isinstance(problem["input"], dict):
            continue
        yield [str(part) for part in problem["loc"] if part not in KINDS], problem


def _sentence(place: Sequence[str], problem: Any, section: type[BaseModel]) -> str:
    key = ".".join(place) or "recipe"
    if problem["type"] != "extra_forbidden":
        return f"{key}: {problem['msg']}"
    near = difflib.get_close_matches(key, list(_keys(section)), n=1)
    return f"there is no key {key!r}" + (f" (did you mean {near[0]!r}?)" if near else "")


def _keys(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Return every key of a section and its subsections, with dots."""
    for name, field in section.model_fields.items():
        yield prefix + name
        for part in [field.annotation, *get_args(field.annotation)]:
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from _keys(part, f"{prefix}{name}.")


# ------------------------------------------------------------------ single settings


def change(content: Mapping[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """Return nested settings with some of them changed, each by a line such as ``"a.b=2"``.

    Examples
    --------
    >>> from expertload.lab.runs.recipe_files import change
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
    >>> from expertload.lab.runs.recipe_files import key_of
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
    >>> from expertload.lab.runs.recipe_files import merge
    >>> merge({"training": {"epochs": 9}}, {"training": {"gamma": 0.1}})
    {'training': {'epochs': 9, 'gamma': 0.1}}
    """
    merged = dict(old)
    for key, value in new.items():
        into = isinstance(value, dict) and value and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if into else value
    return merged
