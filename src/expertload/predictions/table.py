"""The predictions of a model as arrays, and those of several models for the same cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from expertload._cases import Predictions, check_weight
from expertload._opening import Coded
from expertload._typing import AnyArray, FloatArray, IntArray
from expertload.calibrators import ConfidenceScore
from expertload.columns import Columns, names_from
from expertload.evaluation import Evaluation, Members, evaluate_from_correctness
from expertload.evaluation.evaluate import evaluate_matched
from expertload.exceptions import FileFormatError
from expertload.predictions.identity import (
    Identity,
    align,
    certifiable_groups,
    check_distinct,
    split_rows,
)

__all__ = ["PredictionsTable", "match_cases"]

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
        weight = check_weight(self.weight, self.n_cases)
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
        return groups and Members.from_codes(names_from(groups.values), groups.codes)

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
