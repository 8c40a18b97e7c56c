"""Applies a policy to a file in batches, so that memory does not grow with the file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import IO, Any, NamedTuple, get_args

import numpy as np

from expertload._names import Invalid
from expertload._opening import (
    Batch,
    FileOptions,
    Progress,
    Source,
    Table,
    from_numpy,
    open_source,
    to_numpy,
)
from expertload._typing import AnyArray
from expertload._validation import check_option, require_extra
from expertload.columns import (
    ColumnNames,
    Columns,
    check_names_told_apart,
    find_named,
    in_order,
    known_groups,
    listed,
    numbers_from,
    policy_columns,
    probabilities_from,
)
from expertload.exceptions import FileFormatError, InvalidInputError
from expertload.operating_point import CertifiedGroups, OperatingPoint
from expertload.operating_point.point import check_width, confidence_of
from expertload.predictions.contradictions import check_scale
from expertload.predictions.reasons import group_reasons, sound_rows
from expertload.predictions.writing import is_parquet, open_writer

__all__ = ["DecisionCounts", "decide_file"]

Policy = OperatingPoint | CertifiedGroups

CHUNK = 100_000
ADDED = ("row", "accepted", "label", "confidence", "why")


@dataclass(frozen=True, kw_only=True)
class DecisionCounts:
    """The numbers of cases decided and delegated, and the columns used.

    Attributes
    ----------
    n_accepted, n_delegated : int
        Cases decided automatically, and cases delegated to experts.
    n_invalid : int
        Delegated cases that could not be decided.
    n_without_threshold : int
        Delegated cases in a group without a threshold.
    columns : Columns
        The columns that were used.
    """

    n_accepted: int
    n_delegated: int
    n_invalid: int = 0
    n_without_threshold: int = 0
    columns: Columns

    @property
    def n_cases(self) -> int:
        """The number of all cases."""
        return self.n_accepted + self.n_delegated


def decide_file(
    policy: Policy,
    path: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | IO[Any],
    names: ColumnNames | None = None,
    keep: tuple[str, ...] = (),
    options: FileOptions | None = None,
    invalid: Invalid = "refuse",
    progress: Progress | None = None,
) -> DecisionCounts:
    r"""Decide every case of a file.

    Parameters
    ----------
    policy : OperatingPoint or CertifiedGroups
        As `expertload.operating_point.load_operating_point` returns it.
    path, names, options
        As in `read_predictions`; labels are not needed. Columns that are not named are found by the
        names stored in the policy, and probabilities are matched to its classes by name.
    out : str, path-like or stream
        A .csv, .jsonl or .parquet file, written completely or not at all; or a stream, for CSV.
        Its columns are the row, the kept columns, accepted, label (if probabilities are known)
        and confidence. If the policy has a threshold for each group, or `invalid` is "delegate",
        a column ``why`` gives the reason why a case goes to experts, other than its confidence.
    keep : tuple of str
        Columns of the file to copy, such as an identifier.
    invalid : {"refuse", "delegate"}, default="refuse"
        What to do with a case that cannot be decided, because a value is missing, is not a number
        or is not a probability: raise an error, or delegate the case without a label.
    progress : callable, optional
        Called with the number of rows read so far, and the total if known.

    Returns
    -------
    DecisionCounts
        The numbers of cases accepted and delegated.

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
    check_option(invalid, get_args(Invalid), "invalid")
    source = open_source(path, options, progress)
    by_group = isinstance(policy, CertifiedGroups)
    columns = policy_columns(
        source.columns, policy.origin, names or ColumnNames(), source.where, by_group=by_group
    )
    if names is None or names.classes is None:
        columns = _as_listed(source, policy, columns)
    kept = tuple(dict.fromkeys(_kept(source, name) for name in keep))
    parts = []
    with open_writer(out) as write:
        for part in _decided(
            source, policy, columns, kept, delegate=invalid == "delegate", typed=is_parquet(out)
        ):
            write(part.columns)
            parts.append(part.counts)
        if not parts:
            raise FileFormatError(f"{source.where} holds no cases.")
    n_rows, accepted, unsound, without = map(sum, zip(*parts, strict=True))
    return DecisionCounts(
        n_accepted=accepted,
        n_delegated=n_rows - accepted,
        n_invalid=unsound,
        n_without_threshold=without,
        columns=columns,
    )


