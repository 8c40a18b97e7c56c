"""Reads a file of predictions into arrays for an evaluation."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from expertload._labels import (
    class_key,
    match_by_order,
    match_columns,
    named_class,
    plain_classes,
)
from expertload._typing import FloatArray, IntArray
from expertload.cases import Cases
from expertload.exceptions import FileFormatError
from expertload.io.columns import (
    ColumnNames,
    Columns,
    file_wording,
    find_columns,
    find_named,
    find_role,
)
from expertload.io.files import FileOptions
from expertload.io.source import Progress, Source, Table, open_source
from expertload.io.table import (
    Identity,
    PredictionsTable,
    check_distinct,
    check_not_trained,
    check_one_model,
    find_identity,
    find_split,
    known_clusters,
    known_identifiers,
)
from expertload.io.values import (
    Coded,
    check_logits,
    check_names_told_apart,
    check_not_opposite,
    check_predictions,
    check_present,
    class_numbers,
    grades_from,
    is_graded,
    names_from,
    numbers_from,
    probabilities_from,
)
from expertload.team import Readings


def read_cases(
    path: str | os.PathLike[str],
    *,
    names: ColumnNames | None = None,
    options: FileOptions | None = None,
    identity: Identity | None = None,
) -> Cases:
    r"""Read a file of predictions as `Cases`.

    Parameters
    ----------
    path, names, options, identity
        As in `read_predictions`.

    Returns
    -------
    Cases
        The cases of the file, with their groups if it has any, and with clusters if a column of
        clusters is named.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from expertload.io import read_cases
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "predictions.csv"
    ...     _ = file.write_text("label,p_cat,p_dog\ncat,0.9,0.1\ndog,0.3,0.7\ncat,0.4,0.6\n")
    ...     cases = read_cases(file)
    >>> cases.load_at_accuracy(0.95)
    0.333...
    """
    return read_predictions(path, names=names, options=options, identity=identity).cases


def read_predictions(
    path: str | os.PathLike[str],
    *,
    names: ColumnNames | None = None,
    options: FileOptions | None = None,
    identity: Identity | None = None,
    progress: Progress | None = None,
) -> PredictionsTable:
    r"""Read a file of predictions: CSV, Parquet, JSON Lines, npz, or a query to a database.

    Parameters
    ----------
    path : str or path-like
        The ending of the name determines the format; ``.gz`` and ``.zst`` are decompressed. A
        folder means the Parquet files in it, ``"-"`` means standard input.
    names : ColumnNames, optional
        The columns. By default they are found by name: labels are called y_true, label, target or
        class; probabilities p_*, prob_* or proba_*, followed by the class. Or there are
        confidence and correct. The columns group and sample_weight are optional.
    options : FileOptions, optional
        How to open the file: a query, a delimiter, an encoding.
    identity : Identity, optional
        The column that identifies a case, and the one that names its model. If a case occurs more
        than once for the same model, the file is refused.
    progress : callable, optional
        Called with the number of rows read so far, and the total if known.

    Returns
    -------
    PredictionsTable
        The columns found, as arrays.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from expertload.io import read_predictions
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "predictions.csv"
    ...     _ = file.write_text("label,p_cat,p_dog\ncat,0.9,0.1\ndog,0.3,0.7\ncat,0.4,0.6\n")
    ...     table = read_predictions(file)
    >>> print(table.columns)
    label: label, probabilities: p_cat, p_dog
    >>> table.evaluate().accuracy.estimate
    0.666...
    """
    source = open_source(path, options, progress)
    given, wanted = names or ColumnNames(), identity or Identity()
    source.offer((given.probabilities or given.logits or "").split(","))
    columns = find_columns(
        source.columns,
        given,
        source.where,
        numbered=source.numbered,
        values_of=lambda label: _distinct(source, label),
    )
    columns = replace(columns, is_half=not source.halves.isdisjoint(columns.probabilities))
    rows = find_identity(source.columns, wanted, columns.all, source.where)
    _check_expert(source.where, columns, rows)
    stated = source.beside(_stated(source.columns, given, columns, source.where), columns.all[0])
    split = find_split(source.columns, (*columns.all, *rows.columns), source.where)
    split = source.beside(split, columns.all[0])
    listed = source.classes_of(len(columns.probabilities)) if columns.is_numbered else None
    found, codes = _read(source, columns, rows, (stated, split))
    n_cases = len(next(iter(found.values())))
    if n_cases == 0:
        raise FileFormatError(f"{source.where} holds no cases.")
    if columns.is_logits and not given.logits:
        check_logits(columns, found, source.where)
    if split is not None:
        check_not_trained(codes[split].values, split, source.where)
    return PredictionsTable(
        where=source.where,
        n_cases=n_cases,
        **_arrays_from(source.where, columns, found, codes, stated=stated, listed=listed),
        **_identified(source.where, wanted, rows, found),
        **_clustered(source.where, wanted, rows, found),
        expert_answers=None if rows.expert is None else found[rows.expert],
    )


def _read(
    source: Source, columns: Columns, rows: Identity, beside: Sequence[str | None]
) -> tuple[Table, dict[str, Coded]]:
    """Read all columns at once: numbers and identifiers as they are, names as codes."""
    labels = (columns.label, columns.prediction, columns.group, *beside)
    few = tuple(dict.fromkeys(name for name in labels if name))
    many = (*columns.numbers, *(name for name in (columns.correct, *rows.columns) if name))
    found, codes = source.read_coded(tuple(dict.fromkeys(many)), columns.numbers, few)
    if columns.correct and is_graded(found[columns.correct]):  # the opener reads numbers in text
        found |= source.read([columns.correct], [columns.correct])
    for name in (*rows.columns, *few):
        values = found[name] if name in rows.columns else codes[name].values
        check_names_told_apart(values, name, source.where)
    return found, codes


def _distinct(source: Source, column: str) -> list[str]:
    """Return the distinct values of a column as text, without missing ones."""
    coded = source.read_coded((), (), (column,))[1][column]
    return [name for name in names_from(coded.values) if name is not None]


def _stated(
    available: Sequence[str], names: ColumnNames, columns: Columns, where: str
) -> str | None:
    """Return a column of predictions beside probabilities, which may contradict them."""
    if not columns.probabilities:
        return None
    found = find_role(available, "prediction", names.prediction, where)
    return None if found in columns.all else found


def _clustered(where: str, wanted: Identity, rows: Identity, found: Table) -> dict[str, Any]:
    """Return the cluster of each case; a column found by its name is used only for a warning."""
    column = rows.cluster
    if column is None:
        return {}
    values = found[column]
    if wanted.cluster is None:
        return {"clusters": values}
    return {"clusters": known_clusters(values, column, where), "is_clustered": True}


def _check_expert(where: str, columns: Columns, rows: Identity) -> None:
    """Refuse the truth as an expert's answer."""
    if rows.expert is not None and rows.expert == columns.label:
        raise FileFormatError(
            f"The column '{rows.expert}' of {where} cannot be both the truth and an expert's "
            "answer. Hint: name the column with what a person answered alone (--expert)."
        )


