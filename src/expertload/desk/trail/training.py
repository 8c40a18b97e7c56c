"""Exports what experts have answered: as a data set for trainers, or for annotation tools.

For training, images are written into a folder for each class, with `metadata.csv` beside them, as
PyTorch, Hugging Face and `expertload lab` expect. All other cases are rows of `train.parquet`: a
text is a column, a table of one row or a JSON object is a column for each of its names.
`manifest.json` says what was exported and what was left out.

Cases that are set apart are never exported, whatever happened before: see `intake.sampling`. Nor
are golden cases, which test readers.

For Label Studio or Argilla, every answer that counts is exported with its reader's name, a
correction in place of what it corrects. Images become data addresses. The content of erased cases
stays erased.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from sqlalchemy import select, text

from expertload._files import new_folder
from expertload._names import Tool
from expertload._store import TRAINING_SET
from expertload.desk.desk import Desk
from expertload.desk.intake.receiving import classes_of
from expertload.desk.intake.sampling import is_set_apart, training_probability
from expertload.desk.queue.managing import ERASED
from expertload.desk.store.database import AnyRow, Project, Transaction
from expertload.desk.store.tables import LIVE, events
from expertload.desk.trail.export import without_formulas
from expertload.exceptions import DeskRefusedError
from expertload.io.annotations import Answered, write_annotations
from expertload.io.write import open_writer

EXPORTED = "training.exported"
ROWS_AT_ONCE = 100  # bodies may be large
IMAGES, TABLE, MANIFEST = "metadata.csv", "train.parquet", "manifest.json"
COLUMNS = ("key", "label", "weight", "patient")
LONGEST_FOLDER = 200  # bytes; no file system takes more than 255
NOT_IN_NAMES = '\\/:*?"<>|%'
# A case that the policy accepted was labelled because it was drawn, or in a look-back, which takes
# the smallest draws of a policy from a time on. Every other case was labelled because it came.
_QUERY = text(f"""
    SELECT c.id, c.key, c.cluster, c.draw, c.rate, b.kind, b.media_type, b.content,
      CASE WHEN NOT c.accepted THEN 1.0 WHEN back.share > c.rate THEN back.share
        ELSE c.rate END AS labelled,
      CASE WHEN c.state = 'closed' THEN live.label ELSE c.predicted END AS label
    FROM cases AS c
    LEFT JOIN bodies AS b ON b.id = c.id {LIVE}
    LEFT JOIN (
      SELECT x.policy_id, max(x.draw) AS share, min(x.received) AS since
      FROM readings AS r JOIN cases AS x ON x.id = r.case_id
      WHERE r.why = 'look-back' GROUP BY x.policy_id
    ) AS back ON back.policy_id = c.policy_id AND c.received >= back.since
    WHERE c.project_id = :project AND c.truth IS NULL
      AND (c.audit = 'right' OR (c.state = 'closed' AND live.label IS NOT NULL))
    ORDER BY c.id
