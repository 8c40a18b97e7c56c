"""A file of predictions as arrays that an evaluation takes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from expertload._opening import FileOptions, Source, Table, open_source
from expertload._typing import AnyArray, FloatArray, IntArray
from expertload.columns import (
    ColumnNames,
    Columns,
    class_key,
    find_columns,
    grades_from,
    labels_from,
    match_columns,
    names_from,
    numbers_from,
    plain_classes,
    probabilities_from,
    said_of_file,
    same_class,
)
from expertload.evaluation import Evaluation, evaluate_from_correctness, evaluate_predictions
from expertload.exceptions import FileFormatError
from expertload.predictions._identity import (
    Identity,
    align,
    check_distinct,
    check_one_model,
    find_identity,
    known_identifiers,
    split_rows,
)

__all__ = ["PredictionsTable", "match_cases", "read_predictions"]

# What a table has one value a case of.
ROW_WISE = (
    "y_true",
    "y_proba",
    "target",
    "correct",
    "confidence",
    "groups",
    "weight",
    "identifiers",
    "models",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class PredictionsTable:
    """What a file of predictions holds.

    Attributes
    ----------
    where : str
        The file's name.
    columns : Columns
        Which columns were taken for what.
    n_cases : int
        How many rows there are.
    y_true, y_proba, labels : ndarray or None
        Labels and probabilities, and the label of each column where it is known.
    target : ndarray or None
        Labels as numbers, in the order of their names: the same in every file of the same cases.
    class_columns : tuple of str or None, optional
        The column of each class; None for one of two classes that has none.
    correct, confidence : ndarray or None
        Correctness, and what to rank by.
    groups, weight : ndarray or None
        The group and the weight of each case.
    identity : Identity
        The columns that say which case a row is, and of which model.
    identifiers, models : ndarray or None
        What stands in them.
    """

    where: str
    columns: Columns
    n_cases: int
    y_true: AnyArray | None = None
    y_proba: FloatArray | None = None
    labels: AnyArray | None = None
    target: IntArray | None = None
    class_columns: tuple[str | None, ...] | None = None
    correct: FloatArray | None = None
    confidence: FloatArray | None = None
    groups: AnyArray | None = None
    weight: FloatArray | None = None
    identity: Identity = field(default_factory=Identity)
    identifiers: AnyArray | None = None
    models: AnyArray | None = None

    def take(self, rows: IntArray) -> PredictionsTable:
        """Return some rows, in the order given."""
        arrays = {name: getattr(self, name) for name in ROW_WISE}
        taken = {name: each[rows] for name, each in arrays.items() if each is not None}
        return replace(self, n_cases=len(rows), **taken)

    def by_model(self) -> dict[str, PredictionsTable]:
        """Return the rows of each model, where a column names several."""
        column = self.identity.model
        if self.models is None or column is None:
            return {self.where: self}
        parts = {
            name: replace(self.take(rows), identity=replace(self.identity, model=None))
            for name, rows in split_rows(self.models, column, self.where).items()
        }
        for name, part in parts.items():
            part.check_distinct(f"{self.where} ({name})")
        return parts

    def check_distinct(self, where: str) -> None:
        """Refuse cases that stand there more than once."""
        if self.identifiers is not None and self.identity.identifier is not None:
            check_distinct(self.identifiers, self.identity.identifier, where)

    def evaluate(self, **options: Any) -> Evaluation:
        """Evaluate the predictions.

        Parameters
        ----------
        **options
            ``target_accuracy``, ``confidence_level``, ``method`` and ``certify_groups``, as in
            `expertload.evaluation.evaluate_predictions`.
        """
        shared = {"groups": self.groups, "sample_weight": self.weight, **options}
        if self.y_true is None or self.y_proba is None:
            correct, confidence = np.asarray(self.correct), np.asarray(self.confidence)
            return self._named(evaluate_from_correctness(correct, confidence, **shared))
        found = evaluate_predictions(
            self.y_true, self.y_proba, confidence=self.confidence, labels=self.labels, **shared
        )
        return self._named(replace(found, target=self.target))

    def _named(self, found: Evaluation) -> Evaluation:
        """Write into the operating point which columns it is of, for files to come."""
        point, certification = found.operating_point, found.certification
        origin = replace(
            point.origin,
            probability_columns=self.class_columns,
            confidence_column=self.columns.confidence,
        )
        groups = found.group_certification
        return replace(
            found,
            operating_point=replace(point, origin=origin),
            certification=certification and replace(certification, origin=origin),
            group_certification=groups and groups.with_origin(origin),
            identifiers=self.identifiers,
            identified_by=self.identity.identifier,
        )


def read_predictions(
    path: str | os.PathLike[str],
    *,
    names: ColumnNames | None = None,
    options: FileOptions | None = None,
    identity: Identity | None = None,
) -> PredictionsTable:
    r"""Read a file of predictions: CSV, Parquet, JSON Lines, npz, or a query to a database.

    Parameters
    ----------
    path : str or path-like
        What the file holds is told from the end of its name; ``.gz`` and ``.zst`` are unpacked.
        A folder is the Parquet files in it, ``"-"`` is standard input.
    names : ColumnNames, optional
        Which column is what; found by convention where it is not said. Labels are called y_true,
        label, target or class; probabilities p_*, prob_* or proba_*, followed by the class; or
        there are confidence and correct. There may be group and sample_weight.
    options : FileOptions, optional
        How to open the file: a query, a delimiter, an encoding.
    identity : Identity, optional
        The column that identifies a case, and the one that names its model. A file in which a
        case stands more than once is refused, unless the second column tells its rows apart.

    Returns
    -------
    PredictionsTable
        The columns found, as arrays.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from expertload.predictions import read_predictions
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "predictions.csv"
    ...     _ = file.write_text("label,p_cat,p_dog\ncat,0.9,0.1\ndog,0.3,0.7\ncat,0.4,0.6\n")
    ...     table = read_predictions(file)
    >>> print(table.columns)
    label: label, probabilities: p_cat, p_dog
    >>> table.evaluate().accuracy.estimate
    0.666...
    """
    source = open_source(path, options)
    columns = find_columns(source.columns, names or ColumnNames(), source.where)
    wanted = identity or Identity()
    rows = find_identity(source.columns, wanted, columns.all, source.where)
    found = source.read(tuple(dict.fromkeys((*columns.all, *rows.columns))), columns.numbers)
    n_cases = len(found[columns.all[0]])
    if n_cases == 0:
        raise FileFormatError(f"{source.where} holds no cases.")
    return PredictionsTable(
        where=source.where,
        columns=columns,
        n_cases=n_cases,
        **_arrays(source, columns, found),
        **_identified(source.where, wanted, rows, found),
    )


def _identified(where: str, wanted: Identity, rows: Identity, found: Table) -> dict[str, Any]:
    """Return which case each row is; refused if some are there twice and no column says why."""
    models = None if rows.model is None else found[rows.model]
    if wanted.model is None and rows.model is not None and models is not None:
        check_one_model(models, rows.model, where)
        models, rows = None, replace(rows, model=None)
    if rows.identifier is None:
        return {"identity": rows, "models": models}
    is_named = wanted.identifier is not None
    values = known_identifiers(found[rows.identifier], rows.identifier, where, is_named=is_named)
    if values is None:
        return {"identity": replace(rows, identifier=None), "models": models}
    if models is None:
        check_distinct(values, rows.identifier, where)
    return {"identity": rows, "identifiers": values, "models": models}


def match_cases(tables: Mapping[str, PredictionsTable]) -> dict[str, PredictionsTable]:
    r"""Return predictions of several models for the same cases, in the order of the first.

    Parameters
    ----------
    tables : mapping from str to PredictionsTable
        The predictions by the name of the model. Cases are matched where all have the same column
        of identifiers. Where not, they are returned as they are, and nothing identifies them.

    Returns
    -------
    dict from str to PredictionsTable
        The same predictions.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from expertload.predictions import match_cases, read_predictions
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     a, b = Path(folder) / "a.csv", Path(folder) / "b.csv"
    ...     _ = a.write_text("id,correct,confidence\nx,1,0.9\ny,0,0.6\n")
    ...     _ = b.write_text("id,correct,confidence\ny,1,0.8\nx,1,0.7\n")
    ...     tables = match_cases({"a": read_predictions(a), "b": read_predictions(b)})
    >>> tables["b"].confidence
    array([0.7, 0.8])
    """
    columns = {(table.identity.identifier or "").lower() for table in tables.values()}
    first, *others = tables.items()
    if len(columns) > 1 or not others:
        return {name: table if not others else _anonymous(table) for name, table in tables.items()}
    return {first[0]: first[1], **{name: _matched(first[1], other) for name, other in others}}


def _anonymous(table: PredictionsTable) -> PredictionsTable:
    return replace(table, identity=Identity(model=table.identity.model), identifiers=None)


def _matched(first: PredictionsTable, other: PredictionsTable) -> PredictionsTable:
    column = other.identity.identifier
    if first.identifiers is None or other.identifiers is None or column is None:
        return other
    rows = align(first.identifiers, other.identifiers, column, (first.where, other.where))
    found = other if rows is None else other.take(rows)
    return replace(found, identifiers=first.identifiers)


def _arrays(source: Source, columns: Columns, found: Table) -> dict[str, Any]:
    def numbers(name: str | None) -> FloatArray | None:
        return None if name is None else numbers_from(found[name], name, source.where)

    arrays: dict[str, Any] = {
        "confidence": numbers(columns.confidence),
        "weight": numbers(columns.weight),
        "groups": None if columns.group is None else names_from(found[columns.group]),
    }
    if columns.correct is not None:
        correct = found[columns.correct]
        arrays["correct"] = grades_from(correct, columns.correct, source.where)
    if columns.label is not None:
        given = labels_from(found[columns.label], columns.label, source.where)
        if columns.prediction is None:
            return {**arrays, **_predictions(source, columns, found, given)}
        guess = labels_from(found[columns.prediction], columns.prediction, source.where)
        arrays["correct"] = same_class(given, guess, source.where)
        arrays["target"] = _by_name(given)
    return arrays


def _predictions(
    source: Source, columns: Columns, found: Table, given: list[str]
) -> dict[str, Any]:
    """Return labels and probabilities, matched: columns in their order, or a lone one made two."""
    first_rows = dict(zip(reversed(given), range(len(given), 0, -1), strict=True))
    said = said_of_file(source.where, columns.label)
    match = match_columns(first_rows, columns.probabilities, columns.classes, said)
    labels = np.array(plain_classes(match.classes))
    place = np.array([match.place[each] for each in given])
    lone: dict[int | None, tuple[str | None, ...]] = {
        None: columns.probabilities,
        0: (*columns.probabilities, None),
        1: (None, *columns.probabilities),
    }
    return {
        "y_true": labels[place],
        "labels": labels,
        "target": _by_name(given),
        "class_columns": lone[match.lone],
        "y_proba": probabilities_from(columns, found, source.where, lone=match.lone),
    }


def _by_name(labels: list[str]) -> IntArray:
    keys = {label: class_key(label) for label in set(labels)}
    number = {key: i for i, key in enumerate(sorted(set(keys.values())))}
    return np.array([number[keys[label]] for label in labels])
