"""Correctness, confidence and weight of each row, as expressions that the engine evaluates.

Each demand on a row is a `Check`: an expression that is true where the row meets it. The same
list serves twice. All of them together decide which rows have a confidence at all, in the one pass
that makes the table; only if some row has none are they counted one by one, to say what is wrong.

Engines disagree about NaN and missing values (NaN is the largest number here, missing there), so
checks are written to be true for good rows alone: ``x < limit`` and its like are true of neither.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import narwhals as nw

from expertload._validation import ROW_SUM_TOLERANCE
from expertload.frames._request import Classes, Request, Schema, resolve_classes

__all__ = ["Cases", "Check", "read_cases"]

# Names for columns added on the way; no frame has them.
TOP, TOTAL = "__expertload_top", "__expertload_total"
PREDICTED, TARGET = "__expertload_predicted", "__expertload_target"


class Check(NamedTuple):
    """A demand on each row, and what to show of the rows that do not meet it."""

    kind: str
    name: str
    met: nw.Expr
    low: nw.Expr | None = None
    high: nw.Expr | None = None


class Cases(NamedTuple):
    """A frame, and expressions on it."""

    frame: nw.LazyFrame[Any]
    correct: nw.Expr
    confidence: nw.Expr
    weight: nw.Expr | None
    checks: list[Check]


def read_cases(frame: nw.LazyFrame[Any], request: Request) -> Cases:
    """Turn a request into expressions."""
    schema = frame.collect_schema()
    if request.probabilities is None:
        confidence, checks = _confidence(request, schema)
        correct, more = _given_correctness(request, schema)
        checks += more
    else:
        classes = resolve_classes(request, schema)
        frame, correct, checks = _predicted_correctness(frame, classes)
        confidence = nw.col(TOP)
        if request.confidence is not None:
            confidence, more = _confidence(request, schema)
            checks += more
    weight, more = _weight(request, schema)
    return Cases(frame, correct, confidence, weight, checks + more)


def _number(schema: Schema, column: str) -> nw.Expr:
    """A column as floats; single precision stays, which makes its groups cheaper to find."""
    expression = nw.col(column)
    is_float = schema[column] in (nw.Float32, nw.Float64)
    return expression if is_float else expression.cast(nw.Float64)


def _confidence(request: Request, schema: Schema) -> tuple[nw.Expr, list[Check]]:
    value = _number(schema, request.number(schema, request.confidence, "confidence"))
    if request.bits is None:
        return value, [Check("not finite", "confidence", value.is_finite())]
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
    return weight, [
        Check("not finite", "weight", weight.is_finite()),
        Check("negative", "weight", weight >= 0, weight, weight),
    ]


# --------------------------------------------------------------------- labels and probabilities


def _predicted_correctness(
    frame: nw.LazyFrame[Any], classes: Classes
) -> tuple[nw.LazyFrame[Any], nw.Expr, list[Check]]:
    """Whether the most probable class is the true one; among equals the first column wins.

    Classes are numbered by flat lists of tests, not by nested ones, which thousands of columns
    would make too deep for a query planner.
    """
    schema = frame.collect_schema()
    given = [_number(schema, column) for column in classes.columns]
    if len(given) == 1:  # in double precision, as everywhere: one minus a single loses digits
        given = [given[0].cast(nw.Float64)]
    columns = given if len(given) > 1 else [1 - given[0], given[0]]
    label = nw.col(classes.label).cast(nw.String if classes.text else nw.Float64)
    none = len(columns)
    frame = frame.with_columns(
        nw.max_horizontal(*columns).alias(TOP), nw.sum_horizontal(*given).alias(TOTAL)
    )
    frame = frame.with_columns(
        _first_true([column == nw.col(TOP) for column in columns]).alias(PREDICTED),
        _first_true([label == name for name in classes.labels]).alias(TARGET),
    )
    checks = [*_probability_checks(given), *_label_checks(classes, label, none)]
    correct = nw.when(nw.col(PREDICTED) == nw.col(TARGET)).then(1.0).otherwise(0.0)
    return frame, correct, checks


def _first_true(tests: list[nw.Expr]) -> nw.Expr:
    """The number of the first test that is true, one more than the last if none is."""
    return nw.min_horizontal(
        *[nw.when(test).then(i).otherwise(len(tests)) for i, test in enumerate(tests)]
    )


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


def _label_checks(classes: Classes, label: nw.Expr, none: int) -> list[Check]:
    return [
        Check("no label", "label", ~nw.col(classes.label).is_null()),
        Check("unknown label", "label", nw.col(TARGET) < none, label, label),
    ]