""")


def check_nothing_trained(transaction: Transaction) -> None:
    """Refuse to move cases between the two sides once some of them may have taught a model."""
    if transaction.value(_exports(transaction).limit(1)) is not None:
        raise DeskRefusedError(
            "conflict",
            "'certify_share' cannot change any more: cases were exported for training, and cases "
            "that train must never certify.",
        )


def _exports(transaction: Transaction) -> Any:
    is_export = events.c.kind.startswith(EXPORTED)
    return (
        select(events.c.id)
        .where(transaction.in_project(events), events.c.case_id.is_(None), is_export)
        .order_by(events.c.id)
    )


def export_for_training(desk: Desk, folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Write a new folder with all cases that may train, completely or not at all.

    Returns
    -------
    dict
        The manifest.
    """
    with new_folder(folder) as draft:
        # From this event on, `certify_share` is fixed; so it is written before a case is read.
        desk.write(_announce)
        manifest = TRAINING_SET.complete(desk.read(_fill, draft))
        Path(draft, MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return manifest


def _announce(transaction: Transaction) -> None:
    transaction.require_alone()  # nobody changes the rules meanwhile
    transaction.event(f"{EXPORTED}: certify_share = {transaction.project.rules.certify_share:g}")


def _fill(transaction: Transaction, folder: Path) -> dict[str, Any]:
    """Write all cases of one point in time; return the content of the manifest."""
    training = _TrainingSet(folder, transaction.project, classes_of(transaction))
    options, project = {"yield_per": ROWS_AT_ONCE}, {"project": transaction.project.id}
    for row in transaction.connection.execute(_QUERY, project, execution_options=options):
        training.add(row)
    return training.finish() | {"event": transaction.values(_exports(transaction))[-1]}


class _TrainingSet:
    """A folder that is being filled, and what the manifest says about it."""

    def __init__(self, folder: Path, project: Project, known: Sequence[str]) -> None:
        self.folder, self.project = folder, project
        self.classes: Counter[str] = Counter()
        self.left_out = {"set_apart": 0, "erased": 0}
        self.known = known
        self.images: list[dict[str, Any]] = []
        self.rows: list[dict[str, Any]] = []

    def add(self, row: AnyRow) -> None:
        """Add a labelled case, unless it must not train."""
        if is_set_apart(self.project, row):
            self.left_out["set_apart"] += 1
            return
        if row.content == ERASED:
            self.left_out["erased"] += 1
            return
        # A case that was not drawn was labelled because somebody asked for it.
        labelled = row.labelled if row.draw <= row.labelled else 1.0
        probability = training_probability(self.project, row, labelled=labelled)
        own = dict(zip(COLUMNS, (row.key, row.label, 1 / probability, row.cluster), strict=True))
        self.classes[row.label] += 1
        if row.kind == "image":
            self.images.append({"file_name": self._write_image(row), **own})
        else:
            self.rows.append(own | dict(features(row)))

    def _write_image(self, row: AnyRow) -> str:
        name = f"{_folder_name(row.label)}/{row.id:08d}.{row.media_type.partition('/')[2]}"
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(row.content)
        return name

    def finish(self) -> dict[str, Any]:
        """Write the tables; return the content of the manifest."""
        if not self.classes:
            raise DeskRefusedError(
                "too_few",
                "No case can train yet: "
                f"{self.left_out['set_apart']} labelled case(s) are set apart to certify.",
                "have more cases read.",
            )
        names = sorted({*self.classes, *self.known})
        if self.images:
            for name in names:  # also of classes that nobody has seen yet: a model has all of them
                Path(self.folder, _folder_name(name)).mkdir(exist_ok=True)
            columns = _as_columns(self.images)
            with open_writer(self.folder / IMAGES) as write:
                write({**without_formulas(columns), "file_name": columns["file_name"]})
        if self.rows:
            with open_writer(self.folder / TABLE) as write:
                write(_as_columns(self.rows))
        share = self.project.rules.certify_share
        files = [name for name in (IMAGES, TABLE) if Path(self.folder, name).exists()]
        return {
            "project": self.project.name,
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "n_cases": self.classes.total(),
            "classes": dict(sorted(self.classes.items())),
            "folders": {name: _folder_name(name) for name in names},
            "files": {name: _file_digest(self.folder / name) for name in files},
            "certify_share": share,
            "left_out": self.left_out,
            "note": f"{self.left_out['set_apart']} labelled case(s) are not here: a keyed hash "
            f"sets a share of {share:g} apart for all time, patients with all of their cases. They "
            "certify models and never train one. 'weight' is 1 / the probability that a case was "
            "labelled and is here.",
        }


def _folder_name(label: str) -> str:
    """Return a label as a folder's name that every system accepts."""
    plain = "".join(quote(c, safe="") if c in NOT_IN_NAMES else c for c in label)
    if plain.startswith(".") or plain in (IMAGES, TABLE, MANIFEST):
        plain = f"%{ord(plain[0]):02X}{plain[1:]}"
    if len(data := plain.encode()) > LONGEST_FOLDER:
        digest = hashlib.sha256(label.encode()).hexdigest()[:16]
        plain = data[: LONGEST_FOLDER - 20].decode(errors="ignore") + f"%{digest}"
    return plain


def _file_digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# ------------------------------------------------------------------ bodies as columns


def features(row: AnyRow) -> Iterator[tuple[str, Any]]:
    """Yield the columns of a body that is not an image."""
    if row.kind is None:
        return
    if row.kind == "text":
        yield "text", bytes(row.content).decode()
        return
    content = json.loads(row.content)
    if row.kind == "table" and len(content) == 2:
        names, values = content
        content = dict(zip(map(str, names), values, strict=True))
    if not isinstance(content, dict):
        content = {row.kind: content}
    for name, value in content.items():
        shown = json.dumps(value) if isinstance(value, dict | list) else value
        yield f"body.{name}" if name in COLUMNS else name, shown


def _as_columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return columns of one type each; text if values have several."""
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(values, "string" if name == "patient" else None)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            texts = [None if value is None else str(value) for value in values]
            columns[name] = pa.array(texts, "string")
    return columns


# ------------------------------------------------------------------ for annotation tools

_CASES = text("""
    SELECT c.id, c.key, c.predicted, c.confidence, c.model, b.kind, b.media_type, b.content
    FROM cases AS c LEFT JOIN bodies AS b ON b.id = c.id
    WHERE c.project_id = :project ORDER BY c.id
""")
_ANSWERS = text("""
    SELECT a.case_id, u.name, a.label
    FROM answers AS a JOIN users AS u ON u.id = a.reader JOIN cases AS c ON c.id = a.case_id
    WHERE c.project_id = :project AND a.standing = 'counted'
      AND NOT EXISTS (SELECT 1 FROM answers AS later WHERE later.supersedes = a.id)
    ORDER BY a.id
""")


def export_annotations(desk: Desk, path: str | os.PathLike[str], *, tool: Tool) -> int:
    """Write all cases and answers, completely or not at all; return the number of cases."""
    cases = desk.read(answered_cases)
    write_annotations(path, cases, tool=tool)
    return len(cases)


def answered_cases(transaction: Transaction) -> list[Answered]:
    """Return the cases of one point in time; of a reader's answers to a case, the last."""
    project, answers = {"project": transaction.project.id}, dict[int, dict[str, str]]()
    for case, reader, label in transaction.connection.execute(_ANSWERS, project):
        answers.setdefault(case, {})[reader] = label
    return [
        Answered(
            row.key,
            _shown(row),
            tuple(answers.get(row.id, {}).items()),
            row.predicted,
            row.confidence,
            row.model,
        )
        for row in transaction.connection.execute(_CASES, project)
    ]


def _shown(row: AnyRow) -> dict[str, Any]:
    if row.kind is None or row.content == ERASED:
        return {}
    if row.kind == "image":
        content = base64.b64encode(row.content).decode()
        return {"image": f"data:{row.media_type};base64,{content}"}
    return dict(features(row))
