"""The predictions of a file as arrays, and those of several models for the same cases.

A paired test needs the answers of both models to the same case. If two files have different orders,
the resulting numbers look plausible but are wrong. So rows are matched by an identifier if there is
one; if not, the output states that the same order is assumed. A case that occurs in a file once for
each of two models must not be counted twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from expertload._labels import listed
from expertload._names import Identity
from expertload._typing import AnyArray, IntArray
from expertload.calibrators import ConfidenceScore
from expertload.cases import Cases
from expertload.evaluation import Evaluation, Members, evaluate
from expertload.exceptions import FileFormatError, ShapeError
from expertload.io.columns import CLUSTERS, Columns
from expertload.io.formats import text_of
from expertload.io.values import missing_rows
from expertload.tally import check_weight

# With fewer distinct values, such a column names devices or sites rather than people.
FEWEST_CLUSTERS = 20
# What a row lacks, and what to do about it.
NAMELESS = {
    "identifier": ("case", "give every case its own identifier"),
    "cluster": ("cluster", "give a case without a cluster its own cluster name"),
    "model": ("model", "name the model in every row"),
    "group": ("group", "give cases without a group a group name such as 'unknown'"),
}
# The fields with one value per case, besides the cases themselves.
ROW_WISE = ("target", "identifiers", "models", "likely_clusters")


@dataclass(frozen=True, kw_only=True, eq=False)
class PredictionsTable:
    """The content of a file of predictions.

    Attributes
    ----------
    where : str
        The file's name.
    columns : Columns
        The columns that were used.
    cases : Cases
        The predictions, with their groups, and with clusters if their column was named.
    members : Members or None
        The names of the groups, and the number of each case's group.
    target : ndarray or None
        Labels as numbers, in the order of their names: the same in every file of the same cases.
    class_columns : tuple of str or None, optional
        The column of each class; None for one of two classes that has none.
    identity : Identity
        The columns that identify the case and the model of a row.
    identifiers, models : ndarray or None
        The values of these columns.
    likely_clusters : ndarray or None
        The values of a column that the user did not name, but that may hold clusters.
    """

    where: str
    columns: Columns
    cases: Cases
    members: Members | None = None
    target: IntArray | None = None
    class_columns: tuple[str | None, ...] | None = None
    identity: Identity = field(default_factory=Identity)
    identifiers: AnyArray | None = None
    models: AnyArray | None = None
    likely_clusters: AnyArray | None = None

    @property
    def n_cases(self) -> int:
        """The number of rows."""
        return len(self.cases)

    @property
    def warning(self) -> str:
        """A warning if cases seem to form clusters but no cluster column was named; else empty."""
        if self.likely_clusters is None:
            return ""
        harm = "intervals are too narrow, and a certified accuracy is too optimistic"
        return cluster_warning(self.likely_clusters, str(self.identity.cluster), self.where, harm)

    @property
    def used(self) -> str:
        """The columns that were used, in words."""
        cluster = "" if self.cases.clusters is None else f", cluster: {self.identity.cluster}"
        expert = f", expert: {self.identity.expert}" if self.identity.expert else ""
        return f"{self.columns}{cluster}{expert}"

    @property
    def y_true(self) -> AnyArray | None:
        """The true label of each case; None if only correctness is known."""
        cases = self.cases
        return None if cases.target is None else np.array(cases.labels)[cases.target]

    def take(self, rows: IntArray) -> PredictionsTable:
        """Return some rows, in the order given."""
        arrays = {name: getattr(self, name) for name in ROW_WISE}
        taken = {name: values[rows] for name, values in arrays.items() if values is not None}
        groups = self.members
        own = groups and groups._replace(of_case=groups.of_case[rows])
        return replace(self, cases=self.cases.take(rows), members=own, **taken)

    def by_model(self) -> dict[str, PredictionsTable]:
        """Return the rows of each model, if the file has a model column."""
        column, parts = self.identity.model, dict[str, PredictionsTable]()
        if self.models is None or column is None:
            return {self.where: self}
        own = replace(self, identity=replace(self.identity, model=None))
        for name, rows in split_rows(self.models, column, self.where).items():
            parts[name] = part = own.take(rows)
            check_weight(part.cases.weight, part.n_cases)
            if part.identifiers is not None:
                of = f"{self.where} ({name})"
                check_distinct(part.identifiers, str(part.identity.identifier), of)
        return parts

    def evaluate(self, *, score: ConfidenceScore | None = None, **options: Any) -> Evaluation:
        """Evaluate the predictions.

        Parameters
        ----------
        score : ConfidenceScore, optional
            Ranks cases instead of the largest probability. Must not be chosen on these cases.
        **options
            ``target_accuracy``, ``confidence_level``, ``method``, ``certify_groups``, ``promises``
            and ``cluster_promise``, as in `expertload.evaluation.evaluate`.
        """
        if options.get("certify_groups"):
            self._check_groups_are_known()
        cases = self.cases
        if score is not None:
            ranked_by = score.confidence(cases.predictions.proba)
            cases = replace(cases, confidence=ranked_by, is_ranked_by_probability=False)
        evaluation = evaluate(cases, members=self.members, **options)
        point, certification = evaluation.operating_point, evaluation.certification
        # The operating point stores the columns, to find them in new files.
        origin = replace(
            point.origin,
            ranked_by=point.origin.ranked_by if score is None else "score",
            score=score,
            probability_columns=self.class_columns,
            read_as=self.columns.read_as,
            confidence_column=self.columns.confidence,
            group_column=None if evaluation.group_certification is None else self.columns.group,
        )
        kinds = ("group_certification", "class_certification", "target_certification")
        several = {name: getattr(evaluation, name) for name in kinds}
        return replace(
            evaluation,
            target=self.target,
            operating_point=replace(point, origin=origin),
            certification=certification and replace(certification, origin=origin),
            **{name: one and one.with_origin(origin) for name, one in several.items()},
            identifiers=self.identifiers,
            identified_by=self.identity.identifier,
        )

    def _check_groups_are_known(self) -> None:
        """Refuse to certify groups that new cases will not have."""
        column, groups = self.columns.group, self.cases.groups
        if column is None or groups is None:
            raise FileFormatError(
                f"Certifying groups (--certify-groups) needs a column of groups. {self.where} has "
                "none called 'group'. Hint: name the column (--group)."
            )
        if column in (self.columns.label, self.columns.correct):
            raise FileFormatError(
                f"Groups that are certified must be known for new cases, but '{column}' of "
                f"{self.where} is what they are asked for. Hint: name another column (--group)."
            )
        check_named(groups, "group", column, self.where)


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
    >>> from expertload.io import match_cases, read_predictions
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     a, b = Path(folder) / "a.csv", Path(folder) / "b.csv"
    ...     _ = a.write_text("id,correct,confidence\nx,1,0.9\ny,0,0.6\n")
    ...     _ = b.write_text("id,correct,confidence\ny,1,0.8\nx,1,0.7\n")
    ...     tables = match_cases({"a": read_predictions(a), "b": read_predictions(b)})
    >>> tables["b"].cases.confidence
    array([0.7, 0.8])
    """
    columns = {(table.identity.identifier or "").lower() for table in tables.values()}
    if len(columns) > 1:
        return {
            name: replace(
                table, identity=replace(table.identity, identifier=None), identifiers=None
            )
            for name, table in tables.items()
        }
    (own, first), *others = tables.items()
    return {own: first, **{name: _matched(own, first, name, other) for name, other in others}}


