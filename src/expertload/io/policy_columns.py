"""Finds the columns that a policy was made with, and the class of each.

A threshold is valid only for the confidence it was made with. A search by conventional names could
pick another column that happens to be called `confidence`, or the probabilities of another model in
the same file. So the names stored in the policy come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NoReturn

from expertload._labels import (
    LOGITS,
    ClassName,
    class_of_lone_column,
    in_order,
    listed,
    named_class,
    refuse_lone,
)
from expertload.exceptions import FileFormatError
from expertload.io.columns import (
    ColumnNames,
    Columns,
    Picked,
    check_one_family,
    file_wording,
    find_probabilities,
    find_role,
    find_same,
    hint_of_blanks,
    is_named,
    named_after,
    pick,
)
from expertload.operating_point import (
    CertifiedClasses,
    CertifiedGroupClasses,
    CertifiedGroups,
    OperatingPoint,
    Origin,
)

Policy = OperatingPoint | CertifiedGroups | CertifiedClasses | CertifiedGroupClasses
# The columns of decisions.
ADDED = ("accepted", "label", "confidence", "why")


def policy_columns(
    available: Sequence[str], known: Origin, names: ColumnNames, where: str, *, by_group: bool
) -> Columns:
    """Find the columns of a file that a policy needs; probabilities in the order of its classes."""
    given = known.ranked_by == "given_confidence"
    if not given and is_named(names.confidence, available):
        raise FileFormatError(
            f"The policy uses the probabilities of {where}, but --confidence names the column "
            f"'{names.confidence}'. Hint: leave out --confidence, or make a policy from that "
            "column with expertload evaluate --confidence."
        )
    if not by_group and is_named(names.group, available):
        raise FileFormatError(
            f"The policy has one threshold for all cases of {where}, but --group names the column "
            f"'{names.group}'. Hint: leave out --group, or make a policy with a threshold for each "
            "group with expertload evaluate --certify-groups."
        )
    picked = _probabilities(available, known, names, where)
    confidence = _confidence(available, known, names.confidence, where) if given else None
    if (confidence is None) if given else not picked.columns:
        wanted = "a column 'confidence'" if given else "probabilities (p_*, prob_* or proba_*)"
        raise FileFormatError(
            f"The policy needs {wanted}, but {where} has none. Hint: name the columns "
            f"({'--confidence' if given else '--probabilities'})."
        )
    group = _group(available, known, names.group, where) if by_group else None
    found = Columns(
        probabilities=picked.columns,
        classes=picked.classes,
        is_logits=picked.is_logits,
        is_normalized=names.normalize or known.read_as == "normalized",
        confidence=confidence,
        group=group,
    )
    if len(picked.columns) != 1:
        return found
    if given and known.labels is None and named_class((0, 1), picked.classes[0]) is None:
        return replace(found, probabilities=(), classes=())  # the other class has no name
    side = _side(known, picked, where)
    return found.of([(known.labels or (0, 1))[side]], lone=side)


def _group(available: Sequence[str], known: Origin, wanted: str | None, where: str) -> str:
    saved = known.group_column
    if wanted is not None or saved is None:
        found = find_role(available, "group", wanted, where)
    else:
        found = find_same(available, saved)
    if found is None:
        raise FileFormatError(
            f"The policy has a threshold for each group, but {where} has no column "
            f"'{saved or 'group'}'. Hint: name the column (--group)."
        )
    return found


def _confidence(
    available: Sequence[str], known: Origin, wanted: str | None, where: str
) -> str | None:
    saved = known.confidence_column
    if wanted is not None or saved is None:
        return find_role(available, "confidence", wanted, where)
    found = find_same(available, saved)
    if found is None:
        raise FileFormatError(
            f"The policy has a threshold for the column '{saved}', but {where} has no such column. "
            "Hint: name the column with the same confidence (--confidence)."
        )
    return found


def _probabilities(
    available: Sequence[str], known: Origin, names: ColumnNames, where: str
) -> Picked:
    saved = {
        str(label): column
        for label, column in zip(known.labels or (), known.probability_columns or (), strict=False)
        if column is not None
    }
    picked = find_probabilities(available, names, where)
    if not picked.columns and known.ranked_by != "given_confidence":
        picked = named_after(available, known.labels or ())
    if not (saved or names.probabilities or names.logits):
        check_one_family(available, where)
    if names.probabilities or names.logits or names.classes or not saved:
        return _as_named(known, saved, picked, where, by_class=names.classes is not None)
    found = {label: find_same(available, column) for label, column in saved.items()}
    there = {label: column for label, column in found.items() if column is not None}
    is_logits = _were_logits(known, saved.values())
    # With two classes, one probability is enough, unless there are columns of other classes.
    enough = len(saved) == 2 and set(there.values()) == set(picked.columns) and not is_logits
    if len(there) == len(saved) or (there and enough):
        taken = Picked(tuple(there.values()), tuple(there), is_logits)
        is_summed = len(there) > 1 and not is_logits and known.read_as != "normalized"
        beside = [] if is_summed else _beside(available, taken, picked)
        return _with_all(known, taken, beside, where) if beside else taken
    if not there and known.ranked_by == "given_confidence":
        return Picked()  # labels are optional here
    raise _lacking(saved, there.values(), is_logits, where, hint_of_blanks(available))


def _as_named(
    known: Origin, saved: dict[str, str], picked: Picked, where: str, *, by_class: bool
) -> Picked:
    """Return the columns that a user named, in the order of the policy's classes."""
    same = set(picked.columns) == set(saved.values())
    one_of_them = len(picked.columns) == 1 < len(saved) and picked.columns[0] in saved.values()
    if picked.is_logits and one_of_them:
        raise _lacking(saved, picked.columns, True, where)
    if same and known.read_as is not None:
        _check_read_as(known.read_as, picked, where)
    if same and not by_class:
        return picked._replace(columns=tuple(saved.values()), classes=tuple(saved))
    return _in_order(known, picked, where)


