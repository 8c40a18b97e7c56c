"""The cases of a data frame, as expressions that its own engine computes.

The types of columns are known before any row is read, so missing columns and wrong types are
reported without running the engine. Each requirement for a row is a `Check`: an expression that is
true if the row meets it.

Engines disagree about NaN and missing values (NaN is the largest number here, missing there), so
checks are written to be true only for good rows: comparisons such as ``x < limit`` fail for both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import duckdb
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
    parameter_error,
    rounded_whole,
)
from expertload._label_arrays import FOR_ARRAYS, check_names
from expertload._labels import TRUTHS, Matched, is_missing, match_columns, plain_classes
from expertload._typing import AnyArray
from expertload.exceptions import (
    CorrectnessError,
    DataTypeError,
    FileFormatError,
    InvalidInputError,
    LabelError,
    NonFiniteError,
    ProbabilityError,
    WeightError,
)
from expertload.io.columns import pick
from expertload.io.formats import number_in_text, quoted, text_of
from expertload.tally import LARGEST, SMALLEST

# Names for temporary columns, which no frame has.
LARGEST_SHARE, TOTAL = "__expertload_top", "__expertload_total"
PREDICTED, TARGET = "__expertload_predicted", "__expertload_target"
# With more distinct labels than this, they are not classes.
MOST_LABELS = 2**16


def open_frame(frame: Any) -> nw.LazyFrame[Any]:
    """Return any frame as a lazy one, whose operations run only when its table is requested."""
    try:
        opened = nw.from_native(frame, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        got = "one in which " + " ".join(str(error).split()).rpartition(" - ")[2]
        hint = "give every column a distinct name"
        raise DataTypeError(
            message("frame", "must have distinct column names", got, hint)
        ) from error
    if not isinstance(opened, nw.DataFrame | nw.LazyFrame):
        hint = "pass a pandas, Polars, PyArrow, DuckDB, Dask or Spark frame; for a file, "
        hint += "scan_file(path); for arrays, expertload.aucoc_score and its siblings"
        got = f"a {type(frame).__name__}"
        raise DataTypeError(message("frame", "must be a data frame", got, hint))
    strange = next((name for name in opened.columns if not isinstance(name, str)), None)
    if strange is not None:
        got, hint = f"{strange!r}", "name the columns in text: frame.columns = [...]"
        raise DataTypeError(message("frame", "must name its columns in text", got, hint))
    return opened.lazy()


def collected(frame: nw.LazyFrame[Any]) -> dict[str, AnyArray]:
    """Run the query; only its result is sent to this process."""
    if frame.implementation.is_duckdb():
        return _fetch(frame.to_native())
    options: dict[str, Any] = {"engine": "streaming"} if frame.implementation.is_polars() else {}
    table = frame.collect(**options)
    return {name: table[name].to_numpy() for name in table.columns}


def _fetch(relation: Any) -> dict[str, AnyArray]:
    """Run a query in DuckDB, which returns numpy arrays without other packages.

    Files are read only now, so a broken line in the middle of a file is found here.
    """
    try:
        return dict(relation.fetchnumpy())
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        why = " ".join(str(error).split())
        why = why if len(why) <= 300 else why[:300] + " ..."
        raise FileFormatError(
            f"DuckDB could not read the rows of the frame: {why} Hint: repair or filter the rows "
            "that it names."
        ) from error


class Request(NamedTuple):
    """The columns to read, as the user named them, and how to add them up."""

    confidence: str | None = None
    correct: str | None = None
    label: str | None = None
    probabilities: Any = None  # once the columns are known, these and the class of each
    labels: Sequence[Any] | None = None
    weight: str | None = None
    bits: int | None = None
    by: str | None = None

    def of(self, available: Sequence[str]) -> Request:
        """Return a request for columns that a frame has; those not named have their usual names.

        Correctness is not read beside probabilities.
        """
        asked = self.probabilities
        if asked is None:
            confidence, correct = self.confidence or "confidence", self.correct or "correct"
            return self._replace(confidence=confidence, correct=correct)
        patterns = [asked] if isinstance(asked, str) else list(asked)
        for one in patterns:
            if not (isinstance(one, str) and "*" in one):
                check_column(one, available, "probabilities")
        pairs = [pair for one in patterns for pair in pick(available, one)]
        if len(dict(pairs)) != len(pairs) or not pairs:
            got = f"{asked!r}, which matches {'none' if not pairs else 'one column twice'}"
            hint = "pass a list of names, or a pattern such as 'p_*'"
            raise parameter_error("probabilities", "must name columns", got, hint)
        return self._replace(label=self.label or "label", correct=None, probabilities=pairs)


# ------------------------------------------------------------------ checks of rows


class Problem(NamedTuple):
    """What is wrong with a row: the exception, the requirement, a hint."""

    error: type[InvalidInputError]
    wanted: str
    hint: str


NOT_FINITE = Problem(
    NonFiniteError,
    "must hold a finite number in every row",
    "filter those rows out, or find out why the model produced them",
)
NOT_ROUNDABLE = Problem(
    NonFiniteError,
    "must hold a finite number in every row, below 2**(53 - bits) in size to be rounded",
    "filter those rows out, or round to fewer bits",
)
NOT_A_GRADE = Problem(
    CorrectnessError,
    "must be in [0, 1]: 1 for right, 0 for wrong, or a grade between",
    "for percentages, divide by 100",
)
NEGATIVE = Problem(WeightError, "must not be negative", "filter those rows out")
OUT_OF_RANGE = Problem(
    WeightError,
    "must be zero or between 2**-400 and 2**400 (2.6e120), so that sums of it are numbers",
    "divide all weights by one number: only their ratios matter",
)
NOT_EXACT = Problem(DataTypeError, EXACT_ONLY, EXACT_HINT)
NOT_A_PROBABILITY = Problem(
    ProbabilityError,
    "must hold probabilities in [0, 1]",
    "for percentages, divide by 100; for logits, apply a softmax first",
)
NOT_ONE = Problem(
    ProbabilityError,
    SUM_TO_ONE,
    "name the columns of all classes; for rounded values, divide each row by its sum",
)
NO_LABEL = Problem(LabelError, "must name a class in every row", "filter those rows out")
UNKNOWN_LABEL = Problem(
    LabelError,
    "must name one of the classes",
    "labels=[...] names the classes in the order of the probabilities",
)


class Check(NamedTuple):
    """A requirement for each row of an argument's column.

    `low` and `high` are the values to show of rows that fail it, the same one unless both are
    given.
    """

    problem: Problem
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


def check_column(column: Any, columns: Sequence[str], name: str) -> str:
    """Return `column` if the frame has it."""
    if not isinstance(column, str) or column not in columns:
        shown = ", ".join(columns[:12]) + (", ..." if len(columns) > 12 else "")
        hint = f"the columns are: {shown}" if columns else "the frame has no columns"
        raise parameter_error(name, "must name a column", f"{column!r}", hint)
    return column


def check_type(column: str, is_right: bool, wanted: str, got: Any) -> None:
    """Raise unless a column has the right type."""
    if not is_right:
        raise DataTypeError(
            f"The column '{column}' must hold {wanted}. Got {got} instead. "
            "Hint: cast the column in the frame first."
        )


def check_number(schema: Mapping[str, Any], column: str) -> str:
    """Return a column's name if it holds numbers."""
    dtype = schema[column]
    is_right = dtype.is_numeric() or dtype == nw.Boolean
    check_type(column, is_right, "numbers (or True and False)", dtype)
    return column


