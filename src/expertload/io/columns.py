"""Columns of a file: as a user named them, or found by conventional names.

Names are compared without regard to case. The output always states which columns were used, because
a convention that is silently wrong is worse than no convention.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from expertload._labels import LOGITS, PREFIXES, Wording, class_key, listed
from expertload._names import MATRICES, VOTES, ReadAs
from expertload.exceptions import FileFormatError

CONVENTIONS = {
    "label": ("y_true", "label", "labels", "target", "class"),
    "confidence": ("confidence",),
    "correct": ("correct", "is_correct"),
    "prediction": ("y_pred", "prediction", "predicted"),
    "group": ("group",),
    "weight": ("sample_weight",),  # not `weight`, which is often a body weight
}
ROLES = {"label": "The true class", "correct": "Correctness", "prediction": "The prediction"}
# The numbers of a list or struct are named after the column that holds them.
PARTS = tuple(f"{name}." for name in (*MATRICES, *VOTES))
NO_COLUMN = "none"
HINT = (
    "Hint: name the columns (--label, --probabilities, --logits, --confidence, --correct, "
    "--prediction)."
)


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
    is_logits, is_normalized, is_half : bool
        Whether a softmax is applied to these columns, whether rows are divided by their sum, and
        whether their numbers were in half precision.
    """

    label: str | None = None
    probabilities: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    lone: int | None = None
    is_numbered: bool = False
    is_logits: bool = False
    is_normalized: bool = False
    is_half: bool = False
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


def file_wording(where: str, label: str | None = None) -> Wording:
    """Return the wording of messages about a file."""
    of = f"of {where}" if label is None else f"of the column '{label}' of {where}"
    return Wording(
        of,
        f"of {where}",
        "name the class of each column, in order (such as --classes 0,1)",
    )


def find_columns(
    available: Sequence[str],
    names: ColumnNames,
    where: str,
    *,
    numbered: frozenset[str] = frozenset(),
    values_of: Callable[[str], Collection[str]] = lambda column: (),
) -> Columns:
    """Find the columns of an evaluation: labels and probabilities, or confidence and correctness.

    Correctness is either a column, or whether a prediction equals the label. If nothing has a
    conventional name, probabilities may be named after the classes, as pandas names them:
    `values_of` returns the distinct labels in a column.
    """
    found = Columns(
        group=find_role(available, "group", names.group, where),
        weight=find_role(available, "weight", names.weight, where),
    )
    label = find_role(available, "label", names.label, where)
    picked = find_probabilities(available, names, where)
    other = [is_named(name, available) for name in (names.correct, names.prediction)]
    if label and picked.columns and not any(other):
        if not (names.probabilities or names.logits):
            check_one_family(available, where)
        found = replace(
            found, is_numbered=names.classes is None and numbered.issuperset(picked.columns)
        )
        return _of_classes(found, label, picked, available, names, where)
    confidence = find_role(available, "confidence", names.confidence, where)
    correct = None if other[1] else find_role(available, "correct", names.correct, where)
    if confidence and correct:
        _check_apart("confidence", confidence, "correct", correct, where)
        _check_one(available, "correct", correct, names.correct, where)
        return replace(found, confidence=confidence, correct=correct)
    prediction = find_role(available, "prediction", names.prediction, where)
    if confidence and label and prediction:
        _check_apart("label", label, "prediction", prediction, where)
        _check_one(available, "label", label, names.label, where)
        _check_one(available, "prediction", prediction, names.prediction, where)
        return replace(found, label=label, confidence=confidence, prediction=prediction)
    if label and not any(other) and names.classes is None:
        free = [name for name in available if name not in (label, found.group, found.weight)]
        picked = named_after(free, values_of(label))
        if picked.columns:
            return _of_classes(found, label, picked, available, names, where)
    raise FileFormatError(
        f"No predictions were found in {where}: it needs a label (y_true, label, target or "
        "class) with probabilities (p_*, prob_* or proba_*, or all columns named exactly as the "
        "label's values) or logits (logit_*), or confidence "
        f"with correct or with a label and a prediction (y_pred). It has the "
        f"columns {listed(available, most=20)}. {HINT}{hint_of_blanks(available)}"
    )


