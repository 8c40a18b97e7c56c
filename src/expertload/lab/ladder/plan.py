"""Plans a ladder: checks the data, and makes a recipe for each arm.

All arms share one recipe. They differ only in augmentation and in the loss, so that the gain of a
step is due to that step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from expertload.exceptions import InsufficientDataError, ParameterError
from expertload.lab.data import Augmentation, Dataset, Split
from expertload.lab.runs.data import load_run_data
from expertload.lab.runs.recipe import DataConfig, Recipe
from expertload.lab.runs.recipe_files import problems_of
from expertload.lab.runs.settings import change, merge

__all__ = ["Plan", "load_data", "look_at", "make_plan"]

AUCOC = "ce+aucoc"
LARGE = 24  # images of this size or larger use a residual network
LEAST = {"training": 2, "validation": 2, "test": 4}  # test images: at least two in each half
FEW = 2000  # with fewer training images, batches are small


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The recipes of the arms.

    Attributes
    ----------
    plain : Recipe
    augmented : Recipe or None
        None if nothing is augmented.
    augmentation : str
        The augmentation in words.
    """

    plain: Recipe
    augmented: Recipe | None
    augmentation: str


def load_data(
    name: str, *, settings: Sequence[str] = (), data_dir: str | Path | None = None
) -> Dataset:
    """Load the data of a ladder, with its settings.

    Examples
    --------
    >>> from expertload.lab.ladder.plan import load_data
    >>> load_data("digits", settings=["data.train_images=500", "training.epochs=3"])
    Dataset('digits': 500/300/500 images of 8 x 8 x 1, 10 classes)
    """
    chosen = {**change({"data": {"name": name}}, settings)["data"], "augment": True}
    try:
        config = DataConfig.model_validate(chosen)
    except ValidationError as error:
        raise _cannot(error, DataConfig, settings) from error
    return load_run_data(config, data_dir=data_dir)


def look_at(data: Dataset) -> list[str]:
    """Refuse data that do not suit a ladder; return remarks about data that do.

    Examples
    --------
    >>> from expertload.lab.data import load_dataset
    >>> from expertload.lab.ladder.plan import look_at
    >>> look_at(load_dataset("digits"))
    []
    """
    splits = {"training": data.train, "validation": data.validation, "test": data.test}
    needed = {
        "training": "to learn from",
        "validation": "to choose by: without them every choice would be made on test images",
        "test": "to measure and to certify with",
    }
    if data.num_classes < 2:
        raise InsufficientDataError(
            f"The data {data.name!r} must have at least two classes. Got one."
        )
    for name, split in splits.items():
        if len(split) < LEAST[name]:
            raise InsufficientDataError(
                f"The data {data.name!r} must have at least {LEAST[name]} {name} image(s) "
                f"{needed[name]}. Got {len(split)}. Hint: docs/lab.md explains how your own data "
                "are split."
            )
    return [
        f"No {name} image belongs to {_named(missing)}."
        for name, split in splits.items()
        if (missing := _missing(data, split))
    ]


def _missing(data: Dataset, split: Split) -> list[str]:
    found = set(split.labels.tolist())
    return [name for place, name in enumerate(data.class_names) if place not in found]


def _named(classes: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in classes[:5])
    more = f" and {len(classes) - 5} more" if len(classes) > 5 else ""
    return f"the class {shown}" if len(classes) == 1 else f"the classes {shown}{more}"


def make_plan(
    data: Dataset,
    *,
    network: str | None = None,
    epochs: int = 30,
    target_accuracies: Sequence[float] = (0.95, 0.9),
    settings: Sequence[str] = (),
) -> Plan:
    """Make the recipes of a ladder.

    Parameters
    ----------
    data : Dataset
    network : str, optional
        A name of `expertload.lab.models`, or ``"module:callable"``. By default ``"small-cnn"``
        for small images and ``"resnet8"`` for others.
    epochs : int, default=30
    target_accuracies : sequence of float
    settings : sequence of str
        Settings to change in the recipe, as in `expertload.lab.load_recipe`. ``data.augment``
        applies from the augmentation step on; ``"data.augment=false"`` skips that step.

    Examples
    --------
    >>> from expertload.lab.data import load_dataset
    >>> from expertload.lab.ladder.plan import make_plan
    >>> plan = make_plan(load_dataset("digits"), epochs=20)
    >>> plan.augmentation, plan.plain.training.ema_epochs
    ('shifts by up to 1 pixel', 5.0)
    """
    side = min(data.image_shape[:2])
    content = change(
        {
            "name": "lower-load",
            "data": {"name": data.name},
            "model": {"name": network or ("resnet8" if side >= LARGE else "small-cnn")},
            "training": {
                "epochs": epochs,
                "batch_size": 64 if len(data.train) < FEW else 128,
                "optimiser": "adam",
                "learning_rate": 0.001 if side >= LARGE else 0.003,
                "ema_epochs": min(5.0, max(1.0, epochs / 4)),
            },
            "evaluation": {"target_accuracies": list(target_accuracies)},
            "losses": {"ce": {}, AUCOC: {"weight": 0.3, "smoothing": "log_odds"}},
        },
        settings,
    )
    augment = content["data"].pop("augment", None)
    if augment is None or augment is True:
        augment = _usual_augmentation(data, side)
    plain = _recipe(merge(content, {"data": {"augment": False}}), settings)
    if augment is False:
        return Plan(plain=plain, augmented=None, augmentation="none")
    augmented = _recipe(merge(content, {"data": {"augment": augment}}), settings)
    return Plan(plain=plain, augmented=augmented, augmentation=_in_words(augmented))


def _usual_augmentation(data: Dataset, side: int) -> dict[str, Any]:
    """Return the usual augmentation of the data; for others, small shifts, which suit most data."""
    own = data.augmentation
    if own == Augmentation():
        return {"padding": max(1, side // 16)}
    return {
        name: value for name, value in vars(own).items() if value != getattr(Augmentation, name)
    }


def _recipe(content: dict[str, Any], settings: Sequence[str]) -> Recipe:
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        raise _cannot(error, Recipe, settings) from error


def _cannot(
    error: ValidationError, section: type[BaseModel], settings: Sequence[str]
) -> ParameterError:
    told = f" with {', '.join(settings)}" if settings else ""
    return ParameterError(f"There is no ladder{told}: {problems_of(error, section)}")


def _in_words(recipe: Recipe) -> str:
    how = recipe.data.augment
    if isinstance(how, bool):
        return "the usual one" if how else "none"
    said = {
        f"shifts by up to {how.padding} pixel{'s' if how.padding > 1 else ''}": how.padding,
        "mirror images": how.flip,
        "upside down": how.flip_vertical,
        "the eight symmetries": how.symmetries,
        f"crops from {how.crop:.0%} of the side": how.crop < 1,
        "colour": how.colour,
    }
    return ", ".join(words for words, used in said.items() if used) or "none"