def _matched(
    own: str, first: PredictionsTable, name: str, other: PredictionsTable
) -> PredictionsTable:
    """Return the second table in the order of the first."""
    column = other.identity.identifier
    if first.identifiers is None or other.identifiers is None or column is None:
        return other
    names = (own, name) if first.where == other.where else (first.where, other.where)
    rows = align(first.identifiers, other.identifiers, column, names)
    ordered = other if rows is None else other.take(rows)
    return replace(ordered, identifiers=first.identifiers)


# ------------------------------------------------------------------ which rows are which cases


def check_one_model(models: AnyArray, column: str, where: str) -> None:
    """Refuse a file with several models, unless the user named the model column."""
    names = sorted({str(value) for value in models.tolist()})
    if len(names) > 1:
        raise FileFormatError(
            f"The column '{column}' of {where} names {len(names)} models "
            f"({listed(names, most=2)}), which cannot be evaluated as one. Hint: --model-column "
            f'{column} evaluates each model and compares them; --query "SELECT * FROM file WHERE '
            f'{column} = {text_of(names[0])}" evaluates one; if the column means something else, '
            "pass --model-column none."
        )


def check_not_trained(parts: AnyArray, column: str, where: str) -> None:
    """Refuse a file in which some cases, but not all, are those that a model was trained on."""
    names = sorted({str(value) for value in parts.tolist() if value is not None})
    trained = [name for name in names if name.strip().lower() in ("train", "training")]
    others = [name for name in names if name not in trained]
    if trained and others:
        raise FileFormatError(
            f"The column '{column}' of {where} says that some cases are of '{trained[0]}' and "
            f"others of '{others[0]}': counted together, a model looks better than it is. Hint: "
            'leave out those of the training, such as with --query "SELECT * FROM file WHERE '
            f'{column} = {text_of(others[0])}"; if the column means something else, rename it.'
        )


