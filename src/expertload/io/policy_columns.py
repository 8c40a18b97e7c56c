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
from expertload._names import ColumnNames
from expertload.exceptions import FileFormatError, ParameterError
from expertload.io.columns import (
    Columns,
    Header,
    Picked,
    check_one_family,
    file_wording,
    find_probabilities,
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


def policy_columns(header: Header, policy: Policy, names: ColumnNames) -> Columns:
    """Find the columns of a file that a policy needs; probabilities in the order of its classes."""
    known, where, by_group = policy.origin, header.where, policy.by_group
    given = known.ranked_by == "given_confidence"
    if not given and header.is_named(names.confidence):
        raise FileFormatError(
            f"The policy uses the probabilities of {where}, but --confidence names the column "
            f"'{names.confidence}'. Hint: leave out --confidence, or make a policy from that "
            "column with expertload evaluate --confidence."
        )
    if not by_group and header.is_named(names.group):
        raise FileFormatError(
            f"The policy has one threshold for all cases of {where}, but --group names the column "
            f"'{names.group}'. Hint: leave out --group, or make a policy with a threshold for each "
            "group with expertload evaluate --certify-groups."
        )
    picked = _probabilities(header, known, names)
    confidence = _stored(header, "confidence", names, known.confidence_column) if given else None
    if not given and not picked.columns:
        raise FileFormatError(
            f"The policy needs probabilities (p_*, prob_* or proba_*), but {where} has none. Hint: "
            "name the columns (--probabilities)."
        )
    columns = Columns(
        probabilities=picked.columns,
        classes=picked.classes,
        is_logits=picked.is_logits,
        is_normalized=names.normalize or known.read_as == "normalized",
        confidence=confidence,
        group=_stored(header, "group", names, known.group_column) if by_group else None,
    )
    columns = _of_one_class(columns, known, picked, where) if len(picked.columns) == 1 else columns
    if isinstance(policy, CertifiedClasses | CertifiedGroupClasses) and not columns.probabilities:
        raise FileFormatError(
            f"The policy has a threshold for each answer, but {where} has no probabilities "
            "to tell the answers. Hint: name their columns (--probabilities)."
        )
    return columns


def _stored(header: Header, role: str, names: ColumnNames, saved: str | None) -> str:
    """Return the column that a user named, that the policy was made with, or else by convention."""
    wanted = getattr(names, role)
    is_stored = wanted is None and saved is not None
    column = header.same(str(saved)) if is_stored else header.role(role, wanted)
    if column is None:
        scope = "each group in " if role == "group" else ""
        raise FileFormatError(
            f"The policy has a threshold for {scope}the column '{saved or role}', but "
            f"{header.where} has no such column. Hint: name the one with this {role} (--{role})."
        )
    return column


def _of_one_class(columns: Columns, known: Origin, picked: Picked, where: str) -> Columns:
    """Return columns in which the class of a single column of probabilities is known."""
    labels = known.labels or (0, 1)
    is_given = known.ranked_by == "given_confidence" and known.labels is None
    if is_given and named_class(labels, picked.classes[0]) is None:
        return replace(columns, probabilities=(), classes=())  # the other class has no name
    if len(labels) != 2:
        _refuse(labels, picked.classes, where)
    side = class_of_lone_column(labels, picked.columns[0], picked.classes[0])
    if side is None:
        refuse_lone(labels, picked.columns[0], file_wording(where))
    return columns.of([labels[side]], lone=side)


def _probabilities(header: Header, known: Origin, names: ColumnNames) -> Picked:
    where = header.where
    saved = {
        str(label): column
        for label, column in zip(known.labels or (), known.probability_columns or (), strict=False)
        if column is not None
    }
    picked = find_probabilities(header, names)
    if not picked.columns and known.ranked_by != "given_confidence":
        picked = named_after(header.names, known.labels or ())
    if not (saved or names.probabilities or names.logits):
        check_one_family(header)
    if names.probabilities or names.logits or names.classes or not saved:
        return _as_named(known, saved, picked, where, by_class=names.classes is not None)
    there = {label: same for label, name in saved.items() if (same := header.same(name))}
    # In older policies, only the names of columns tell.
    look_like_logits = all(column.lower().startswith(LOGITS) for column in saved.values())
    is_logits = look_like_logits if known.read_as is None else known.read_as == "logits"
    # With two classes, one probability is enough, unless there are columns of other classes.
    enough = len(saved) == 2 and set(there.values()) == set(picked.columns) and not is_logits
    if len(there) == len(saved) or (there and enough):
        taken = Picked(tuple(there.values()), tuple(there), is_logits)
        is_summed = len(there) > 1 and not is_logits and known.read_as != "normalized"
        beside = [] if is_summed else _beside(header, taken, picked)
        return _with_all(known, taken, beside, where) if beside else taken
    if not there and known.ranked_by == "given_confidence":
        return Picked()  # labels are optional here
    raise _lacking(saved, there.values(), is_logits, where, header.hint_of_blanks)


def _as_named(
    known: Origin, saved: dict[str, str], picked: Picked, where: str, *, by_class: bool
) -> Picked:
    """Return the columns that a user named, in the order of the policy's classes."""
    same = set(picked.columns) == set(saved.values())
    one_of_them = len(picked.columns) == 1 < len(saved) and picked.columns[0] in saved.values()
    if picked.is_logits and one_of_them:
        raise _lacking(saved, picked.columns, True, where)
    were_logits = known.read_as == "logits"
    if same and known.read_as is not None and picked.is_logits != were_logits:
        was, now = ("logits", "probabilities") if were_logits else ("probabilities", "logits")
        raise FileFormatError(
            f"The policy was made from the column(s) {listed(picked.columns)} as {was}, but those "
            f"of {where} would be read as {now}. Hint: name them with --{was}, or leave the option "
            "out: the policy stores it."
        )
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


def _beside(header: Header, taken: Picked, picked: Picked) -> list[tuple[str, str]]:
    """Return other columns of the family that was taken, and the class of each.

    Their classes could go unnoticed, because only a sum of probabilities shows that one is missing.
    """
    if set(taken.columns) <= set(picked.columns):
        family = list(zip(picked.columns, picked.classes, strict=True))
    else:
        pairs = zip(taken.columns, taken.classes, strict=True)
        (prefix, *others) = {column.removesuffix(name) for column, name in pairs}
        shared = prefix and not others and prefix not in taken.columns
        family = pick(header.names, f"{prefix}*") if shared else []
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


def _refuse(labels: Sequence[ClassName], classes: Sequence[str], where: str) -> NoReturn:
    option = "names=ColumnNames(classes=...)" if where == "the frame" else "--classes"
    raise FileFormatError(
        f"The policy has the classes {listed(labels)}, but the probabilities of {where} belong to "
        f"{listed(classes)}. Hint: name the columns after the classes, such as p_{labels[0]}, "
        f"or name the class of each column, in order ({option})."
    )


def has_numbered_groups(policy: Policy) -> bool:
    """Whether a policy has thresholds for groups that are whole numbers."""
    if isinstance(policy, OperatingPoint) or not policy.by_group:
        return False
    return all(isinstance(name, int) for name in policy)


def check_decidable(policy: Policy, columns: Columns, where: str) -> None:
    """Refuse a confidence that only this library computes to the last digit."""
    if policy.origin.score is not None or columns.is_logits:
        what = "a fitted score" if policy.origin.score is not None else "a softmax of logits"
        raise ParameterError(
            f"The policy ranks the cases of {where} by {what}, which every engine would round in "
            "its own way. Hint: decide a file (expertload decide) or arrays (policy.decide), or "
            "make a policy from columns of probabilities."
        )


def taken_name(name: str) -> str:
    """Return why a column cannot be kept: it would have the name of a column of decisions."""
    return (
        f"The column '{name}' cannot be kept: decisions have a column of that name. Hint: rename "
        "it, or name the columns to keep (keep=[...], --keep)."
    )