def read_readings(
    path: str | os.PathLike[str],
    *,
    case: str = "case",
    reader: str = "reader",
    answer: str = "answer",
    options: FileOptions | None = None,
) -> Readings:
    r"""Read a file with one row per reading: which case, by whom, and the answer.

    Parameters
    ----------
    path, options
        As in `read_predictions`.
    case, reader, answer : str
        The columns.

    Returns
    -------
    Readings
        The answers of all readers.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from expertload.io import read_readings
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "readings.csv"
    ...     _ = file.write_text("case,reader,answer\na,Ann,cat\na,Bo,dog\nb,Ann,dog\n")
    ...     print(read_readings(file))
    Readings(n=3, cases=2, readers=2, labels=('cat', 'dog'))
    """
    source = open_source(path, options, None)
    named = [find_named(source.columns, name, source.where) for name in (case, reader, answer)]
    found = source.read(named)
    return Readings.from_frame(found, case=named[0], reader=named[1], answer=named[2])


def _identified(where: str, wanted: Identity, rows: Identity, found: Table) -> dict[str, Any]:
    """Return the identifier of each row; refuse repeats, unless a model column explains them."""
    models = None if rows.model is None else found[rows.model]
    if wanted.model is None and rows.model is not None and models is not None:
        check_one_model(models, rows.model, where)
        models, rows = None, replace(rows, model=None)
    if rows.identifier is None:
        return {"identity": rows, "models": models}
    is_named = wanted.identifier is not None
    values = known_identifiers(found[rows.identifier], rows.identifier, where, is_named=is_named)
    if models is None:
        check_distinct(found[rows.identifier], rows.identifier, where)
    if values is None:
        return {"identity": replace(rows, identifier=None), "models": models}
    return {"identity": rows, "identifiers": values, "models": models}


