"""Recipes of experiments, in short TOML files, and the runs they define.

A recipe has data, network, training and the losses to compare, each loss with the options to try.
One loss with one choice of options and one seed is a *run*. Its configuration has everything that
determines the result, so equal configurations give equal runs.

Recipe files are found by name, may extend others, and single settings can be changed, written as
in TOML: ``training.epochs=2``.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from expertload.exceptions import FileFormatError, ParameterError
from expertload.lab.data.dataset import Augmentation

SUBFOLDERS = ("ablations", "ladder", "claim")  # folders of recipes in addition to the paper's
KINDS = ("bool", Augmentation.__name__)

Fraction = Annotated[float, Field(gt=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class _Section(BaseModel):
    """A part of a recipe: unknown keys are errors, and values cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DataConfig(_Section):
    """Which data to use, how to split them, and how to change images.

    Images of a folder (`folder:PATH`) are resized to `image_size` pixels per side.
    `train_images` is the number of training images to keep, each class in proportion. `augment` is
    whether to apply the usual augmentation of the data set (none for your own data), or a table.
    """

    name: str
    split_seed: int = 0
    image_size: Count | None = None
    train_images: Count | None = None
    augment: bool | Augmentation = True


class ModelConfig(_Section):
    """The network: a name of the lab, or your own `module:callable`.

    Training starts with the weights of the finished run in the folder `start`; of an ensemble, each
    seed takes another network.
    """

    name: str
    options: dict[str, Any] = {}
    start: str | None = None


class LossConfig(_Section):
    """The loss: a name such as `ce+aucoc`, the weight of its second part, and its options.

    Either part may be your own `module:callable`.
    """

    name: str
    weight: float | None = None
    options: dict[str, Any] = {}

    @property
    def settings(self) -> dict[str, Any]:
        """Weight and options together, which identify a candidate."""
        weight = {} if self.weight is None else {"weight": self.weight}
        return {**weight, **self.options}


class TrainingConfig(_Section):
    """The training settings.

    `body_rate` is the share of the learning rate for everything but the last linear layer, to fine-
    tune a pretrained network. The learning rate falls by `gamma` at the `milestones`; with the
    schedule `one-cycle` it instead rises to `learning_rate` and falls to zero. Over the first
    `warm_up` epochs the weight of a loss's second part rises from 0. `drop_last` skips the last
    batch of an epoch if it is smaller than the others. `ema_epochs` keeps an exponential mean of
    the weights over about this many epochs. Raw and averaged weights are both evaluated, and the
    better ones on validation data are kept.
    """

    epochs: Count
    batch_size: Count
    optimiser: Literal["sgd", "adam"] = "sgd"
    learning_rate: Positive
    body_rate: Fraction = 1.0
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    nesterov: bool = False
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    schedule: Literal["steps", "one-cycle"] = "steps"
    milestones: tuple[Count, ...] = ()
    gamma: Fraction = 0.1
    clip_norm: Positive | None = 2.0
    warm_up: Annotated[int, Field(ge=0)] = 0
    accumulate: Count = 1
    drop_last: bool = False
    ema_epochs: Positive | None = None
    select_by: Literal["aucoc", "accuracy", "ece"] = "aucoc"
    precision: Literal["32-true", "bf16-mixed", "16-mixed", "64-true"] = "32-true"
    compile: bool = False
    evaluation_batch_size: Count = 512

    @model_validator(mode="after")
    def _settings_agree(self) -> TrainingConfig:
        if self.warm_up > self.epochs:
            got = f"got {self.warm_up} of {self.epochs}"
            raise ValueError(f"warm_up must not exceed epochs, {got}")
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError(f"milestones must ascend, got {list(self.milestones)}")
        if self.milestones and self.schedule == "one-cycle":
            raise ValueError("milestones are for the schedule 'steps': leave them out")
        return self


class EvaluationConfig(_Section):
    """The accuracies at which the expert load is reported; the paper uses 90/95 or 65/75 %."""

    target_accuracies: tuple[Fraction, ...] = (0.90, 0.95)


class _Experiment(_Section):
    """What all runs of a recipe share."""

    data: DataConfig
    model: ModelConfig
    training: TrainingConfig
    evaluation: EvaluationConfig = EvaluationConfig()


class RunConfig(_Experiment):
    """Everything that determines the result of one run."""

    loss: LossConfig
    seed: int = 0

    @cached_property
    def fingerprint(self) -> str:
        """A short name for this configuration, equal for equal ones."""
        # Without defaults, so that new settings do not rename existing runs.
        given = self.model_dump(mode="json", exclude_defaults=True)
        return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:10]

    @property
    def run_name(self) -> str:
        """A readable folder name, unique to this configuration."""
        weight = "" if self.loss.weight is None else f"-w{self.loss.weight:g}"
        loss = self.loss.name.replace(":", ".")  # characters that not every file system allows
        return f"{loss}{weight}-seed{self.seed}-{self.fingerprint}"


class Recipe(_Experiment):
    """Data, network and training, and the losses to compare under them.

    `losses` maps a loss name to the values to try for its `weight` and its options; every
    combination is one candidate. A name without a table has one candidate, its defaults.
    """

    name: str
    losses: dict[str, dict[str, Any]]

    def candidates(self, loss: str) -> list[LossConfig]:
        """Return every combination of the values to try for a loss."""
        grid = self.losses.get(loss, {})
        values = [v if isinstance(v, list) else [v] for v in grid.values()]
        choices = [dict(zip(grid, choice, strict=True)) for choice in itertools.product(*values)]
        return [
            LossConfig(name=loss, weight=choice.pop("weight", None), options=choice)
            for choice in choices
        ]

    def run(self, loss: LossConfig, seed: int) -> RunConfig:
        """Return the configuration of one run."""
        shared = {name: getattr(self, name) for name in _Experiment.model_fields}
        return RunConfig(**shared, loss=loss, seed=seed)


# ------------------------------------------------------------------ recipes by name


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
    >>> len(recipe.candidates("ce+aucoc")), recipe.training.epochs
    (2, 9)
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
    >>> from expertload.lab.runs.recipe import describe_recipes
    >>> "digits" in describe_recipes()
    True
    """
    comments: dict[str, str] = {}
    for folder in _folders():
        for path in sorted(folder.glob("*.toml")):
            comments.setdefault(path.stem, _first_comment(path))
    return comments


def read_recipe_text(name: str | Path) -> str:
    """Return the text of a recipe, to read it or to copy and change it.

    Examples
    --------
    >>> from expertload.lab.runs.recipe import read_recipe_text
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
    for path in [Path(recipe), *(folder / f"{recipe}.toml" for folder in _folders())]:
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
    files = [path for path in named if path.is_file()]
    used = {path.resolve() for path in chain}
    for path in files:
        if path.resolve() not in used:  # so that your digits.toml can extend the library's digits
            return path
    if files:
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
    >>> from expertload.lab.runs.recipe import problems_of
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
    >>> from expertload.lab.runs.recipe import change
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
    >>> from expertload.lab.runs.recipe import key_of
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
    >>> from expertload.lab.runs.recipe import merge
    >>> merge({"training": {"epochs": 9}}, {"training": {"gamma": 0.1}})
    {'training': {'epochs': 9, 'gamma': 0.1}}
    """
    merged = dict(old)
    for key, value in new.items():
        into = isinstance(value, dict) and value and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if into else value
    return merged
