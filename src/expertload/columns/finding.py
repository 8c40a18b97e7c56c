"""Which column is what: found by the names people use, or as they are told.

Names are compared without regard to case. What was taken is always said, because a convention
that guesses wrong in silence is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from expertload.columns.matching import Wording
from expertload.columns.spelling import PREFIXES, listed, without_prefix
from expertload.exceptions import FileFormatError

__all__ = [
    "ColumnNames",
    "Columns",
    "Picked",
    "find_column",
    "find_columns",
    "find_named",
    "find_probabilities",
    "find_role",
    "find_same",
    "pick",
    "said_of_blanks",
    "said_of_file",
    "shortened",
]

CONVENTIONS = {
    "label": ("y_true", "label", "labels", "target", "class"),
    "confidence": ("confidence",),
    "correct": ("correct", "is_correct"),
    "prediction": ("y_pred", "prediction", "predicted"),
    "group": ("group",),
    "weight": ("sample_weight",),  # `weight` is as often in kilograms
}
LOGITS = ("logit_", "logits_", "logit.", "logits.")
WHOLE = ("y_proba", "proba", "probabilities", "probability")
# The numbers of a list or struct are called after the column that holds them.
PARTS = tuple(f"{name}." for name in WHOLE)
NO_COLUMN = "none"
HINT = (
    "Hint: say which they are (--label, --probabilities, --logits, --confidence, --correct, "
    "--prediction)."
)


@dataclass(frozen=True, kw_only=True)
class ColumnNames:
    """The columns a user named; None where the convention is to find them.

    Attributes
    ----------
    label, confidence, correct, prediction, group, weight : str, optional
        The name of a column, or ``"none"`` where none is to be found.
    probabilities, logits : str, optional
        A pattern such as ``"p_*"``, or names with commas between them; that of a list or struct
        is all numbers in it. The softmax of logits is taken.
    classes : str, optional
        The class that each of these columns is of, in their order, with commas between them.
        Without it, columns are of the classes they are named after.
    normalize : bool, default=False
        Divide probabilities by the sum of their row, as those need that were rounded.
    """

    label: str | None = None
    probabilities: str | None = None
    logits: str | None = None
    classes: str | None = None
    normalize: bool = False
    confidence: str | None = None
    correct: str | None = None
    prediction: str | None = None
    group: str | None = None
    weight: str | None = None


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns that were taken.

    Attributes
    ----------
    label, confidence, correct, prediction, group, weight : str or None
        The name of a column, None where there is none.
    probabilities : tuple of str
        The columns of probabilities, in the file's order, or in that of a policy's classes.
    classes : tuple of str
        What each of them is the probability of.
    lone : int or None
        Of one column, whether it is of the first or the second of a policy's two classes.
    is_numbered : bool
        Whether these are the places of a matrix, without names of their own.
    is_logits, is_normalized : bool
        Whether the softmax of these columns is taken, and whether rows are divided by their sum.
    """

    label: str | None = None
    probabilities: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    lone: int | None = None
    is_numbered: bool = False
    is_logits: bool = False
    is_normalized: bool = False
    confidence: str | None = None
    correct: str | None = None
    prediction: str | None = None
    group: str | None = None
    weight: str | None = None

    @property
    def read_as(self) -> Literal["probabilities", "normalized", "logits"] | None:
        """What the columns of probabilities are read as; None where there are none."""
        if not self.probabilities:
            return None
        other: Literal["probabilities", "normalized"]
        other = "normalized" if self.is_normalized else "probabilities"
        return "logits" if self.is_logits else other

    @property
    def all(self) -> tuple[str, ...]:
        """Every column taken."""
        single = (self.label, self.confidence, self.correct, self.prediction, self.group)
        return (*self.probabilities, *(name for name in (*single, self.weight) if name is not None))

    @property
    def numbers(self) -> tuple[str, ...]:
        """Those that hold numbers and nothing else; correctness may be in words."""
        single = (self.confidence, self.weight)
        return (*self.probabilities, *(name for name in single if name is not None))

    def __str__(self) -> str:
        parts = {
            "label": self.label,
            "probabilities": self._probabilities(),
            "confidence": self.confidence,
            "correct": self.correct,
            "prediction": self.prediction,
            "group": self.group,
            "weight": self.weight,
        }
        return ", ".join(f"{role}: {name}" for role, name in parts.items() if name)

    def _probabilities(self) -> str:
        taken = shortened(self.probabilities)
        if self.is_logits:
            taken = f"softmax of {taken}"
        own = all(
            column.endswith(name) or name in column
            for column, name in zip(self.probabilities, self.classes, strict=True)
        )
        of = "" if own else f" (of {shortened(self.classes)})"
        return taken + of + (" (divided by their sum)" if self.is_normalized else "")


class Picked(NamedTuple):
    """Columns of probabilities or logits, and the class that each is of."""

    columns: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    is_logits: bool = False


def said_of_file(where: str, label: str | None = None) -> Wording:
    """Return how a refusal speaks to those who named a file."""
    of = f"of {where}" if label is None else f"of the column '{label}' of {where}"
    return Wording(
        of,
        f"of {where}",
        "say which class each of them is of, in order (--classes 0,1 for instance)",
    )


