"""Applies a policy to files, in batches, and to data frames, in their own engine."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, Any, get_args

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from expertload._check import check_option
from expertload._labels import class_key, in_order, is_missing, listed, same_spelling
from expertload._names import MODELS, ColumnNames, FileOptions, Invalid
from expertload.exceptions import DataTypeError, FileFormatError
from expertload.io.columns import Columns, Header
from expertload.io.formats import quoted
from expertload.io.frame_cases import check_number, open_frame, with_numbers
from expertload.io.policy_columns import (
    ADDED,
    Policy,
    check_decidable,
    has_numbered_groups,
    policy_columns,
    taken_name,
)
from expertload.io.rule import InFrames, Rule
from expertload.io.source import Batch, Progress, Source, open_source
from expertload.io.values import (
    check_names_told_apart,
    check_scale,
    check_tokens,
    numbers_from,
    probabilities_from,
    to_numpy,
)
from expertload.io.write import is_parquet, open_writer
from expertload.monitoring import LoadMonitor
from expertload.monitoring.load import is_about_clusters
from expertload.operating_point.point import confidence_of

MOST_COMPARED = 20_000
# Hints, by the last words of the reason why a row cannot be decided.
REPAIRS = {
    "not a number": "if the decimal mark is a comma, pass --decimal ','; whole numbers beyond "
    "2**53 are not read, because floats cannot tell them apart",
    "not in [0, 1]": "for percentages, divide by 100; for logits, pass --logits",
    "sum to one": "for logits, pass --logits; for rounded values, --normalize",
}


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
        with; None if the policy is not certified, or about clusters, whose cases are alike.
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
        Its columns are the row, the kept columns, accepted, label (if there are probabilities, or a
        prediction) and confidence. If the policy has a threshold for each group, or `invalid` is
        "delegate", a column ``why`` gives the reason why a case goes to experts, other than its
        confidence.
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
    source.offer(name for name in policy.origin.probability_columns or () if name is not None)
    given = names or ColumnNames()
    if policy.origin.labels and not (given.probabilities or given.logits):
        source.match_tokens(lambda: policy.origin.labels or ())
    columns = policy_columns(source.header, policy, given)
    if names is None or names.classes is None:
        columns = _as_listed(source, policy, columns)
    columns = replace(columns, is_half=not source.halves.isdisjoint(columns.probabilities))
    kept = tuple(dict.fromkeys(_kept(source, name) for name in keep))
    model = None if policy.origin.model_name is None else source.header.find(None, MODELS)
    decider = _Decider(policy, columns, source, refuses=invalid == "refuse")
    # Without probabilities, the label is the prediction that came with the confidence.
    stated = None if columns.probabilities else source.header.role("prediction", given.prediction)
    counts: Counter[str] = Counter()
    drawn = _Drawn()
    with open_writer(out) as write:
        others = tuple(dict.fromkeys(name for name in (columns.group, model, stated) if name))
        typed = [name for name in kept if is_parquet(out) and name not in others]
        row = 1
        batches = source.batches((*kept, *others), columns.numbers, typed=typed)
        for written, numbers in batches:
            if model is not None:
                _check_model(written[model], str(policy.origin.model_name), model, source.where)
            answers = decider.decide(written, numbers, row)
            n_rows = len(answers["why"])
            counts.update(
                cases=n_rows,
                accepted=answers["accepted"].true_count,
                invalid=answers["confidence"].null_count,
                why=n_rows - answers["why"].null_count,
            )
            drawn.add(answers)
            if stated is not None:
                accepted, known = answers.pop("accepted"), answers["confidence"].is_valid()
                label = pc.if_else(known, written[stated], None)
                answers = {"accepted": accepted, "label": label, **answers}
            if invalid == "refuse" and not policy.by_group:
                answers.pop("why")
            head = {"row": pa.array(row + np.arange(n_rows))}
            write({**head, **{name: written[name] for name in kept}, **answers})
            row += n_rows
        if not counts["cases"]:
            raise FileFormatError(f"{source.where} holds no cases.")
    return DecisionCounts(
        n_accepted=counts["accepted"],
        n_delegated=counts["cases"] - counts["accepted"],
        n_invalid=counts["invalid"],
        n_without_threshold=counts["why"] - counts["invalid"],
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
        is_certified = getattr(policy, "certified", getattr(policy, "is_certified", False))
        if not is_certified or is_about_clusters(policy):
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


def _check_model(models: Any, own: str, column: str, where: str) -> None:
    """Refuse predictions of another model than the one that a policy was made for."""
    names = [name for name in models.unique().to_pylist() if not is_missing(name)]
    other = next((str(name) for name in names if same_spelling(name) != same_spelling(own)), None)
    if other is not None:
        raise FileFormatError(
            f"The policy was made for the model '{own}', but the column '{column}' of {where} "
            f"names '{other}'. Hint: decide the predictions of '{own}' alone, or make a policy for "
            "the other model; if the column means something else, leave it out: --query 'SELECT * "
            f"EXCLUDE ({quoted(column)}) FROM file'."
        )


class _Decider:
    """Decides the batches of a file by the same rule as frames.

    Softmax and fitted scores are computed here, because engines would round them differently.
    """

    def __init__(self, policy: Policy, columns: Columns, source: Source, *, refuses: bool) -> None:
        self.source, self.columns, self.refuses = source, columns, refuses
        self.rule = Rule(policy=policy, columns=columns, language=InFrames())

    def decide(self, written: Batch, numbers: Batch, first_row: int) -> Batch:
        """Return the decisions about a batch as Arrow arrays."""
        rule, policy, columns = self.rule, self.rule.policy, self.columns
        table = {n: self._floats(n, v) for n, v in numbers.items()}
        if columns.group is not None:
            table[columns.group] = self._groups(written[columns.group])
        frame = nw.from_native(pa.table(table)).with_columns(**rule.checked())
        confidence = frame[rule.outputs["confidence"]].to_arrow()
        frame = frame.with_columns(**rule.explained())
        if self.refuses and confidence.null_count:
            first = int(to_numpy(confidence.is_null()).argmax())
            why = str(frame[rule.outputs["why"]][first])
            hints = [hint for end, hint in REPAIRS.items() if why.endswith(end)]
            hint = "; ".join([*hints, "--invalid delegate leaves such cases to experts"])
            raise FileFormatError(
                f"Row {first_row + first} of {self.source.where} cannot be decided: {why}. Hint: "
                f"{hint}."
            )
        sound = to_numpy(confidence.drop_null())
        if first_row == 1 and columns.confidence is not None and len(sound):
            # only the first batch: a last one may be a few extremes
            known = policy.origin.confidence_quantiles
            check_scale(known, sound, columns.confidence, self.source.where)
        made = rule.answered()
        if policy.origin.score is not None or columns.is_logits:
            made = self._computed(numbers, confidence)
        frame = frame.with_columns(**made).with_columns(**rule.decided())
        decided = frame.to_native()
        return {name: decided[own].combine_chunks() for name, own in rule.outputs.items()}

    def _floats(self, name: str, values: Any) -> Any:
        """Return numbers as floats, missing where there is none."""
        kind = str(values.type)
        if kind in ("float", "double"):
            return values
        if "int" in kind or kind == "bool":
            known = to_numpy(values.drop_null())
            numbers_from(known, name, self.source.where)  # refuses whole numbers that are too large
            return values.cast("double")
        return pa.array(numbers_from(to_numpy(values), name, self.source.where))

    def _groups(self, groups: Any) -> Any:
        """Return groups as text in the policy's spelling."""
        coded = groups.dictionary_encode()
        values = to_numpy(coded.dictionary)
        check_names_told_apart(values, str(self.columns.group), self.source.where)
        spelled = class_key if has_numbered_groups(self.rule.policy) else str
        names = [None if is_missing(value) else spelled(value) for value in values.tolist()]
        return pa.array(names, pa.string()).take(coded.indices)

    def _computed(self, numbers: Batch, sound: Any) -> dict[str, Any]:
        """Return label and confidence of sound rows, from a softmax or a fitted score."""
        rule, columns = self.rule, self.columns
        is_sound = to_numpy(sound.is_valid())
        rows = np.flatnonzero(is_sound)
        label, confidence = np.zeros(len(sound), np.int64), np.zeros(len(sound))
        if len(rows):
            part = {n: to_numpy(numbers[n].take(rows)) for n in columns.probabilities}
            check_tokens(columns, np.column_stack(list(part.values())), self.source.where)
            proba = probabilities_from(columns, part, self.source.where, lone=columns.lone)
            label[rows] = proba.argmax(axis=1)
            confidence[rows] = confidence_of(rule.policy.origin, proba)
        names = pa.array(list(rule.labels)).take(pa.array(label, mask=~is_sound))
        made = {"label": names}
        if columns.confidence is None:
            made["confidence"] = pa.array(confidence, mask=~is_sound)
        return {
            rule.outputs[name]: nw.from_native(pa.chunked_array([values]), series_only=True)
            for name, values in made.items()
        }


