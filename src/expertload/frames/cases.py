"""Correctness, confidence and weight of each row, as expressions that the engine evaluates.

Each requirement for a row is a `Check`: an expression that is true if the row meets it. The list is
used twice. In the pass that makes the table, rows that fail any check get no confidence. Only if
there are such rows, each check is counted separately, for the error message.

Engines disagree about NaN and missing values (NaN is the largest number here, missing there), so
checks are written to be true only for good rows: comparisons such as ``x < limit`` fail for both.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, NamedTuple

import narwhals as nw

from expertload._cases import LARGEST, SMALLEST
from expertload._typing import AnyArray
from expertload._validation import (
    EXACT,
    EXACT_HINT,
    EXACT_ONLY,
    ROW_SUM_TOLERANCE,
    SKIPPED,
    SUM_TO_ONE,
    UNROUNDED,
    message,
    rounded_whole,
)
from expertload.columns import is_missing
from expertload.exceptions import (
    CorrectnessError,
    DataTypeError,
    InvalidInputError,
    LabelError,
    NonFiniteError,
    ProbabilityError,
    WeightError,
)
from expertload.frames.request import Classes, Request, Schema, find_classes, match_classes

__all__ = ["Check", "FrameCases", "read_cases"]

# Names for temporary columns, which no frame has.
TOP, TOTAL = "__expertload_top", "__expertload_total"
PREDICTED, TARGET = "__expertload_predicted", "__expertload_target"
LABEL, COUNT = "label", "count"

# With more distinct labels than this, they are not classes.
MOST_LABELS = 2**16

Collect = Callable[[nw.LazyFrame[Any]], dict[str, AnyArray]]


# Problems of a row: the exception, the requirement, a hint.
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
    "out of range": (
        WeightError,
        "must be zero or between 2**-400 and 2**400 (2.6e120), so that sums of it are numbers",
        "divide all weights by one number: only their ratios matter",
    ),
    "not exact": (DataTypeError, EXACT_ONLY, EXACT_HINT),
    "not a probability": (
        ProbabilityError,
        "must hold probabilities in [0, 1]",
        "for percentages, divide by 100; for logits, apply a softmax first",
    ),
    "not summing to one": (
        ProbabilityError,
        SUM_TO_ONE,
        "name the columns of all classes; for rounded values, divide each row by its sum",
    ),
    "no label": (LabelError, "must name a class in every row", "filter those rows out"),
    "unknown label": (
        LabelError,
        "must name one of the classes",
        "labels=[...] names the classes in the order of the probabilities",
    ),
}


def row_problem(kind: str, name: str, count: int, low: Any, high: Any) -> InvalidInputError:
    """Return the error for bad rows of a frame, with values from `low` to `high`."""
    error, wanted, hint = ROW_PROBLEMS[kind]
    got = f"{count} row(s) that do not"
    if low is not None and high is not None:
        got += f", with values from {_short(low)} to {_short(high)}"
    return error(message(name, wanted, got, hint))


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, Real) else f"{value!s}"


class Check(NamedTuple):
    """A requirement for each row, and the value to show for rows that fail it."""

    kind: str
    name: str
    met: nw.Expr
    low: nw.Expr | None = None
    high: nw.Expr | None = None


class FrameCases(NamedTuple):
    """A frame, and expressions for its cases."""

    frame: nw.LazyFrame[Any]
    correct: nw.Expr
    confidence: nw.Expr
    weight: nw.Expr | None
    checks: list[Check]


def read_cases(frame: nw.LazyFrame[Any], request: Request, collect: Collect) -> FrameCases:
    """Turn a request into expressions; a small query finds the labels that occur."""
    schema = frame.collect_schema()
    if request.probabilities is None:
        confidence, checks = _confidence(request, schema)
        correct, more = _given_correctness(request, schema)
        checks += more
    else:
        frame, correct, checks = _predicted_correctness(frame, request, collect)
        confidence = nw.col(TOP)
        if request.confidence is not None:
            confidence, more = _confidence(request, schema)
            checks += more
    weight, more = _weight(request, schema)
    return FrameCases(frame, correct, confidence, weight, checks + more)


def _number(schema: Schema, column: str) -> nw.Expr:
    """Return a column as floats; single precision is kept, because grouping is then faster."""
    expression = nw.col(column)
    is_float = schema[column] in (nw.Float32, nw.Float64)
    return expression if is_float else expression.cast(nw.Float64)


def _confidence(request: Request, schema: Schema) -> tuple[nw.Expr, list[Check]]:
    column = request.number(schema, request.confidence, "confidence")
    value = _number(schema, column)
    if request.bits is None:
        checks = [Check("not finite", "confidence", value.is_finite())]
        if schema[column].is_integer() or schema[column] == nw.Decimal:
            exact = (nw.col(column) <= EXACT) & (nw.col(column) >= -EXACT)
            checks.append(Check("not exact", "confidence", exact, value, value))
        return value, checks
    # Below this size a double has digits after the point left to round.
    limit = 2.0 ** (53 - request.bits)
    return value, [Check("not roundable", "confidence", value.abs() < limit)]


def _given_correctness(request: Request, schema: Schema) -> tuple[nw.Expr, list[Check]]:
    column = request.number(schema, request.correct, "correct")
    if schema[column] == nw.Boolean:
        present = Check("not finite", "correct", ~nw.col(column).is_null())
        return nw.col(column).cast(nw.Float64), [present]
    grade = nw.col(column).cast(nw.Float64)
    return grade, [
        Check("not finite", "correct", grade.is_finite()),
        Check("not a grade", "correct", (grade >= 0) & (grade <= 1), grade, grade),
    ]


def _weight(request: Request, schema: Schema) -> tuple[nw.Expr | None, list[Check]]:
    if request.weight is None:
        return None, []
    weight = nw.col(request.number(schema, request.weight, "weight")).cast(nw.Float64)
    usual = (weight == 0) | ((weight >= SMALLEST) & (weight <= LARGEST))
    return weight, [
        Check("not finite", "weight", weight.is_finite()),
        Check("negative", "weight", weight >= 0, weight, weight),
        Check("out of range", "weight", usual, weight, weight),
    ]


# --------------------------------------------------------------------- labels and probabilities


def _predicted_correctness(
    frame: nw.LazyFrame[Any], request: Request, collect: Collect
) -> tuple[nw.LazyFrame[Any], nw.Expr, list[Check]]:
    """Return whether the most probable class is the true one; of equals, the first column wins.

    Classes are numbered by flat lists of tests. Nested tests of thousands of columns would be too
    deep for a query planner.
    """
    schema = frame.collect_schema()
    classes = find_classes(request, schema)
    label = nw.col(classes.label).cast(nw.String) if classes.as_text else nw.col(classes.label)
    places, lone = _places(frame.select(label.alias(LABEL)), request, classes, collect)
    given = [_number(schema, column) for column in classes.columns]
    columns = given if len(given) > 1 else _both(given[0].cast(nw.Float64), lone)
    none = len(columns)
    frame = frame.with_columns(
        nw.max_horizontal(*columns).alias(TOP), nw.sum_horizontal(*given).alias(TOTAL)
    )
    frame = frame.with_columns(
        _smallest([(p == nw.col(TOP), i) for i, p in enumerate(columns)], none).alias(PREDICTED),
        _smallest([(label == each, i) for each, i in places.items()], none).alias(TARGET),
    )
    checks = [
        *_probability_checks(given),
        Check("no label", "label", ~nw.col(classes.label).is_null()),
        Check("unknown label", "label", nw.col(TARGET) < none),
    ]
    correct = nw.when(nw.col(PREDICTED) == nw.col(TARGET)).then(1.0).otherwise(0.0)
    return frame, correct, checks


def _places(
    labels: nw.LazyFrame[Any], request: Request, classes: Classes, collect: Collect
) -> tuple[dict[Any, int], int | None]:
    """Return the class number of each label that occurs, and the class of a single column."""
    counts = labels.group_by(LABEL).agg(nw.len().alias(COUNT)).head(MOST_LABELS)
    found = collect(counts)[LABEL]
    large = rounded_whole(found)
    if large is not None:
        wanted, got = "must name classes", f"{large:g}, {SKIPPED}"
        raise LabelError(message("label", wanted, got, UNROUNDED))
    values = [each for each in found.tolist() if not is_missing(each)]
    if not values:  # the row checks will report them
        return {}, None
    match = match_classes(request, classes, values)
    return {each: match.place[str(each)] for each in values}, match.lone


def _both(own: nw.Expr, lone: int | None) -> list[nw.Expr]:
    """Return two classes from one, in double precision to keep all digits."""
    return [own, 1 - own] if lone == 0 else [1 - own, own]


def _smallest(tests: list[tuple[nw.Expr, int]], none: int) -> nw.Expr:
    """Return the smallest number whose test is true; a default if none is."""
    numbers = [nw.when(test).then(number).otherwise(none) for test, number in tests]
    return nw.min_horizontal(*numbers, nw.lit(none))


def _probability_checks(given: list[nw.Expr]) -> list[Check]:
    finite = nw.all_horizontal(*[p.is_finite() for p in given], ignore_nulls=False)
    inside = nw.all_horizontal(*[(p >= 0) & (p <= 1) for p in given], ignore_nulls=False)
    low, high = nw.min_horizontal(*given), nw.max_horizontal(*given)
    checks = [
        Check("not finite", "probabilities", finite),
        Check("not a probability", "probabilities", inside, low, high),
    ]
    if len(given) > 1:
        total = nw.col(TOTAL)
        near = (total - 1).abs() <= ROW_SUM_TOLERANCE
        checks.append(Check("not summing to one", "probabilities", near, total, total))
    return checks
