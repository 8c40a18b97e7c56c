"""Correctness, confidence and weight of each row, as expressions that a frame's engine evaluates.

The types of columns are known before any row is read, so missing columns and wrong types are
reported without running the engine. Labels are matched to columns by the rules of
`expertload._labels`, once the labels that occur are known.

Each requirement for a row is a `Check`: an expression that is true if the row meets it. The list is
used twice. In the pass that makes the table, rows that fail any check get no confidence. Only if
there are such rows, each check is counted separately, for the error message.

Engines disagree about NaN and missing values (NaN is the largest number here, missing there), so
checks are written to be true only for good rows: comparisons such as ``x < limit`` fail for both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import narwhals as nw

from expertload._check import (
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
from expertload._label_arrays import FOR_ARRAYS, check_names
from expertload._labels import TRUTHS, Matched, is_missing, match_columns, plain_classes
from expertload._typing import AnyArray
from expertload.cases import LARGEST, SMALLEST
from expertload.exceptions import (
    CorrectnessError,
    DataTypeError,
    InvalidInputError,
    LabelError,
    NonFiniteError,
    ParameterError,
    ProbabilityError,
    WeightError,
)
from expertload.io.columns import pick
from expertload.io.engine import LONG

Schema = Mapping[str, Any]
NUMBERS = "numbers (or True and False)"
Collect = Callable[[nw.LazyFrame[Any]], dict[str, AnyArray]]

YES, NO = ([word for word, truth in TRUTHS.items() if truth == wanted] for wanted in (1, 0))
# Names for temporary columns, which no frame has.
TOP, TOTAL = "__expertload_top", "__expertload_total"
PREDICTED, TARGET = "__expertload_predicted", "__expertload_target"
LABEL, COUNT = "label", "count"

# With more distinct labels than this, they are not classes.
MOST_LABELS = 2**16

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


# ------------------------------------------------------------------ the columns that were asked for


@dataclass(frozen=True, kw_only=True)
class Request:
    """The columns to read, as the user named them, and how to add them up."""

    confidence: str | None = None
    correct: str | None = None
    label: str | None = None
    probabilities: str | Sequence[str] | None = None
    labels: Sequence[Any] | None = None
    weight: str | None = None
    bits: int | None = None
    by: str | None = None

    @classmethod
    def of(cls, **columns: Any) -> Request:
        """Return a request; columns that are needed and not named have their usual names."""
        is_given = columns.get("probabilities") is None
        usual = ("confidence", "correct") if is_given else ("label",)
        return cls(
            **{
                **{name: name for name in usual},
                **{k: v for k, v in columns.items() if v is not None},
            }
        )

    def numbers(self, available: Collection[str]) -> set[str | None]:
        """Return the columns that must hold numbers; correctness may also be in words."""
        found = (name for one in self.patterns for name, _ in pick(available, str(one)))
        return {self.confidence, self.weight, *found}

    @property
    def patterns(self) -> list[str]:
        """The names and patterns of the columns of probabilities."""
        asked = self.probabilities
        return [asked] if isinstance(asked, str) else list(asked or ())

    def number(self, schema: Schema, column: str | None, name: str) -> str:
        """Return a column's name if it exists and holds numbers."""
        return check_number(schema, check_column(column, list(schema), name))


@dataclass(frozen=True)
class Classes:
    """The probability columns, the class that each is named after, and the column of labels."""

    columns: tuple[str, ...]
    names: tuple[str, ...]
    label: str
    as_text: bool


def find_classes(request: Request, schema: Schema) -> Classes:
    """Find the columns of probabilities and of labels."""
    found: list[tuple[str, str]] = []
    for one in request.patterns:
        if not (isinstance(one, str) and "*" in one):
            check_column(one, list(schema), "probabilities")
        found += pick(schema, one)
    columns = [request.number(schema, column, "probabilities") for column, _ in found]
    _check_columns_found(columns, request.probabilities, "probabilities")
    label = check_column(request.label, list(schema), "label")
    dtype = schema[label]
    text = dtype in (nw.String, nw.Categorical, nw.Enum)
    right = text or dtype.is_numeric() or dtype == nw.Boolean
    _check_column_type(label, right, "class labels: strings or whole numbers", dtype)
    as_text = text or dtype in (nw.Int128, nw.UInt128, nw.Decimal)  # floats would round them
    return Classes(tuple(columns), tuple(name for _, name in found), label, as_text)


def match_classes(request: Request, classes: Classes, labels: Sequence[Any]) -> Matched:
    """Match the labels that occur to the columns."""
    texts = [str(label) for label in labels]
    if request.labels is None:
        return match_columns(texts, classes.columns, classes.names, FOR_ARRAYS)
    n_classes = max(len(classes.columns), 2)  # a single column belongs to the second class
    names = [str(name) for name in check_names(request.labels, n_classes)]
    return match_columns(texts, names, names, FOR_ARRAYS)


def check_column(column: Any, columns: Sequence[str], name: str) -> str:
    """Return `column` if the frame has it."""
    if not isinstance(column, str) or column not in columns:
        shown = ", ".join(columns[:12]) + (", ..." if len(columns) > 12 else "")
        hint = f"the columns are: {shown}" if columns else "the frame has no columns"
        raise ParameterError(message(name, "must name a column", f"{column!r}", hint))
    return column