def _kept(source: Source, name: str) -> str:
    if name.lower() in ("row", *ADDED):
        raise FileFormatError(taken_name(name))
    return Header([*source.columns, *sorted(source.nested)], source.where).named(name)


# ------------------------------------------------------------------ frames


def decide_frame(
    policy: Policy,
    frame: Any,
    *,
    names: ColumnNames | None = None,
    keep: Sequence[str] | None = None,
) -> Any:
    """Decide every row of a data frame in its own engine, which need not hold it in memory.

    Parameters
    ----------
    policy : OperatingPoint, CertifiedGroups or CertifiedClasses
        The policy. One made from logits, or with a fitted score, is refused.
    frame : a pandas, Polars (eager or lazy), PyArrow, DuckDB, Dask or Spark frame
        One row per case. Its columns are found as in `decide_file`.
    names : ColumnNames, optional
        The columns, if they are not those that the policy was made from.
    keep : sequence of str, optional
        Columns to keep, such as an identifier; all by default.

    Returns
    -------
    a frame of the same engine
        The kept columns, and ``accepted``, ``label`` (if probabilities are known), ``confidence``
        and ``why``. A lazy frame stays lazy: nothing is computed yet. A row that cannot be decided
        (a missing number, probabilities that do not sum to one, an unknown group) is left to
        experts, and ``why`` gives the reason.

    Examples
    --------
    >>> import polars as pl
    >>> from expertload import Cases
    >>> from expertload.io import decide_frame
    >>> from expertload.operating_point import choose
    >>> cases = Cases.from_predictions(["cat", "dog"], [[0.9, 0.1], [0.2, 0.8]])
    >>> policy = choose(cases, target_accuracy=1)
    >>> new = pl.LazyFrame({"id": [7, 8], "p_dog": [0.05, 0.55], "p_cat": [0.95, 0.45]})
    >>> decide_frame(policy, new, keep=["id"]).collect().rows()
    [(7, True, 'cat', 0.95, None), (8, False, 'dog', 0.55, None)]
    """
    schema = open_frame(frame).collect_schema()
    header = Header(list(schema), "the frame")
    columns = policy_columns(header, policy, names or ColumnNames())
    is_own = columns.confidence == "confidence"
    kept = [name for name in schema if not (is_own and name == "confidence")]
    kept = kept if keep is None else [header.named(name) for name in keep]
    for name in kept:
        if name in ADDED:
            raise FileFormatError(taken_name(name))
    return _decided(frame, policy, columns, tuple(kept))