# ------------------------------------------------------------------ text in files


def with_numbers(
    frame: nw.LazyFrame[Any], wanted: Collection[str | None], correct: str | None = None
) -> nw.LazyFrame[Any]:
    """Return a frame in which text columns that are needed as numbers are converted.

    The columns of CSV and JSON files are text, as written. DuckDB converts the requested ones, and
    stops with an error at a text that is not a number. Correctness may be in words. Frames made by
    other programs have their own types, which are not changed.
    """
    if not frame.implementation.is_duckdb():
        return frame
    text = [name for name, dtype in frame.collect_schema().items() if dtype == nw.String]
    changed = {name: _spelled(quoted(name)) for name in text if name in wanted}
    if correct in text:
        yes, no = (
            ", ".join(text_of(word) for word, truth in TRUTHS.items() if truth == wanted)
            for wanted in (1, 0)
        )
        word = f"lower(trim({quoted(correct)}))"
        number = _spelled(quoted(correct))
        changed[correct] = (
            f"CASE WHEN {word} IN ({yes}) THEN 1 WHEN {word} IN ({no}) THEN 0 ELSE {number} END"
        )
    if not changed:
        return frame
    replaced = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in changed.items())
    converted: nw.LazyFrame[Any] = nw.from_native(
        frame.to_native().project(f"* REPLACE ({replaced})")
    )
    return converted


