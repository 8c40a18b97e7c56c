"""Loads the data of a run, with the augmentation of its settings."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from expertload.exceptions import ParameterError
from expertload.lab.data import Augmentation, Dataset, load_dataset
from expertload.lab.data.dataset import carve
from expertload.lab.runs.recipe import AugmentationConfig, DataConfig

__all__ = ["load_run_data"]


def load_run_data(config: DataConfig, *, data_dir: str | Path | None = None) -> Dataset:
    """Load the data that a run is trained on.

    Parameters
    ----------
    config : DataConfig
    data_dir : path, optional
        The folder with the data files; the cache by default.

    Examples
    --------
    >>> from expertload.lab.runs.recipe import DataConfig
    >>> from expertload.lab.runs.data import load_run_data
    >>> load_run_data(DataConfig(name="digits"))
    Dataset('digits': 997/300/500 images of 8 x 8 x 1, 10 classes)
    """
    dataset = load_dataset(
        config.name, data_dir=data_dir, seed=config.split_seed, image_size=config.image_size
    )
    if config.train_images is not None:
        dataset = _with_fewer(dataset, config.train_images, config.split_seed)
    if config.augment is True:
        return dataset
    return dataclasses.replace(dataset, augmentation=_augmentation(config.augment))


def _with_fewer(dataset: Dataset, n: int, seed: int) -> Dataset:
    """Keep this many training images, each class in proportion; other splits are not changed."""
    if n > len(dataset.train):
        raise ParameterError(
            f"data.train_images must be at most {len(dataset.train)}, the number of training "
            f"images of {dataset.name}. Got {n} instead."
        )
    _, kept = carve(dataset.train, n / len(dataset.train), seed)
    return dataclasses.replace(dataset, train=kept)


def _augmentation(chosen: AugmentationConfig | bool) -> Augmentation:
    if isinstance(chosen, AugmentationConfig):
        return Augmentation(**chosen.model_dump())
    return Augmentation()
