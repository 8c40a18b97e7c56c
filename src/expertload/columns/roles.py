"""The roles that columns play: as a user named them, and as they were found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

__all__ = ["ColumnNames", "Columns", "Picked", "ReadAs", "shortened"]

ReadAs = Literal["probabilities", "normalized", "logits"]


@dataclass(frozen=True, kw_only=True)
class ColumnNames:
    """The columns that a user named; None for columns to find by convention.

    Attributes
    ----------
    label, confidence, correct, prediction, group, weight : str, optional
        The name of a column, or ``"none"`` if there is no such column.
    probabilities, logits : str, optional
        A pattern such as ``"p_*"``, or names separated by commas. The name of a list or struct
        means all numbers in it. A softmax is applied to logits.
    classes : str, optional
        The class of each of these columns, in order, separated by commas. By default, each
        column belongs to the class it is named after.
    normalize : bool, default=False
        Whether to divide probabilities by the sum of their row, for rounded probabilities.
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
    """The columns that are used.

    Attributes
    ----------
    label, confidence, correct, prediction, group, weight : str or None
        The name of a column; None if there is none.
    probabilities : tuple of str
        The columns of probabilities, in the order of the file or of a policy's classes.
    classes : tuple of str
        The class of each of these columns.
    lone : int or None
        For a single column: 0 or 1, the class of a policy's two classes that it belongs to.
    is_numbered : bool
        Whether these are the columns of a matrix or list, which have no names.
    is_logits, is_normalized : bool
        Whether a softmax is applied to these columns, and whether rows are divided by their sum.
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
    def read_as(self) -> ReadAs | None:
        """How the columns of probabilities are read; None if there are none."""
        if not self.probabilities:
            return None
        if self.is_logits:
            return "logits"
        return "normalized" if self.is_normalized else "probabilities"

    def of(self, classes: Sequence[object], lone: int | None = None) -> Columns:
        """Return the same columns, with the class that each was found to belong to."""
        return replace(self, classes=tuple(str(name) for name in classes), lone=lone)

    @property
    def all(self) -> tuple[str, ...]:
        """All columns that are used."""
        single = (self.label, self.confidence, self.correct, self.prediction, self.group)
        return (*self.probabilities, *(name for name in (*single, self.weight) if name is not None))

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that must hold numbers; correctness may also be in words."""
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
        pairs = list(zip(self.probabilities, self.classes, strict=True))
        own = all(column.endswith(name) or name in column for column, name in pairs)
        if len(pairs) == 1:  # `b` is in `probability`, but does not name it
            column, name = pairs[0]
            own = re.search(rf"(^|[^a-zA-Z0-9]){re.escape(name)}$", column) is not None
        of = "" if own else f" (of {shortened(self.classes)})"
        return taken + of + (" (divided by their sum)" if self.is_normalized else "")


class Picked(NamedTuple):
    """Columns of probabilities or logits, and the class of each."""

    columns: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    is_logits: bool = False


def shortened(names: tuple[str, ...]) -> str:
    """Return names separated by commas, shortened if there are many."""
    if len(names) <= 4:
        return ", ".join(names)
    return f"{names[0]}, {names[1]}, ..., {names[-1]} ({len(names)} columns)"
