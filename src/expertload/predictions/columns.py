"""Which column is what: found by the names people use, or as they are told.

Names are compared without regard to case. What was taken is always said, because a convention
that guesses wrong in silence is worse than none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from expertload._validation import PREFIXES, without_prefix
from expertload.exceptions import FileFormatError

__all__ = ["ColumnNames", "Columns"]

CONVENTIONS = {
    "label": ("y_true", "label", "target", "class"),
    "confidence": ("confidence",),
    "correct": ("correct", "is_correct"),
    "group": ("group",),
    "weight": ("sample_weight",),  # `weight` is as often in kilograms
}
WHOLE = ("y_proba", "proba", "probabilities", "probability")
NO_COLUMN = "none"
HINT = "Hint: say which they are (--label, --probabilities, --confidence, --correct)."


@dataclass(frozen=True, kw_only=True)
class ColumnNames:
    """The columns a user named; None where the convention is to find them.

    Attributes
    ----------
    label, confidence, correct, group, weight : str, optional
        The name of a column, or ``"none"`` where none is to be found.
    probabilities : str, optional
        A pattern such as ``"p_*"``, or names with commas between them.
    """

    label: str | None = None
    probabilities: str | None = None
    confidence: str | None = None
    correct: str | None = None
    group: str | None = None
    weight: str | None = None


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns that were taken.

    Attributes
    ----------
    label, confidence, correct, group, weight : str or None
        The name of a column, None where there is none.
    probabilities : tuple of str
        The columns of probabilities, in the file's order.
    classes : tuple of str
        What each of them is the probability of, as its name says.
    """

    label: str | None = None
    probabilities: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    confidence: str | None = None
    correct: str | None = None
    group: str | None = None
    weight: str | None = None

    @property
    def all(self) -> tuple[str, ...]:
        """Every column taken."""
        single = (self.label, self.confidence, self.correct, self.group, self.weight)
        return (*self.probabilities, *(name for name in single if name is not None))

    @property
    def numbers(self) -> tuple[str, ...]:
        """Those that hold numbers and nothing else; correctness may be in words."""
        single = (self.confidence, self.weight)
        return (*self.probabilities, *(name for name in single if name is not None))

    def __str__(self) -> str:
        parts = {
            "label": self.label,
            "probabilities": shortened(self.probabilities),
            "confidence": self.confidence,
            "correct": self.correct,
            "group": self.group,
            "weight": self.weight,
        }
        return ", ".join(f"{role}: {name}" for role, name in parts.items() if name)


def find_columns(available: Sequence[str], names: ColumnNames, where: str) -> Columns:
    """Find what an evaluation needs: labels and probabilities, or correctness and confidence."""
    group = _find(available, "group", names.group, where)
    weight = _find(available, "weight", names.weight, where)
    label = _find(available, "label", names.label, where)
    columns, classes = find_probabilities(available, names.probabilities, where)
    if label and columns and not names.correct:
        ranked = (
            _find(available, "confidence", names.confidence, where) if names.confidence else None
        )
        return Columns(
            label=label,
            probabilities=columns,
            classes=classes,
            confidence=ranked,
            group=group,
            weight=weight,
        )
    confidence = _find(available, "confidence", names.confidence, where)
    correct = _find(available, "correct", names.correct, where)
    if not confidence or not correct:
        raise FileFormatError(
            f"No predictions were found in {where}: it needs a label (y_true, label, target or "
            "class) with probabilities (p_*, prob_* or proba_*), or confidence with correct. It "
            f"has the columns {_listed(available)}. {HINT}"
        )
    return Columns(confidence=confidence, correct=correct, group=group, weight=weight)


def find_probabilities(
    available: Sequence[str], wanted: str | None, where: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns of probabilities, and the class that each is named after."""
    if wanted is None:
        return _conventional(available)
    if "*" not in wanted:
        columns = tuple(_named(available, name.strip(), where) for name in wanted.split(","))
        _check_distinct(columns, where)
        return columns, tuple(map(without_prefix, columns))
    columns = tuple(name for name in available if fnmatchcase(name, wanted))
    if not columns:
        raise FileFormatError(
            f"No column of {where} is like '{wanted}'. It has the columns {_listed(available)}."
        )
    before, _, after = wanted.partition("*")
    return columns, tuple(name[len(before) : len(name) - len(after)] for name in columns)


def find_confidence(available: Sequence[str], wanted: str | None, where: str) -> str | None:
    """Return the column of confidences, if there is one."""
    return _find(available, "confidence", wanted, where)


def find_group(available: Sequence[str], wanted: str | None, where: str) -> str | None:
    """Return the column of groups, if there is one."""
    return _find(available, "group", wanted, where)


def find_named(available: Sequence[str], name: str, where: str) -> str:
    """Return a column that must be there."""
    return _named(available, name, where)


def find_same(available: Sequence[str], name: str) -> str | None:
    """Return a column of this name, whatever the case of its letters, if there is one."""
    if name in available:
        return name
    return next((each for each in available if each.lower() == name.lower()), None)


def _conventional(available: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    for prefix in PREFIXES:
        columns = tuple(
            n for n in available if n.lower().startswith(prefix) and len(n) > len(prefix)
        )
        if columns:
            return columns, tuple(name[len(prefix) :] for name in columns)
    whole = tuple(name for name in available if name.lower() in WHOLE)[:1]
    return whole, whole


def _find(available: Sequence[str], role: str, wanted: str | None, where: str) -> str | None:
    return find_column(available, CONVENTIONS[role], wanted, where)


def find_column(
    available: Sequence[str], conventions: Sequence[str], wanted: str | None, where: str
) -> str | None:
    """Return the column a user named, or the first of the conventional names that is there."""
    if wanted == NO_COLUMN and wanted not in available:
        return None
    if wanted is not None:
        return _named(available, wanted, where)
    found = (find_same(available, each) for each in conventions)
    return next((name for name in found if name is not None), None)


def _named(available: Sequence[str], name: str, where: str) -> str:
    if name in available:
        return name
    raise FileFormatError(
        f"There is no column '{name}' in {where}. It has the columns {_listed(available)}."
    )


def _check_distinct(columns: tuple[str, ...], where: str) -> None:
    if len(set(columns)) < len(columns):
        raise FileFormatError(f"A column of {where} was named twice as a probability.")


def _listed(names: Sequence[str], most: int = 20) -> str:
    text = ", ".join(name if len(name) <= 60 else f"{name[:57]}..." for name in names[:most])
    return (text or "(none)") + (f" and {len(names) - most} more" if len(names) > most else "")


def shortened(names: tuple[str, ...]) -> str:
    """Return names with commas between them, a few where there are many."""
    if len(names) <= 4:
        return ", ".join(names)
    return f"{names[0]}, {names[1]}, ..., {names[-1]} ({len(names)} columns)"