def _as_listed(source: Source, policy: Policy, columns: Columns) -> Columns:
    """Return the columns of a matrix in the policy's order, if the file lists their classes."""
    taken, labels = columns.probabilities, policy.origin.labels
    given = source.classes_of(len(taken)) if source.numbered.issuperset(taken) and taken else None
    if given is None or labels is None:
        return columns
    places = in_order(labels, given)
    if places is not None:
        own = [name for name in source.columns if name in taken]
        return replace(columns, probabilities=tuple(own[i] for i in places))
    if any(isinstance(label, str) for label in labels):
        raise FileFormatError(
            f"The policy has the classes {listed(labels)}, but {source.where} lists the classes "
            f"{listed(given)}. Hint: name the class of each column, in order (--classes)."
        )
    return columns


class _Part(NamedTuple):
    """A decided batch: Arrow columns by name, and the counts of its cases."""

    columns: Batch
    counts: tuple[int, int, int, int]


def _decided(
    source: Source,
    policy: Policy,
    columns: Columns,
    kept: tuple[str, ...],
    *,
    delegate: bool,
    typed: bool,
) -> Iterator[_Part]:
    """Decide a file in batches; kept columns are text or, if `typed`, have their own type."""
    pa = require_extra("pyarrow", "frames", "Deciding files")
    groups = tuple(name for name in columns.all if name not in columns.numbers)
    numbered = _by_number(policy, columns)
    as_it_was = [name for name in kept if typed and name not in groups]
    row = 1
    for written, numbers in source.batches(
        (*kept, *groups), columns.numbers, size=CHUNK, typed=as_it_was
    ):
        n = len(next(iter(numbers.values())))
        if n == 0:
            continue
        chunk = {name: to_numpy(written[name]) for name in groups}
        for name, values in chunk.items():
            check_names_told_apart(values, name, source.where)
        why = _reasons(policy, columns, chunk)
        if delegate:
            unsound, sound = sound_rows(columns, numbers)
            chunk |= sound
            answers = _answers_where(numbered, columns, chunk, source.where, row, unsound)
            n_invalid = int(np.count_nonzero(unsound))
            why = unsound if why is None else np.where(unsound == "", why, unsound)
        else:
            _check_spelled(source, numbers, row)
            chunk |= {name: to_numpy(values) for name, values in numbers.items()}
            answers = _decide(numbered, columns, chunk, source.where, row)
            n_invalid = 0
        head = {
            "row": from_numpy(np.arange(row, row + n)),
            **{name: written[name] for name in kept},
        }
        n_without = 0
        if why is not None:
            answers["why"] = pa.array(why, pa.string(), mask=why == "")
            n_without = int(np.count_nonzero(why)) - n_invalid
        yield _Part({**head, **answers}, (n, answers["accepted"].true_count, n_invalid, n_without))
        row += n


class _Numbered(NamedTuple):
    """A policy that answers with class numbers, and the name of each class.

    Arrow replaces the numbers by names, because converting numpy strings to Arrow one by one
    would be slow.
    """

    policy: Policy
    names: Any  # an Arrow array, or None if the classes have no names

    def called(self, numbers: AnyArray) -> Any:
        """Return the answers as an Arrow array."""
        places = from_numpy(numbers)
        return places if self.names is None else self.names.take(places)


def _by_number(policy: Policy, columns: Columns) -> _Numbered:
    pa = require_extra("pyarrow", "frames", "Deciding files")
    labels = policy.origin.labels
    if labels is not None:
        plain = replace(policy.origin, labels=None)
        if isinstance(policy, CertifiedGroups):
            return _Numbered(policy.with_origin(plain), pa.array(np.asarray(labels).tolist()))
        return _Numbered(replace(policy, origin=plain), pa.array(np.asarray(labels).tolist()))
    if columns.confidence is not None and len(columns.classes) > 1:
        return _Numbered(policy, pa.array(columns.classes))  # groups that the policy does not have
    return _Numbered(policy, None)


