"""Reads a file of predictions into arrays for an evaluation."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from expertload._cases import Predictions, check_weight
from expertload._opening import Coded, FileOptions, Progress, Table, open_source
from expertload._typing import AnyArray, FloatArray, IntArray
from expertload.calibrators import ConfidenceScore
from expertload.columns import (
    ColumnNames,
    Columns,
    check_names_told_apart,
    find_columns,
    find_role,
    is_graded,
    names_from,
)
from expertload.evaluation import Evaluation, Members, evaluate_from_correctness
from expertload.evaluation.evaluate import evaluate_matched
from expertload.exceptions import FileFormatError
from expertload.predictions.arrays import arrays_from
from expertload.predictions.contradictions import check_logits
from expertload.predictions.identity import (
    Identity,
    align,
    certifiable_groups,
    check_distinct,
    check_not_trained,
    check_one_model,
    find_identity,
    find_split,
    known_clusters,
    known_identifiers,
    split_rows,
)

__all__ = ["PredictionsTable", "match_cases", "read_predictions"]

# The fields with one value per case.
ROW_WISE = (
    "place",
    "y_proba",
    "target",
    "correct",
    "confidence",
    "weight",
    "identifiers",
    "models",
    "clusters",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class PredictionsTable:
    """The content of a file of predictions.

    Attributes
    ----------
    where : str
        The file's name.
    columns : Columns
        The columns that were used.
    n_cases : int
        The number of rows.
    y_proba, labels : ndarray or None
        Probabilities, and the label of each column if known.
    place : ndarray or None
        The column number of the true class of each case.
    target : ndarray or None
        Labels as numbers, in the order of their names: the same in every file of the same cases.
    class_columns : tuple of str or None, optional
        The column of each class; None for one of two classes that has none.
    correct, confidence : ndarray or None
        Correctness, and the confidence that ranks cases.
    weight : ndarray or None
        The weight of each case.
    group_codes : Coded or None
        The distinct groups, and the index of each case's group.
    identity : Identity
        The columns that identify the case and the model of a row.
    identifiers, models : ndarray or None
        The values of these columns.
    clusters : ndarray or None
        The cluster of each case, from a named column or one with a usual name.
    is_clustered : bool
        Whether the user named the cluster column.
    """

    where: str
    columns: Columns
    n_cases: int
    y_proba: FloatArray | None = None
    labels: AnyArray | None = None
    place: IntArray | None = None
    target: IntArray | None = None
    class_columns: tuple[str | None, ...] | None = None
    correct: FloatArray | None = None
    confidence: FloatArray | None = None
    group_codes: Coded | None = None
    weight: FloatArray | None = None
    identity: Identity = field(default_factory=Identity)
    identifiers: AnyArray | None = None
    models: AnyArray | None = None
    clusters: AnyArray | None = None
    is_clustered: bool = False

    @property
    def warning(self) -> str:
        """A warning if cases seem to form clusters but no cluster column was named; else empty."""
        column = self.identity.cluster
        if self.is_clustered or self.clusters is None or column is None:
            return ""
        named = [cluster for cluster in self.clusters.tolist() if cluster is not None]
        n_clusters = len(set(named))
        if n_clusters == len(named):
            return ""
        return (
            f"The column '{column}' of {self.where} has {n_clusters} distinct values for "
            f"{len(named)} cases. If cases with the same value belong together, they are not "
            "independent: intervals are too narrow, and a certified accuracy is too optimistic. "
            f"Hint: pass --cluster {column}, or --cluster none if the column means something else."
        )

    @property
    def used(self) -> str:
        """The columns that were used, in words."""
        cluster = f", cluster: {self.identity.cluster}" if self.is_clustered else ""
        return f"{self.columns}{cluster}"

    @property
    def y_true(self) -> AnyArray | None:
        """The true label of each case; None if only correctness is known."""
        return None if self.labels is None or self.place is None else self.labels[self.place]

    @property
    def groups(self) -> AnyArray | None:
        """The group of each case as text; None for missing groups."""
        return (
            None
            if self.group_codes is None
            else names_from(self.group_codes.values)[self.group_codes.codes]
        )

    def take(self, rows: IntArray) -> PredictionsTable:
        """Return some rows, in the order given."""
        arrays = {name: getattr(self, name) for name in ROW_WISE}
        taken = {name: each[rows] for name, each in arrays.items() if each is not None}
        groups = self.group_codes
        own = groups and groups._replace(codes=groups.codes[rows])
        return replace(self, n_cases=len(rows), group_codes=own, **taken)

    def by_model(self) -> dict[str, PredictionsTable]:
        """Return the rows of each model, if the file has a model column."""
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
        """Refuse a file in which an identifier occurs more than once."""
        if self.identifiers is not None and self.identity.identifier is not None:
            check_distinct(self.identifiers, self.identity.identifier, where)

    def evaluate(self, *, score: ConfidenceScore | None = None, **options: Any) -> Evaluation:
        """Evaluate the predictions.

        Parameters
        ----------
        score : ConfidenceScore, optional
            Ranks cases instead of the largest probability. Must not be chosen on these cases.
        **options
            ``target_accuracy``, ``confidence_level``, ``method``, ``certify_groups`` and
            ``cluster_promise``, as in `expertload.evaluation.evaluate_predictions`.
        """
        if options.get("certify_groups") and self.columns.group in self._answers():
            raise FileFormatError(
                f"Groups that are certified must be known of new cases, and '{self.columns.group}' "
                f"of {self.where} is what they are asked for. Hint: name another column (--group)."
            )
        options["groups"] = self._groups() if options.get("certify_groups") else self._members()
        options["clusters"] = self.clusters if self.is_clustered else None
        if self.place is None or self.y_proba is None or self.labels is None:
            correct, confidence = np.asarray(self.correct), np.asarray(self.confidence)
            found = evaluate_from_correctness(
                correct, confidence, sample_weight=self.weight, **options
            )
            return self._named(found)
        weight = check_weight(self.weight, self.n_cases, "evaluate_predictions")
        names = tuple(self.labels.tolist())
        predictions = Predictions(self.place, self.y_proba, weight)
        ranked_by = self.confidence if score is None else score.confidence(self.y_proba)
        found = evaluate_matched(predictions, names, confidence=ranked_by, **options)
        return self._named(replace(found, target=self.target), score)

    def _answers(self) -> set[str]:
        """Return the columns that only the answers to new cases will fill."""
        return {name for name in (self.columns.label, self.columns.correct) if name is not None}

    def _groups(self) -> AnyArray | None:
        groups, column = self.groups, self.columns.group
        return None if groups is None else certifiable_groups(groups, str(column), self.where)

    def _members(self) -> Members | None:
        groups = self.group_codes
        return groups and Members.from_codes(
            names_from(groups.values), groups.codes, "evaluate_predictions"
        )

    def _named(self, found: Evaluation, score: ConfidenceScore | None = None) -> Evaluation:
        """Store the columns in the operating point, to find them in new files."""
        point, certification = found.operating_point, found.certification
        origin = replace(
            point.origin,
            ranked_by=point.origin.ranked_by if score is None else "score",
            score=score,
            probability_columns=self.class_columns,
            read_as=self.columns.read_as,
            confidence_column=self.columns.confidence,
        )
        groups, targets = found.group_certification, found.target_certification
        return replace(
            found,
            operating_point=replace(point, origin=origin),
            certification=certification and replace(certification, origin=origin),
            group_certification=groups and groups.with_origin(origin),
            target_certification=targets and targets.with_origin(origin),
            identifiers=self.identifiers,
            identified_by=self.identity.identifier,
        )


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
    source = open_source(path, options, progress)
    columns = find_columns(
        source.columns, names or ColumnNames(), source.where, numbered=source.numbered
    )
    wanted = identity or Identity()
    rows = find_identity(source.columns, wanted, columns.all, source.where)
    said = _said(source.columns, names or ColumnNames(), columns, source.where)
    said = source.beside(said, columns.all[0])
    split = find_split(source.columns, (*columns.all, *rows.columns), source.where)
    split = source.beside(split, columns.all[0])
    listed = source.classes_of(len(columns.probabilities)) if columns.is_numbered else None
    labels = (columns.label, columns.prediction, columns.group, said, split)
    few = tuple(dict.fromkeys(name for name in labels if name))
    many = (*columns.numbers, *(name for name in (columns.correct, *rows.columns) if name))
    found, codes = source.read_coded(tuple(dict.fromkeys(many)), columns.numbers, few)
    if columns.correct and is_graded(found[columns.correct]):  # the opener reads numbers in text
        found |= source.read([columns.correct], [columns.correct])
    for name in (*rows.columns, *few):
        values = found[name] if name in rows.columns else codes[name].values
        check_names_told_apart(values, name, source.where)
    n_cases = len(next(iter(found.values())))
    if n_cases == 0:
        raise FileFormatError(f"{source.where} holds no cases.")
    if columns.is_logits and not (names and names.logits):
        check_logits(columns, found, source.where)
    if split is not None:
        check_not_trained(codes[split].values, split, source.where)
    return PredictionsTable(
        where=source.where,
        n_cases=n_cases,
        **arrays_from(source.where, columns, found, codes, said=said, listed=listed),
        **_identified(source.where, wanted, rows, found),
        **_clustered(source.where, wanted, rows, found),
    )


def _said(available: Sequence[str], names: ColumnNames, columns: Columns, where: str) -> str | None:
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


def match_cases(tables: Mapping[str, PredictionsTable]) -> dict[str, PredictionsTable]:
    r"""Return predictions of several models for the same cases, in the order of the first.

    Parameters
    ----------
    tables : mapping from str to PredictionsTable
        The predictions by the name of the model. Cases are matched if all tables have the same
        identifier column. Otherwise the tables are returned unchanged, without identifiers.

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
    kept = replace(table.identity, identifier=None)
    return replace(table, identity=kept, identifiers=None)


def _matched(first: PredictionsTable, other: PredictionsTable) -> PredictionsTable:
    column = other.identity.identifier
    if first.identifiers is None or other.identifiers is None or column is None:
        return other
    rows = align(first.identifiers, other.identifiers, column, (first.where, other.where))
    found = other if rows is None else other.take(rows)
    return replace(found, identifiers=first.identifiers)
