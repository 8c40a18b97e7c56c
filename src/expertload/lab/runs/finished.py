"""Reads finished runs: their settings, predictions and networks.

Evaluation, tables and tests start from here. Predictions are read from the run's folder. The
network also needs the data, for normalisation and images, and torch, which is imported only then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

from expertload._typing import FloatArray
from expertload.exceptions import FileFormatError, ParameterError
from expertload.lab.data import Dataset
from expertload.lab.runs.folder import Labelled, Member, RunFolder, Weights, read_json_object
from expertload.lab.runs.origin import load_run_data, refuse_imports
from expertload.lab.runs.recipe import LossConfig, RunConfig

if TYPE_CHECKING:
    from torch import nn


class FinishedRun:
    """A finished run, read from its folder.

    Parameters
    ----------
    path : path
        The folder of a finished run, or of ``lower-load``, which stands for its model.
    data_dir : path, optional
        Where data files are; the cache by default.
    allow : collection of str
        Import paths of your own networks that the folder may import. Any other is refused, because
        someone else may have written the folder.
    device : str, default="auto"
        Where networks predict, such as ``"cpu"`` or ``"cuda:1"``; by default on a GPU if there is
        one.

    Attributes
    ----------
    views : str
        The views of each image over which its predictions are averaged.
    access : dict
        `data_dir`, `allow` and `device`.
    """

    views = "none"

    def __init__(
        self,
        path: str | Path,
        *,
        data_dir: str | Path | None = None,
        allow: Collection[str] = (),
        device: str = "auto",
    ) -> None:
        self.access: dict[str, Any] = {"data_dir": data_dir, "allow": allow, "device": device}
        self.folder = RunFolder(_model_of(path))
        self.config: RunConfig = self.folder.config()
        if not self.folder.is_done:
            raise FileFormatError(
                f"The run in {self.folder.path} is not finished. Hint: run the command that "
                "started it again; it continues where it stopped."
            )

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.path.resolve().name

    @property
    def label(self) -> str:
        """Its loss with options, in readable form; for an ensemble, those of its members."""
        configs = [member.config for member in self.members] or [self.config]
        return " and ".join(dict.fromkeys(describe_loss(config.loss) for config in configs))

    @cached_property
    def members(self) -> list[Member]:
        """The members of an ensemble; empty for a single run."""
        return self.folder.members()

    @property
    def identity(self) -> str:
        """A text that is the same for equal runs, and for ensembles of equal runs."""
        if not self.members:
            return self.config.fingerprint
        return identity_of(self.members)

    @cached_property
    def validation(self) -> Labelled:
        """Logits and labels of the validation split."""
        return self.folder.read_logits("validation")

    @cached_property
    def test(self) -> Labelled:
        """Logits and labels of the test split."""
        return self.folder.read_logits("test")

    @cached_property
    def validation_proba(self) -> FloatArray:
        """Probabilities of the validation split, float64."""
        return probabilities_of(self.validation[0])

    @cached_property
    def test_proba(self) -> FloatArray:
        """Probabilities of the test split, float64."""
        return probabilities_of(self.test[0])

    def load_data(self) -> Dataset:
        """Load the training data, and check that they have not changed."""
        data = load_run_data(self.config.data, data_dir=self.access["data_dir"])
        if not np.array_equal(data.test.labels, self.test[1]):
            raise FileFormatError(
                f"The test labels of {data.name} differ from those of the run in "
                f"{self.folder.path}. Hint: pass the data folder that was used for training."
            )
        return data

    def load_description(self) -> Dataset:
        """Return the recorded description of the data, without images.

        Runs of earlier versions have no record, so their data are loaded.
        """
        recorded = self.folder.environment().get("data", {})
        try:
            return Dataset.described(self.config.data.name, recorded)
        except KeyError:
            return self.load_data()

    def load_data_and_network(self) -> tuple[Dataset, nn.Module]:
        """Load data and network; refuse imports that are not allowed before reading any data."""
        refuse_imports(self.config, self.folder.path, allow=self.access["allow"], loss=False)
        data = self.load_data()
        return data, self.load_network(data)

    def load_network(self, data: Dataset, *, weights: Weights | None = None) -> nn.Module:
        """Build the network with the selected weights, or weights of a kind, ready to predict.

        An ensemble uses the selected weights of its members.
        """
        refuse_imports(self.config, self.folder.path, allow=self.access["allow"], loss=False)
        # Imported here, because both import torch.
        from expertload.ensembling import Ensemble, ViewEnsemble
        from expertload.lab.runs.network import build_trained_network

        if not self.members:
            best = self.folder.best if weights is None else self.folder.best_of(weights)
            return build_trained_network(self.config, best, data, self.access["device"])
        return Ensemble(
            ViewEnsemble(run.load_network(data), run.views) for run in self.member_runs()
        )

    def member_runs(self) -> list[FinishedRun]:
        """Return the members of an ensemble as runs, with the views that it gives them."""
        runs = [FinishedRun(member.path, **self.access) for member in self.members]
        for run, member in zip(runs, self.members, strict=True):
            run.views = member.views
        return runs


def identity_of(members: Iterable[Member]) -> str:
    """Return a text that is the same for ensembles of equal members, in any order."""
    members_in_order = sorted(f"{member.config.fingerprint} {member.views}" for member in members)
    return hashlib.sha256("\n".join(members_in_order).encode()).hexdigest()[:10]


def _model_of(folder: str | Path) -> str | Path:
    """Return the model at the top of the ladder, for the folder of a ladder."""
    ladder = Path(folder) / "ladder.json"
    if not ladder.exists():
        return folder
    model = Path(str(read_json_object(ladder).get("model", "")))
    # Also found if the folder was moved, or is named relative to another folder.
    return Path(folder) / model.parent.name / model.name


Runs = str | Path | FinishedRun | Sequence[str | Path | FinishedRun]


def read_runs(folders: Runs, **access: Any) -> list[FinishedRun]:
    """Read runs, with options of `FinishedRun`; refuse repeated runs, and runs of different cases.

    Runs that were read before keep their options.
    """
    several = [folders] if isinstance(folders, str | Path | FinishedRun) else list(folders)
    if not several:
        raise ParameterError("At least one run is needed. Got none.")
    runs = [run if isinstance(run, FinishedRun) else FinishedRun(run, **access) for run in several]
    check_same_cases(runs)
    _check_distinct(runs)
    return runs


def check_same_cases(runs: Iterable[FinishedRun]) -> None:
    """Raise unless all runs were validated and tested on the same cases."""
    first, *others = runs
    for other in others:
        a, b = first.config.data, other.config.data
        if (a.name, a.split_seed) != (b.name, b.split_seed):
            raise ParameterError(
                f"Runs must be of the same data. Got {a.name!r} (split {a.split_seed}) in "
                f"{first.folder.path} and {b.name!r} (split {b.split_seed}) in {other.folder.path}."
            )
        for split in ("validation", "test"):
            if not np.array_equal(getattr(first, split)[1], getattr(other, split)[1]):
                raise ParameterError(
                    f"Runs must be of the same data. The {split} labels in "
                    f"{first.folder.path} and {other.folder.path} differ, although both name "
                    f"{a.name!r}. Hint: one may have been trained on another version of the files."
                )


def _check_distinct(runs: Sequence[FinishedRun]) -> None:
    seen: dict[str, FinishedRun] = {}
    for run in runs:
        twin = seen.setdefault(run.identity, run)
        if twin is not run:
            raise ParameterError(
                f"Runs must be distinct. {twin.folder.path} and {run.folder.path} are the same run."
            )


def describe_loss(loss: LossConfig) -> str:
    """Return a loss and its options as text.

    Examples
    --------
    >>> from expertload.lab.runs.finished import describe_loss
    >>> from expertload.lab.runs.recipe import LossConfig
    >>> describe_loss(LossConfig(name="ce+sece", weight=2, options={"temperature": 0.1}))
    'ce+sece (weight 2, temperature 0.1)'
    """
    return describe_options(loss.name, loss.settings)


def describe_options(name: str, options: Mapping[str, Any]) -> str:
    """Return a name followed by its options in brackets.

    Examples
    --------
    >>> from expertload.lab.runs.finished import describe_options
    >>> describe_options("ce+aucoc", {"weight": 5.0})
    'ce+aucoc (weight 5)'
    """
    text = options_in_words(options)
    return f"{name} ({text})" if text else name


def options_in_words(options: Mapping[str, Any]) -> str:
    """Return options as text, such as ``weight 5, temperature 0.1``."""
    shown = {k: f"{v:g}" if isinstance(v, float) else v for k, v in options.items()}
    return ", ".join(f"{key} {value}" for key, value in shown.items())


def mean_logits(runs: Sequence[FinishedRun], split: str) -> Labelled:
    """Return logits whose softmax is the mean probability of runs, and the labels of a split."""
    log_proba = [log_softmax(getattr(run, split)[0].astype(np.float64), axis=1) for run in runs]
    mean: FloatArray = logsumexp(log_proba, axis=0) - np.log(len(runs))
    return mean, getattr(runs[0], split)[1]


def probabilities_of(logits: FloatArray) -> FloatArray:
    """Return the softmax of logits, in double precision."""
    return softmax(logits.astype(np.float64), axis=1)