def _of_classes(
    found: Columns,
    label: str,
    picked: Picked,
    available: Sequence[str],
    names: ColumnNames,
    where: str,
) -> Columns:
    """Return the columns of labels and probabilities; a confidence only if the user named it."""
    _check_one(available, "label", label, names.label, where)
    return replace(
        found,
        label=label,
        probabilities=picked.columns,
        classes=picked.classes,
        is_logits=picked.is_logits,
        is_normalized=names.normalize,
        confidence=names.confidence and find_role(available, "confidence", names.confidence, where),
    )


def _check_one(
    available: Sequence[str], role: str, column: str, named: str | None, where: str
) -> None:
    """Refuse two columns that may each have this role; y_true says that it is the true class."""
    if named is None and column.lower() != "y_true":
        check_one_column(available, CONVENTIONS[role], column, ROLES[role], f"--{role}", where)


def check_one_column(
    available: Sequence[str],
    conventions: Sequence[str],
    column: str,
    what: str,
    option: str,
    where: str,
) -> None:
    """Refuse a column if another one has a conventional name of the same role."""
    found = [same for name in conventions if (same := find_same(available, name))]
    other = next((name for name in found if name != column), None)
    if other is not None:
        raise FileFormatError(
            f"{what} may be in the column '{column}' of {where}, or in '{other}'. Hint: say in "
            f"which ({option} {column})."
        )


def check_one_family(available: Sequence[str], where: str) -> None:
    """Refuse probabilities of two families: of two models, or a p_value beside prob_cat."""
    found = {prefix: _family(available, prefix) for prefix in (*PREFIXES, *PARTS)}
    option = "--probabilities"
    if not any(found.values()):
        found, option = {prefix: _family(available, prefix) for prefix in LOGITS}, "--logits"
    if not any(found.values()):
        found, option = {name: (name,) for name in _whole(available)}, "--probabilities"
    (_, first), *others = [pair for pair in found.items() if pair[1]] or [("", ("",))]
    if others:
        (prefix, second), *_ = others
        raise FileFormatError(
            f"The probabilities of {where} may be in '{first[0]}' and its like, or in "
            f"'{second[0]}'. Hint: say which they are ({option} "
            f"'{prefix}{'*' if prefix != second[0] else ''}')."
        )


def _check_apart(role: str, column: str, other_role: str, other: str, where: str) -> None:
    """Refuse one column for two things that are compared with each other."""
    if column == other:
        raise FileFormatError(
            f"The column '{column}' of {where} would be both the {role} and the {other_role}. "
            f"Hint: name another column (--{role}, --{other_role})."
        )


def find_probabilities(available: Sequence[str], names: ColumnNames, where: str) -> Picked:
    """Return the columns of probabilities, or else of logits, and the class of each."""
    if names.probabilities and names.logits:
        raise FileFormatError(
            f"Columns of {where} must be named as probabilities or as logits. Got both."
        )
    wanted = names.probabilities or names.logits
    if wanted is None:
        picked = _conventional(available)
    else:
        picked = _picked(available, wanted, where)._replace(is_logits=names.probabilities is None)
    if names.classes is None or not picked.columns:
        return picked
    classes = tuple(name.strip() for name in names.classes.split(","))
    if len(classes) != len(picked.columns) or len(set(classes)) < len(classes):
        raise FileFormatError(
            f"The classes of {where} must be named once for each column of probabilities "
            f"({shortened(picked.columns)}). Got {shortened(classes)}."
        )
    return picked._replace(classes=classes)


def _picked(available: Sequence[str], wanted: str, where: str) -> Picked:
    found: list[tuple[str, str]] = []
    for one in (name.strip() for name in wanted.split(",")):
        matches = pick(available, one) or pick(available, f"{one}.*")
        if not matches:
            raise _no_column(one, available, where)
        found += matches
    columns = tuple(column for column, _ in found)
    if len(set(columns)) < len(columns):
        raise FileFormatError(f"Each column of {where} must be named only once as a probability.")
    return Picked(columns, tuple(name for _, name in found))


