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
from expertload._names import MATRICES, MODELS, TOKENS, VOTES, ColumnNames, Identity, ReadAs
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
FAMILIES = (*PREFIXES, *PARTS, *LOGITS)
IDENTIFIERS = ("id", "case_id", "sample_id", "image_id", "identifier", "uid", "uuid")
SPLITS = ("split", "subset")
# If these repeat, cases are not independent, even if the user did not say so.
CLUSTERS = (
    *("patient", "patient_id", "subject", "subject_id"),
    *("participant_id", "person_id", "visit_id", "document_id"),
)
# Other columns that may name who a case belongs to: customer_id, Kundennr, case_no, memberNo.
NUMBERED = re.compile(
    r"(?i:(?:^|[_\-. ])(?:id|no|nr|num|number|nummer|key)\.?$|nr$|nummer$)|[a-z](?:Id|ID|Nr|No)$"
)
BELONGS_TO = re.compile(
    r"patient|subject|participant|person|visit|document|customer|client|member|household|account"
    r"|user|kunde|mandant",
    re.IGNORECASE,
)


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

    def are_parts_of(self, names: Collection[str]) -> bool:
        """Whether the probabilities are parts of a column with one of these names."""
        taken = {column.partition(".")[0].lower() for column in self.probabilities}
        return bool(taken) and taken <= {*names}

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
        roles = (getattr(self, role) for role in CONVENTIONS)
        return (*self.probabilities, *filter(None, roles))

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that must hold numbers; correctness may also be in words."""
        return (*self.probabilities, *filter(None, (self.confidence, self.weight)))

    def __str__(self) -> str:
        roles = ("label", "probabilities", *(role for role in CONVENTIONS if role != "label"))
        parts = {role: getattr(self, role) for role in roles}
        parts["probabilities"] = self._probabilities()
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
    hint = "name the class of each column, in order (such as --classes 0,1)"
    return Wording(of, f"of {where}", hint)


# ------------------------------------------------------------------ one column


class Header(NamedTuple):
    """The columns that a file or frame has, and its name for messages."""

    names: Sequence[str]
    where: str

    def find(self, wanted: str | None, usual: Sequence[str] = ()) -> str | None:
        """Return the column that a user named, or the first of the usual names that exists."""
        if wanted is not None:
            return self.named(wanted) if self.is_named(wanted) else None
        return next((column for name in usual if (column := self.same(name)) is not None), None)

    def role(self, role: str, wanted: str | None) -> str | None:
        """Return the column of a role, as named by the user or by convention."""
        return self.find(wanted, CONVENTIONS[role])

    def named(self, name: str) -> str:
        """Return a column that must exist."""
        if name not in self.names:
            raise self.lacks(name)
        return name

    def same(self, name: str) -> str | None:
        """Return the column with this name, in upper or lower case; None if there is none."""
        if name in self.names:
            return name
        return next((column for column in self.names if column.lower() == name.lower()), None)

    def is_named(self, wanted: str | None) -> bool:
        """Whether the user named a column; "none" means no column, unless one has that name."""
        return wanted is not None and (wanted != "none" or wanted in self.names)

    def check_one(self, usual: Sequence[str], column: str, what: str, option: str) -> None:
        """Refuse a column if another one has a usual name of the same role."""
        columns = [same for name in usual if (same := self.same(name))]
        other = next((name for name in columns if name != column), None)
        if other is not None:
            raise FileFormatError(
                f"{what} may be in the column '{column}' of {self.where}, or in '{other}'. Hint: "
                f"say in which ({option} {column})."
            )

    def lacks(self, name: str) -> FileFormatError:
        """Return the error for a column that does not exist, with the columns that do."""
        return FileFormatError(f"There is no column '{name}' in {self.where}. {self.listed}")

    @property
    def listed(self) -> str:
        """All columns in a sentence, for messages."""
        return f"It has the columns {listed(self.names, most=20)}.{self.hint_of_blanks}"

    @property
    def hint_of_blanks(self) -> str:
        """A sentence about a name with blanks around it, which is easily overlooked."""
        blank = next((name for name in self.names if name != name.strip()), None)
        return (
            "" if blank is None else f" The name {blank!r} starts or ends with a blank: remove it."
        )


# ------------------------------------------------------------------ the columns of an evaluation


def find_columns(
    header: Header,
    names: ColumnNames,
    *,
    numbered: frozenset[str] = frozenset(),
    values_of: Callable[[str], Collection[str]] = lambda column: (),
) -> Columns:
    """Find the columns of an evaluation: labels and probabilities, or confidence and correctness.

    Correctness is either a column, or whether a prediction equals the label. If nothing has a
    conventional name, probabilities may be named after the classes, as pandas names them:
    `values_of` returns the distinct labels in a column.
    """
    columns = Columns(
        group=header.role("group", names.group), weight=header.role("weight", names.weight)
    )
    label = header.role("label", names.label)
    picked = find_probabilities(header, names)
    other = [header.is_named(name) for name in (names.correct, names.prediction)]
    if label and picked.columns and not any(other):
        if not (names.probabilities or names.logits):
            check_one_family(_but_for(names.confidence, header))
        is_numbered = names.classes is None and numbered.issuperset(picked.columns)
        columns = replace(columns, is_numbered=is_numbered)
        return _of_classes(columns, picked, header, names)
    confidence = header.role("confidence", names.confidence)
    correct = None if other[1] else header.role("correct", names.correct)
    if confidence and correct:
        _check_apart("confidence", confidence, "correct", correct, header)
        return replace(columns, confidence=confidence, correct=_only(header, names, "correct"))
    prediction = header.role("prediction", names.prediction)
    if confidence and label and prediction:
        _check_apart("label", label, "prediction", prediction, header)
        label, prediction = _only(header, names, "label"), _only(header, names, "prediction")
        return replace(columns, label=label, confidence=confidence, prediction=prediction)
    if label and not any(other) and names.classes is None:
        free = [name for name in header.names if name not in (label, columns.group, columns.weight)]
        values = values_of(label)
        picked = named_after(free, values)
        if picked.columns:
            return _of_classes(columns, picked, header, names)
        if header.is_named(names.label) and confidence is None:
            raise _without_columns(header, label, values)
    judged = next(filter(None, map(header.same, (*TOKENS, *VOTES))), None)
    shape = judged and (
        f" The column '{judged}' is read if every row has an object of log probabilities by "
        'token, {"A": -0.1, "B": -2.3}, or for votes a list of answers, ["A", "A", "B"].'
    )
    raise FileFormatError(
        f"No predictions were found in {header.where}: it needs a label (y_true, label, target or "
        "class) with probabilities (p_*, prob_* or proba_*, or all columns named exactly as the "
        "label's values) or logits (logit_*), or confidence with correct or with a label and a "
        f"prediction (y_pred). {header.listed}{shape or ''} Hint: name the columns (--label, "
        "--probabilities, --logits, --confidence, --correct, --prediction)."
    )


def _without_columns(header: Header, label: str, values: Collection[str]) -> FileFormatError:
    """Return the error for labels whose probabilities are in no column of their name."""
    columns = {class_key(name) for name in header.names}
    lacking = sorted(name for name in values if class_key(name) not in columns)
    return FileFormatError(
        f"No probabilities were found in {header.where}: none are called p_*, prob_*, proba_* or "
        f"logit_*, and no column has the name of {listed(lacking)}, which the label '{label}' "
        f"holds. {header.listed} Hint: name the columns of the probabilities (--probabilities), "
        "and the class of each if their names differ (--classes)."
    )


def _of_classes(columns: Columns, picked: Picked, header: Header, names: ColumnNames) -> Columns:
    """Return the columns of labels and probabilities; a confidence only if the user named it."""
    return replace(
        columns,
        label=_only(header, names, "label"),
        probabilities=picked.columns,
        classes=picked.classes,
        is_logits=picked.is_logits,
        is_normalized=names.normalize,
        confidence=names.confidence and header.role("confidence", names.confidence),
    )


def _only(header: Header, names: ColumnNames, role: str) -> str | None:
    """Return a column; refuse two that may have its role, unless it is called y_true."""
    wanted = getattr(names, role)
    column = header.role(role, wanted)
    if column is not None and wanted is None and column.lower() != "y_true":
        header.check_one(CONVENTIONS[role], column, ROLES[role], f"--{role}")
    return column


def _check_apart(role: str, column: str, other_role: str, other: str, header: Header) -> None:
    """Refuse one column for two things that are compared with each other."""
    if column == other:
        raise FileFormatError(
            f"The column '{column}' of {header.where} would be both the {role} and the "
            f"{other_role}. Hint: name another column (--{role}, --{other_role})."
        )


def find_identity(header: Header, wanted: Identity, taken: Collection[str]) -> Identity:
    """Return the columns that identify rows; columns already used for another role are skipped."""
    free = header._replace(names=[name for name in header.names if name not in taken])

    def find(name: str | None, usual: Sequence[str]) -> str | None:
        return (free if name is None else header).find(name, usual)

    identifier, model = find(wanted.identifier, IDENTIFIERS), find(wanted.model, MODELS)
    cluster, expert = find(wanted.cluster, CLUSTERS), find(wanted.expert, ())
    if cluster is None and wanted.cluster is None:
        others = [name for name in free.names if name not in (identifier, model, expert)]
        likely = [c for c in others if NUMBERED.search(c) or BELONGS_TO.fullmatch(c)]
        cluster = next((c for c in likely if BELONGS_TO.search(c)), next(iter(likely), None))
    return Identity(identifier=identifier, model=model, cluster=cluster, expert=expert)


# ------------------------------------------------------------------ columns of probabilities


def _but_for(name: str | None, header: Header) -> Header:
    return header._replace(names=tuple(other for other in header.names if other != name))


def find_probabilities(header: Header, names: ColumnNames) -> Picked:
    """Return the columns of probabilities, or else of logits, and the class of each."""
    if names.probabilities and names.logits:
        raise FileFormatError(
            f"Columns of {header.where} must be named as probabilities or as logits. Got both."
        )
    wanted = names.probabilities or names.logits
    if wanted is None:
        picked = _conventional(header.names)
        if set(picked.columns) <= {names.confidence}:  # one of several may be the confidence too
            picked = _conventional(_but_for(names.confidence, header).names)
    else:
        picked = _picked(header, wanted)._replace(is_logits=names.probabilities is None)
    if names.classes is None or not picked.columns:
        return picked
    classes = tuple(name.strip() for name in names.classes.split(","))
    if len(classes) != len(picked.columns) or len(set(classes)) < len(classes):
        raise FileFormatError(
            f"The classes of {header.where} must be named once for each column of probabilities "
            f"({shortened(picked.columns)}). Got {shortened(classes)}."
        )
    return picked._replace(classes=classes)


def _picked(header: Header, wanted: str) -> Picked:
    pairs: list[tuple[str, str]] = []
    for one in (name.strip() for name in wanted.split(",")):
        matches = pick(header.names, one) or pick(header.names, f"{one}.*")
        if not matches:
            raise header.lacks(one)
        pairs += matches
    columns, classes = zip(*pairs, strict=True)
    if len(set(columns)) < len(columns):
        raise FileFormatError(
            f"Each column of {header.where} must be named only once as a probability."
        )
    return Picked(columns, classes)


def pick(available: Collection[str], one: str) -> list[tuple[str, str]]:
    """Return columns by name or by pattern, and the class that each is named after.

    The class is the text that a pattern's star matches, or else the name without a prefix.
    """
    if one in available:
        prefix = next((p for p in FAMILIES if one.lower().startswith(p)), "")
        return [(one, one[len(prefix) :] or one)]
    if "*" not in one:
        return []
    pattern = re.compile("(.*)".join(re.escape(part) for part in one.split("*")))
    matches = [match for name in available if (match := pattern.fullmatch(name))]
    return [(match[0], match[1]) for match in matches]


def _conventional(available: Sequence[str]) -> Picked:
    for prefix in FAMILIES:
        columns = _family(available, prefix)
        if columns:
            classes = tuple(name[len(prefix) :] for name in columns)
            return Picked(columns, classes, is_logits=prefix in LOGITS)
    whole = _whole(available)[:1]
    return Picked(whole, whole)


def check_one_family(header: Header) -> None:
    """Refuse probabilities of two families: of two models, or a p_value beside prob_cat."""
    choices = (
        ("--probabilities", {f"{p}*": _family(header.names, p) for p in (*PREFIXES, *PARTS)}),
        ("--logits", {f"{p}*": _family(header.names, p) for p in LOGITS}),
        ("--probabilities", {name: (name,) for name in _whole(header.names)}),
    )
    for option, families in choices:
        present = [(pattern, columns[0]) for pattern, columns in families.items() if columns]
        if len(present) > 1:
            raise FileFormatError(
                f"The probabilities of {header.where} may be in '{present[0][1]}' and its like, or "
                f"in '{present[1][1]}'. Hint: say which they are ({option} '{present[1][0]}')."
            )
        if present:
            return


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