def _reasons(policy: Policy, columns: Columns, chunk: Table) -> AnyArray | None:
    """Return why the group of each row has no threshold; empty if it has one."""
    if isinstance(policy, CertifiedGroups) and columns.group is not None:
        return group_reasons(policy, chunk[columns.group])
    return None


def _check_spelled(source: Source, numbers: Batch, first_row: int) -> None:
    """Refuse values that are not numbers, and quote them as written in the file."""
    for name, values in numbers.items():
        if values.null_count:
            source.check_spelled(name, to_numpy(values.is_null()), first_row)


def _answers_where(
    policy: _Numbered, columns: Columns, chunk: Table, where: str, first_row: int, why: AnyArray
) -> Batch:
    """Decide the rows that can be decided; the others go to experts."""
    pa = require_extra("pyarrow", "frames", "Deciding files")
    sound = np.flatnonzero(why == "")
    # One valid case is added, so that there is one, and columns have the same types in every batch.
    example = {name: _example(columns, name, values) for name, values in chunk.items()}
    part = {name: np.append(values[sound], example[name]) for name, values in chunk.items()}
    found = _decide(policy, columns, part, where, first_row)
    place = np.full(len(why), len(sound))
    place[sound] = np.arange(len(sound))
    taken = {name: values.take(from_numpy(place)) for name, values in found.items()}
    unsound = from_numpy(why != "")
    nothing = pa.scalar(None)
    for name in taken:
        other = pa.scalar(False) if name == "accepted" else nothing.cast(taken[name].type)
        taken[name] = _chosen(unsound, other, taken[name])
    return taken


def _example(columns: Columns, name: str, values: AnyArray) -> Any:
    if name in columns.probabilities:
        return 1.0 if name == columns.probabilities[0] else 0.0
    return 0.0 if name == columns.confidence else values[0]


def _chosen(where: Any, this: Any, that: Any) -> Any:
    compute = require_extra("pyarrow.compute", "frames", "Deciding files")
    return compute.if_else(where, this, that)


def _decide(
    numbered: _Numbered, columns: Columns, chunk: Table, where: str, first_row: int
) -> Batch:
    """Return the decisions as Arrow columns: accepted, the label if known, and the confidence."""
    policy = numbered.policy

    def numbers(name: str) -> AnyArray:
        return numbers_from(chunk[name], name, where, first_row)

    confidence = None if columns.confidence is None else numbers(columns.confidence)
    if confidence is not None and first_row == 1:  # a last batch may be a few extreme cases
        check_scale(policy.origin.confidence_quantiles, confidence, columns.confidence, where)
    by_group: dict[str, Any] = {}
    if isinstance(policy, CertifiedGroups) and columns.group is not None:
        by_group["groups"] = known_groups(tuple(policy), chunk[columns.group])
    named: Batch = {}
    try:
        if columns.probabilities:
            proba = probabilities_from(
                columns, chunk, where, lone=columns.lone, first_row=first_row
            )
            if numbered.names is not None:
                check_width(proba, len(numbered.names))
            accepted, answers = policy.decide(proba, confidence=confidence, **by_group)
            named["label"] = numbered.called(answers)
            scores = confidence_of(policy.origin, proba) if confidence is None else confidence
        else:
            scores = np.asarray(confidence)
            accepted = policy.accepts(scores, **by_group)
    except InvalidInputError as error:
        last_row = first_row + len(next(iter(chunk.values()))) - 1
        rows = f"Row {first_row}" if last_row == first_row else f"Rows {first_row} to {last_row}"
        raise FileFormatError(f"{rows} of {where} cannot be decided: {error}") from error
    scores = scores.astype(np.float64, copy=False)
    return {"accepted": from_numpy(accepted), **named, "confidence": from_numpy(scores)}


def _kept(source: Source, name: str) -> str:
    if name.lower() in ADDED:
        raise FileFormatError(
            f"The column '{name}' cannot be kept: decisions already have a column of that name."
        )
    return find_named([*source.columns, *sorted(source.nested)], name, source.where)