def cluster_warning(values: AnyArray, column: str, where: str, harm: str) -> str:
    """Return a warning if the values of a column repeat as those of clusters do; else empty."""
    named = [cluster for cluster in values.tolist() if cluster is not None]
    n_clusters = len(set(named))
    fewest = 1 if column.lower() in CLUSTERS else FEWEST_CLUSTERS
    if not fewest <= n_clusters < len(named):
        return ""
    return (
        f"The column '{column}' of {where} has {n_clusters} distinct values for {len(named)} "
        f"cases. If cases with the same value belong together, they are not independent: {harm}. "
        f"Hint: pass --cluster {column}, or --cluster none if the column means something else."
    )


def known_clusters(values: AnyArray, column: str, where: str) -> AnyArray:
    """Return the cluster of each case as text; refuse missing clusters."""
    check_named(values, "cluster", column, where)
    return as_text(values)


def check_named(values: AnyArray, role: str, column: str, where: str) -> None:
    """Refuse missing names of cases, clusters or groups."""
    missing = missing_rows(values)
    if missing:
        says, hint = NAMELESS[role]
        raise FileFormatError(
            f"The column '{column}' of {where} names no {says} in row {missing[0] + 1}, and in "
            f"{len(missing)} row(s) in total. Hint: {hint}."
        )


def check_distinct(values: AnyArray, column: str, where: str) -> None:
    """Refuse a file in which an identifier occurs more than once; missing ones are ignored."""
    rows = np.delete(np.arange(len(values)), missing_rows(values))
    texts = as_text(values[rows])
    order = np.argsort(texts, kind="stable")
    again = np.flatnonzero(texts[order][1:] == texts[order][:-1])
    if not len(again):
        return
    twice = order[again[0] : again[0] + 2]
    first, second = sorted(int(row) + 1 for row in rows[twice])
    raise FileFormatError(
        f"The column '{column}' of {where} holds '{texts[twice[0]]}' in row {first} and again in "
        f"row {second}, and {len(again)} such repeat(s) in total: cases would count more than "
        "once. Hint: if the file holds several models, name the column of the model "
        f"(--model-column); if '{column}' does not identify a case, pass --id none."
    )


def split_rows(models: AnyArray, column: str, where: str) -> dict[str, IntArray]:
    """Return the rows of each model, in the order in which models first appear."""
    check_named(models, "model", column, where)
    texts = as_text(models)
    names, first, member = np.unique(texts, return_index=True, return_inverse=True)
    return {str(names[i]): np.flatnonzero(member == i) for i in np.argsort(first)}


def align(first: AnyArray, other: AnyArray, column: str, where: tuple[str, str]) -> IntArray | None:
    """Return the rows of the second table in the order of the first; None if equal already.

    Identifiers are compared as written: 7 and '7' are the same, 7 and '007' are not.
    """
    a, b = as_text(first), as_text(other)
    if a.dtype.kind != b.dtype.kind:
        a, b = a.astype(np.str_), b.astype(np.str_)
    if len(a) == len(b) and (a == b).all():
        return None
    strangers = np.setxor1d(a, b)
    if len(strangers):
        of = where[0] if strangers[0] in a else where[1]
        raise ShapeError(
            f"{where[0]} and {where[1]} must hold the same cases to be compared. Got '"
            f"{strangers[0]}' in the column '{column}' of {of} only, and {len(strangers)} such "
            f"case(s) in total. Hint: keep the cases that both have; if '{column}' does not "
            "identify a case, pass --id none."
        )
    rows = np.empty(len(a), dtype=np.int64)
    rows[np.argsort(a, kind="stable")] = np.argsort(b, kind="stable")
    return rows


def as_text(values: AnyArray) -> AnyArray:
    """Return identifiers as text, to be compared and sorted."""
    if values.dtype.kind != "O":
        return values.astype(np.str_) if values.dtype.kind not in "iu" else values
    return np.array([str(value) for value in values.tolist()])
