"""Names that several parts of the library share; cheap to import, for help texts."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Literal

# Words that a command and the function behind it both take.
Invalid = Literal["refuse", "delegate"]
Objective = Literal["nll", "ece"]
Positive = Literal["outlier", "inlier"]
ReadAs = Literal["probabilities", "normalized", "logits"]  # columns of probabilities

# The roles at a desk, the cases of it to export, and what for.
Role = Literal["reader", "arbiter", "manager", "auditor", "api"]
Which = Literal["all", "labelled", "audited", "readings"]
Tool = Literal["label-studio", "argilla"]  # in which people label data
Purpose = Literal["evaluation", "training", "readers", "label-studio", "argilla"]

Method = Literal["spending", "fixed_sequence"]

# Each way to test thresholds in a sentence, the default first; documents quote these.
METHODS: dict[Method, str] = {
    "spending": "thresholds tested from strict to loose, one pass with restarts (the default)",
    "fixed_sequence": "thresholds tested from strict to loose until one fails, from several starts",
}
# The names under which files keep all probabilities together: a matrix, a list, a struct.
MATRICES = ("y_proba", "proba", "probabilities", "probability")

# The names under which files keep what a language model said about a case: an object of log
# probabilities by token, and a list of repeated answers.
TOKENS = ("logprobs",)
VOTES = ("answers", "votes")

# The names under which an npz keeps the classes of a matrix, in the order of its columns.
CLASS_LISTS = ("classes", "classes_", "class_names", "label_names", "target_names")
# Common texts for a missing value. `none` and `missing` are left out, which may be classes.
MISSING = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "nil", "-", "?", ".")
# The columns, and folders such as `model=a`, that name the model of a row.
MODELS = ("model", "model_name", "modell")

# The keys of `expertload.calibrators.CALIBRATORS`.
CALIBRATOR_NAMES = (
    "temperature",
    "platt",
    "vector_scaling",
    "matrix_scaling",
    "histogram",
    "isotonic",
    "spline",
    "kcal",
)
# The formats of files, as `--format` names them.
FORMATS = ("csv", "tsv", "parquet", "jsonl", "json", "npz")


# ------------------------------------------------------------------ options


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
class Identity:
    """The columns that identify the case and the model of a row.

    Attributes
    ----------
    identifier : str, optional
        The column that identifies a case. Found by its name (id, case_id, sample_id, image_id,
        identifier, uid or uuid) if none is given; ``"none"`` if such a column means something else.
    model : str, optional
        The column that names the model, if a file has several; ``"none"`` if a column of that
        name means something else.
    cluster : str, optional
        The column whose value is the same for cases that belong together, such as patient. If
        none is given, columns with a usual name are checked for repeats, to warn of them;
        ``"none"`` turns this off.
    expert : str, optional
        The column with what an expert alone answered, empty where nobody read a case.
    """

    identifier: str | None = None
    model: str | None = None
    cluster: str | None = None
    expert: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read."""
        return tuple(filter(None, (self.identifier, self.model, self.cluster, self.expert)))


@dataclass(frozen=True, kw_only=True)
class AuditColumns:
    """The columns of a file of audits; None if there is none, or if it is found by name.

    Attributes
    ----------
    correct : str or None
        Whether the automatic decision was right; empty while a review is open.
    decided, label : str or None
        Instead of `correct`: the automatic decision, and the expert's label.
    inclusion_probability, decided_at, key : str or None
        As in `expertload.monitoring.AccuracyMonitor.update`.
    """

    correct: str | None = None
    decided: str | None = None
    label: str | None = None
    inclusion_probability: str | None = None
    decided_at: str | None = None
    key: str | None = None

    def __str__(self) -> str:
        return ", ".join(
            f"{role.replace('_', ' ')}: {name}" for role, name in vars(self).items() if name
        )


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """How to open a file; by default, its name determines everything.

    Attributes
    ----------
    query : str, optional
        One SQL query. The file is the table ``file``; a DuckDB database has its own tables. The
        query can read nothing else and write nothing.
    format : {"csv", "tsv", "parquet", "jsonl", "json", "npz"}, optional
        The format, if the name of the file does not determine it.
    delimiter : str, optional
        The character between the values of a CSV. By default a tab in a .tsv; else the first of
        comma, semicolon and tab that the header has outside quotes.
    decimal : {".", ","}, default="."
        The decimal mark of numbers in a CSV.
    encoding : str, optional
        The encoding of a CSV or JSON file that is not UTF-8, ``"latin-1"`` for example.

    Examples
    --------
    >>> from expertload.io import FileOptions
    >>> FileOptions(decimal=",", encoding="latin-1").decimal
    ','
    """

    query: str | None = None
    format: str | None = None
    delimiter: str | None = None
    decimal: str = "."
    encoding: str | None = None

    def __post_init__(self) -> None:
        from expertload._check import check_option, parameter_error

        if self.format is not None:
            check_option(self.format, FORMATS, "format")
        check_option(self.decimal, (".", ","), "decimal")
        if self.delimiter is not None and not re.fullmatch(
            r'[^"\r\nA-Za-z0-9]', self.delimiter, re.ASCII
        ):
            wanted = "must be one character that is not a quote, a letter, a digit or a line end"
            raise parameter_error("delimiter", wanted, repr(self.delimiter), "pass ';', say")
        if self.encoding is not None and not _is_encoding(self.encoding):
            wanted, hint = "must name an encoding that Python knows", "latin-1 and cp1252 are usual"
            raise parameter_error("encoding", wanted, repr(self.encoding), hint)

    @property
    def is_utf8(self) -> bool:
        """Whether the file can be read without converting its encoding."""
        return self.encoding is None or codecs.lookup(self.encoding).name in ("utf-8", "ascii")


def _is_encoding(name: str) -> bool:
    try:
        return codecs.lookup(name)._is_text_encoding
    except LookupError:
        return False
