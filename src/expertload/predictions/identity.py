"""Identifies the case and the model of each row, so that models can be compared.

A paired test needs the answers of both models to the same case. If two files have different orders,
the resulting numbers look plausible but are wrong. So rows are matched by an identifier if there is
one; if not, the output states that the same order is assumed. A case that occurs in a file once for
each of two models must not be counted twice.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from expertload._names import MODELS
from expertload._opening.connection import text_of
from expertload._typing import AnyArray, IntArray
from expertload.columns.finding import find_named, find_same, is_declined
from expertload.exceptions import FileFormatError, ShapeError

__all__ = [
    "Identity",
    "align",
    "certifiable_groups",
    "check_distinct",
    "check_not_trained",
    "check_one_model",
    "find_identity",
    "find_split",
    "known_clusters",
    "known_identifiers",
    "split_rows",
]

IDENTIFIERS = ("id", "case_id", "sample_id", "image_id", "identifier", "uid", "uuid")
SPLITS = ("split", "subset")
TRAINED = ("train", "training")
# If these repeat, cases are not independent, even if the user did not say so.
CLUSTERS = (
    "patient",
    "patient_id",
    "subject",
    "subject_id",
    "participant_id",
    "person_id",
    "visit_id",
    "document_id",
)


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The columns that identify the case and the model of a row.

    Attributes
    ----------
    identifier : str, optional
        The column that identifies a case. Found by its name (id, case_id, sample_id, image_id,
        identifier, uid or uuid) if none is given; ``"none"`` if such a column means something else.
    model : str, optional
        The column that names the model, if a file has several; ``"none"`` if a column of that
        name means something else.
    cluster : str, optional
        The column whose value is the same for cases that belong together, such as patient. If
        none is given, columns with a usual name are checked for repeats, to warn of them;
        ``"none"`` turns this off.
    """

    identifier: str | None = None
    model: str | None = None
    cluster: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read."""
        return tuple(
            name for name in (self.identifier, self.model, self.cluster) if name is not None
        )


def find_identity(
    available: Sequence[str], wanted: Identity, taken: Collection[str], where: str
) -> Identity:
    """Return the columns that identify rows; columns already used for another role are skipped."""
    return Identity(
        identifier=_find(available, IDENTIFIERS, wanted.identifier, taken, where),
        model=_find(available, MODELS, wanted.model, taken, where),
        cluster=_find(available, CLUSTERS, wanted.cluster, taken, where),
    )


def find_split(available: Sequence[str], taken: Collection[str], where: str) -> str | None:
    """Return a column that names the part of the data, such as train and test; None if none."""
    return _find(available, SPLITS, None, taken, where)


def _find(
    available: Sequence[str],
    usual: Sequence[str],
    wanted: str | None,
    taken: Collection[str],
    where: str,
) -> str | None:
    if wanted is not None:
        return None if is_declined(wanted, available) else find_named(available, wanted, where)
    found = (find_same(available, name) for name in usual)
    return next((name for name in found if name is not None and name not in taken), None)


def check_one_model(models: AnyArray, column: str, where: str) -> None:
    """Refuse a file with several models, unless the user named the model column."""
    names = sorted({str(value) for value in models.tolist()})
    if len(names) > 1:
        raise FileFormatError(
            f"The column '{column}' of {where} names {len(names)} models ({names[0]}, {names[1]}"
            f"{', ...' if len(names) > 2 else ''}): read as one model, every case would count "
            f"{len(names)} times. Hint: evaluate each model with --model-column {column}; if the "
            "column means something else, pass --model-column none."
        )


def check_not_trained(parts: AnyArray, column: str, where: str) -> None:
    """Refuse a file in which some cases, but not all, are those that a model was trained on."""
    names = sorted({str(value) for value in parts.tolist() if value is not None})
    trained = [name for name in names if name.strip().lower() in TRAINED]
    others = [name for name in names if name not in trained]
    if trained and others:
        raise FileFormatError(
            f"The column '{column}' of {where} says that some cases are of '{trained[0]}' and "
            f"others of '{others[0]}': counted together, a model looks better than it is. Hint: "
            'leave out those of the training, such as with --query "SELECT * FROM file WHERE '
            f'{column} = {text_of(others[0])}"; if the column means something else, rename it.'
        )


def known_identifiers(
    values: AnyArray, column: str, where: str, *, is_named: bool
) -> AnyArray | None:
    """Return identifiers; None if the user did not name the column and some are missing."""
    if is_named:
        hint = "give every case its own identifier"
        _check_named(values, f"The column '{column}' of {where} identifies no case", hint)
        return values
    return None if _missing(values) else values


def known_clusters(values: AnyArray, column: str, where: str) -> AnyArray:
    """Return the cluster of each case as text; refuse missing clusters."""
    hint = "give a case without a cluster its own cluster name"
    _check_named(values, f"The column '{column}' of {where} names no cluster", hint)
    return as_text(values)


def certifiable_groups(values: AnyArray, column: str, where: str) -> AnyArray:
    """Return the group of each case; refuse missing groups, which cannot be certified."""
    hint = "give cases without a group a group name such as 'unknown'"
    _check_named(values, f"The column '{column}' of {where} names no group", hint)
    return values


def _missing(values: AnyArray) -> list[int]:
    return [i for i, v in enumerate(values) if v is None] if values.dtype.kind == "O" else []


def _check_named(values: AnyArray, says: str, hint: str) -> None:
    missing = _missing(values)
    if missing:
        raise FileFormatError(
            f"{says} in row {missing[0] + 1}, and in {len(missing)} row(s) in total. Hint: {hint}."
        )


def check_distinct(values: AnyArray, column: str, where: str) -> None:
    """Refuse a file in which an identifier occurs more than once; missing ones are ignored."""
    rows = np.delete(np.arange(len(values)), _missing(values))
    texts = as_text(values[rows])
    order = np.argsort(texts, kind="stable")
    again = np.flatnonzero(texts[order][1:] == texts[order][:-1])
    if not len(again):
        return
    twice = order[again[0] : again[0] + 2]
    first, second = sorted(int(row) + 1 for row in rows[twice])
    raise FileFormatError(
        f"The column '{column}' of {where} holds '{texts[twice[0]]}' in row {first} and again in "
        f"row {second}, and {len(again)} such repeat(s) in total: cases would count more than "
        "once. Hint: if the file holds several models, name the column of the model "
        f"(--model-column); if '{column}' does not identify a case, pass --id none."
    )


def split_rows(models: AnyArray, column: str, where: str) -> dict[str, IntArray]:
    """Return the rows of each model, in the order in which models first appear."""
    if any(value is None for value in models.tolist()):
        raise FileFormatError(
            f"The column '{column}' of {where} lacks values. Hint: name the model in every row."
        )
    texts = as_text(models)
    names, first, member = np.unique(texts, return_index=True, return_inverse=True)
    return {str(names[i]): np.flatnonzero(member == i) for i in np.argsort(first)}


def align(first: AnyArray, other: AnyArray, column: str, where: tuple[str, str]) -> IntArray | None:
    """Return the rows of the second table in the order of the first; None if equal already.

    Identifiers are compared as written: 7 and '7' are the same, 7 and '007' are not.
    """
    a, b = as_text(first), as_text(other)
    if a.dtype.kind != b.dtype.kind:
        a, b = a.astype(np.str_), b.astype(np.str_)
    if len(a) == len(b) and (a == b).all():
        return None
    strangers = np.setxor1d(a, b)
    if len(strangers):
        of = where[0] if strangers[0] in a else where[1]
        raise ShapeError(
            f"{where[0]} and {where[1]} must hold the same cases to be compared. Got '"
            f"{strangers[0]}' in the column '{column}' of {of} only, and {len(strangers)} such "
            f"case(s) in total. Hint: keep the cases that both have; if '{column}' does not "
            "identify a case, pass --id none."
        )
    rows = np.empty(len(a), dtype=np.int64)
    rows[np.argsort(a, kind="stable")] = np.argsort(b, kind="stable")
    return rows


def as_text(values: AnyArray) -> AnyArray:
    """Return identifiers as text, to be compared and sorted."""
    if values.dtype.kind != "O":
        return values.astype(np.str_) if values.dtype.kind not in "iu" else values
    return np.array([str(value) for value in values.tolist()])