def _spelled(column: str) -> str:
    """Return an SQL expression for the number in a text column, an error if it is none."""
    wrong = f"concat({column}, ' is not a number, or is a whole number: such {EXACT_ONLY}')"
    refused = f"CASE WHEN {column} IS NOT NULL THEN error({wrong})::DOUBLE END"
    return f"coalesce({number_in_text(column)}, {refused})"


# ------------------------------------------------------------------ expressions


def cases_of(frame: nw.LazyFrame[Any], request: Request) -> FrameCases:
    """Turn a request into expressions; a small query finds the labels that occur."""
    schema, checks = frame.collect_schema(), list[Check]()
    labels, confidence = None, nw.col(LARGEST_SHARE)
    if request.confidence is not None:
        confidence, checks = _confidence(request, schema)
    if request.probabilities is None:
        correct, more = _given_correctness(request, schema)
        checks += more
    else:
        frame, correct, more, labels = _predicted_correctness(frame, request)
        checks = more + checks
        labels = labels if request.confidence is None else None
    weight, more = _weight(request, schema)
    return FrameCases(frame, correct, confidence, weight, checks + more, labels)


def _column(request: Request, schema: Mapping[str, Any], name: str) -> str:
    """Return the column of an argument if it exists and holds numbers."""
    return check_number(schema, check_column(getattr(request, name), list(schema), name))


def _number(schema: Mapping[str, Any], column: str) -> nw.Expr:
    """Return a column as floats; single precision is kept, because grouping is then faster."""
    expression = nw.col(column)
    is_float = schema[column] in (nw.Float32, nw.Float64)
    return expression if is_float else expression.cast(nw.Float64)


def _confidence(request: Request, schema: Mapping[str, Any]) -> tuple[nw.Expr, list[Check]]:
    column = _column(request, schema, "confidence")
    value = _number(schema, column)
    if request.bits is not None:
        # Below this size a double has digits after the point left to round.
        limit = 2.0 ** (53 - request.bits)
        return value, [Check(NOT_ROUNDABLE, "confidence", value.abs() < limit)]
    checks = [Check(NOT_FINITE, "confidence", value.is_finite())]
    if schema[column].is_integer() or schema[column] == nw.Decimal:
        exact = (nw.col(column) <= EXACT) & (nw.col(column) >= -EXACT)
        checks.append(Check(NOT_EXACT, "confidence", exact, value))
    return value, checks


def _given_correctness(request: Request, schema: Mapping[str, Any]) -> tuple[nw.Expr, list[Check]]:
    column = _column(request, schema, "correct")
    grade = nw.col(column).cast(nw.Float64)
    if schema[column] == nw.Boolean:
        return grade, [Check(NOT_FINITE, "correct", ~nw.col(column).is_null())]
    return grade, [
        Check(NOT_FINITE, "correct", grade.is_finite()),
        Check(NOT_A_GRADE, "correct", (grade >= 0) & (grade <= 1), grade),
    ]


def _weight(request: Request, schema: Mapping[str, Any]) -> tuple[nw.Expr | None, list[Check]]:
    if request.weight is None:
        return None, []
    weight = nw.col(_column(request, schema, "weight")).cast(nw.Float64)
    usual = (weight == 0) | ((weight >= SMALLEST) & (weight <= LARGEST))
    return weight, [
        Check(NOT_FINITE, "weight", weight.is_finite()),
        Check(NEGATIVE, "weight", weight >= 0, weight),
        Check(OUT_OF_RANGE, "weight", usual, weight),
    ]


# --------------------------------------------------------------------- labels and probabilities


