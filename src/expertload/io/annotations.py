"""Cases and answers as Label Studio and Argilla write them: one choice out of several.

Both keep a list of cases in JSON. In Label Studio a case is a task with ``data`` and
``annotations``, as in its JSON export and import; in Argilla it is a record with ``fields`` and
``responses``, as ``dataset.records.to_json`` writes it. What is written here is read back without a
loss: the names of cases and readers, the answers, what is shown, and the model's answer.

Argilla knows readers by a UUID. That of a name is always the same, and the names are stored beside
the answers as metadata ``readers``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args
from uuid import NAMESPACE_URL, uuid5

from expertload._check import check_option
from expertload._files import private, replaced_whole
from expertload._labels import listed
from expertload._names import Tool
from expertload.exceptions import DataNotFoundError, FileFormatError
from expertload.team import Readings

# The name of the question in files written here, and of the field that holds the case's own name.
QUESTION, KEY, READERS = "answer", "key", "readers"


class Answered(NamedTuple):
    """One case, what is shown of it, and the answers to it.

    Attributes
    ----------
    case : str
        The name of the case.
    data : dict
        What readers see, such as ``{"text": "..."}``.
    answers : tuple of (str, str)
        Readers and their answers.
    predicted : str or None
        The model's answer.
    confidence : float or None
        The model's confidence in it.
    model : str or None
        The model's name.
    """

    case: str
    data: dict[str, Any]
    answers: tuple[tuple[str, str], ...] = ()
    predicted: str | None = None
    confidence: float | None = None
    model: str | None = None


def readings_of(cases: Iterable[Answered]) -> Readings:
    """Return the answers to these cases as readings, for `expertload.team`.

    Examples
    --------
    >>> from expertload.io import Answered, readings_of
    >>> readings_of([Answered("a", {}, (("Ann", "cat"), ("Bo", "dog")))])
    Readings(n=2, cases=1, readers=2, labels=('cat', 'dog'))
    """
    rows = [(one.case, *answer) for one in cases for answer in one.answers]
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    return Readings.from_frame(dict(zip(("case", "reader", "answer"), columns, strict=True)))


def read_annotations(
    path: str | os.PathLike[str], *, question: str | None = None
) -> tuple[Answered, ...]:
    """Read a JSON export of Label Studio or Argilla.

    Parameters
    ----------
    path : str or path-like
        The file. Its content tells the program: tasks have annotations, records have responses.
    question : str, optional
        The question whose answers to read: the name of the ``Choices`` tag in Label Studio, of the
        label question in Argilla. Needed if there are several.

    Returns
    -------
    tuple of Answered
        All cases, also those without an answer. A case is named by its field ``key`` in Label
        Studio, if it has one, else by its number. Skipped and empty answers are left out.

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from expertload.io import read_annotations, readings_of
    >>> choice = {"from_name": "animal", "type": "choices", "value": {"choices": ["cat"]}}
    >>> task = {"id": 7, "data": {}, "annotations": [{"completed_by": 3, "result": [choice]}]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "export.json"
    ...     _ = file.write_text(json.dumps([task]))
    ...     readings_of(read_annotations(file))
    Readings(n=1, cases=1, readers=1, labels=('cat',))
    """
    where = Path(path).name
    try:
        items: list[dict[str, Any]] = json.loads(Path(path).read_text(encoding="utf-8"))
        is_argilla = len(items) > 0 and "responses" in items[0]
        read = _argilla_rows if is_argilla else _label_studio_rows
        cases = [(_case_of(item), list(read(item))) for item in items]
    except FileNotFoundError:
        raise DataNotFoundError(f"There is no file {path}.") from None
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise FileFormatError(
            f"{where} must be a JSON list of Label Studio's tasks or Argilla's records. Got "
            f"{type(error).__name__}: {error}. Hint: export as JSON (not JSON-MIN), or with "
            "dataset.records.to_json."
        ) from error
    names = sorted({row.question for _, rows in cases for row in rows})
    wanted = question or (names[0] if names else None)
    if (question is None and len(names) > 1) or wanted not in (*names, None):
        raise FileFormatError(
            f"{where} has the questions {listed(names)}. Hint: pass question=... to say which one "
            "to read."
        )
    return tuple(
        _answered(case, [row for row in rows if row.question == wanted], where)
        for case, rows in cases
    )


def write_annotations(
    path: str | os.PathLike[str], cases: Iterable[Answered], *, tool: Tool
) -> None:
    """Write cases and answers as Label Studio imports tasks, or Argilla records.

    Parameters
    ----------
    path : str or path-like
        The JSON file to write; an older one is replaced completely or not at all. Only its owner
        can read it.
    cases : iterable of Answered
        The cases.
    tool : {"label-studio", "argilla"}
        The program that is to read the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from expertload.io import Answered, read_annotations, write_annotations
    >>> cases = (Answered("a", {"text": "Hello"}, (("Ann", "greeting"),), "greeting", 0.9, "m1"),)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_annotations(Path(folder) / "tasks.json", cases, tool="label-studio")
    ...     [again] = read_annotations(Path(folder) / "tasks.json")
    >>> again in cases, again.confidence
    (True, 0.9)
    """
    check_option(tool, get_args(Tool), "tool")
    convert = _to_argilla if tool == "argilla" else _to_label_studio
    items = [convert(one) for one in cases]
    with replaced_whole(path) as draft, open(draft, "xb", opener=private) as stream:
        stream.write(json.dumps(items, ensure_ascii=False, indent=1).encode() + b"\n")


# ------------------------------------------------------------------ what both have in common


class _Row(NamedTuple):
    """What a reader or, without a reader, the model answered to a question."""

    question: str
    choices: list[Any]
    reader: str | None = None
    confidence: float | None = None
    model: str | None = None


def _answered(case: tuple[str, dict[str, Any]], rows: list[_Row], where: str) -> Answered:
    answers = tuple((r.reader, _one(r.choices, where)) for r in rows if r.reader and r.choices)
    guess = next((row for row in rows if row.reader is None), None)
    if guess is None:
        return Answered(*case, answers)
    return Answered(*case, answers, _one(guess.choices, where), guess.confidence, guess.model)


def _case_of(item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of a case, and what is shown of it."""
    if "fields" in item:
        return str(item["id"]), item["fields"]
    data = dict(item["data"])
    return str(data.pop(KEY) if KEY in data else item["id"]), data


def _one(choices: list[Any], where: str) -> str:
    """Return the only choice."""
    if len(choices) != 1:
        raise FileFormatError(
            f"Every answer in {where} must be one choice. Got {listed(choices)}. Hint: only "
            "single-choice questions can be read."
        )
    return str(choices[0])


# ------------------------------------------------------------------ Label Studio


def _label_studio_rows(task: dict[str, Any]) -> Iterator[_Row]:
    for given in task["annotations"]:
        by = given.get("completed_by")
        reader = str(by.get("email") or by["id"]) if isinstance(by, dict) else str(by)
        if not given.get("was_cancelled"):
            yield from (_Row(*chosen, reader) for chosen in _choices(given))
    for guess in task.get("predictions", [])[:1]:
        about = (None, guess.get("score"), guess.get("model_version"))
        yield from (_Row(*chosen, *about) for chosen in _choices(guess))


def _choices(given: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    for one in given["result"]:
        if one["type"] == "choices":
            yield one["from_name"], one["value"]["choices"]


def _to_label_studio(one: Answered) -> dict[str, Any]:
    def result(answer: str) -> list[dict[str, Any]]:
        tags = {"from_name": QUESTION, "to_name": next(iter(one.data), "text"), "type": "choices"}
        return [{**tags, "value": {"choices": [answer]}}]

    given = [
        {"completed_by": {"email": reader}, "was_cancelled": False, "result": result(answer)}
        for reader, answer in one.answers
    ]
    guess = {"model_version": one.model, "score": one.confidence}
    guesses = [{**guess, "result": result(one.predicted)}] if one.predicted is not None else []
    data = {**one.data, KEY: one.case}
    return {"data": data, "annotations": given, "predictions": guesses}


# ------------------------------------------------------------------ Argilla


def _argilla_rows(record: dict[str, Any]) -> Iterator[_Row]:
    readers = {_user_id(name): name for name in (record.get("metadata") or {}).get(READERS, ())}
    for name, responses in record["responses"].items():
        for given in responses:
            reader = readers.get(given["user_id"], given["user_id"])
            yield _Row(name, _as_list(given["value"]), reader)
    for name, guess in (record.get("suggestions") or {}).items():
        yield _Row(name, _as_list(guess["value"]), None, guess.get("score"), guess.get("agent"))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _to_argilla(one: Answered) -> dict[str, Any]:
    guess = {"value": one.predicted, "score": one.confidence, "agent": one.model}
    responses = [{"value": answer, "user_id": _user_id(reader)} for reader, answer in one.answers]
    return {
        "id": one.case,
        "fields": one.data,
        "metadata": {READERS: [reader for reader, _ in one.answers]},
        "suggestions": {} if one.predicted is None else {QUESTION: guess},
        "responses": {QUESTION: responses} if responses else {},
        "vectors": {},
        "_server_id": None,
    }


def _user_id(reader: str) -> str:
    return str(uuid5(NAMESPACE_URL, reader))
