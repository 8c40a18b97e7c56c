"""The columns that a policy decides by: those it was made with, each with its class.

A threshold belongs to a confidence, and a label to a column. Another column that happens to be
called `confidence`, or the probabilities of another model in the same file, would be accepted by
any program that only looks for names people use; so the policy's own names come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from expertload._validation import (
    lone_side,
    match_classes,
    name_some,
    refuse_lone_column,
    whole_number,
)
from expertload.exceptions import FileFormatError
from expertload.operating_point import CertifiedGroups, OperatingPoint
from expertload.predictions.columns import (
    ColumnNames,
    Columns,
    find_confidence,
    find_group,
    find_probabilities,
    find_same,
)

__all__ = ["Policy", "policy_columns"]

Policy = OperatingPoint | CertifiedGroups
Found = tuple[tuple[str, ...], tuple[str, ...]]


def policy_columns(
    available: Sequence[str], policy: Policy, names: ColumnNames, where: str
) -> Columns:
    """Find what a policy needs of a file; probabilities in the order of its classes."""
    given = policy.origin.ranked_by == "given_confidence"
    columns, classes = _probabilities(available, policy, names.probabilities, where)
    confidence = _confidence(available, policy, names.confidence, where) if given else None
    if (confidence is None) if given else not columns:
        wanted = "a column 'confidence'" if given else "probabilities (p_*, prob_* or proba_*)"
        raise FileFormatError(
            f"The policy decides by {wanted}, and {where} has none. Hint: say which column it is "
            f"({'--confidence' if given else '--probabilities'})."
        )
    by_group = isinstance(policy, CertifiedGroups)
    group = find_group(available, names.group, where)
    if by_group and group is None:
        raise FileFormatError(
            f"The policy has a threshold for each group, and {where} has no column 'group'. "
            "Hint: say which column it is (--group)."
        )
    return Columns(
        probabilities=columns,
        classes=classes,
        confidence=confidence,
        group=group if by_group else None,
    )


def _confidence(
    available: Sequence[str], policy: Policy, wanted: str | None, where: str
) -> str | None:
    saved = policy.origin.confidence_column
    if wanted is not None or saved is None:
        return find_confidence(available, wanted, where)
    found = find_same(available, saved)
    if found is None:
        raise FileFormatError(
            f"The policy is a threshold of the column '{saved}', and {where} has none of that "
            "name. Hint: say which column holds the same confidence (--confidence)."
        )
    return found


def _probabilities(
    available: Sequence[str], policy: Policy, wanted: str | None, where: str
) -> Found:
    saved = {
        str(label): column
        for label, column in zip(
            policy.origin.labels or (), policy.origin.probability_columns or (), strict=False
        )
        if column is not None
    }
    if wanted is not None or not saved:
        columns, classes = find_probabilities(available, wanted, where)
        if set(columns) == set(saved.values()):
            return tuple(saved.values()), tuple(saved)
        return _in_order(policy, columns, classes, where)
    found = {label: find_same(available, column) for label, column in saved.items()}
    there = {label: column for label, column in found.items() if column is not None}
    # Of two classes, one leaves what the other is.
    if len(there) == len(saved) or (there and len(saved) == 2):
        return tuple(there.values()), tuple(there)
    if not there and policy.origin.ranked_by == "given_confidence":
        return (), ()  # labels are an extra here
    lacking = [column for label, column in saved.items() if label not in there]
    raise FileFormatError(
        f"The policy decides by the column(s) {name_some(list(saved.values()))}, and {where} lacks "
        f"{name_some(lacking)}. Hint: say which columns hold the same probabilities "
        "(--probabilities)."
    )


def _in_order(
    policy: Policy, columns: tuple[str, ...], classes: tuple[str, ...], where: str
) -> Found:
    """Put the columns in the order of the policy's classes, whatever theirs is in the file."""
    labels = policy.origin.labels
    if len(columns) == 1:
        if labels is not None and len(labels) != 2:
            _refuse(labels, classes, where)
        if lone_side(labels or (0, 1), columns[0], classes[0]) is None:
            refuse_lone_column(labels or (0, 1), columns[0], where)
        return columns, classes
    if labels is None and policy.origin.ranked_by == "given_confidence":
        return columns, classes
    labels = labels or tuple(range(len(columns)))  # older policies did not say that of numbers
    wanted = [str(label) for label in labels]
    found = match_classes(wanted, classes)
    if len(found) == len(wanted) and set(found.values()) == set(range(len(classes))):
        return tuple(columns[found[name]] for name in wanted), tuple(wanted)
    if found or len(columns) != len(labels) or not _are_places(labels, classes):
        _refuse(labels, classes, where)
    return columns, classes


def _are_places(labels: Sequence[object], classes: tuple[str, ...]) -> bool:
    """Whether labels number the columns, and no column is named after another number."""
    unnumbered = all(whole_number(name) is None for name in classes)
    return unnumbered and list(labels) == list(range(len(classes)))


def _refuse(labels: Sequence[object], classes: tuple[str, ...], where: str) -> NoReturn:
    raise FileFormatError(
        f"The policy decides between {name_some(labels)}, and the probabilities of {where} are of "
        f"{name_some(classes)}. Hint: name the columns after the classes, p_{labels[0]} for "
        "instance."
    )
