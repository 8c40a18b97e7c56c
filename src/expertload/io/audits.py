"""Files of audits: automatic decisions and the experts' answers, one row per case."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.special import gammaln

from expertload._check import EXACT, check_fraction, message
from expertload._labels import class_key, is_missing, listed, same_spelling, truth_numbers
from expertload._names import AuditColumns, FileOptions, Identity
from expertload._typing import AnyArray, BoolArray, FloatArray, IntArray
from expertload.exceptions import DataTypeError, FileFormatError, ParameterError
from expertload.io.columns import Header, find_identity
from expertload.io.formats import quoted
from expertload.io.source import Table, open_source
from expertload.io.table import cluster_warning, known_clusters
from expertload.io.values import (
    check_names_told_apart,
    class_numbers,
    grades_from,
    is_graded,
    names_from,
    numbers_from,
)
from expertload.io.write import open_writer
from expertload.operating_point import ClassPromise

CONVENTIONS = {
    "correct": ("correct", "is_correct"),
    "decided": ("decided_label", "decided", "prediction", "predicted", "y_pred"),
    "label": ("label", "expert_label", "y_true", "target", "class"),
    "inclusion_probability": ("inclusion_probability",),
    "decided_at": ("decided_at",),
    "key": ("key", "case", "case_id", "id"),
}
ROLES = {
    "correct": "Whether a decision was right",
    "decided": "What was decided",
    "label": "What the expert said",
}
# What a sample calls columns of decisions, besides the key, and their names in the decisions.
DECIDED = {"accepted": "accepted", "decided_label": "label", "confidence": "confidence"}
# The columns that a sample does not copy from other files.
WRITTEN = ("inclusion_probability", "label", "decided_label", "row", "why")
# Sorted rows are refused if the chance of such an order is below this.
UNLIKELY = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditTable:
    """The audits of a file.

    Attributes
    ----------
    where : str
        The file's name.
    columns : AuditColumns
        The columns that were used.
    correct : ndarray of shape (n_cases,)
        Grades; NaN while a review is open.
    inclusion_probability, decided_at, key : ndarray, list or None
        Arguments of `expertload.monitoring.AccuracyMonitor.update`.
    answers : tuple of two ndarrays, or None
        The decision, None for a delegated case, and the expert's label, None while it is open.
    """

    where: str
    columns: AuditColumns
    correct: FloatArray
    inclusion_probability: FloatArray | None = None
    decided_at: AnyArray | None = None
    key: list[str] | None = None
    answers: tuple[AnyArray, AnyArray] | None = None

    def about(self, promise: ClassPromise) -> AuditTable:
        """Return the cases that a promise about a class is about, and whether they kept it."""
        if self.answers is None:
            raise FileFormatError(
                f"{self.where} must hold decisions and experts' labels for {promise}. Hint: name "
                "the columns (--decided, --label)."
            )
        concerned, kept = promise.outcomes(*self.answers)
        return replace(self, correct=kept).take(np.flatnonzero(concerned))

    def take(self, rows: IntArray) -> AuditTable:
        """Return some rows, in the order given, without the answers behind them."""
        share, when, key = self.inclusion_probability, self.decided_at, self.key
        return replace(
            self,
            correct=self.correct[rows],
            inclusion_probability=None if share is None else share[rows],
            decided_at=None if when is None else when[rows],
            key=None if key is None else [key[row] for row in rows],
            answers=None,
        )


def read_audits(
    path: str | os.PathLike[str],
    *,
    names: AuditColumns | None = None,
    options: FileOptions | None = None,
    classes: Sequence[object] | None = None,
    with_delegated: bool = False,
) -> AuditTable:
    r"""Read a file of audits: CSV, Parquet, JSON Lines, npz, or a query to a database.

    Parameters
    ----------
    path : str or path-like
        The file; the ending of its name determines the format.
    names : AuditColumns, optional
        The columns. By default they are found by name: correct, or decided_label and label;
        inclusion_probability; decided_at; key.
    options : FileOptions, optional
        How to open the file: a query, a delimiter, an encoding.
    classes : sequence, optional
        The classes of the policy. Labels that are none of them are refused: a misspelt one would
        count as an error of the model.
    with_delegated : bool, default=False
        Whether the file may hold cases left to experts, for promises about classes: not accepted,
        or without a decision. Without an inclusion probability, they are audited with certainty.

    Returns
    -------
    AuditTable
        The columns found, as arrays.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from expertload.io import read_audits
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "audits.csv"
    ...     _ = file.write_text("key,decided_label,label\n7,cat,cat\n8,dog,cat\n9,dog,\n")
    ...     audits = read_audits(file)
    >>> audits.correct.tolist(), audits.key
    ([1.0, 0.0, nan], ['7', '8', '9'])
    """
    source = open_source(path, options)
    columns = _find(source.header, names or AuditColumns())
    accepted = source.header.same("accepted")
    taken = dict.fromkeys(filter(None, (*vars(columns).values(), accepted)))
    share = columns.inclusion_probability
    table = source.read([*taken], [] if share is None else [share])
    if columns.correct and is_graded(table[columns.correct]):  # the opener reads numbers in text
        table |= source.read([columns.correct], [columns.correct])
    if not len(next(iter(table.values()))) and not with_delegated:  # a class may be rare
        raise FileFormatError(f"{source.where} holds no audits.")
    for name in (columns.decided, columns.label, columns.key):
        if name is not None:
            check_names_told_apart(table[name], name, source.where)
    for name in filter(None, (columns.decided, columns.label) if classes else ()):
        _check_classes(_blank_as_none(table[name]), classes or (), name, source.where)
    answers = None
    if with_delegated:
        answers = _set_delegated_aside(table, columns, accepted, source.where)
    elif accepted is not None:
        _check_accepted(table[accepted], accepted, source.where)
    return AuditTable(
        where=source.where,
        columns=columns,
        answers=answers,
        correct=_correct(table, columns, source.where) if answers is None else np.zeros(0),
        inclusion_probability=None
        if share is None
        else numbers_from(table[share], share, source.where),
        decided_at=_moments(table, columns.decided_at, source.where),
        key=_keys(table, columns.key, source.where),
    )


def plain_key(key: object) -> str:
    """Return a key as all programs write it: without blanks around it, and 7 instead of 7.0.

    Examples
    --------
    >>> from expertload.io import plain_key
    >>> plain_key("7.0"), plain_key(" a7 "), plain_key("007")
    ('7', 'a7', '007')
    """
    return re.sub(r"^(-?\d+)\.0+$", r"\1", same_spelling(key))


def check_not_sorted(audits: AuditTable) -> None:
    """Refuse rows that are sorted by their answers, if nothing says when cases were decided.

    Rows then count in the order of decisions, and wrong ones in a row would be taken for a fall.
    They are refused only if such an order is next to impossible by chance.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.io import AuditColumns, AuditTable, check_not_sorted
    >>> correct = np.repeat([0.0, 1.0], [8, 192])
    >>> check_not_sorted(AuditTable(where="audits.csv", columns=AuditColumns(), correct=correct))
    Traceback (most recent call last):
    expertload.exceptions.FileFormatError: The rows of audits.csv are sorted ...
    """
    known = audits.correct[~np.isnan(audits.correct)]
    steps = np.diff(known)
    if not ((steps >= 0).all() or (steps <= 0).all()):
        return
    counts = np.unique(known, return_counts=True)[1]
    chance = gammaln(counts + 1).sum() - gammaln(len(known) + 1)  # its logarithm
    if chance < math.log(UNLIKELY):
        raise FileFormatError(
            f"The rows of {audits.where} are sorted by whether the decision was right, and nothing "
            "says when cases were decided: wrong ones in a row would be taken for a fall. Hint: "
            "name the column of the time (--decided-at); if cases were decided in this order, "
            "pass --order decision."
        )


def _find(header: Header, names: AuditColumns) -> AuditColumns:
    where = header.where
    roles = {role: header.find(getattr(names, role), usual) for role, usual in CONVENTIONS.items()}
    pair = names.decided is not None or names.label is not None
    if roles["correct"] is not None and not pair:
        roles |= {"decided": None, "label": None}
        _check_one(header, names, "correct", roles["correct"])
    elif roles["decided"] is not None and roles["label"] is not None:
        roles["correct"] = None
        for role in ("label", "decided"):
            _check_one(header, names, role, str(roles[role]))
        if roles["decided"] == roles["label"]:
            raise FileFormatError(
                f"The column '{roles['label']}' of {where} would be both what was decided and what "
                "the expert said. Hint: name another column (--decided, --label)."
            )
    else:
        raise FileFormatError(
            f"{where} must show whether each decision was right: a column 'correct', or the "
            f"decision ('decided_label') and the expert's answer ('label'). {header.listed} "
            "Hint: name the columns (--correct, or --decided and --label)."
        )
    return AuditColumns(**roles)


def _check_one(header: Header, names: AuditColumns, role: str, column: str) -> None:
    """Refuse two columns that may each have this role: decisions have a `label` as well."""
    if getattr(names, role) is None and column.lower() != "decided_label":
        header.check_one(CONVENTIONS[role], column, ROLES[role], f"--{role}")


def _check_accepted(values: AnyArray, column: str, where: str) -> None:
    """Refuse cases that were left to experts: what a policy promises is not about them."""
    left = grades_from(values, column, where) != 1
    if left.any():
        raise FileFormatError(
            f"{where} holds {int(left.sum())} case(s) that were not decided automatically (column "
            f"'{column}', the first in row {int(left.argmax()) + 1}). Hint: leave them out: "
            f"--query 'SELECT * FROM file WHERE {column}::BOOL'."
        )


def _check_classes(
    answers: Sequence[Any], classes: Sequence[object], column: str, where: str
) -> None:
    """Refuse answers that are none of the policy's classes; true and yes may stand for 1."""
    given = list(dict.fromkeys(str(answer) for answer in answers if answer is not None))
    keys = {class_key(name) for name in classes}
    unknown = [name for name in given if class_key(name) not in keys]
    if unknown and (truth_numbers(classes) is None or truth_numbers(given) is None):
        row = next(i for i, answer in enumerate(answers, start=1) if str(answer) == unknown[0])
        raise FileFormatError(
            f"The column '{column}' of {where} must hold the policy's classes ({listed(classes)}). "
            f"Got {listed(unknown)}, the first in row {row}. Hint: correct the spelling; where the "
            "truth is another class, a column 'correct' can say that the decision was wrong."
        )


