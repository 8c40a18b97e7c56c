"""Frames: columns that exist and hold what they should, tables that fit and match."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

from expertload._validation.wording import message
from expertload.exceptions import (
    CorrectnessError,
    DataTypeError,
    EmptyInputError,
    FileFormatError,
    InvalidInputError,
    LabelError,
    NonFiniteError,
    ParameterError,
    ProbabilityError,
    WeightError,
)

# What can be wrong with a row of a frame: the exception, what is wanted, a hint.
ROW_PROBLEMS: dict[str, tuple[type[InvalidInputError], str, str]] = {
    "not finite": (
        NonFiniteError,
        "must hold a finite number in every row",
        "filter those rows out, or find out why the model produced them",
    ),
    "not roundable": (
        NonFiniteError,
        "must hold a finite number in every row, below 2**(53 - bits) in size to be rounded",
        "filter those rows out, or round to fewer bits",
    ),
    "not a grade": (
        CorrectnessError,
        "must be in [0, 1]: 1 for right, 0 for wrong, or a grade between",
        "for percentages, divide by 100",
    ),
    "negative": (WeightError, "must not be negative", "filter those rows out"),
    "not a probability": (
        ProbabilityError,
        "must hold probabilities in [0, 1]",
        "for percentages, divide by 100; for logits, apply a softmax first",
    ),
    "not summing to one": (
        ProbabilityError,
        "must sum to one in every row",
        "name the columns of all classes; for rounded values, divide each row by its sum",
    ),
    "no label": (LabelError, "must name a class in every row", "filter those rows out"),
    "unknown label": (
        LabelError,
        "must name one of the classes",
        "labels=[...] names the classes in the order of the probabilities",
    ),
}


def check_frame(frame: Any, supported: bool, caller: str) -> None:
    """Raise unless a frame is of a kind whose engine can be spoken to."""
    if not supported:
        hint = "pass a pandas, Polars, PyArrow, DuckDB, Dask or Spark frame; for a file, "
        hint += "scan_file(path); for arrays, expertload.aucoc_score and its siblings"
        got = f"a {type(frame).__name__}"
        raise DataTypeError(message("frame", caller, "must be a data frame", got, hint))


def check_column(column: Any, columns: Sequence[str], name: str, caller: str) -> str:
    """Return `column` if the frame has it."""
    if not isinstance(column, str) or column not in columns:
        shown = ", ".join(columns[:12]) + (", ..." if len(columns) > 12 else "")
        hint = f"the columns are: {shown}" if columns else "the frame has no columns"
        raise ParameterError(message(name, caller, "must name a column", f"{column!r}", hint))
    return column


def check_columns_found(found: Sequence[str], asked: Any, name: str, caller: str) -> None:
    """Raise unless columns were found, each once."""
    if not found or len(set(found)) != len(found):
        got = f"{asked!r}, which matches {'none' if not found else 'one column twice'}"
        hint = "pass a list of names, or a pattern such as 'p_*'"
        raise ParameterError(message(name, caller, "must name columns", got, hint))


def check_column_type(column: str, right: bool, wanted: str, got: Any, caller: str) -> None:
    """Raise unless a column has the right type."""
    if not right:
        raise DataTypeError(
            f"The column '{column}' that {caller} reads must hold {wanted}. Got {got} instead. "
            "Hint: cast the column in the frame first."
        )


def row_problem(
    kind: str, name: str, caller: str, count: int, low: Any, high: Any
) -> InvalidInputError:
    """Word what is wrong with some rows of a frame, seen from `low` to `high`."""
    error, wanted, hint = ROW_PROBLEMS[kind]
    got = f"{count} row(s) that do not"
    if low is not None and high is not None:
        got += f", with values from {_short(low)} to {_short(high)}"
    return error(message(name, caller, wanted, got, hint))


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, Real) else f"{value!s}"


def unreadable_rows(engine: str, error: Exception) -> FileFormatError:
    """Word that an engine stumbled over the rows themselves."""
    said = " ".join(str(error).split())
    said = said if len(said) <= 300 else said[:300] + " ..."
    return FileFormatError(
        f"{engine} could not read the rows of the frame. It says: {said} Hint: mend or filter the "
        "rows it names."
    )


def check_table_size(n_rows: int, max_rows: int, caller: str) -> None:
    """Raise if a frame has more distinct confidences than may leave its engine."""
    if n_rows > max_rows:
        raise ParameterError(
            f"The frame passed to {caller} has more than {max_rows} distinct confidences, too "
            "many to leave its engine. Hint: pass bits=16, which adds them up in 65,537 cells "
            "and bounds the error, or a larger max_rows."
        )


def check_some_weight(n_rows: int, total: float, caller: str) -> None:
    """Raise unless a frame holds cases that count."""
    if n_rows == 0:
        raise EmptyInputError(message("frame", caller, "must hold at least one row", "none"))
    if total == 0:
        raise WeightError(message("weight", caller, "must not be all zero", "zeros alone"))


def check_same_rounding(bits: Sequence[int | None], caller: str) -> None:
    """Raise unless tables can be added up."""
    if len(set(bits)) > 1:
        got = ", ".join("exact" if b is None else f"{b} bits" for b in bits)
        raise ParameterError(
            f"The tables passed to {caller} must all be exact, or rounded to as many bits. Got "
            f"{got}. Hint: table.rounded(bits) makes a table coarser."
        )
