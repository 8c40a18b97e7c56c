"""A policy applied to a file, some rows at a time: memory does not grow with the file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TextIO

import numpy as np

from expertload._opening import FileOptions, Source, Table, open_source, to_numpy
from expertload._typing import AnyArray
from expertload.columns import (
    ColumnNames,
    Columns,
    find_named,
    known_groups,
    names_from,
    numbers_from,
    policy_columns,
    probabilities_from,
)
from expertload.exceptions import FileFormatError, InvalidInputError
from expertload.operating_point import CertifiedGroups, OperatingPoint
from expertload.predictions._writing import open_writer

__all__ = ["DecisionCounts", "decide_file"]

Policy = OperatingPoint | CertifiedGroups

CHUNK = 20_000
ADDED = ("row", "accepted", "label", "confidence")


@dataclass(frozen=True, kw_only=True)
class DecisionCounts:
    """How many cases were decided and delegated, and by which columns.

    Attributes
    ----------
    n_accepted, n_delegated : int
        Cases decided automatically, and left to experts.
    columns : Columns
        Which columns were taken for what.
    """

    n_accepted: int
    n_delegated: int
    columns: Columns

    @property
    def n_cases(self) -> int:
        """All cases."""
        return self.n_accepted + self.n_delegated


def decide_file(
    policy: Policy,
    path: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | TextIO,
    names: ColumnNames | None = None,
    keep: tuple[str, ...] = (),
    options: FileOptions | None = None,
) -> DecisionCounts:
    r"""Decide every case of a file.

    Parameters
    ----------
    policy : OperatingPoint or CertifiedGroups
        As `expertload.operating_point.load_operating_point` returns it.
    path, names, options
        As in `read_predictions`; labels are not needed. What was not named is found by the names
        that the policy was made with, and probabilities are matched to its classes by name.
    out : str, path-like or text stream
        A .csv, .jsonl or .parquet file, which appears whole or not at all; CSV to a stream.
        Its columns are the row, those kept, and accepted, label (where probabilities are known)
        and confidence.
    keep : tuple of str
        Columns of the file to copy, an identifier for instance.

    Returns
    -------
    DecisionCounts
        How many were accepted and delegated.

    Examples
    --------
    >>> import sys, tempfile
    >>> from pathlib import Path
    >>> from expertload.operating_point import choose
    >>> from expertload.predictions import decide_file
    >>> policy = choose(["cat", "dog"], [[0.9, 0.1], [0.2, 0.8]], target_accuracy=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "new.csv"
    ...     _ = file.write_text("p_dog,p_cat\n0.05,0.95\n0.55,0.45\n")
    ...     counts = decide_file(policy, file, out=sys.stdout)
    row,accepted,label,confidence
    1,true,cat,0.95
    2,false,dog,0.55
    >>> counts.n_accepted, counts.n_delegated
    (1, 1)
    """
    source = open_source(path, options)
    by_group = isinstance(policy, CertifiedGroups)
    columns = policy_columns(
        source.columns, policy.origin, names or ColumnNames(), source.where, by_group=by_group
    )
    kept = tuple(_kept(source, name) for name in keep)
    header = [
        ADDED[0],
        *kept,
        *(name for name in ADDED[1:] if name != "label" or columns.probabilities),
    ]
    accepted = total = 0
    with open_writer(out, header) as write:
        for decided, n_accepted in _decided(source, policy, columns, kept):
            write(decided)
            accepted, total = accepted + n_accepted, total + len(decided[0])
        if total == 0:
            raise FileFormatError(f"{source.where} holds no cases.")
    return DecisionCounts(n_accepted=accepted, n_delegated=total - accepted, columns=columns)


def _decided(
    source: Source, policy: Policy, columns: Columns, kept: tuple[str, ...]
) -> Iterator[tuple[list[list[Any]], int]]:
    """Return the columns of decided rows, and how many of them were accepted."""
    row = 1
    wanted = tuple(dict.fromkeys([*columns.all, *kept]))
    for batch in source.batches(wanted, size=CHUNK):
        chunk = {name: to_numpy(values) for name, values in batch.items()}
        accepted, labels, confidence = _decide(policy, columns, chunk, source.where, row)
        n = len(accepted)
        answers = [] if labels is None else [labels.tolist()]
        copied = [names_from(chunk[name]).tolist() for name in kept]
        numbers = list(range(row, row + n))
        yield (
            [numbers, *copied, accepted.tolist(), *answers, confidence.tolist()],
            int(accepted.sum()),
        )
        row += n


def _decide(
    policy: Policy, columns: Columns, chunk: Table, where: str, first_row: int
) -> tuple[AnyArray, AnyArray | None, AnyArray]:
    def numbers(name: str) -> AnyArray:
        return numbers_from(chunk[name], name, where, first_row)

    confidence = None if columns.confidence is None else numbers(columns.confidence)
    by_group: dict[str, Any] = {}
    if isinstance(policy, CertifiedGroups) and columns.group is not None:
        by_group["groups"] = known_groups(tuple(policy), chunk[columns.group])
    try:
        if not columns.probabilities:
            return policy.accepts(np.asarray(confidence), **by_group), None, np.asarray(confidence)
        proba = probabilities_from(columns, chunk, where, lone=columns.lone, first_row=first_row)
        accepted, labels = policy.decide(proba, confidence=confidence, **by_group)
    except InvalidInputError as error:
        last_row = first_row + len(next(iter(chunk.values()))) - 1
        raise FileFormatError(
            f"Rows {first_row} to {last_row} of {where} cannot be decided: {error}"
        ) from error
    names = columns.classes
    if policy.origin.labels is None and confidence is not None and len(names) == proba.shape[1]:
        labels = np.array(names)[labels]  # what the policy does not know, the file says
    return accepted, labels, proba.max(axis=1) if confidence is None else confidence


def _kept(source: Source, name: str) -> str:
    if name in ADDED:
        raise FileFormatError(
            f"The column '{name}' cannot be kept: decisions have one of that name already."
        )
    return find_named(source.columns, name, source.where)
