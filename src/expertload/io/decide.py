"""Applies a policy to a file in batches, so that memory does not grow with the file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import IO, Any, NamedTuple, get_args

import numpy as np

from expertload._check import check_option, require_extra
from expertload._labels import in_order, is_missing, listed
from expertload._names import Invalid
from expertload._typing import AnyArray, BoolArray
from expertload.exceptions import FileFormatError, InvalidInputError
from expertload.io.arrays import Batch, Progress, Source, Table, from_numpy, to_numpy
from expertload.io.columns import ColumnNames, Columns, find_named
from expertload.io.files import FileOptions
from expertload.io.policy_columns import known_groups, policy_columns
from expertload.io.source import open_source
from expertload.io.values import (
    check_names_told_apart,
    check_scale,
    numbers_from,
    probabilities_from,
    sums_missed,
)
from expertload.io.write import is_parquet, open_writer
from expertload.monitoring import LoadMonitor
from expertload.operating_point import CertifiedClasses, CertifiedGroups, OperatingPoint
from expertload.operating_point.point import check_width, confidence_of

Policy = OperatingPoint | CertifiedGroups | CertifiedClasses

CHUNK = 100_000
MOST_COMPARED = 20_000
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
    load : LoadMonitor or None
        Compares up to 20,000 of the cases, drawn at random, with those that the policy was made
        with; None if the policy is not certified.
    """

    n_accepted: int
    n_delegated: int
    n_invalid: int = 0
    n_without_threshold: int = 0
    columns: Columns
    load: LoadMonitor | None = None

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
    policy : OperatingPoint, CertifiedGroups or CertifiedClasses
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
    >>> from expertload import Cases
    >>> from expertload.operating_point import choose
    >>> from expertload.io import decide_file
    >>> cases = Cases.from_predictions(["cat", "dog"], [[0.9, 0.1], [0.2, 0.8]])
    >>> policy = choose(cases, target_accuracy=1)
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
    source.offer(name for name in policy.origin.probability_columns or () if name is not None)
    columns = policy_columns(
        source.columns, policy.origin, names or ColumnNames(), source.where, by_group=by_group
    )
    if isinstance(policy, CertifiedClasses) and not columns.probabilities:
        raise FileFormatError(
            f"The policy has a threshold for each answer, but {source.where} has no probabilities "
            "to tell the answers. Hint: name their columns (--probabilities)."
        )
    if names is None or names.classes is None:
        columns = _as_listed(source, policy, columns)
    kept = tuple(dict.fromkeys(_kept(source, name) for name in keep))
    decider = _Decider.of(policy, columns, source.where)
    counts: Counter[str] = Counter()
    drawn = _Drawn()
    with open_writer(out) as write:
        for written, numbers, row in _batches(source, columns, kept, is_typed=is_parquet(out)):
            if invalid == "refuse":
                _check_spelled(source, numbers, row)
            answers, own = decider.decide(written, numbers, row, delegates=invalid == "delegate")
            drawn.add(answers)
            head = {"row": from_numpy(row + np.arange(own["cases"]))}
            write({**head, **{name: written[name] for name in kept}, **answers})
            counts.update(own)
        if not counts["cases"]:
            raise FileFormatError(f"{source.where} holds no cases.")
    return DecisionCounts(
        n_accepted=counts["accepted"],
        n_delegated=counts["cases"] - counts["accepted"],
        n_invalid=counts["invalid"],
        n_without_threshold=counts["without threshold"],
        columns=columns,
        load=drawn.compared_with(policy),
    )


class _Drawn:
    """Some of the cases of a file, drawn at random and in random order: files may be sorted."""

    def __init__(self) -> None:
        self._rng, self._rows = np.random.default_rng(0), np.zeros((0, 3))

    def add(self, answers: Batch) -> None:
        """Draw from another batch; cases that could not be decided have no confidence."""
        confidence = answers["confidence"].to_numpy(zero_copy_only=False).astype(np.float64)
        accepted = answers["accepted"].to_numpy(zero_copy_only=False)
        rows = np.column_stack([self._rng.random(len(confidence)), confidence, accepted])
        rows = np.concatenate([self._rows, rows[~np.isnan(confidence)]])
        self._rows = rows[np.argsort(rows[:, 0])[:MOST_COMPARED]]

    def compared_with(self, policy: Policy) -> LoadMonitor | None:
        """Return the monitor of a certified policy after these cases; None for others."""
        if not getattr(policy, "certified", getattr(policy, "is_certified", False)):
            return None
        monitor, (_, confidence, accepted) = LoadMonitor.from_policy(policy), self._rows.T
        if not len(confidence):
            return None
        several = monitor.threshold is None
        return monitor.update(confidence, accepted=accepted == 1 if several else None)


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


