"""The columns that a policy decides by: those it was made with, each with its class.

A threshold belongs to a confidence, and a label to a column. Another column that happens to be
called `confidence`, or the probabilities of another model in the same file, would be accepted by
any program that only looks for names people use; so the policy's own names come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np

from expertload._typing import AnyArray
from expertload._validation import as_array
from expertload.columns.arrays import frame_names, is_numbering
from expertload.columns.finding import (
    LOGITS,
    ColumnNames,
    Columns,
    Picked,
    find_probabilities,
    find_role,
    find_same,
    is_declined,
    said_of_blanks,
    said_of_file,
)
from expertload.columns.matching import Wording, class_of_lone_column, in_order, refuse_lone
from expertload.columns.spelling import ClassName, class_key, is_missing, listed, without_prefix
from expertload.columns.values import both_classes
from expertload.exceptions import FileFormatError, LabelError

__all__ = ["arrange_probabilities", "known_groups", "policy_columns"]


class Known(Protocol):
    """What a policy knows of its columns: the origin of an operating point."""

    @property
    def ranked_by(self) -> str: ...
    @property
    def labels(self) -> tuple[ClassName, ...] | None: ...
    @property
    def probability_columns(self) -> tuple[str | None, ...] | None: ...
    @property
    def read_as(self) -> str | None: ...
    @property
    def confidence_column(self) -> str | None: ...


# ------------------------------------------------------------------ columns of a file


def policy_columns(
    available: Sequence[str], known: Known, names: ColumnNames, where: str, *, by_group: bool
) -> Columns:
    """Find what a policy needs of a file; probabilities in the order of its classes."""
    given = known.ranked_by == "given_confidence"
    if not given and _is_named(names.confidence, available):
        raise FileFormatError(
            f"The policy decides by the probabilities of {where}, and --confidence names the "
            f"column '{names.confidence}'. Hint: leave it out, or make a policy of that column: "
            "expertload evaluate --confidence."
        )
    if not by_group and _is_named(names.group, available):
        raise FileFormatError(
            f"The policy has one threshold for all cases of {where}, and --group names the column "
            f"'{names.group}'. Hint: leave it out, or make a policy with a threshold for each "
            "group: expertload evaluate --certify-groups."
        )
    picked = _probabilities(available, known, names, where)
    confidence = _confidence(available, known, names.confidence, where) if given else None
    if (confidence is None) if given else not picked.columns:
        wanted = "a column 'confidence'" if given else "probabilities (p_*, prob_* or proba_*)"
        raise FileFormatError(
            f"The policy decides by {wanted}, and {where} has none. Hint: say which column it is "
            f"({'--confidence' if given else '--probabilities'})."
        )
    group = find_role(available, "group", names.group, where) if by_group else None
    if by_group and group is None:
        raise FileFormatError(
            f"The policy has a threshold for each group, and {where} has no column 'group'. "
            "Hint: say which column it is (--group)."
        )
    return Columns(
        probabilities=picked.columns,
        classes=picked.classes,
        lone=_side(known, picked, where) if len(picked.columns) == 1 else None,
        is_logits=picked.is_logits,
        is_normalized=names.normalize or known.read_as == "normalized",
        confidence=confidence,
        group=group,
    )


def _is_named(wanted: str | None, available: Sequence[str]) -> bool:
    return wanted is not None and not is_declined(wanted, available)


def _confidence(
    available: Sequence[str], known: Known, wanted: str | None, where: str
) -> str | None:
    saved = known.confidence_column
    if wanted is not None or saved is None:
        return find_role(available, "confidence", wanted, where)
    found = find_same(available, saved)
    if found is None:
        raise FileFormatError(
            f"The policy is a threshold of the column '{saved}', and {where} has none of that "
            "name. Hint: say which column holds the same confidence (--confidence)."
        )
    return found


def _probabilities(
    available: Sequence[str], known: Known, names: ColumnNames, where: str
) -> Picked:
    saved = {
        str(label): column
        for label, column in zip(known.labels or (), known.probability_columns or (), strict=False)
        if column is not None
    }
    picked = find_probabilities(available, names, where)
    if names.probabilities or names.logits or names.classes or not saved:
        same = set(picked.columns) == set(saved.values())
        if same and known.read_as is not None:
            _check_read_as(known.read_as, picked, where)
        if names.classes is None and same:
            return picked._replace(columns=tuple(saved.values()), classes=tuple(saved))
        return _in_order(known, picked, where)
    found = {label: find_same(available, column) for label, column in saved.items()}
    there = {label: column for label, column in found.items() if column is not None}
    # Of two classes, one leaves what the other is, unless there are columns of yet others.
    enough = len(saved) == 2 and set(there.values()) == set(picked.columns)
    if len(there) == len(saved) or (there and enough):
        return Picked(tuple(there.values()), tuple(there), _were_logits(known, there.values()))
    if not there and known.ranked_by == "given_confidence":
        return Picked()  # labels are an extra here
    lacking = [column for label, column in saved.items() if label not in there]
    raise FileFormatError(
        f"The policy decides by the column(s) {listed(list(saved.values()))}, and {where} lacks "
        f"{listed(lacking)}. Hint: say which columns hold the same probabilities "
        f"(--probabilities).{said_of_blanks(available)}"
    )


def _were_logits(known: Known, columns: Iterable[str]) -> bool:
    """Return whether a policy was made of logits; older ones say so by the names alone."""
    if known.read_as is not None:
        return known.read_as == "logits"
    return all(column.lower().startswith(LOGITS) for column in columns)


def _check_read_as(read_as: str, picked: Picked, where: str) -> None:
    """Refuse to take for logits what the policy took for probabilities, or the reverse."""
    if picked.is_logits == (read_as == "logits"):
        return
    was, now = ("logits", "probabilities") if read_as == "logits" else ("probabilities", "logits")
    raise FileFormatError(
        f"The policy was made of the column(s) {listed(picked.columns)} as {was}, and those of "
        f"{where} would be read as {now}. Hint: name them as --{was}, or leave that out: the "
        "policy remembers."
    )


def _in_order(known: Known, picked: Picked, where: str) -> Picked:
    """Put the columns in the order of the policy's classes, whatever theirs is in the file."""
    columns, classes, _ = picked
    if len(columns) < 2 or (known.labels is None and known.ranked_by == "given_confidence"):
        return picked
    labels = known.labels or tuple(
        range(len(columns))
    )  # older policies did not say that of numbers
    places = in_order(labels, classes)
    if places is None:
        _refuse(labels, classes, where)
    return picked._replace(
        columns=tuple(columns[i] for i in places), classes=tuple(str(each) for each in labels)
    )


