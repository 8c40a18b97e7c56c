"""Reads a file of predictions into arrays for an evaluation."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from expertload._label_arrays import number_clusters
from expertload._labels import class_key, match_by_order, match_columns, named_class, plain_classes
from expertload._names import VOTES, ColumnNames, FileOptions, Identity
from expertload._typing import AnyArray, FloatArray, IntArray
from expertload.cases import Cases
from expertload.evaluation import Members
from expertload.exceptions import FileFormatError
from expertload.io.columns import (
    SPLITS,
    Header,
    file_wording,
    find_columns,
    find_identity,
)
from expertload.io.source import Progress, Source, open_source
from expertload.io.table import (
    PredictionsTable,
    check_distinct,
    check_named,
    check_not_trained,
    check_one_model,
    known_clusters,
)
from expertload.io.values import (
    Coded,
    check_logits,
    check_names,
    check_names_told_apart,
    check_not_opposite,
    check_predictions,
    check_present,
    class_keys,
    class_numbers,
    grades_from,
    is_graded,
    names_from,
    numbers_from,
    probabilities_from,
)
from expertload.tally import check_weight
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
        clusters is named. A warning says so if a column looks like one that should be.

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
    table = read_predictions(path, names=names, options=options, identity=identity)
    if table.warning:
        wanted = f"identity=Identity(cluster={table.identity.cluster!r})"
        warnings.warn(f"{table.warning} In Python: {wanted}.", stacklevel=2)
    return table.cases


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
    content = _Content(source, given, wanted)
    if content.columns.is_logits and not given.logits:
        check_logits(content.columns, content.table, source.where)
    fields = {**content.answers(), **content.identified()}
    cases = content.described(fields.pop("cases"))
    return PredictionsTable(where=source.where, cases=cases, members=content.members, **fields)


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
    named = [source.header.named(name) for name in (case, reader, answer)]
    table = source.read(named)
    return Readings.from_frame(table, case=named[0], reader=named[1], answer=named[2])


# ------------------------------------------------------------------ the content of a file


class _Content:
    """The columns of a file that are used, and their values, read at once.

    Numbers and identifiers are read as they are, names as codes. `stated` is a column of
    predictions that is only compared with the probabilities, and `listed` are the classes of a
    matrix, if the file lists them.
    """

    def __init__(self, source: Source, given: ColumnNames, wanted: Identity) -> None:
        header = source.header

        def distinct(label: str) -> list[str]:
            coded = source.read_coded((), (), (label,))[1][label]
            return [name for name in names_from(coded.values) if name is not None]

        label = header.role("label", given.label)
        if label and not (given.probabilities or given.logits):
            source.match_tokens(lambda: distinct(label))
            header = source.header
        columns = find_columns(header, given, numbered=source.numbered, values_of=distinct)
        columns = replace(columns, is_half=not source.halves.isdisjoint(columns.probabilities))
        rows = find_identity(header, wanted, columns.all)
        if rows.expert is not None and rows.expert == columns.label:
            raise FileFormatError(
                f"The column '{rows.expert}' of {header.where} cannot be both the truth and an "
                "expert's answer. Hint: name the column with what a person answered alone "
                "(--expert)."
            )
        taken = (*columns.all, *rows.columns)
        free = Header([name for name in header.names if name not in taken], header.where)
        stated = header.role("prediction", given.prediction) if columns.probabilities else None
        stated = None if stated in columns.all else source.beside(stated, columns.all[0])
        split = source.beside(free.find(None, SPLITS), columns.all[0])
        labels = (columns.label, columns.prediction, columns.group, stated, split)
        few = tuple(dict.fromkeys(name for name in labels if name))
        correct = (columns.correct,) if columns.correct else ()
        many = tuple(dict.fromkeys((*columns.numbers, *correct, *rows.columns)))
        table, codes = source.read_coded(many, columns.numbers, few)
        if not len(next(iter(table.values()))):
            raise FileFormatError(f"{header.where} holds no cases.")
        if columns.correct and is_graded(table[columns.correct]):  # numbers in text
            table |= source.read(correct, correct)
        for name in (*rows.columns, *few):
            values = table[name] if name in rows.columns else codes[name].values
            check_names_told_apart(values, name, header.where)
        if split is not None:
            check_not_trained(codes[split].values, split, header.where)
        self.where, self.columns, self.rows, self.wanted = header.where, columns, rows, wanted
        self.table, self.codes, self.stated = table, codes, stated
        self.listed = source.classes_of(len(columns.probabilities)) if columns.is_numbered else None

    @property
    def members(self) -> Members | None:
        """The names of the groups, and the number of each case's group."""
        if self.columns.group is None:
            return None
        values, codes = self.codes[self.columns.group]
        return Members.from_names(names_from(values), codes)

    def described(self, cases: Cases) -> Cases:
        """Return cases with their groups, named clusters and experts' answers."""
        column, expert, group = self.rows.cluster, self.rows.expert, self.columns.group
        if expert is not None and cases.proba is None:
            raise FileFormatError(
                f"Experts' answers need the classes of the model's answers. Got no probabilities "
                f"in {self.where}. Hint: name their columns (--probabilities)."
            )
        if group is not None:
            values, codes = self.codes[group]
            cases = replace(cases, groups=names_from(values)[codes])
        if column is not None and self.wanted.cluster is not None:
            clusters = known_clusters(self.table[column], column, self.where)
            cases = replace(cases, clusters=number_clusters(clusters, len(cases)))
        return cases.with_experts(None if expert is None else self.table[expert])

    def identified(self) -> dict[str, Any]:
        """Return what identifies each row; refuse repeats, unless a model column explains them."""
        rows, wanted, where = self.rows, self.wanted, self.where
        models = None if rows.model is None else self.table[rows.model]
        if models is not None and wanted.model is None:
            check_one_model(models, str(rows.model), where)
            models, rows = None, replace(rows, model=None)
        fields: dict[str, Any] = {"identity": rows, "models": models}
        if rows.cluster is not None and wanted.cluster is None:
            fields["likely_clusters"] = self.table[rows.cluster]
        if rows.identifier is None:
            return fields
        values = self.table[rows.identifier]
        if wanted.identifier is not None:
            check_named(values, "identifier", rows.identifier, where)
        if models is None:
            check_distinct(values, rows.identifier, where)
        if values.dtype.kind == "O" and None in values.tolist():
            return {**fields, "identity": replace(rows, identifier=None)}
        return {**fields, "identifiers": values}

    def answers(self) -> dict[str, Any]:
        """Return the fields of a `PredictionsTable` that tell what the model answered."""
        columns, target = self.columns, None
        confidence, weight = self._numbers(columns.confidence), self._numbers(columns.weight)
        if columns.label is None:
            column = str(columns.correct)
            correct: AnyArray = grades_from(self.table[column], column, self.where)
        else:
            labels = self._named(columns.label)
            target = _by_name(labels)
            if columns.prediction is None:
                return {"target": target, **self._matched(labels, confidence, weight)}
            guesses, names = self._named(columns.prediction), labels.values.tolist()
            given, guessed = class_numbers(names, guesses.values.tolist(), self.where)
            correct = given[labels.codes] == guessed[guesses.codes]
        cases = Cases.from_correctness(correct, np.asarray(confidence), sample_weight=weight)
        return {"columns": columns, "cases": cases, "target": target}

    def _numbers(self, name: str | None) -> FloatArray | None:
        return None if name is None else numbers_from(self.table[name], name, self.where)

    def _named(self, column: str) -> Coded:
        """Return labels as text; refuse missing ones."""
        coded = self.codes[column]
        names = names_from(coded.values)
        if any(name is None for name in names):
            check_present(names[coded.codes], column, self.where)  # raises, and names the row
        return Coded(names, coded.codes)

    def _matched(
        self, given: Coded, confidence: FloatArray | None, weight: FloatArray | None
    ) -> dict[str, Any]:
        """Return labels and probabilities, matched; a single column becomes two."""
        columns, where, listed = self.columns, self.where, self.listed
        wording, taken = file_wording(where, columns.label), columns.probabilities
        names = given.values.tolist()
        if columns.are_parts_of(VOTES):
            check_names(class_keys(columns.classes), class_keys(names), where)
        # labels may also be places in the list
        is_listed = listed is not None and set(map(class_key, names)) <= set(map(class_key, listed))
        if columns.is_numbered and not is_listed:
            match = match_by_order(names, len(taken), wording)
        else:
            of = listed if is_listed and listed else columns.classes
            match = match_columns(names, taken, of, wording)
        place = np.array([match.place[name] for name in names])
        own = place.astype(np.min_scalar_type(len(match.classes)))[given.codes]
        classes = plain_classes(match.classes)
        y_proba = probabilities_from(columns, self.table, where, lone=match.lone)
        is_unnamed = columns.is_numbered or match.lone is not None  # not all names tell the class
        if is_unnamed:
            columns = columns.of(classes if match.lone is None else [classes[match.lone]])
        by_name = is_listed or (
            match.lone is not None
            and named_class(match.classes, self.columns.classes[0]) is not None
        )
        if is_unnamed and len(classes) == 2 and not by_name:
            check_not_opposite(own, y_proba, taken, columns.classes, where)
        if self.stated is not None:
            check_predictions(self.codes[self.stated], self.stated, classes, y_proba, where)
        other = {None: taken, 0: (*taken, None), 1: (None, *taken)}
        cases = Cases.from_matched(
            own, y_proba, classes, confidence=confidence, weight=check_weight(weight, len(own))
        )
        return {"columns": columns, "class_columns": other[match.lone], "cases": cases}


def _by_name(labels: Coded) -> IntArray:
    """Return labels as numbers, in the order of their names."""
    keys = [class_key(name) for name in labels.values]
    numbers: IntArray = np.unique(keys, return_inverse=True)[1]
    return numbers.astype(np.min_scalar_type(len(keys)))[labels.codes]