def pick(available: Collection[str], one: str) -> list[tuple[str, str]]:
    """Return columns by name or by pattern, and the class that each is named after.

    The class is the text that a pattern's star matches, or else the name without a prefix.
    """
    if one in available:
        return [(one, _without_family(one))]
    if "*" not in one:
        return []
    pattern = re.compile("(.*)".join(re.escape(part) for part in one.split("*")))
    matches = [match for name in available if (match := pattern.fullmatch(name))]
    return [(match[0], match[1]) for match in matches]


def _without_family(column: str) -> str:
    """Return the class that a column is named after: `cat` for p_cat, logit_cat, answers.cat."""
    prefix = next((p for p in (*PREFIXES, *PARTS, *LOGITS) if column.lower().startswith(p)), "")
    return column[len(prefix) :] or column


def find_role(available: Sequence[str], role: str, wanted: str | None, where: str) -> str | None:
    """Return the column of a role, as named by the user or by convention; None if there is none."""
    return find_column(available, CONVENTIONS[role], wanted, where)


def find_column(
    available: Sequence[str], conventions: Sequence[str], wanted: str | None, where: str
) -> str | None:
    """Return the column that a user named, or the first conventional name that exists."""
    if is_declined(wanted, available):
        return None
    if wanted is not None:
        return find_named(available, wanted, where)
    found = (find_same(available, convention) for convention in conventions)
    return next((name for name in found if name is not None), None)


def is_named(wanted: str | None, available: Sequence[str]) -> bool:
    """Whether the user named a column."""
    return wanted is not None and not is_declined(wanted, available)


def is_declined(wanted: str | None, available: Sequence[str]) -> bool:
    """Whether the user passed "none", and no column has that name."""
    return wanted == NO_COLUMN and wanted not in available


def find_named(available: Sequence[str], name: str, where: str) -> str:
    """Return a column that must exist."""
    if name in available:
        return name
    raise _no_column(name, available, where)


def _no_column(name: str, available: Sequence[str], where: str) -> FileFormatError:
    """Return the error for a column that does not exist, with the columns that do."""
    return FileFormatError(
        f"There is no column '{name}' in {where}. It has the columns {listed(available, most=20)}."
        f"{hint_of_blanks(available)}"
    )


def hint_of_blanks(available: Sequence[str]) -> str:
    """Return a sentence about a name with blanks around it, which is easily overlooked."""
    blank = next((name for name in available if name != name.strip()), None)
    return "" if blank is None else f" The name {blank!r} starts or ends with a blank: remove it."


def find_same(available: Sequence[str], name: str) -> str | None:
    """Return the column with this name, in upper or lower case; None if there is none."""
    if name in available:
        return name
    return next((column for column in available if column.lower() == name.lower()), None)


def _conventional(available: Sequence[str]) -> Picked:
    for prefix in (*PREFIXES, *PARTS, *LOGITS):
        columns = _family(available, prefix)
        if columns:
            classes = tuple(name[len(prefix) :] for name in columns)
            return Picked(columns, classes, is_logits=prefix in LOGITS)
    whole = _whole(available)[:1]
    return Picked(whole, whole)


def named_after(available: Sequence[str], classes: Collection[object]) -> Picked:
    """Return the columns named exactly as the classes, in the order of the file.

    None are returned unless each of at least two classes has its own column: a class without a
    column, or two spellings of one class, leave in doubt what the columns are.
    """
    keys = {class_key(name) for name in classes}
    columns = tuple(name for name in available if class_key(name) in keys)
    is_exact = len(columns) == len(keys) == len({class_key(name) for name in columns}) > 1
    return Picked(columns, columns) if is_exact else Picked()


def _family(available: Sequence[str], prefix: str) -> tuple[str, ...]:
    """Return the columns that are named after a class, with this prefix."""
    return tuple(n for n in available if n.lower().startswith(prefix) and len(n) > len(prefix))


def _whole(available: Sequence[str]) -> tuple[str, ...]:
    """Return the single columns that are called probabilities."""
    return tuple(name for name in available if name.lower() in MATRICES)
