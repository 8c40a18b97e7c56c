"""Test-time augmentation of runs: the mean probability over views chosen on validation data."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from expertload._typing import FloatArray, IntArray
from expertload.lab.data import Dataset, Split
from expertload.lab.results.measures import find_measure
from expertload.lab.runs.finished import FinishedRun, Runs, probabilities_of, read_runs

if TYPE_CHECKING:
    from torch import nn

    from expertload.ensembling import ViewChoice

__all__ = ["ViewedRun", "with_views"]


class ViewedRun(FinishedRun):
    """A run whose predictions are averaged over several views of each image.

    Parameters
    ----------
    run : FinishedRun
    choice : ViewChoice
        The chosen views and their cost.
    validation, test : (logits, labels)
        The softmax of these logits is the mean probability.
    """

    def __init__(
        self,
        run: FinishedRun,
        choice: ViewChoice,
        validation: tuple[FloatArray, IntArray],
        test: tuple[FloatArray, IntArray],
    ) -> None:
        super().__init__(run.folder.path)
        self.choice = choice
        self.validation, self.test = validation, test


def with_views(
    folders: Runs,
    *,
    views: str = "auto",
    batch_size: int = 512,
    data_dir: str | Path | None = None,
    allow: Collection[str] = (),
) -> list[ViewedRun]:
    """Predict with the networks of runs over several views of each image.

    Parameters
    ----------
    folders : path, FinishedRun, or sequence of these
        Finished runs of the same data.
    views : str, default="auto"
        A name from `expertload.ensembling.make_views`, or ``"auto"`` for the views that do best on
        validation data, by the metric that selected the run's checkpoint. ``"auto"`` may choose
        none.
    batch_size : int, default=512
    data_dir : path, optional
        Where data files are.
    allow : collection of str
        Import paths of your own networks that the folders may import.

    Returns
    -------
    list of ViewedRun
        To be evaluated, compared and reported like any run.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab import RunConfig, evaluate_runs, train
    >>> from expertload.lab.results.views import with_views
    >>> config = RunConfig.model_validate({
    ...     "data": {"name": "digits"}, "model": {"name": "small-cnn"}, "loss": {"name": "ce"},
    ...     "training": {"epochs": 1, "batch_size": 64, "learning_rate": 0.1}})
    >>> with TemporaryDirectory() as place:
    ...     _ = train(config, Path(place) / "run", accelerator="cpu")
    ...     (run,) = with_views(Path(place) / "run", views="shift")
    ...     numbers = evaluate_runs(run).runs["run"]["test"]
    >>> run.choice.passes, 0 < numbers["aucoc"] < 1
    (5, True)
    """
    return [_viewed(run, views, batch_size, data_dir, allow) for run in read_runs(folders)]


def _viewed(
    run: FinishedRun,
    views: str,
    batch_size: int,
    data_dir: str | Path | None,
    allow: Collection[str],
) -> ViewedRun:
    from expertload.ensembling import ViewEnsemble

    data, network = run.load_data_and_network(data_dir, allow=allow)
    choice = _choose(run, data, network, views, batch_size)
    seen = ViewEnsemble(network, choice.views)

    def logits(split: Split) -> tuple[FloatArray, IntArray]:
        return _logits(seen, split, data, batch_size), split.labels

    return ViewedRun(run, choice, logits(data.validation), logits(data.test))


def _choose(
    run: FinishedRun, data: Dataset, network: nn.Module, views: str, batch_size: int
) -> ViewChoice:
    from expertload.ensembling import ViewChoice, ViewEnsemble, make_views, view_names

    measure = find_measure(run.config.training.select_by)
    metric, sign = measure.metric, 1 if measure.higher_is_better else -1
    square = data.image_shape[0] == data.image_shape[1]
    names = [n for n in view_names() if square or n != "symmetries"] if views == "auto" else [views]
    scores = {}
    for name in dict.fromkeys(["none", *names]):
        found = _logits(ViewEnsemble(network, name), data.validation, data, batch_size)
        proba = probabilities_of(found)
        scores[name] = metric(data.validation.labels, proba) if metric is not None else 0.0
    best = max(names, key=lambda name: sign * scores[name])  # the first of equals is the cheapest
    return ViewChoice(
        views=best, scores=scores, passes=len(make_views(best)) * max(1, len(run.members))
    )


def _logits(network: nn.Module, split: Split, data: Dataset, batch_size: int) -> FloatArray:
    from expertload.lab.runs.network import apply_network

    return apply_network(network.eval(), split, data.normalisation, network, batch_size=batch_size)