def _lacking(
    saved: dict[str, str], there: Iterable[str], is_logits: bool, where: str, blanks: str = ""
) -> FileFormatError:
    """Return the error for columns that a policy needs and a file does not have."""
    what = "logits" if is_logits else "probabilities"
    present = {column.lower() for column in there}
    lacking = [column for column in saved.values() if column.lower() not in present]
    return FileFormatError(
        f"The policy needs the column(s) {listed(list(saved.values()))}, but {where} lacks "
        f"{listed(lacking)}. Hint: name the columns with the same {what} (--{what}).{blanks}"
    )


def _beside(available: Sequence[str], taken: Picked, picked: Picked) -> list[tuple[str, str]]:
    """Return other columns of the family that was taken, and the class of each.

    Their classes would go unnoticed: only the sum of all probabilities tells that one is missing.
    """
    if set(taken.columns) <= set(picked.columns):
        family = list(zip(picked.columns, picked.classes, strict=True))
    else:
        pairs = zip(taken.columns, taken.classes, strict=True)
        (prefix, *others) = {column.removesuffix(name) for column, name in pairs}
        shared = prefix and not others and prefix not in taken.columns
        family = pick(available, f"{prefix}*") if shared else []
    return [pair for pair in family if pair[0] not in taken.columns]


def _with_all(
    known: Origin, taken: Picked, beside: Sequence[tuple[str, str]], where: str
) -> Picked:
    """Return all probabilities of a family, if each belongs to one of the policy's classes."""
    columns, classes = zip(*beside, strict=True)
    whole = Picked((*taken.columns, *columns), (*taken.classes, *classes))
    labels = known.labels or tuple(range(len(whole.columns)))
    if not taken.is_logits and in_order(labels, whole.classes) is not None:
        return _in_order(known, whole, where)
    option = "--logits" if taken.is_logits else "--probabilities"
    raise FileFormatError(
        f"The policy was made from the column(s) {listed(taken.columns)}, but {where} also has "
        f"{listed(columns)}: a class that the policy does not know would go unnoticed. Hint: if "
        f"the policy needs no more columns, name them ({option} {','.join(taken.columns)})."
    )


def _were_logits(known: Origin, columns: Iterable[str]) -> bool:
    """Whether a policy was made from logits; in older policies, only column names show it."""
    if known.read_as is not None:
        return known.read_as == "logits"
    return all(column.lower().startswith(LOGITS) for column in columns)


def _check_read_as(read_as: str, picked: Picked, where: str) -> None:
    """Refuse logits if the policy was made from probabilities, and the reverse."""
    if picked.is_logits == (read_as == "logits"):
        return
    was, now = ("logits", "probabilities") if read_as == "logits" else ("probabilities", "logits")
    raise FileFormatError(
        f"The policy was made from the column(s) {listed(picked.columns)} as {was}, but those of "
        f"{where} would be read as {now}. Hint: name them with --{was}, or leave the option out: "
        "the policy stores it."
    )


def _in_order(known: Origin, picked: Picked, where: str) -> Picked:
    """Return the columns in the order of the policy's classes."""
    columns, classes, _ = picked
    if len(columns) < 2 or (known.labels is None and known.ranked_by == "given_confidence"):
        return picked
    # Older policies do not store numbers.
    labels = known.labels or tuple(range(len(columns)))
    places = in_order(labels, classes)
    if places is None:
        _refuse(labels, classes, where)
    return picked._replace(
        columns=tuple(columns[i] for i in places), classes=tuple(str(label) for label in labels)
    )


def _side(known: Origin, picked: Picked, where: str) -> int:
    """Return 0 or 1, the class of a single column."""
    labels = known.labels or (0, 1)
    if len(labels) != 2:
        _refuse(labels, picked.classes, where)
    side = class_of_lone_column(labels, picked.columns[0], picked.classes[0])
    if side is None:
        refuse_lone(labels, picked.columns[0], file_wording(where))
    return side


def _refuse(labels: Sequence[ClassName], classes: Sequence[str], where: str) -> NoReturn:
    raise FileFormatError(
        f"The policy has the classes {listed(labels)}, but the probabilities of {where} belong to "
        f"{listed(classes)}. Hint: name the columns after the classes, such as p_{labels[0]}, "
        "or name the class of each column, in order (--classes)."
    )


def has_numbered_groups(policy: Policy) -> bool:
    """Whether a policy has thresholds for groups that are whole numbers."""
    if isinstance(policy, OperatingPoint) or not policy.by_group:
        return False
    return all(isinstance(name, int) for name in policy)
