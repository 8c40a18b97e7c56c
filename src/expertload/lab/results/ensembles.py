"""Ensembles: the mean of several networks, an alternative to changing the loss.

An ensemble predicts the mean of its runs' probabilities. `make_ensemble` gives it its own folder,
which is a run like any other: it can be evaluated, compared, reported, certified and put in tables.
`collect_ensembles` makes an ensemble of the seeds of every loss.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
from scipy.special import log_softmax, logsumexp

from expertload._typing import FloatArray, IntArray
from expertload.exceptions import FileFormatError, ParameterError
from expertload.lab.results.evaluate import evaluate_logits, evaluate_runs, targets_of
from expertload.lab.results.rows import Experiment, ResultRow, finished_runs, rows_of
from expertload.lab.results.selection import choose_candidates
from expertload.lab.results.views import ViewedRun, with_views
from expertload.lab.runs.finished import FinishedRun, Runs, identity_of, read_runs
from expertload.lab.runs.folder import Member, RunFolder

__all__ = ["collect_ensembles", "make_ensemble"]

Measured = tuple[Path, ResultRow]


def make_ensemble(
    folders: Runs,
    *,
    out: str | Path | None = None,
    views: str | None = None,
    data_dir: str | Path | None = None,
    allow: Collection[str] = (),
) -> FinishedRun:
    """Combine several runs into one that predicts the mean of their probabilities.

    Parameters
    ----------
    folders : sequence of paths or FinishedRun
        At least two finished runs of the same data.
    out : path, optional
        The folder of the ensemble; by default next to the first run, named after its members.
    views : str, optional
        Predict several views of each image, as in
        `expertload.lab.results.views.with_views`.
    data_dir, allow
        As there; only `views` needs data and networks.

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
    runs = read_runs(folders)
    if len(runs) < 2:
        raise ParameterError("make_ensemble needs two runs or more. Got one.")
    if any(run.folder.is_ensemble for run in runs):
        raise ParameterError("make_ensemble needs single runs. Hint: name the members.")
    if views is not None:
        runs = [*with_views(runs, views=views, data_dir=data_dir, allow=allow)]
    members = [Member(run.folder.path, run.config, _views(run)) for run in runs]
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
    splits = {split: _mean(runs, split) for split in ("validation", "test")}
    for split, (logits, labels) in splits.items():
        folder.write_logits(split, logits, labels)
    targets = targets_of(runs, None)
    numbers = evaluate_logits(splits["validation"], splits["test"], targets)
    folder.write_json("results.json", numbers)
    return FinishedRun(folder.path)


def _views(run: FinishedRun) -> str:
    return run.choice.views if isinstance(run, ViewedRun) else "none"


def _mean(runs: Sequence[FinishedRun], split: str) -> tuple[FloatArray, IntArray]:
    """Return logits whose softmax is the mean probability, and the labels."""
    log_proba = [log_softmax(getattr(run, split)[0].astype(np.float64), axis=1) for run in runs]
    mean: FloatArray = logsumexp(log_proba, axis=0) - np.log(len(runs))
    return mean, getattr(runs[0], split)[1]


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
    runs = [run for run in finished_runs(folder) if not run.folder.is_ensemble]
    found = [(run.folder.path, list(rows_of(run))) for run in runs]
    chosen = {
        _candidate(row) for row in choose_candidates(row for _, rows in found for row in rows)
    }
    members = [(path, rows[0]) for path, rows in found if rows and _candidate(rows[0]) in chosen]
    members.sort(key=lambda member: (*_candidate(member[1]), member[1].seed))
    return [
        row
        for _, group in groupby(members, key=lambda member: _candidate(member[1]))
        for row in _evaluate(list(group))
    ]


def _candidate(row: ResultRow) -> tuple[Experiment, str, str]:
    return row.experiment, row.loss, row.options


def _evaluate(members: Sequence[Measured]) -> Iterator[ResultRow]:
    if len(members) == 1:
        return
    ensemble = evaluate_runs([path for path, _ in members]).ensemble
    for split in ("test", "test_calibrated"):
        for metric, value in (ensemble or {})[split].items():
            yield replace(
                members[0][1], split=split, metric=metric, value=value, n_runs=len(members)
            )
