"""Recipes of experiments, in short TOML files, and the runs they define.

Recipes are read by `expertload.lab.runs.recipe_files`. A recipe has data, network, training and the
losses to compare, each loss with the options to try. One loss with one choice of options and one
seed is a *run*. Its configuration has everything that determines the result, so equal
configurations give equal runs.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Fraction = Annotated[float, Field(gt=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class _Section(BaseModel):
    """A part of a recipe: unknown keys are errors, and values cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class AugmentationConfig(_Section):
    """Random changes to training images, as `expertload.lab.data.Augmentation` describes them."""

    padding: Annotated[int, Field(ge=0)] = 0
    flip: bool = False
    flip_vertical: bool = False
    symmetries: bool = False
    crop: Fraction = 1.0
    colour: Annotated[float, Field(ge=0, lt=1)] = 0.0
    reflect: bool = False


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
    augment: bool | AugmentationConfig = True


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
    swa_start: None = None  # in the configurations of earlier runs, like the next one
    sam_rho: None = None
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


class RunConfig(_Section):
    """Everything that determines the result of one run."""

    data: DataConfig
    model: ModelConfig
    loss: LossConfig
    training: TrainingConfig
    evaluation: EvaluationConfig = EvaluationConfig()
    seed: int = 0

    @cached_property
    def fingerprint(self) -> str:
        """A short name for this configuration, equal for equal ones."""
        # Without defaults, so that new settings do not rename existing runs.
        given = self.model_dump(mode="json", exclude_defaults=True)
        text = json.dumps(given, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    @property
    def run_name(self) -> str:
        """A readable folder name, unique to this configuration."""
        weight = "" if self.loss.weight is None else f"-w{self.loss.weight:g}"
        loss = self.loss.name.replace(":", ".")  # characters that not every file system allows
        return f"{loss}{weight}-seed{self.seed}-{self.fingerprint}"


class Recipe(_Section):
    """Data, network and training, and the losses to compare under them.

    `losses` maps a loss name to the values to try for its `weight` and its options; every
    combination is one candidate. A name without a table has one candidate, its defaults.
    """

    name: str
    data: DataConfig
    model: ModelConfig
    training: TrainingConfig
    evaluation: EvaluationConfig = EvaluationConfig()
    losses: dict[str, dict[str, Any]]

    def candidates(self, loss: str) -> list[LossConfig]:
        """Return every combination of the values to try for a loss."""
        grid = self.losses.get(loss, {})
        names = list(grid)
        values = [v if isinstance(v, list) else [v] for v in grid.values()]
        return [
            _loss_config(loss, dict(zip(names, choice, strict=True)))
            for choice in itertools.product(*values)
        ]

    def run(self, loss: LossConfig, seed: int) -> RunConfig:
        """Return the configuration of one run."""
        return RunConfig(
            data=self.data,
            model=self.model,
            loss=loss,
            training=self.training,
            evaluation=self.evaluation,
            seed=seed,
        )

    def runs(self, losses: list[str], seeds: list[int]) -> Iterator[RunConfig]:
        """Return every run of a sweep, seed by seed."""
        for seed in seeds:
            for loss in losses:
                for candidate in self.candidates(loss):
                    yield self.run(candidate, seed)


def _loss_config(name: str, choice: dict[str, Any]) -> LossConfig:
    weight = choice.pop("weight", None)
    return LossConfig(name=name, weight=weight, options=choice)