def find_columns(
    available: Sequence[str],
    names: ColumnNames,
    where: str,
    *,
    numbered: frozenset[str] = frozenset(),
) -> Columns:
    """Find what an evaluation needs: labels with probabilities, or confidence with correctness.

    Correctness is a column of its own, or that a prediction is the label.
    """
    found = Columns(
        group=find_role(available, "group", names.group, where),
        weight=find_role(available, "weight", names.weight, where),
    )
    label = find_role(available, "label", names.label, where)
    picked = find_probabilities(available, names, where)
    if label and picked.columns and not (names.correct or names.prediction):
        own = names.confidence and find_role(available, "confidence", names.confidence, where)
        return replace(
            found,
            label=label,
            probabilities=picked.columns,
            classes=picked.classes,
            is_numbered=names.classes is None and numbered.issuperset(picked.columns),
            is_logits=picked.is_logits,
            is_normalized=names.normalize,
            confidence=own,
        )
    confidence = find_role(available, "confidence", names.confidence, where)
    correct = None if names.prediction else find_role(available, "correct", names.correct, where)
    if confidence and correct:
        return replace(found, confidence=confidence, correct=correct)
    prediction = find_role(available, "prediction", names.prediction, where)
    if confidence and label and prediction:
        return replace(found, label=label, confidence=confidence, prediction=prediction)
    raise FileFormatError(
        f"No predictions were found in {where}: it needs a label (y_true, label, target or "
        "class) with probabilities (p_*, prob_* or proba_*) or logits (logit_*), or confidence "
        f"with correct or with a label and a prediction (y_pred). It has the "
        f"columns {listed(available, most=20)}. {HINT}{said_of_blanks(available)}"
    )


def find_probabilities(available: Sequence[str], names: ColumnNames, where: str) -> Picked:
    """Return the columns of probabilities, or else of logits, and the class that each is of."""
    if names.probabilities and names.logits:
        raise FileFormatError(
            f"Columns of {where} were named as probabilities and as logits. Hint: name either."
        )
    wanted = names.probabilities or names.logits
    if wanted is None:
        picked = _conventional(available)
    else:
        picked = _picked(available, wanted, where)._replace(is_logits=names.probabilities is None)
    if names.classes is None or not picked.columns:
        return picked
    classes = tuple(each.strip() for each in names.classes.split(","))
    if len(classes) != len(picked.columns) or len(set(classes)) < len(classes):
        raise FileFormatError(
            f"The classes of {where} must be named once for each column of probabilities "
            f"({shortened(picked.columns)}). Got {shortened(classes)}."
        )
    return picked._replace(classes=classes)


def _picked(available: Sequence[str], wanted: str, where: str) -> Picked:
    found: list[tuple[str, str]] = []
    for one in (each.strip() for each in wanted.split(",")):
        matches = pick(available, one) or pick(available, f"{one}.*")
        if not matches:
            raise _no_column(one, available, where)
        found += matches
    columns = tuple(column for column, _ in found)
    if len(set(columns)) < len(columns):
        raise FileFormatError(f"A column of {where} was named twice as a probability.")
    return Picked(columns, tuple(name for _, name in found))


def pick(available: Collection[str], one: str) -> list[tuple[str, str]]:
    """Return columns by name or by pattern, and the class that each is named after.

    That is what a pattern's star stands for, or else the name without a prefix.
    """
    if one in available:
        return [(one, without_prefix(one))]
    if "*" not in one:
        return []
    pattern = re.compile("(.*)".join(re.escape(part) for part in one.split("*")))
    matches = [match for name in available if (match := pattern.fullmatch(name))]
    return [(match[0], match[1]) for match in matches]


def find_role(available: Sequence[str], role: str, wanted: str | None, where: str) -> str | None:
    """Return the column of a role, as it was named or by convention, if there is one."""
    return find_column(available, CONVENTIONS[role], wanted, where)


def find_column(
    available: Sequence[str], conventions: Sequence[str], wanted: str | None, where: str
) -> str | None:
    """Return the column a user named, or the first of the conventional names that is there."""
    if is_declined(wanted, available):
        return None
    if wanted is not None:
        return find_named(available, wanted, where)
    found = (find_same(available, each) for each in conventions)
    return next((name for name in found if name is not None), None)


def is_declined(wanted: str | None, available: Sequence[str]) -> bool:
    """Whether a user said that there is no such column; one may be called so, though."""
    return wanted == NO_COLUMN and wanted not in available


def find_named(available: Sequence[str], name: str, where: str) -> str:
    """Return a column that must be there."""
    if name in available:
        return name
    raise _no_column(name, available, where)


def _no_column(name: str, available: Sequence[str], where: str) -> FileFormatError:
    """Word the error for a column that is not there, and name those that are."""
    return FileFormatError(
        f"There is no column '{name}' in {where}. It has the columns {listed(available, most=20)}."
        f"{said_of_blanks(available)}"
    )


def said_of_blanks(available: Sequence[str]) -> str:
    """Return a sentence on a name with blanks around it, which is easily overlooked."""
    blank = next((name for name in available if name != name.strip()), None)
    return "" if blank is None else f" The name {blank!r} has a blank around it: remove that."


def find_same(available: Sequence[str], name: str) -> str | None:
    """Return a column of this name, whatever the case of its letters, if there is one."""
    if name in available:
        return name
    return next((each for each in available if each.lower() == name.lower()), None)


def _conventional(available: Sequence[str]) -> Picked:
    for prefix in (*PREFIXES, *PARTS, *LOGITS):
        columns = tuple(
            n for n in available if n.lower().startswith(prefix) and len(n) > len(prefix)
        )
        if columns:
            classes = tuple(name[len(prefix) :] for name in columns)
            return Picked(columns, classes, is_logits=prefix in LOGITS)
    whole = tuple(name for name in available if name.lower() in WHOLE)[:1]
    return Picked(whole, whole)


def shortened(names: tuple[str, ...]) -> str:
    """Return names with commas between them, a few where there are many."""
    if len(names) <= 4:
        return ", ".join(names)
    return f"{names[0]}, {names[1]}, ..., {names[-1]} ({len(names)} columns)"