def _set_delegated_aside(
    table: Table, columns: AuditColumns, accepted: str | None, where: str
) -> tuple[AnyArray, AnyArray] | None:
    """Return decisions and labels; delegated cases have no decision, and inclusion 1 if none."""
    if columns.decided is None or columns.label is None:
        return None
    decided, label = (
        np.array([*_blank_as_none(table[name]), None], dtype=object)[:-1]
        for name in (columns.decided, columns.label)
    )
    if accepted is not None:
        decided[grades_from(table[accepted], accepted, where) != 1] = None
    if columns.inclusion_probability is not None:
        share = table[columns.inclusion_probability].astype(np.float64)  # without rows, objects
        is_certain = (decided == None) & np.isnan(share)  # noqa: E711
        table[columns.inclusion_probability] = np.where(is_certain, 1.0, share)
    return decided, label


def _correct(table: Table, columns: AuditColumns, where: str) -> FloatArray:
    """Return grades, with NaN for missing answers."""
    column = columns.correct or columns.label or ""
    answers = _blank_as_none(table[column])
    present = np.array([answer is not None for answer in answers])
    grades = np.full(len(answers), np.nan)
    if columns.correct is not None:
        grades[present] = grades_from(table[column][present], column, where)
        return grades
    decided = _blank_as_none(table[columns.decided or ""])
    if None in decided:
        raise FileFormatError(
            f"The column '{columns.decided}' of {where} lacks a value in row "
            f"{decided.index(None) + 1}. Hint: only automatic decisions can be audited."
        )
    known = np.flatnonzero(present)
    given = [str(answers[i]) for i in known], [str(decided[i]) for i in known]
    grades[present] = np.equal(*class_numbers(*given, where, few=True))
    return grades


