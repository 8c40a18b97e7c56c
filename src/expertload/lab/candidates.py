"""Which options of a loss stand for it: those with the best mean on validation data.

The test split has no say in the choice, so its numbers stay honest. Sweeps choose by the same
number, over the seeds they tune with: see `expertload.lab.choice`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import TypeVar

from expertload.exceptions import ParameterError
from expertload.lab.numbers import find_number
from expertload.lab.result_rows import ResultRow, finished_runs, rows_of

__all__ = ["choose_candidates", "grouped", "runs_of_loss"]

Key = TypeVar("Key", bound=Hashable)


def choose_candidates(rows: Iterable[ResultRow]) -> list[ResultRow]:
    """Keep, of every loss, the rows of the options with the best mean validation score.

    The score is what checkpoints were selected by, AUCOC unless the recipe says otherwise.

    Parameters
    ----------
    rows : iterable of ResultRow
        Of one experiment. Options are compared over the seeds that more than one of them has;
        those that lack one of these are left out, as a sweep leaves out what failed. Where that
        leaves none, each is compared over its own seeds.

    Returns
    -------
    list of ResultRow

    Examples
    --------
    >>> from expertload.lab.candidates import choose_candidates
    >>> choose_candidates([])
    []
    """
    kept = []
    for loss, own in grouped(rows, lambda r: r.loss).items():
        candidates = grouped(own, lambda r: r.options)
        best = next(iter(candidates))
        if len(candidates) > 1:
            scores = _mean_scores(_validation_scores(loss, candidates))
            best = max(sorted(scores), key=lambda options: scores[options])
        kept += candidates[best]
    return kept


def _validation_scores(
    loss: str, candidates: Mapping[str, list[ResultRow]]
) -> dict[str, dict[int, float]]:
    """Scores by options and seed, more is better."""
    first = next(iter(candidates.values()))[0]
    metric = json.loads(first.settings).get("training.select_by", "aucoc")
    number = find_number(metric)
    sign = 1 if number.higher_is_better else -1
    by_seed = {
        options: {
            r.seed: sign * r.value for r in rows if (r.split, r.metric) == ("validation", metric)
        }
        for options, rows in candidates.items()
    }
    for options, values in by_seed.items():
        if not values:
            raise ParameterError(
                f"The options {options} of {loss!r} have no validation {number.heading}, "
                f"so the choice among {len(candidates)} candidates cannot be made. Hint: collect "
                "the rows again from the runs, or keep one candidate."
            )
    return by_seed


def _mean_scores(by_seed: Mapping[str, dict[int, float]]) -> dict[str, float]:
    counts = Counter(seed for values in by_seed.values() for seed in values)
    shared = {seed for seed, count in counts.items() if count > 1}
    complete = {
        options: fmean(values[seed] for seed in shared)
        for options, values in by_seed.items()
        if shared and shared <= values.keys()
    }
    return complete or {options: fmean(values.values()) for options, values in by_seed.items()}


def runs_of_loss(folder: str | Path, loss: str) -> list[Path]:
    """Return the folders of a loss's runs, with its best options where several were tried.

    Parameters
    ----------
    folder : path
        Of runs, as a sweep leaves them: all of one experiment.
    loss : str

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab.candidates import runs_of_loss
    >>> from expertload.lab.recipe import RunConfig
    >>> from expertload.lab.run_folder import RunFolder
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
    rows = {run.folder.path: list(rows_of(run)) for run in finished_runs(folder)}
    own = {path: found for path, found in rows.items() if found and found[0].loss == loss}
    if not own:
        losses = sorted({found[0].loss for found in rows.values() if found})
        raise ParameterError(
            f"There is no finished run of {loss!r} in {folder}. Hint: it has runs of "
            f"{', '.join(losses) or 'nothing'}."
        )
    every = [row for found in own.values() for row in found]
    if len({(row.data, row.model, row.batch_size, row.settings) for row in every}) > 1:
        raise ParameterError(
            f"The runs of {loss!r} in {folder} are of different experiments. Hint: name a folder "
            "that holds one, or the runs themselves."
        )
    chosen = choose_candidates(every)[0].options
    return [path for path, found in own.items() if found[0].options == chosen]


def grouped(
    rows: Iterable[ResultRow], key: Callable[[ResultRow], Key]
) -> dict[Key, list[ResultRow]]:
    """Return the rows by key, in the order in which keys first occur.

    Examples
    --------
    >>> from expertload.lab.candidates import grouped
    >>> grouped([], lambda row: row.loss)
    {}
    """
    groups: dict[Key, list[ResultRow]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups
