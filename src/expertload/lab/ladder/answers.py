"""Predictions of a run: with its raw weights, the selected weights, or over several views.

A run stores the predictions of its selected weights. All others need passes through the network;
they are stored in the run's folder, so that each is computed only once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from expertload._typing import FloatArray, IntArray
from expertload.lab.data import Split
from expertload.lab.results.views import ViewedRun, with_views
from expertload.lab.runs.finished import FinishedRun, probabilities_of
from expertload.lab.runs.folder import RunFolder, make_folder

__all__ = ["Answers", "Questions", "mean_answers"]

SPLITS = ("validation", "test")
NOTE = "choice.json"  # written last: if it exists, the stored predictions are complete

Asked = tuple[dict[str, tuple[FloatArray, IntArray]], dict[str, Any]]


class Answers(NamedTuple):
    """A model's probabilities for all cases, and their cost.

    Attributes
    ----------
    validation, test : ndarray of float64, shape (n, classes)
        Probabilities.
    passes : int
        Passes through a network for each image.
    seconds : float
        Training time of its networks.
    choice : str
        The choice made on validation data, in a word or two; empty if there was none.
    """

    validation: FloatArray
    test: FloatArray
    passes: int
    seconds: float
    choice: str = ""


def mean_answers(each: Sequence[Answers]) -> Answers:
    """Return the mean probabilities of several models.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.lab.ladder.answers import Answers, mean_answers
    >>> sure, unsure = np.array([[0.9, 0.1]]), np.array([[0.5, 0.5]])
    >>> both = mean_answers([Answers(sure, sure, 1, 10.0), Answers(unsure, unsure, 5, 12.0)])
    >>> both.test, both.passes, both.seconds
    (array([[0.7, 0.3]]), 6, 22.0)
    """
    return Answers(
        np.mean([one.validation for one in each], axis=0),
        np.mean([one.test for one in each], axis=0),
        sum(one.passes for one in each),
        sum(one.seconds for one in each),
    )


@dataclass(frozen=True, kw_only=True)
class Questions:
    """Computes the predictions of runs.

    Attributes
    ----------
    data_dir : path, optional
        Where data files are.
    allow : collection of str
        Import paths of your own networks that the folders may import.
    """

    data_dir: str | Path | None = None
    allow: Collection[str] = ()

    def raw(self, run: FinishedRun) -> Answers:
        """Return the predictions of the raw weights at their best epoch."""
        if run.folder.selected == "raw":
            return Answers(run.validation_proba, run.test_proba, 1, _seconds(run))
        kept = _kept(run, "raw", self._ask_raw)
        validation, test = (probabilities_of(kept.read_logits(split)[0]) for split in SPLITS)
        return Answers(validation, test, 1, _seconds(run))

    def selected(self, run: FinishedRun) -> Answers:
        """Return the predictions of the selected weights, raw or averaged."""
        return Answers(run.validation_proba, run.test_proba, 1, _seconds(run), run.folder.selected)

    def viewed(self, run: FinishedRun) -> Answers:
        """Return the predictions of the selected weights, averaged over the chosen views."""
        seen = self.view(run)
        return Answers(
            seen.validation_proba,
            seen.test_proba,
            seen.choice.passes,
            _seconds(run),
            seen.choice.views,
        )

    def view(self, run: FinishedRun) -> ViewedRun:
        """Return the run with the views of each image that validation data chose."""
        from expertload.ensembling import ViewChoice

        kept = _kept(run, "views", self._ask_views)
        choice = ViewChoice(**kept.read_json(NOTE))
        return ViewedRun(run, choice, *(kept.read_logits(split) for split in SPLITS))

    def _ask_raw(self, run: FinishedRun) -> Asked:
        from expertload.lab.runs.network import apply_network

        data = run.load_data(self.data_dir)
        network = run.load_network(data, allow=self.allow, weights="raw")

        def logits(split: Split) -> tuple[FloatArray, IntArray]:
            return apply_network(network, split, data.normalisation, network), split.labels

        return {name: logits(getattr(data, name)) for name in SPLITS}, {}

    def _ask_views(self, run: FinishedRun) -> Asked:
        (seen,) = with_views(run, data_dir=self.data_dir, allow=self.allow)
        return {"validation": seen.validation, "test": seen.test}, asdict(seen.choice)


def _seconds(run: FinishedRun) -> float:
    return float(run.folder.read_json("results.json").get("seconds", np.nan))


def _kept(run: FinishedRun, kind: str, ask: Callable[[FinishedRun], Asked]) -> RunFolder:
    """Return the folder with stored predictions; compute them if it does not exist."""
    folder = RunFolder(run.folder.path / "answers" / kind)
    if not (folder.path / NOTE).exists():
        splits, note = ask(run)
        make_folder(folder.path)
        for split, (logits, labels) in splits.items():
            folder.write_logits(split, logits, labels)
        folder.write_json(NOTE, note)
    return folder