def _predicted_correctness(
    frame: nw.LazyFrame[Any], request: Request
) -> tuple[nw.LazyFrame[Any], nw.Expr, list[Check], tuple[Any, ...] | None]:
    """Return whether the most probable class is the true one; of equals, the first column wins.

    Classes are numbered by flat lists of tests. Nested tests of thousands of columns would be too
    deep for a query planner.
    """
    schema = frame.collect_schema()
    named = request.probabilities
    given = [_number(schema, check_number(schema, column)) for column, _ in named]
    label = _label(request, schema)
    occurring = _labels_of(frame.select(label=label))
    # Without labels, no row is sound.
    match = _match(request, named, occurring) if occurring else None
    places = {} if match is None else {value: match.place[str(value)] for value in occurring}
    columns = given
    if len(given) == 1:  # in double precision, to keep all digits of the other class
        own = given[0].cast(nw.Float64)
        columns = [own, 1 - own] if match is not None and match.lone == 0 else [1 - own, own]
    none = len(columns)
    frame = frame.with_columns(
        nw.max_horizontal(*columns).alias(LARGEST_SHARE), nw.sum_horizontal(*given).alias(TOTAL)
    )
    frame = frame.with_columns(
        _smallest([(p == nw.col(LARGEST_SHARE), i) for i, p in enumerate(columns)], none).alias(
            PREDICTED
        ),
        _smallest([(label == value, i) for value, i in places.items()], none).alias(TARGET),
    )
    checks = [
        *_probability_checks(given),
        Check(NO_LABEL, "label", ~label.is_null()),
        Check(UNKNOWN_LABEL, "label", nw.col(TARGET) < none),
    ]
    correct = nw.when(nw.col(PREDICTED) == nw.col(TARGET)).then(1.0).otherwise(0.0)
    return frame, correct, checks, match and tuple(plain_classes(match.classes))


def _label(request: Request, schema: Mapping[str, Any]) -> nw.Expr:
    """Return the column of labels; numbers that floats would round become text."""
    column = check_column(request.label, list(schema), "label")
    dtype = schema[column]
    is_text = dtype in (nw.String, nw.Categorical, nw.Enum)
    is_right = is_text or dtype.is_numeric() or dtype == nw.Boolean
    check_type(column, is_right, "class labels: strings or whole numbers", dtype)
    as_text = is_text or dtype in (nw.Int128, nw.UInt128, nw.Decimal)
    return nw.col(column).cast(nw.String) if as_text else nw.col(column)


def _labels_of(labels: nw.LazyFrame[Any]) -> list[Any]:
    """Return the labels that occur."""
    values = collected(labels.group_by("label").agg(count=nw.len()).head(MOST_LABELS))["label"]
    large = rounded_whole(values)
    if large is not None:
        wanted, got = "must name classes", f"{large:g}, {SKIPPED}"
        raise LabelError(message("label", wanted, got, UNROUNDED))
    return [value for value in values.tolist() if not is_missing(value)]


def _match(request: Request, named: Sequence[tuple[str, str]], labels: Sequence[Any]) -> Matched:
    """Match the labels that occur to the columns."""
    columns, classes = zip(*named, strict=True)
    if request.labels is not None:
        n_classes = max(len(columns), 2)  # a single column belongs to the second class
        columns = classes = tuple(map(str, check_names(request.labels, n_classes)))
    return match_columns([str(label) for label in labels], columns, classes, FOR_ARRAYS)


def _smallest(tests: list[tuple[nw.Expr, int]], none: int) -> nw.Expr:
    """Return the smallest number whose test is true; a default if none is."""
    numbers = [nw.when(test).then(number).otherwise(none) for test, number in tests]
    return nw.min_horizontal(*numbers, nw.lit(none))


def _probability_checks(given: list[nw.Expr]) -> list[Check]:
    finite = nw.all_horizontal(*[p.is_finite() for p in given], ignore_nulls=False)
    inside = nw.all_horizontal(*[(p >= 0) & (p <= 1) for p in given], ignore_nulls=False)
    low, high = nw.min_horizontal(*given), nw.max_horizontal(*given)
    checks = [
        Check(NOT_FINITE, "probabilities", finite),
        Check(NOT_A_PROBABILITY, "probabilities", inside, low, high),
    ]
    if len(given) > 1:
        total = nw.col(TOTAL)
        near = (total - 1).abs() <= ROW_SUM_TOLERANCE
        checks.append(Check(NOT_ONE, "probabilities", near, total))
    return checks