def _side(known: Known, picked: Picked, where: str) -> int:
    """Return whether a lone column is of the first or the second of two classes."""
    labels = known.labels or (0, 1)
    if len(labels) != 2:
        _refuse(labels, picked.classes, where)
    side = class_of_lone_column(labels, picked.columns[0], picked.classes[0])
    if side is None:
        refuse_lone(labels, picked.columns[0], said_of_file(where))
    return side


def _refuse(labels: Sequence[ClassName], classes: Sequence[str], where: str) -> NoReturn:
    raise FileFormatError(
        f"The policy decides between {listed(labels)}, and the probabilities of {where} are of "
        f"{listed(classes)}. Hint: name the columns after the classes, p_{labels[0]} for "
        "instance, or say which class each is of, in order (--classes)."
    )


# ------------------------------------------------------------------ columns of a frame


def arrange_probabilities(
    y_proba: Any, labels: Sequence[ClassName] | None, caller: str
) -> AnyArray:
    """Return probabilities in the order of a policy's classes, by the names of a frame's columns.

    Columns without names are in that order already. A lone column that is named after the first
    class becomes two columns.
    """
    array, found = as_array(y_proba, "y_proba", caller), frame_names(y_proba)
    if found is None:
        return array
    columns, numbered, of = (
        [str(name) for name in found],
        is_numbering(found),
        f"passed to {caller}",
    )
    labels = labels or tuple(range(max(len(columns), 2)))
    if len(labels) == 2 and len(columns) == 1 and not numbered:
        side = class_of_lone_column(labels, columns[0], without_prefix(columns[0]))
        if side is None:
            refuse_lone(labels, columns[0], Wording(of, of, "pass an array of the second class's"))
        return np.column_stack(both_classes(array.reshape(-1), side))
    places = in_order(labels, columns)
    if numbered and places in (None, list(range(len(columns)))):
        return array
    if places is None or numbered:  # the numbers may be names, or places in the policy's order
        raise LabelError(
            f"The policy decides between {listed(labels)}, and the columns of the frame {of} "
            f"are {listed(columns)}. Hint: name the columns after the classes, or pass an array "
            "whose columns are in their order."
        )
    return array[:, places]


# ------------------------------------------------------------------ groups


def known_groups(policy: Sequence[ClassName], values: AnyArray) -> list[ClassName]:
    """Return groups as the policy spells them, in text or in whole numbers; others as no group."""
    numbers = [group for group in policy if isinstance(group, int)]
    nobody: ClassName = max(numbers) + 1 if numbers else "".join(map(str, policy)) + "?"
    spelled = class_key if numbers else str
    known = {str(group): group for group in policy}
    return [nobody if is_missing(v) else known.get(spelled(v), nobody) for v in values.tolist()]
