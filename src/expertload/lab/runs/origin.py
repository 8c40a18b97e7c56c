"""The origin of a run: its data and its imported code, and whether they have changed.

A configuration names data and callables (``my_lab:network``). Both can change without a change of
name. So a run records a checksum of each when training starts, and a folder with other checksums is
refused.

Importing a name runs code. Starting a recipe implies consent to its imports. A name found in a
run's folder is imported only if the user allows that name.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
from collections.abc import Collection
from pathlib import Path

from expertload.exceptions import FileFormatError, ParameterError
from expertload.lab.data import Augmentation, Dataset, load_dataset
from expertload.lab.data.dataset import carve
from expertload.lab.runs.folder import RunFolder
from expertload.lab.runs.recipe import DataConfig, RunConfig


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
    >>> from expertload.lab.runs.origin import load_run_data
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
    return dataclasses.replace(dataset, augmentation=config.augment or Augmentation())


def _with_fewer(dataset: Dataset, n: int, seed: int) -> Dataset:
    """Keep this many training images, each class in proportion; other splits are not changed."""
    if n > len(dataset.train):
        raise ParameterError(
            f"data.train_images must be at most {len(dataset.train)}, the number of training "
            f"images of {dataset.name}. Got {n} instead."
        )
    _, kept = carve(dataset.train, n / len(dataset.train), seed)
    return dataclasses.replace(dataset, train=kept)


# ------------------------------------------------------------------ code


def import_paths(config: RunConfig) -> list[str]:
    """Return the import paths of a configuration: its network and the parts of its loss.

    Examples
    --------
    >>> from expertload.lab.runs.origin import import_paths
    >>> from expertload.lab.runs.recipe import RunConfig
    >>> import_paths(RunConfig.model_validate({
    ...     "data": {"name": "digits"}, "model": {"name": "my_lab:network"},
    ...     "loss": {"name": "ce+my_lab:loss"},
    ...     "training": {"epochs": 1, "batch_size": 64, "learning_rate": 0.1}}))
    ['my_lab:network', 'my_lab:loss']
    """
    names = [config.model.name, *config.loss.name.split("+")]
    return [name for name in names if ":" in name]


def refuse_imports(
    config: RunConfig, folder: Path, *, allow: Collection[str] = (), loss: bool = True
) -> None:
    """Raise if a folder names something to import that was not allowed.

    Parameters
    ----------
    config : RunConfig
        The configuration found in the folder.
    folder : path
    allow : collection of str
        Import paths that may be imported.
    loss : bool, default=True
        Whether the loss will be built too, or only the network.

    Examples
    --------
    >>> from pathlib import Path
    >>> from expertload.lab.runs.origin import refuse_imports
    >>> from expertload.lab.runs.recipe import RunConfig
    >>> config = RunConfig.model_validate({
    ...     "data": {"name": "digits"}, "model": {"name": "my_lab:network"},
    ...     "loss": {"name": "ce"},
    ...     "training": {"epochs": 1, "batch_size": 64, "learning_rate": 0.1}})
    >>> refuse_imports(config, Path("runs/found"), allow=["my_lab:network"])
    """
    named = import_paths(config) if loss else [n for n in [config.model.name] if ":" in n]
    unknown = [name for name in named if name not in allow]
    if unknown:
        flags = " ".join(f"--allow-import {name}" for name in unknown)
        raise ParameterError(
            f"The run in {folder} would import and call {', '.join(unknown)}, which runs code. "
            f"Hint: if you know where the folder comes from and want that, pass {flags} (in "
            f"Python, allow={unknown})."
        )


def sources_of(config: RunConfig) -> dict[str, str]:
    """Return the SHA-256 of the source file of each imported callable, except compiled ones."""
    digests = {
        path: _source(path, "model" if path == config.model.name else "loss")
        for path in import_paths(config)
    }
    return {path: digest for path, digest in digests.items() if digest is not None}


def _source(path: str, what: str) -> str | None:
    from expertload.losses.build import import_callable  # here, because it imports torch

    builder = inspect.unwrap(import_callable(path, what))
    try:
        file = inspect.getsourcefile(builder)
    except TypeError:  # not written in Python
        return None
    return None if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()


def refuse_changed_origin(run: RunFolder, config: RunConfig, dataset: Dataset) -> None:
    """Raise if a run was trained on other data, or with other code, under the same names.

    Only recorded checksums are compared.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab.data import load_dataset
    >>> from expertload.lab.runs.recipe import RunConfig
    >>> from expertload.lab.runs.folder import RunFolder
    >>> from expertload.lab.runs.origin import refuse_changed_origin
    >>> config = RunConfig.model_validate({
    ...     "data": {"name": "digits"}, "model": {"name": "small-cnn"}, "loss": {"name": "ce"},
    ...     "training": {"epochs": 1, "batch_size": 64, "learning_rate": 0.1}})
    >>> with TemporaryDirectory() as place:
    ...     run = RunFolder(Path(place) / "run")
    ...     run.create(config)
    ...     run.write_json("environment.json", {"data": {"sha256": "of other images"}})
    ...     try:
    ...         refuse_changed_origin(run, config, load_dataset("digits"))
    ...     except ValueError as error:
    ...         print(str(error).partition(" in ")[0])
    The data 'digits' have changed since the run
    """
    recorded = run.environment()
    before = recorded.get("data", {}).get("sha256")
    if before is not None and before != dataset.checksum():
        raise _changed(f"The data {config.data.name!r} have", run)
    sources = recorded.get("sources", {})
    for path, digest in sources_of(config).items():
        if sources.get(path, digest) != digest:
            raise _changed(f"The file that {path!r} is in has", run)


def _changed(what: str, run: RunFolder) -> FileFormatError:
    done = "was trained" if run.is_done else "was begun"
    return FileFormatError(
        f"{what} changed since the run in {run.path} {done}, so its results are out of date. Hint: "
        "choose another folder with --out, or remove this one to train again."
    )