def _batches(
    source: Source, columns: Columns, kept: tuple[str, ...], *, is_typed: bool
) -> Iterator[tuple[Batch, Batch, int]]:
    """Yield text, numbers and the first row of each batch; kept columns may have their own type."""
    groups = () if columns.group is None else (columns.group,)
    typed = [name for name in kept if is_typed and name not in groups]
    row = 1
    for written, numbers in source.batches(
        (*kept, *groups), columns.numbers, size=CHUNK, typed=typed
    ):
        n_rows = len(next(iter(numbers.values())))
        if n_rows:
            yield written, numbers, row
        row += n_rows


def _check_spelled(source: Source, numbers: Batch, first_row: int) -> None:
    """Refuse values that are not numbers, and quote them as written in the file."""
    for name, values in numbers.items():
        if values.null_count:
            source.check_spelled(name, to_numpy(values.is_null()), first_row)


class _Decider(NamedTuple):
    """A policy that answers with class numbers, and the name of each class.

    Arrow replaces the numbers by names, because converting numpy strings to Arrow one by one
    would be slow.
    """

    policy: Policy
    names: Any  # an Arrow array, or None if the classes have no names
    columns: Columns
    where: str

    @classmethod
    def of(cls, policy: Policy, columns: Columns, where: str) -> _Decider:
        """Return a decider for the columns of a file."""
        pa = require_extra("pyarrow", "frames", "Deciding files")
        labels = policy.origin.labels
        if labels is None:
            is_named = columns.confidence is not None and len(columns.classes) > 1
            return cls(policy, pa.array(columns.classes) if is_named else None, columns, where)
        plain = replace(policy.origin, labels=None)
        by_number: Policy = (
            replace(policy, origin=plain)
            if isinstance(policy, OperatingPoint)
            else policy.with_origin(plain)
        )
        return cls(by_number, pa.array(np.asarray(labels).tolist()), columns, where)

    def decide(
        self, written: Batch, numbers: Batch, first_row: int, *, delegates: bool
    ) -> tuple[Batch, Counter[str]]:
        """Return the decisions as Arrow columns, and the number of cases of each kind.

        If invalid cases are delegated, only the others are decided.
        """
        groups = self._groups(written)
        why = None if groups is None else _group_reasons(self.policy, groups)
        n_cases = len(next(iter(numbers.values())))
        if delegates:
            unsound, arrays = _sound_rows(self.columns, numbers)
            is_sound = unsound == ""
            why = unsound if why is None else np.where(is_sound, why, unsound)
        else:
            arrays = {name: to_numpy(values) for name, values in numbers.items()}
            is_sound = np.ones(n_cases, dtype=bool)
        rows = slice(None) if is_sound.all() else np.flatnonzero(is_sound)
        accepted, label = np.zeros(n_cases, dtype=bool), np.zeros(n_cases, dtype=np.int64)
        confidence = np.zeros(n_cases)
        if is_sound.any():
            part = {name: values[rows] for name, values in arrays.items()}
            own = None if groups is None else groups[rows]
            accepted[rows], label[rows], confidence[rows] = self._answers(part, own, first_row)
        answers = {"accepted": from_numpy(accepted)}
        if self.columns.probabilities:
            places = from_numpy(label, is_sound)
            answers["label"] = places if self.names is None else self.names.take(places)
        answers["confidence"] = from_numpy(confidence, is_sound)
        n_invalid = n_cases - int(is_sound.sum())
        counts = Counter(cases=n_cases, accepted=int(accepted.sum()), invalid=n_invalid)
        if why is not None:
            pa = require_extra("pyarrow", "frames", "Deciding files")
            answers["why"] = pa.array(why, pa.string(), mask=why == "")
            counts["without threshold"] = int(np.count_nonzero(why)) - n_invalid
        return answers, counts

    def _groups(self, written: Batch) -> AnyArray | None:
        if self.columns.group is None:
            return None
        groups = to_numpy(written[self.columns.group])
        check_names_told_apart(groups, self.columns.group, self.where)
        return groups

    def _answers(
        self, arrays: Table, groups: AnyArray | None, first_row: int
    ) -> tuple[AnyArray, AnyArray | int, AnyArray]:
        """Return whether each case is accepted, its class number if known, and its confidence."""
        columns, policy = self.columns, self.policy
        confidence = None
        if columns.confidence is not None:
            column = columns.confidence
            confidence = numbers_from(arrays[column], column, self.where, first_row)
            if first_row == 1:  # a last batch may be a few extreme cases
                check_scale(policy.origin.confidence_quantiles, confidence, column, self.where)
        by_group: dict[str, Any] = {}
        if isinstance(policy, CertifiedGroups) and groups is not None:
            by_group["groups"] = known_groups(tuple(policy), groups)
        try:
            if not columns.probabilities and not isinstance(policy, CertifiedClasses):
                scores = np.asarray(confidence)
                return policy.accepts(scores, **by_group), 0, scores
            proba = probabilities_from(
                columns, arrays, self.where, lone=columns.lone, first_row=first_row
            )
            if self.names is not None:
                check_width(proba, len(self.names))
            accepted, label = policy.decide(proba, confidence=confidence, **by_group)
        except InvalidInputError as error:
            last_row = first_row + len(next(iter(arrays.values()))) - 1
            one = last_row == first_row
            rows = f"Row {first_row}" if one else f"Rows {first_row} to {last_row}"
            raise FileFormatError(f"{rows} of {self.where} cannot be decided: {error}") from error
        return (
            accepted,
            label,
            confidence_of(policy.origin, proba) if confidence is None else confidence,
        )


