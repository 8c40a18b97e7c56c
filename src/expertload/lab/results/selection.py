"""Chooses the options of a loss: those with the best mean on validation data.

The test split is not used for the choice, so its numbers stay unbiased. Sweeps, tables, comparisons
and ensembles all use this choice, so they agree.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import TypeVar

from expertload.exceptions import ParameterError
from expertload.lab.results.measures import find_measure
from expertload.lab.results.rows import ResultRow, finished_runs, rows_of

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


def best_options(
    scores: Mapping[str, Mapping[int, float]],
    *,
    measure: str,
    seeds: Iterable[int] | None = None,
) -> str | None:
    """Return the options with the best mean score; None if none can be compared.

    Parameters
    ----------
    scores : mapping
        Scores by options (as JSON), then by seed. A run that failed has no score.
    measure : str
        The name of the score, such as ``"aucoc"``, which determines the direction.
    seeds : iterable of int, optional
        The seeds to compare over. Options that lack one of them are left out, because a failed run
        has no score. By default, the seeds that at least two of the options have; if there are
        none, each is compared over its own.

    Returns
    -------
    str or None
        If several are equal, the first in alphabetical order.

    Examples
    --------
    >>> from expertload.lab.results.selection import best_options
    >>> scores = {'{"weight": 1}': {0: 0.90, 1: 0.94}, '{"weight": 2}': {0: 0.93, 1: 0.93}}
    >>> best_options(scores, measure="aucoc")
    '{"weight": 2}'
    """
    sign = 1 if find_measure(measure).higher_is_better else -1
    means = _means(scores, None if seeds is None else set(seeds))
    return max(sorted(means), key=lambda options: sign * means[options], default=None)


def _means(scores: Mapping[str, Mapping[int, float]], seeds: set[int] | None) -> dict[str, float]:
    counts = Counter(seed for values in scores.values() for seed in values)
    shared = {seed for seed, count in counts.items() if count > 1} if seeds is None else seeds
    complete = {
        options: fmean(values[seed] for seed in shared)
        for options, values in scores.items()
        if shared and shared <= values.keys()
    }
    if complete or seeds is not None:
        return complete
    return {options: fmean(values.values()) for options, values in scores.items()}


def choose_candidates(rows: Iterable[ResultRow]) -> list[ResultRow]:
    """Keep, for every loss of every experiment, the rows of its best options on validation data.

    The score is the one that selected checkpoints: AUCOC, unless the recipe has another.

    Parameters
    ----------
    rows : iterable of ResultRow
        Options are compared over the seeds that more than one of them has; see `best_options`.

    Returns
    -------
    list of ResultRow

    Examples
    --------
    >>> from expertload.lab.results.selection import choose_candidates
    >>> choose_candidates([])
    []
    """
    rows = list(rows)
    kept = [row for row in rows if row.n_runs > 1]  # the members of an ensemble are already chosen
    single = [row for row in rows if row.n_runs == 1]
    for (_, loss), own in grouped(single, lambda r: (r.experiment, r.loss)).items():
        candidates = grouped(own, lambda r: r.options)
        best = next(iter(candidates))
        if len(candidates) > 1:
            metric = json.loads(own[0].settings).get("training.select_by", "aucoc")
            scores = _validation_scores(loss, candidates, metric)
            best = best_options(scores, measure=metric) or best
        kept += candidates[best]
    return kept


def _validation_scores(
    loss: str, candidates: Mapping[str, list[ResultRow]], metric: str
) -> dict[str, dict[int, float]]:
    """Return scores by options and seed."""
    by_seed = {
        options: {r.seed: r.value for r in rows if (r.split, r.metric) == ("validation", metric)}
        for options, rows in candidates.items()
    }
    for options, values in by_seed.items():
        if not values:
            raise ParameterError(
                f"The options {options} of {loss!r} have no validation "
                f"{find_measure(metric).heading}, so the choice among {len(candidates)} candidates "
                "cannot be made. Hint: collect the rows again from the runs, or keep one candidate."
            )
    return by_seed


def runs_of_loss(folder: str | Path, loss: str) -> list[Path]:
    """Return the folders of a loss's runs, with its best options if several were tried.

    Parameters
    ----------
    folder : path
        A folder of runs of one experiment, made by a sweep. Runs whose settings were changed on the
        command line are left out if there are others.
    loss : str

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab.results.selection import runs_of_loss
    >>> from expertload.lab.runs.recipe import RunConfig
    >>> from expertload.lab.runs.folder import RunFolder
    >>> config = RunConfig.model_validate({
    ...     "data": {"name": "digits"}, "model": {"name": "small-cnn"}, "loss": {"name": "ce"},
    ...     "training": {"epochs": 1, "batch_size": 64, "learning_rate": 0.1}})
    >>> with TemporaryDirectory() as place:
    ...     run = RunFolder(Path(place) / "ce-seed0")
    ...     run.create(config)
    ...     run.write_json("results.json", {"test": {"aucoc": 0.97}})
    ...     [path.name for path in runs_of_loss(place, "ce")]
    ['ce-seed0']
    """
    found_runs = [run for run in finished_runs(folder) if not run.folder.is_ensemble]
    rows = {run.folder.path: list(rows_of(run)) for run in found_runs}
    own = {path: found for path, found in rows.items() if found and found[0].loss == loss}
    if not own:
        losses = sorted({found[0].loss for found in rows.values() if found})
        raise ParameterError(
            f"There is no finished run of {loss!r} in {folder}. Hint: it has finished runs of "
            f"{', '.join(losses) or 'no loss'}."
        )
    every = _of_one_experiment([row for found in own.values() for row in found])
    if not every:
        raise ParameterError(
            f"The runs of {loss!r} in {folder} belong to different experiments. Hint: name a "
            "folder with one experiment, or the runs themselves."
        )
    chosen = choose_candidates(every)[0]
    return [
        path
        for path, (first, *_) in own.items()
        if (first.experiment, first.options) == (chosen.experiment, chosen.options)
    ]


def _of_one_experiment(rows: list[ResultRow]) -> list[ResultRow]:
    """Return the rows of one experiment, or of the unchanged recipe; none if it is not clear."""
    as_written = [row for row in rows if not row.changed]
    for candidates in (rows, as_written):
        if len({row.experiment for row in candidates}) == 1:
            return candidates
    return []


def grouped(rows: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the rows by key, in the order of first occurrence.

    Examples
    --------
    >>> from expertload.lab.results.selection import grouped
    >>> grouped(["ab", "cd", "ae"], lambda row: row[0])
    {'a': ['ab', 'ae'], 'c': ['cd']}
    """
    groups: dict[Key, list[Item]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups
