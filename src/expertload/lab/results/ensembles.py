"""Ensembles: the mean of several networks, an alternative to changing the loss.

An ensemble predicts the mean of its runs' probabilities. `make_ensemble` gives it its own folder,
which is a run like any other: it can be evaluated, compared, reported, certified and put in tables.
`collect_ensembles` makes an ensemble of the seeds of every loss. `with_views` is test-time
augmentation: the mean probability over several views of each image, chosen on validation data.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expertload.exceptions import FileFormatError, ParameterError
from expertload.lab.data import Dataset, Split
from expertload.lab.results.evaluate import evaluate_logits, evaluate_runs, targets_of
from expertload.lab.results.measures import cases_of, find_measure
from expertload.lab.results.rows import ResultRow, choose_candidates, grouped, rows_of_single_runs
from expertload.lab.runs.finished import (
    FinishedRun,
    Runs,
    identity_of,
    mean_logits,
    probabilities_of,
    read_runs,
)
from expertload.lab.runs.folder import Labelled, Member, RunFolder

if TYPE_CHECKING:
    from torch import nn

    from expertload.ensembling import ViewChoice


def make_ensemble(
    folders: Runs, *, out: str | Path | None = None, views: str | None = None, **access: Any
) -> FinishedRun:
    """Combine several runs into one that predicts the mean of their probabilities.

    Parameters
    ----------
    folders : sequence of paths or FinishedRun
        At least two finished runs of the same data.
    out : path, optional
        The folder of the ensemble; by default next to the first run, named after its members.
    views : str, optional
        Predict several views of each image, as in `with_views`.
    **access
        Options of `FinishedRun`; only `views` needs data and networks.

    Returns
    -------
    FinishedRun

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab import RunConfig, RunFolder
    >>> from expertload.lab.results.ensembles import make_ensemble
    >>> labels, folders = np.array([0, 1, 1]), []
    >>> with TemporaryDirectory() as place:
    ...     for seed, logit in ((0, 1.0), (1, 3.0)):
    ...         run = RunFolder(Path(place) / f"seed{seed}")
    ...         run.create(RunConfig.model_validate({
    ...             "data": {"name": "digits"}, "model": {"name": "small-cnn"},
    ...             "loss": {"name": "ce"}, "seed": seed,
    ...             "training": {"epochs": 1, "batch_size": 64, "learning_rate": 0.1}}))
    ...         for split in ("validation", "test"):
    ...             run.write_logits(split, logit * np.eye(2)[[0, 1, 0]], labels)
    ...         run.write_json("results.json", {})
    ...         folders.append(run.path)
    ...     ensemble = make_ensemble(folders)
    ...     print(ensemble.test_proba[0].round(3))
    [0.842 0.158]
    """
    runs = read_runs(folders, **access)
    if len(runs) < 2:
        raise ParameterError("make_ensemble needs two runs or more. Got one.")
    if any(run.folder.is_ensemble for run in runs):
        raise ParameterError("make_ensemble needs single runs. Hint: name the members.")
    if views is not None:
        runs = [*with_views(runs, views=views)]
    members = [Member(run.folder.path, run.config, run.views) for run in runs]
    name = f"ensemble-of-{len(runs)}-{identity_of(members)}"
    folder = RunFolder(runs[0].folder.path.parent / name if out is None else out)
    if folder.is_done:
        if identity_of(folder.members()) != identity_of(members):
            raise FileFormatError(
                f"{folder.path} holds another run or ensemble. Hint: choose another folder, or "
                "remove this one if it is not needed."
            )
        return FinishedRun(folder.path)
    folder.create(runs[0].config)
    folder.write_json("environment.json", runs[0].folder.environment())
    folder.write_members(members)
    splits = {split: mean_logits(runs, split) for split in ("validation", "test")}
    for split, (logits, labels) in splits.items():
        folder.write_logits(split, logits, labels)
    numbers = evaluate_logits(splits["validation"], splits["test"], targets_of(runs, None))
    folder.write_json("results.json", numbers)
    return FinishedRun(folder.path)


def collect_ensembles(folder: str | Path) -> list[ResultRow]:
    """Evaluate, for every loss of every experiment in a folder, the ensemble of its seeds.

    Parameters
    ----------
    folder : path
        A folder of runs, made by a sweep. If a loss was trained with several options, the best on
        validation data make the ensemble. A loss with one run makes none.

    Returns
    -------
    list of ResultRow
        Rows of the splits ``test`` and ``test_calibrated``, with ``n_runs`` above one.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab.results.ensembles import collect_ensembles
    >>> with TemporaryDirectory() as folder:
    ...     collect_ensembles(folder)
    []
    """
    by_path = rows_of_single_runs(folder)
    chosen = {row.candidate for row in choose_candidates(chain(*by_path.values()))}
    members = [(rows[0], path) for path, rows in by_path.items() if rows[0].candidate in chosen]
    members.sort(key=lambda member: (*member[0].candidate, member[0].seed))
    made = []
    for own in grouped(members, lambda member: member[0].candidate).values():
        if len(own) > 1:
            ensemble = evaluate_runs([path for _, path in own]).ensemble or {}
            made += [
                replace(own[0][0], split=split, metric=metric, value=value, n_runs=len(own))
                for split in ("test", "test_calibrated")
                for metric, value in ensemble[split].items()
            ]
    return made


# ------------------------------------------------------------------ views


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
        self, run: FinishedRun, choice: ViewChoice, validation: Labelled, test: Labelled
    ) -> None:
        super().__init__(run.folder.path, **run.access)
        self.choice, self.views = choice, choice.views
        self.validation, self.test = validation, test


def with_views(
    folders: Runs, *, views: str = "auto", max_passes: int | None = None, **access: Any
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
    max_passes : int, optional
        ``"auto"`` considers only views of at most this many passes for each image.
    **access
        Options of `FinishedRun`, such as `data_dir` and `device`.

    Returns
    -------
    list of ViewedRun
        To be evaluated, compared and reported like any run.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab import RunConfig, evaluate_runs, train
    >>> from expertload.lab.results.ensembles import with_views
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
    return [_with_views(run, views, max_passes) for run in read_runs(folders, **access)]


def _with_views(run: FinishedRun, views: str, max_passes: int | None) -> ViewedRun:
    from expertload.ensembling import ViewChoice, ViewEnsemble

    data, network = run.load_data_and_network()
    names = [views] if views != "auto" else affordable_views(data, max_passes)
    tried = {name: ViewEnsemble(network, name) for name in dict.fromkeys(["none", *names])}
    seen = {name: predict_split(own, data.validation, data) for name, own in tried.items()}
    measure = find_measure(run.config.training.select_by)
    scores = {
        name: measure.of(cases_of(labels, probabilities_of(logits)))
        for name, (logits, labels) in seen.items()
    }
    sign = 1 if measure.higher_is_better else -1
    best = max(names, key=lambda name: sign * scores[name])  # the first of equals is the cheapest
    choice = ViewChoice(views=best, scores=scores, passes=tried[best].passes)
    return ViewedRun(run, choice, seen[best], predict_split(tried[best], data.test, data))


def predict_split(network: nn.Module, split: Split, data: Dataset) -> Labelled:
    """Return the logits and labels of a split of some data."""
    from expertload.lab.runs.network import apply_network

    return apply_network(network.eval(), split, data.normalisation), split.labels


def affordable_views(data: Dataset, max_passes: int | None = None) -> list[str]:
    """Return the names of the views that suit the images and take at most so many passes.

    A mirror image of your own data may be another class, unless it is part of the augmentation.
    """
    from expertload.ensembling import make_views, view_names

    height, width = data.image_shape[:2]
    suits = {"symmetries": height == width}
    if data.name.startswith(("folder:", "npz:")):
        how = data.augmentation
        suits["symmetries"] &= how.symmetries
        suits["flip"] = how.flip or how.symmetries
    fitting = [name for name in view_names() if suits.get(name, True)]
    most = len(make_views(fitting[-1])) if max_passes is None else max_passes
    return [name for name in fitting if name == "none" or len(make_views(name)) <= most]
