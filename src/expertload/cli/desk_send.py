"""`expertload desk send FILE`: send the cases of a file to a desk."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expertload.cli.desk import HERE
from expertload.cli.options import COLUMNS, IDENTITY, OPENING, takes
from expertload.cli.screen import complain, console, one_line, rows_done

if TYPE_CHECKING:
    from expertload.desk.client import SentOutcome
    from expertload.io import ColumnNames, FileOptions, Identity

ROWS = 1_000


@takes(
    columns=COLUMNS.only("probabilities", "logits", "classes", "confidence", "prediction", "group"),
    identity=IDENTITY.only("identifier", "cluster"),
    opening=OPENING,
)
def send(
    file: Path,
    token: Annotated[str, typer.Option(envvar="EXPERTLOAD_DESK_TOKEN")] = "",
    address: str = HERE,
    model: str | None = None,
    text: str | None = None,
    image: str | None = None,
    *,
    columns: ColumnNames,
    identity: Identity,
    opening: FileOptions,
) -> None:
    """Send the cases of a file to a desk; print what became of them, and why.

    Each case needs a key of its own (`id`). Sending a file again is safe: the desk answers cases
    that it has as it did the first time. So after an interruption, run the same command again.

    Parameters
    ----------
    file
        Predictions, as 'expertload evaluate' reads them.
    token : TOKEN
        A token with the role api; the variable keeps it out of the shell's history.
    address : URL
        The desk's address.
    model : NAME
        The model, if the policy names one.
    text : COLUMN
        The text that readers see.
    image : COLUMN
        The path of the image that readers see, from the folder of the file.
    """
    if text is not None and image is not None:
        raise typer.BadParameter("Readers see either --text or --image.")
    if not token:
        raise typer.BadParameter(
            "A desk needs a token with the role api. Hint: set EXPERTLOAD_DESK_TOKEN to what "
            "'expertload desk token add' printed."
        )
    from expertload.desk.client import DeskClient

    seen = ("text", text) if text is not None else ("image", image)
    cases = _cases(file, columns, identity, opening, *seen)
    if model is not None:
        cases = ({**case, "model": model} for case in cases)
    with rows_done(file.name) as progress, DeskClient(address, token) as desk:
        outcomes = Counter[tuple[str, str]]()
        for n, outcome in enumerate(desk.send_many(cases), start=1):
            outcomes[_kind(outcome)] += 1
            if progress is not None:
                progress(n, None)
    _summarise(outcomes)


def _kind(outcome: SentOutcome) -> tuple[str, str]:
    if outcome.is_acknowledged:
        return outcome.status, (outcome.cause or "").replace("_", " ")
    return ("refused" if outcome.status == "refused" else "not sent"), outcome.error or ""


def _summarise(outcomes: Counter[tuple[str, str]]) -> None:
    """Print how many cases were decided, and why the others were not."""
    screen, totals = console(), Counter[str]()
    for (status, _), n in outcomes.items():
        totals[status] += n
    counted = ", ".join(f"{totals[status]:,} {status}" for status in totals) or "nothing to send"
    screen.print(f"{totals.total():,} cases: {counted}.")
    for (status, why), n in outcomes.most_common(20):
        if status != "decided":
            screen.print(f"  {n:,} {status}: {one_line(why)}", markup=False, soft_wrap=True)
    if totals["refused"] or totals["not sent"]:
        complain("Run the same command again for what was not sent; change what was refused.")
        raise typer.Exit(1)


def _cases(
    file: Path,
    names: ColumnNames,
    identity: Identity,
    opening: FileOptions,
    kind: str,
    seen: str | None,
) -> Iterator[dict[str, Any]]:
    """Yield each row of a file as a case."""
    from expertload.exceptions import FileFormatError
    from expertload.io.columns import IDENTIFIERS, find_probabilities
    from expertload.io.source import open_source

    source = open_source(file, opening)
    header = source.header
    picked = find_probabilities(header, names)
    roles = {
        "key": header.find(identity.identifier, IDENTIFIERS),
        "cluster": header.find(identity.cluster),
        "group": header.role("group", names.group),
        "label": header.role("prediction", names.prediction),
        kind: None if seen is None else header.named(seen),
    }
    numbers = list(picked.columns)
    if len(numbers) < 2:
        confidence = header.role("confidence", names.confidence)
        numbers = [confidence] if confidence and roles["label"] else []
    if roles["key"] is None or not numbers:
        raise FileFormatError(
            f"{header.where} cannot be sent: a case needs a key (the column id), and the "
            "probabilities of at least two classes, or a confidence with a prediction. Hint: "
            "name the columns with --id and --probabilities, or --confidence and --prediction."
        )
    taken = {role: name for role, name in roles.items() if name is not None}
    if len(numbers) > 1:
        taken.pop("label", None)  # the most probable class
    for texts, values in source.batches(list(taken.values()), numbers, size=ROWS):
        written = [texts[name].to_pylist() for name in taken.values()]
        rows = zip(zip(*written, strict=True), _rows(values, numbers), strict=True)
        for cells, row in rows:
            named = zip(taken, cells, strict=True)
            case: dict[str, Any] = {r: str(c) for r, c in named if c is not None}
            body = case.pop(kind, None)
            if body is not None:
                case["body"] = {"kind": kind, "content": _content(file, kind, body)}
            if len(numbers) == 1:
                yield {**case, "confidence": row[0]}
            else:
                proba = _softmax(row) if picked.is_logits and None not in row else row
                yield {**case, "probabilities": dict(zip(picked.classes, proba, strict=True))}


def _rows(values: dict[str, Any], names: list[str]) -> Iterable[tuple[Any, ...]]:
    return zip(*(values[name].to_pylist() for name in names), strict=True)


def _softmax(row: tuple[float, ...]) -> list[float]:
    import numpy as np

    powers = np.exp(np.subtract(row, max(row)))
    return list(map(float, powers / powers.sum()))


def _content(file: Path, kind: str, body: str) -> str:
    """Return a text as it is, and an image's bytes in base64."""
    if kind == "text":
        return body
    from expertload.exceptions import DataNotFoundError

    path = file.parent / body
    try:
        return base64.b64encode(path.read_bytes()).decode()
    except OSError as error:
        raise DataNotFoundError(
            f"The image {path} could not be read: {error.strerror}. Hint: paths are from the "
            "folder of the file."
        ) from error
