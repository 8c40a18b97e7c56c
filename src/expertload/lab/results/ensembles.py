"""What a user could do instead of changing the loss: average the seeds of one loss.

The runs of a loss with different seeds, asked together, answer with the mean of their
probabilities. Rows of such ensembles go into the same tables as those of single runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from expertload.lab.results.evaluate import evaluate_runs
from expertload.lab.results.rows import Experiment, ResultRow, finished_runs, rows_of
from expertload.lab.results.selection import choose_candidates

__all__ = ["collect_ensembles"]

Member = tuple[Path, ResultRow]


def collect_ensembles(folder: str | Path) -> list[ResultRow]:
    """Evaluate, for every loss of every experiment in a folder, the ensemble of its seeds.

    Parameters
    ----------
    folder : path
        Of runs, as a sweep leaves them. Where a loss was tried with several options, validation
        data choose which make the ensemble; a loss with one run makes none.

    Returns
    -------
    list of ResultRow
        Of the splits ``test`` and ``test_calibrated``, with ``n_runs`` above one.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab.results.ensembles import collect_ensembles
    >>> with TemporaryDirectory() as folder:
    ...     collect_ensembles(folder)
    []
    """
    found = [(run.folder.path, list(rows_of(run))) for run in finished_runs(folder)]
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


def _evaluate(members: Sequence[Member]) -> Iterator[ResultRow]:
    if len(members) == 1:
        return
    ensemble = evaluate_runs([path for path, _ in members]).ensemble
    for split in ("test", "test_calibrated"):
        for metric, value in (ensemble or {})[split].items():
            yield replace(
                members[0][1], split=split, metric=metric, value=value, n_runs=len(members)
            )
