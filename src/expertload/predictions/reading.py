"""Reads a file of predictions into arrays for an evaluation."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from expertload._opening import Coded, FileOptions, Progress, Source, Table, open_source
from expertload.columns import (
    ColumnNames,
    Columns,
    check_names_told_apart,
    find_columns,
    find_role,
    is_graded,
)
from expertload.exceptions import FileFormatError
from expertload.predictions.arrays import arrays_from
from expertload.predictions.contradictions import check_logits
from expertload.predictions.identity import (
    Identity,
    check_distinct,
    check_not_trained,
    check_one_model,
    find_identity,
    find_split,
    known_clusters,
    known_identifiers,
)
from expertload.predictions.table import PredictionsTable

__all__ = ["read_predictions"]


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
    given, wanted = names or ColumnNames(), identity or Identity()
    columns = find_columns(source.columns, given, source.where, numbered=source.numbered)
    rows = find_identity(source.columns, wanted, columns.all, source.where)
    said = source.beside(_said(source.columns, given, columns, source.where), columns.all[0])
    split = find_split(source.columns, (*columns.all, *rows.columns), source.where)
    split = source.beside(split, columns.all[0])
    listed = source.classes_of(len(columns.probabilities)) if columns.is_numbered else None
    found, codes = _read(source, columns, rows, (said, split))
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
        **arrays_from(source.where, columns, found, codes, said=said, listed=listed),
        **_identified(source.where, wanted, rows, found),
        **_clustered(source.where, wanted, rows, found),
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