def _decided(frame: Any, policy: Policy, columns: Columns, keep: tuple[str, ...]) -> Any:
    """Return a frame of the same kind with the decisions about its rows."""
    check_decidable(policy, columns, "the frame")
    opened = with_numbers(nw.from_native(frame), columns.numbers)
    if opened.implementation.is_dask():  # which does not align expressions over several columns
        part = partial(_decided, policy=policy, columns=columns, keep=keep)
        return frame.map_partitions(part, meta=part(frame._meta_nonempty).iloc[:0])
    schema = opened.collect_schema()
    for name in columns.numbers:
        check_number(schema, name)
    by_text = columns.group is None or _has_groups_as_text(policy, columns.group, schema)
    rule = Rule(policy=policy, columns=columns, language=InFrames(), groups_as_text=by_text)
    exact = [name for name in columns.numbers if not schema[name].is_float()]
    made = {name: nw.col(name).cast(nw.Float64) for name in exact if name not in keep}
    for step in (made, rule.checked(), rule.explained(), rule.answered(), rule.decided()):
        opened = opened.with_columns(**step) if step else opened
    named = [nw.col(own).alias(name) for name, own in rule.outputs.items()]
    decided = opened.select(*keep, *named).to_native()
    if opened.implementation.is_pandas() and all(isinstance(name, int) for name in rule.labels):
        # Where an answer is missing, pandas would make floats of whole numbers.
        decided = decided.astype({n: "Int64" for n in rule.outputs if n == "label"})
    return decided


def _has_groups_as_text(policy: Policy, column: str, schema: Mapping[str, Any]) -> bool:
    """Whether to compare groups as text; refuse types whose text differs between engines."""
    dtype, whole = schema[column], has_numbered_groups(policy)
    is_text = dtype in (nw.String, nw.Categorical, nw.Enum)
    if not (dtype.is_integer() or (dtype.is_float() if whole else is_text)):
        raise DataTypeError(
            f"The column '{column}' of the frame must hold {'whole numbers' if whole else 'text'}, "
            f"as the policy's groups. Got {dtype}. Hint: cast the column in the frame first."
        )
    return not whole