# ------------------------------------------------------------------ arrays


def _arrays_from(
    where: str,
    columns: Columns,
    found: Table,
    codes: Mapping[str, Coded],
    *,
    stated: str | None = None,
    listed: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the fields of a `PredictionsTable`, by name, that follow from the columns.

    `stated` is a column of predictions that is only compared with the probabilities, and `listed`
    are the classes of a matrix, if the file lists them.
    """

    def numbers(name: str | None) -> FloatArray | None:
        return None if name is None else numbers_from(found[name], name, where)

    arrays: dict[str, Any] = {
        "columns": columns,
        "confidence": numbers(columns.confidence),
        "weight": numbers(columns.weight),
        "group_codes": None if columns.group is None else codes[columns.group],
    }
    if columns.correct is not None:
        arrays["correct"] = grades_from(found[columns.correct], columns.correct, where)
    if columns.label is not None:
        labels = _named(codes[columns.label], columns.label, where)
        arrays["target"] = _by_name(labels)
        if columns.prediction is None:
            arrays |= _predictions(where, columns, found, labels, listed)
            if stated is not None:
                classes = arrays["labels"].tolist()
                check_predictions(codes[stated], stated, classes, arrays["y_proba"], where)
            return arrays
        guesses = _named(codes[columns.prediction], columns.prediction, where)
        given, guessed = class_numbers(labels.values.tolist(), guesses.values.tolist(), where)
        arrays["correct"] = given[labels.codes] == guessed[guesses.codes]
    return arrays


def _named(coded: Coded, column: str, where: str) -> Coded:
    """Return labels as text; refuse missing ones."""
    names = names_from(coded.values)
    if any(name is None for name in names):
        check_present(names[coded.codes], column, where)  # raises, and names the row
    return Coded(names, coded.codes)


def _predictions(
    where: str, columns: Columns, found: Table, given: Coded, listed: Sequence[str] | None
) -> dict[str, Any]:
    """Return labels and probabilities, matched; a single column becomes two."""
    wording = file_wording(where, columns.label)
    names, taken = given.values.tolist(), columns.probabilities
    is_listed = columns.is_numbered and listed is not None and _names_all(listed, names)
    if columns.is_numbered and not is_listed:
        match = match_by_order(names, len(taken), wording)
    elif is_listed:
        match = match_columns(names, taken, listed or (), wording)
    else:
        match = match_columns(names, taken, columns.classes, wording)
    numbers = [match.place[name] for name in names]
    place = np.array(numbers, dtype=np.min_scalar_type(len(match.classes)))
    lone: dict[int | None, tuple[str | None, ...]] = {
        None: columns.probabilities,
        0: (*columns.probabilities, None),
        1: (None, *columns.probabilities),
    }
    classes = plain_classes(match.classes)
    of = classes if match.lone is None else [classes[match.lone]]
    is_unnamed = columns.is_numbered or match.lone is not None  # names do not tell, or not always
    y_proba = probabilities_from(columns, found, where, lone=match.lone)
    own = place[given.codes]
    by_name = match.lone is not None and named_class(match.classes, columns.classes[0]) is not None
    if is_unnamed and len(classes) == 2 and not by_name and not is_listed:
        check_not_opposite(own, y_proba, taken, [str(name) for name in of], where)
    return {
        "columns": columns.of(of) if is_unnamed else columns,
        "labels": np.array(classes),
        "place": own,
        "class_columns": lone[match.lone],
        "y_proba": y_proba,
    }


def _names_all(listed: Sequence[str], labels: Iterable[str]) -> bool:
    """Whether a list of classes has every label; labels may also be places in the list."""
    return {class_key(label) for label in labels} <= {class_key(name) for name in listed}


def _by_name(labels: Coded) -> IntArray:
    keys = [class_key(name) for name in labels.values]
    number = {key: i for i, key in enumerate(sorted(set(keys)))}
    return np.array([number[key] for key in keys], np.min_scalar_type(len(keys)))[labels.codes]