def _blank_as_none(values: AnyArray) -> list[Any]:
    return [None if is_missing(v) or not str(v).strip() else v for v in values.tolist()]


def _moments(table: Table, name: str | None, where: str) -> AnyArray | None:
    """Return moments: numbers if all are numbers, otherwise times or their text."""
    if name is None:
        return None
    values = table[name]
    if values.dtype.kind != "O":
        return values
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        _check_year_first(values, name, where)
        return values
    return numbers if np.abs(numbers).max() < EXACT else _exact(values, numbers)


def _check_year_first(values: AnyArray, column: str, where: str) -> None:
    """Refuse dates such as 09.04.2026, whose order only the user knows."""
    for row, value in enumerate(values.tolist(), start=1):
        mark = re.fullmatch(r"\d{1,2}([./-])\d{1,2}\1\d{4}.*", str(value).strip())
        if mark is not None:
            form, name = mark[1].join(("%d", "%m", "%Y")), quoted(column).replace('"', r"\"")
            raise DataTypeError(
                f"The column '{column}' of {where} must hold dates with the year first, or "
                f"numbers. Got '{value}' in row {row}. Hint: name the order in a query: --query "
                f"\"SELECT * REPLACE (strptime({name}, '{form}') AS {name}) FROM file\""
            )


def _exact(values: AnyArray, numbers: FloatArray) -> AnyArray:
    """Return numbers in text with whole ones as such, because floats would make some equal."""
    whole = re.compile(r"[-+]?\d+", re.ASCII)
    texts = [str(value).strip() for value in values]
    exact = [int(t) if whole.fullmatch(t) else n for t, n in zip(texts, numbers, strict=True)]
    return np.array(exact, dtype=object)