def _kept(source: Source, name: str) -> str:
    if name.lower() in ADDED:
        raise FileFormatError(
            f"The column '{name}' cannot be kept: decisions already have a column of that name."
        )
    return find_named([*source.columns, *sorted(source.nested)], name, source.where)


# ------------------------------------------------------------------ reasons


def _group_reasons(policy: Policy, values: AnyArray) -> AnyArray | None:
    """Return why the group of each row has no threshold; empty if it has one."""
    if not isinstance(policy, CertifiedGroups):
        return None
    certified = frozenset(policy.certified)

    def reason(group: object, value: object) -> str:
        if group in certified:
            return ""
        if is_missing(value):
            return "the group is missing"
        if group in policy:
            return f"nothing is certified for the group {value}"
        return f"the policy does not know the group {value}"

    groups = known_groups(tuple(policy), values)
    pairs = zip(groups, values.tolist(), strict=True)
    return np.array([reason(group, value) for group, value in pairs], dtype=object)


def _sound_rows(columns: Columns, numbers: Batch) -> tuple[AnyArray, Table]:
    """Return why each row cannot be decided (empty if it can), and the numbers as arrays."""
    n = len(next(iter(numbers.values())))
    why = np.full(n, "", dtype=object)
    arrays = {name: values.to_numpy(zero_copy_only=False) for name, values in numbers.items()}

    def mark(bad: BoolArray, reason: str) -> None:
        why[bad & (why == "")] = reason

    for name, values in numbers.items():
        missing = values.is_null().to_numpy(zero_copy_only=False)
        mark(missing, f"{name} is missing or not a number")
        if arrays[name].dtype.kind == "f":
            mark(~np.isfinite(arrays[name]), f"{name} is not finite")
    given = [arrays[name] for name in columns.probabilities]
    if not columns.is_logits and all(values.dtype.kind in "biuf" for values in given):
        for name, values in zip(columns.probabilities, given, strict=True):
            mark(~((values >= 0) & (values <= 1)), f"{name} is not in [0, 1]")
        if len(given) > 1:
            mark(
                sums_missed(columns, np.column_stack(given)), "the probabilities do not sum to one"
            )
    return why, arrays
