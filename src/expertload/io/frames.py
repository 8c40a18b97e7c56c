"""The COC curve of any data frame, of any size, computed by the frame's own engine.

The engine of a pandas, Polars, PyArrow, DuckDB, Dask or Spark frame groups the rows by confidence.
Only this small table is returned to numpy; the curve, its area and all other numbers are computed
from it. Tables of shards, days or sites can be added. Files larger than memory are opened with
`scan_file`.

The types of columns are known before any row is read, so missing columns and wrong types are
reported without running the engine. Each requirement for a row is a `Check`: an expression that is
true if the row meets it. A row that fails a check gets no confidence, so all bad rows end up in one
group, and the pass that makes the table also shows whether the frame is valid. Only if not, a
second query counts the failures of each check, for the error message.

Engines disagree about NaN and missing values (NaN is the largest number here, missing there), so
checks are written to be true only for good rows: comparisons such as ``x < limit`` fail for both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

import duckdb
import narwhals as nw
import numpy as np

from expertload._check import (
    EXACT,
    EXACT_HINT,
    EXACT_ONLY,
    ROW_SUM_TOLERANCE,
    SKIPPED,
    SUM_TO_ONE,
    UNROUNDED,
    check_count,
    message,
    parameter_error,
    rounded_whole,
)
from expertload._label_arrays import FOR_ARRAYS, check_names
from expertload._labels import TRUTHS, Matched, is_missing, match_columns, plain_classes
from expertload._typing import AnyArray, FloatArray, IntArray
from expertload.cases import LARGEST, SMALLEST
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
from expertload.io.columns import pick
from expertload.io.formats import number_in_text, quoted, text_of
from expertload.io.frame_tally import MOST_BITS, FrameTally

KEY, TOP, RIGHT, WEIGHT, GROUP, GRADED = "key", "top", "right", "weight", "group", "graded"
# Names for temporary columns, which no frame has.
LARGEST_SHARE, TOTAL = "__expertload_top", "__expertload_total"
PREDICTED, TARGET = "__expertload_predicted", "__expertload_target"
# The default largest number of rows that may leave the engine: half a gigabyte.
MAX_ROWS = 2**24
# With more distinct labels than this, they are not classes.
MOST_LABELS = 2**16


def tally_frame(
    frame: Any,
    *,
    confidence: str | None = None,
    correct: str | None = None,
    label: str | None = None,
    probabilities: str | Sequence[str] | None = None,
    labels: Sequence[Any] | None = None,
    weight: str | None = None,
    bits: int | None = None,
    max_rows: int = MAX_ROWS,
) -> FrameTally:
    """Add up a frame's rows by confidence, in its own engine, for the curve and its numbers.

    Parameters
    ----------
    frame : a pandas, Polars (eager or lazy), PyArrow, DuckDB, Dask or Spark frame
        One row per case. It is neither changed nor collected: its engine groups the rows, checks
        them in the same pass, and only the grouped table leaves it.
    confidence : str, optional
        The column that ranks cases, higher meaning keep automatic. ``"confidence"`` by default, or
        the largest probability if `probabilities` are given.
    correct : str, optional
        The column with whether each case is right, or its grade in [0, 1]. ``"correct"`` by
        default; not read if `probabilities` are given.
    label : str, optional
        The column of true labels, with `probabilities`. ``"label"`` by default.
    probabilities : str or sequence of str, optional
        The columns of class probabilities, as names or as a pattern such as ``"p_*"``. Among equal
        probabilities the first column wins. One column is the probability of the second class,
        or of class 0 if that is its name.
    labels : sequence, optional
        The label of each probability column. By default, the label is the name of the column, or
        the part of it that the pattern's star matches (or that follows ``p_``). If no name has a
        number, whole-number labels are column numbers.
    weight : str, optional
        The column of sample weights.
    bits : int, optional
        Round confidences down to a multiple of ``2**-bits`` (16 is plenty), which keeps the table
        small for any number of rows; the table bounds the error. Exact by default.
    max_rows : int, default=2**24
        Refuse a table of more rows than this, before it leaves the engine.

    Returns
    -------
    FrameTally
        The table, with `curve()`, `aucoc()`, `load_at_accuracy(target)`, `accuracy_at_load(load)`.

    Examples
    --------
    >>> import polars as pl
    >>> from expertload.io import tally_frame
    >>> frame = pl.LazyFrame(
    ...     {
    ...         "label": ["cat", "dog", "dog", "cat"],
    ...         "p_cat": [0.9, 0.3, 0.6, 0.8],
    ...         "p_dog": [0.1, 0.7, 0.4, 0.2],
    ...     }
    ... )
    >>> table = tally_frame(frame, probabilities="p_*")
    >>> print(f"{table.aucoc():.4f}")
    0.9658
    >>> table.load_at_accuracy(0.95)
    0.25
    """
    tables = _tally(
        frame,
        max_rows,
        confidence=confidence,
        correct=correct,
        label=label,
        probabilities=probabilities,
        labels=labels,
        weight=weight,
        bits=bits,
    )
    return tables[None]


def tally_groups(
    frame: Any, *, by: str, max_rows: int = MAX_ROWS, **columns: Any
) -> dict[Any, FrameTally]:
    """Add up a frame's rows by confidence within each group, such as a site or a day.

    Parameters
    ----------
    frame : a frame
        As in `tally_frame`.
    by : str
        The column that names the group of each row.
    max_rows : int, default=2**24
        Refuse tables with more rows than this, over all groups.
    **columns
        ``confidence``, ``correct``, ``label``, ``probabilities``, ``labels``, ``weight`` and
        ``bits``, as in `tally_frame`.

    Returns
    -------
    dict
        The table of each group, sorted by name; rows without a group have the key None.

    Examples
    --------
    >>> import polars as pl
    >>> from expertload.io import tally_groups
    >>> frame = pl.DataFrame(
    ...     {"site": ["A", "A", "B"], "confidence": [0.6, 0.9, 0.8], "correct": [0, 1, 1]}
    ... )
    >>> sites = tally_groups(frame, by="site")
    >>> {site: table.accuracy for site, table in sites.items()}
    {'A': 0.5, 'B': 1.0}
    >>> sites["A"] + sites["B"]
    FrameTally(3 rows, 3 cases, exact)
    """
    return _tally(frame, max_rows, by=by, **columns)


# ------------------------------------------------------------------ the query


class Request(NamedTuple):
    """The columns to read, as the user named them, and how to add them up."""

    confidence: str | None = None
    correct: str | None = None
    label: str | None = None
    probabilities: str | Sequence[str] | None = None
    labels: Sequence[Any] | None = None
    weight: str | None = None
    bits: int | None = None
    by: str | None = None

    def with_usual_names(self) -> Request:
        """Return a request in which columns that are needed and not named have their usual names.

        Correctness is not read beside probabilities.
        """
        if self.probabilities is not None:
            return self._replace(label=self.label or "label", correct=None)
        confidence, correct = self.confidence or "confidence", self.correct or "correct"
        return self._replace(confidence=confidence, correct=correct)

    def probability_columns(self, available: Collection[str]) -> list[tuple[str, str]]:
        """Return the columns of probabilities, and the class that each is named after."""
        asked = self.probabilities
        patterns = [asked] if isinstance(asked, str) else list(asked or ())
        for one in patterns:
            if not (isinstance(one, str) and "*" in one):
                check_column(one, list(available), "probabilities")
        found = [pair for one in patterns for pair in pick(available, one)]
        if len(dict(found)) != len(found) or (asked is not None and not found):
            got = f"{asked!r}, which matches {'none' if not found else 'one column twice'}"
            hint = "pass a list of names, or a pattern such as 'p_*'"
            raise parameter_error("probabilities", "must name columns", got, hint)
        return found


def _tally(frame: Any, max_rows: int, **columns: Any) -> dict[Any, FrameTally]:
    """Return the table of each group; of a single group None if none are requested."""
    request = Request(**columns).with_usual_names()
    if request.bits is not None:
        check_count(request.bits, "bits", minimum=0, maximum=MOST_BITS)
    check_count(max_rows, "max_rows")
    opened = open_frame(frame)
    available = opened.collect_schema().names()
    wanted = {request.confidence, request.weight, *dict(request.probability_columns(available))}
    cases = _cases(with_numbers(opened, wanted, request.correct), request)
    if request.by is not None:
        check_column(request.by, available, "by")
    found = _collect(_query(cases, request).head(max_rows + 1))
    n_rows = len(found[KEY])
    if n_rows > max_rows:
        raise ParameterError(
            f"The frame must have at most {max_rows} distinct confidences. "
            "Hint: pass bits=16, which adds them up in 65,537 cells and bounds the error, or a "
            "larger max_rows."
        )
    if np.isnan(_floats(found[KEY])).any():
        raise _diagnosis(cases)
    if n_rows == 0:
        raise EmptyInputError(message("frame", "must hold at least one row", "none"))
    if _floats(found[WEIGHT]).sum() == 0:
        raise WeightError(message("weight", "must not be all zero", "zeros alone"))
    is_counted = cases.weight is None and not _floats(found.get(GRADED, np.zeros(1))).any()
    return _tables(found, request.bits, is_counted=is_counted, labels=cases.labels)


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
    lazy: nw.LazyFrame[Any] = opened.lazy()
    return lazy


def _query(cases: FrameCases, request: Request) -> nw.LazyFrame[Any]:
    sound = reduce(and_, [check.met for check in cases.checks])
    right = cases.correct
    # Of rows that are not sound nothing is added up: their weights may be too large for that.
    weight = None if cases.weight is None else nw.when(sound).then(cases.weight)
    columns = {RIGHT: right if weight is None else right * weight}
    sums = {WEIGHT: nw.len(), RIGHT: nw.col(RIGHT).sum()}
    if weight is not None:
        columns[WEIGHT] = weight
        sums[WEIGHT] = nw.col(WEIGHT).sum()
    if weight is None and request.probabilities is None:
        columns[GRADED], sums[GRADED] = right * (1 - right), nw.col(GRADED).max()
    key = cases.confidence
    if request.bits is not None:
        # A power of two changes only the exponent, so neither step rounds anything else.
        columns[TOP] = cases.confidence * 2.0**request.bits
        sums[TOP] = nw.col(TOP).max()
        key = columns[TOP].floor()
    columns[KEY] = nw.when(sound).then(key)
    keys = [KEY]
    if request.by is not None:
        columns[GROUP] = nw.col(request.by)
        keys.append(GROUP)
    return cases.frame.select(**columns).group_by(*keys).agg(**sums)


def _collect(frame: nw.LazyFrame[Any]) -> dict[str, AnyArray]:
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


def _floats(values: AnyArray) -> FloatArray:
    """Return double precision, with NaN for missing values."""
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    return values.astype(np.float64, copy=False)


def _tables(columns: dict[str, AnyArray], bits: int | None, **counts: Any) -> dict[Any, FrameTally]:
    confidence = top = _floats(columns[KEY])
    if bits is not None:
        confidence, top = np.ldexp(confidence, -bits), np.ldexp(_floats(columns[TOP]), -bits)
    rows = (confidence, _floats(columns[WEIGHT]), _floats(columns[RIGHT]), top)
    groups = _split(columns.get(GROUP))
    if groups is None:
        return {None: FrameTally.from_rows(rows, bits, **counts)}
    return {
        group: FrameTally.from_rows((row[index] for row in rows), bits, **counts)
        for group, index in groups.items()
        if rows[1][index].any()  # groups of weight zero are left out
    }


def _split(groups: AnyArray | None) -> dict[Any, IntArray] | None:
    """Return the rows of each group, in order, with unnamed groups last."""
    if groups is None:
        return None
    names = [None if is_missing(group) else group for group in groups.tolist()]
    number = {name: i for i, name in enumerate(sorted(set(names), key=lambda n: (n is None, n)))}
    numbers = np.fromiter((number[name] for name in names), np.int64, len(names))
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers))
    return dict(zip(number, np.split(order, ends[:-1]), strict=True))


def _diagnosis(cases: FrameCases) -> Exception:
    """Count the rows that fail each check, and return the error for the first failure."""
    shown, wanted = {}, {}
    for i, check in enumerate(cases.checks):
        failed = nw.when(check.met).then(0).otherwise(1)
        wanted[f"count{i}"] = failed.sum()
        if check.low is not None:
            shown[f"low{i}"] = check.low
            shown[f"high{i}"] = check.low if check.high is None else check.high
            wanted[f"low{i}"] = nw.when(failed == 1).then(nw.col(f"low{i}")).min()
            wanted[f"high{i}"] = nw.when(failed == 1).then(nw.col(f"high{i}")).max()
    frame = cases.frame.with_columns(**shown) if shown else cases.frame
    counts = {name: values[0] for name, values in _collect(frame.select(**wanted)).items()}
    first = next(i for i in range(len(cases.checks)) if counts[f"count{i}"])
    problem, name, *_ = cases.checks[first]
    got = f"{int(counts[f'count{first}'])} row(s) that do not"
    if counts.get(f"low{first}") is not None:
        got += f", with values from {counts[f'low{first}']:g} to {counts[f'high{first}']:g}"
    return problem.error(message(name, problem.wanted, got, problem.hint))


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


def _cases(frame: nw.LazyFrame[Any], request: Request) -> FrameCases:
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
    named = request.probability_columns(list(schema))
    given = [_number(schema, check_number(schema, column)) for column, _ in named]
    label = _label(request, schema)
    found = _labels_of(frame.select(label=label))
    match = _match(request, named, found) if found else None  # without labels, no row is sound
    places = {} if match is None else {value: match.place[str(value)] for value in found}
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
        _smallest([(label == each, i) for each, i in places.items()], none).alias(TARGET),
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
    found = _collect(labels.group_by("label").agg(count=nw.len()).head(MOST_LABELS))["label"]
    large = rounded_whole(found)
    if large is not None:
        wanted, got = "must name classes", f"{large:g}, {SKIPPED}"
        raise LabelError(message("label", wanted, got, UNROUNDED))
    return [value for value in found.tolist() if not is_missing(value)]


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
