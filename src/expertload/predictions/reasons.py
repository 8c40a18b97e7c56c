"""Reasons, other than low confidence, why a case goes to experts."""

from __future__ import annotations

import numpy as np

from expertload._opening import Batch, Table
from expertload._typing import AnyArray, BoolArray
from expertload.columns import Columns, is_missing, known_groups, sums_missed
from expertload.operating_point import CertifiedGroups

__all__ = ["group_reasons", "sound_rows"]


def group_reasons(policy: CertifiedGroups, values: AnyArray) -> AnyArray:
    """Return why the group of each row has no threshold; empty if it has one."""
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


def sound_rows(columns: Columns, numbers: Batch) -> tuple[AnyArray, Table]:
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