def _keys(table: Table, name: str | None, where: str) -> list[str] | None:
    if name is None:
        return None
    keys: list[str | None] = names_from(table[name]).tolist()
    spelled = ["" if key is None else plain_key(key) for key in keys]
    if "" in spelled:
        row = spelled.index("") + 1
        raise FileFormatError(f"The column '{name}' of {where} lacks a value in row {row}.")
    return spelled


# ------------------------------------------------------------------ the next audits


class SampleCounts(NamedTuple):
    """How many automatic decisions there were, how many were drawn, and the least probability.

    Beside these, `n_delegated` delegated cases were taken. If cases seem to form clusters that were
    not named, there is a warning.
    """

    n_decided: int
    n_drawn: int
    n_delegated: int
    least_inclusion_probability: float
    warning: str = ""


def draw_audits(
    path: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | IO[Any],
    rate: float,
    more_doubtful: bool = False,
    key: str | None = None,
    cluster: str | None = None,
    with_delegated: bool = False,
    seed: int | None = None,
    options: FileOptions | None = None,
) -> SampleCounts:
    r"""Draw automatic decisions to be audited, each by itself, with a known probability.

    Parameters
    ----------
    path : str or path-like
        Decisions, as `decide_file` writes them: accepted, label, confidence, and a kept key.
    out : str, path-like or stream
        A .csv, .jsonl or .parquet file for `read_audits`, with an empty column ``label`` for the
        experts' answers; or a stream, for CSV.
    rate : float
        The share of automatic decisions to audit, in (0, 1].
    more_doubtful : bool, default=False
        Draw the less confident half three times as often as the other, with the same total. A fall
        is found with fewer audits.
    key : str, optional
        The column that identifies a case; found by name by default.
    cluster : str, optional
        The column of the customer, patient, ... that a case belongs to; ``"none"`` turns off the
        warning about such columns. One case of each is drawn at random, and audited with the
        probability `rate`, because several would not be independent. A case's probability is then
        `rate` over the number of decided cases of its cluster.
    with_delegated : bool, default=False
        Also take the cases left to experts, without a decision, for promises about how many cases
        of a class are missed: all of them, or with `cluster` one case of each, decided or not.
    seed : int, optional
        For a draw that can be repeated; by default nobody can know it beforehand.
    options : FileOptions, optional
        How to open the file.

    Returns
    -------
    SampleCounts
        The numbers of automatic decisions, of those drawn and of delegated cases, and the smallest
        probability.

    Examples
    --------
    >>> import sys, tempfile
    >>> from pathlib import Path
    >>> from expertload.io import draw_audits
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "decisions.csv"
    ...     _ = file.write_text("id,accepted,label,confidence\n7,true,cat,0.9\n8,false,dog,0.6\n")
    ...     counts = draw_audits(file, out=sys.stdout, rate=1.0)
    key,decided_label,confidence,inclusion_probability,label
    7,cat,0.9,1,
    >>> counts.n_decided, counts.n_drawn
    (1, 1)
    """
    share = check_fraction(rate, "rate")
    if share == 0:
        raise ParameterError(message("rate", "must be in (0, 1]", "0"))
    source = open_source(path, options)
    header = source.header
    needed = {
        "key": header.find(key, CONVENTIONS["key"]),
        **{name: header.same(column) for name, column in DECIDED.items()},
    }
    lacking = [DECIDED.get(name, "a key") for name, column in needed.items() if column is None]
    if lacking:
        raise FileFormatError(
            f"{source.where} must hold decisions of expertload decide with a key. It lacks "
            f"{', '.join(lacking)}. Hint: keep the column that identifies a case (expertload "
            "decide --keep COLUMN), and name it (--key COLUMN)."
        )
    columns = {name: str(column) for name, column in needed.items()}
    warning = ""
    if cluster is None:
        likely = find_identity(header, Identity(), [*columns.values()]).cluster
        if likely is not None:
            values = source.read([likely])[likely]
            warning = cluster_warning(values, likely, source.where, "false alarms become likely")
    cluster = header.find(cluster)
    when = header.same("decided_at")
    columns |= {} if when is None else {"decided_at": when}
    other = [name for name in source.columns if name not in {*columns, *columns.values(), *WRITTEN}]
    columns |= {name: name for name in other}
    if cluster is not None and more_doubtful:
        raise ParameterError("--more-doubtful and --cluster cannot be combined.")
    table = source.read([*columns.values()], [columns["confidence"]])
    decided = grades_from(table[columns["accepted"]], columns["accepted"], source.where) == 1
    if not decided.any():
        raise FileFormatError(f"{source.where} holds no automatic decisions.")
    taken = np.ones(len(decided), dtype=np.bool_) if with_delegated else decided
    _check_keys(table[columns["key"]][taken], columns["key"], source.where)
    rows = {name: table[column][taken] for name, column in columns.items() if name != "accepted"}
    own = decided[taken]
    inclusion = np.where(own, share, 1.0)
    if more_doubtful:
        doubtful = rows["confidence"] < np.median(rows["confidence"][own])
        more, less = round(min(1.5 * share, 1.0), 12), 0.5 * share
        inclusion = np.where(own, np.where(doubtful, more, less), 1.0)
    rng = np.random.default_rng(seed)
    drawn = rng.random(len(inclusion)) < inclusion
    if cluster is not None:
        names = known_clusters(table[cluster], cluster, source.where)
        inclusion, drawn = _one_of_each(names[taken], share, rng)
    n_drawn = int(drawn.sum())
    rows["decided_label"] = np.where(own, rows["decided_label"], None)
    rows["inclusion_probability"] = inclusion
    with open_writer(out) as write:
        written = {name: pa.array(values[drawn].tolist()) for name, values in rows.items()}
        write({**written, "label": pa.nulls(n_drawn, pa.string())})
    n_audits = int(drawn[own].sum())
    return SampleCounts(
        int(own.sum()), n_audits, n_drawn - n_audits, float(inclusion.min()), warning
    )


def _check_keys(values: AnyArray, column: str, where: str) -> None:
    """Refuse a key that repeats: the monitor could not tell its cases apart."""
    key, times = Counter(map(plain_key, values.tolist())).most_common(1)[0]
    if times > 1:
        raise FileFormatError(
            f"The column '{column}' of {where} must identify a case, but '{key}' is the key of "
            f"{times} cases. Hint: name the column that identifies a case (--key); "
            "for the customer, patient, ... of a case, there is --cluster."
        )


def _one_of_each(
    clusters: AnyArray, share: float, rng: np.random.Generator
) -> tuple[FloatArray, BoolArray]:
    """Return the probability of each case, and whether it was drawn: at most one of a cluster."""
    _, member, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    order = rng.permutation(len(member))
    chosen = np.empty(len(sizes), dtype=np.int64)
    chosen[member[order]] = order  # the last one of a random order
    drawn = np.zeros(len(member), dtype=np.bool_)
    drawn[chosen[rng.random(len(sizes)) < share]] = True
    return np.round(share / sizes[member], 12), drawn