def _check_columns_found(found: Sequence[str], asked: Any, name: str) -> None:
    """Raise unless columns were found, without repeats."""
    if not found or len(set(found)) != len(found):
        got = f"{asked!r}, which matches {'none' if not found else 'one column twice'}"
        hint = "pass a list of names, or a pattern such as 'p_*'"
        raise ParameterError(message(name, "must name columns", got, hint))


def check_number(schema: Schema, column: str) -> str:
    """Return a column's name if it holds numbers."""
    dtype = schema[column]
    _check_column_type(column, dtype.is_numeric() or dtype == nw.Boolean, NUMBERS, dtype)
    return column


def _check_column_type(column: str, right: bool, wanted: str, got: Any) -> None:
    """Raise unless a column has the right type."""
    if not right:
        raise DataTypeError(
            f"The column '{column}' must hold {wanted}. Got {got} instead. "
            "Hint: cast the column in the frame first."
        )


# ------------------------------------------------------------------ text in files


def with_numbers(
    frame: nw.LazyFrame[Any], wanted: Collection[str | None], correct: str | None = None
) -> nw.LazyFrame[Any]:
    """Return a frame in which text columns that are needed as numbers are converted.

    The columns of CSV and JSON files are text, as written. DuckDB converts the requested ones, and
    stops with an error at a text that is not a number. Frames made by other programs have their
    own types, which are not changed.
    """
    if not frame.implementation.is_duckdb():
        return frame
    text = [name for name, dtype in frame.collect_schema().items() if dtype == nw.String]
    changed = {name: _number_in(name) for name in text if name in wanted}
    if correct in text:
        changed[correct] = _grade(correct)
    return frame.with_columns(**changed) if changed else frame


def _number_in(name: str) -> nw.Expr:
    return _spelled(nw.col(name).str.strip_chars())


def _spelled(text: nw.Expr) -> nw.Expr:
    """Return text as numbers; text with underscores is not accepted as a number.

    Whole numbers that floats cannot tell apart get a remark, so that DuckDB refuses and quotes it.
    """
    size = nw.when(text.str.contains(f"^{LONG}$")).then(text).cast(nw.Float64).abs()
    is_largest = (size == EXACT) & text.str.ends_with(f"{EXACT}")  # and not its neighbour
    exact = size.is_null() | (size < EXACT) | is_largest
    remarked = nw.concat_str(text, nw.lit(f", a whole number, and such {EXACT_ONLY}"))
    plain = nw.when(~text.str.contains("_", literal=True)).then(text)
    return nw.when(exact).then(plain).otherwise(remarked).cast(nw.Float64)


def _grade(name: str) -> nw.Expr:
    """Return correctness, which may be in words."""
    word = nw.col(name).str.strip_chars().str.to_lowercase()
    spelled = nw.when(word.is_in(YES)).then(nw.lit("1")).when(word.is_in(NO)).then(nw.lit("0"))
    return _spelled(spelled.otherwise(word))


# ------------------------------------------------------------------ expressions


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
    labels: tuple[Any, ...] | None = None  # if the confidence is the largest probability


def read_cases(frame: nw.LazyFrame[Any], request: Request, collect: Collect) -> FrameCases:
    """Turn a request into expressions; a small query finds the labels that occur."""
    schema = frame.collect_schema()
    labels = None
    if request.probabilities is None:
        confidence, checks = _confidence(request, schema)
        correct, more = _given_correctness(request, schema)
        checks += more
    else:
        frame, correct, checks, labels = _predicted_correctness(frame, request, collect)
        confidence = nw.col(TOP)
        if request.confidence is not None:
            confidence, more = _confidence(request, schema)
            checks, labels = checks + more, None
    weight, more = _weight(request, schema)
    return FrameCases(frame, correct, confidence, weight, checks + more, labels)


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
) -> tuple[nw.LazyFrame[Any], nw.Expr, list[Check], tuple[Any, ...] | None]:
    """Return whether the most probable class is the true one; of equals, the first column wins.

    Classes are numbered by flat lists of tests. Nested tests of thousands of columns would be too
    deep for a query planner.
    """
    schema = frame.collect_schema()
    classes = find_classes(request, schema)
    label = nw.col(classes.label).cast(nw.String) if classes.as_text else nw.col(classes.label)
    found = _places(frame.select(label.alias(LABEL)), request, classes, collect)
    places, match = found if found is not None else ({}, None)
    given = [_number(schema, column) for column in classes.columns]
    columns = given if len(given) > 1 else _both(given[0].cast(nw.Float64), match and match.lone)
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
    return frame, correct, checks, match and tuple(plain_classes(match.classes))


def _places(
    labels: nw.LazyFrame[Any], request: Request, classes: Classes, collect: Collect
) -> tuple[dict[Any, int], Matched] | None:
    """Return the class number of each label that occurs, and the classes; None without labels."""
    counts = labels.group_by(LABEL).agg(nw.len().alias(COUNT)).head(MOST_LABELS)
    found = collect(counts)[LABEL]
    large = rounded_whole(found)
    if large is not None:
        wanted, got = "must name classes", f"{large:g}, {SKIPPED}"
        raise LabelError(message("label", wanted, got, UNROUNDED))
    values = [value for value in found.tolist() if not is_missing(value)]
    if not values:  # the row checks will report them
        return None
    match = match_classes(request, classes, values)
    return {value: match.place[str(value)] for value in values}, match


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
