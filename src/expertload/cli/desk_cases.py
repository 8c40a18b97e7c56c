"""`expertload desk send FILE` and `desk demo`: cases for a desk, from a file or made up."""

from __future__ import annotations

import base64
import socket
import tempfile
import threading
import time
import webbrowser
from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expertload._names import ColumnNames, FileOptions, Identity
from expertload.cli.desk import HERE, open_desk
from expertload.cli.options import COLUMNS, IDENTITY, OPENING, takes
from expertload.cli.screen import complain, console, one_line, rows_done
from expertload.exceptions import DataNotFoundError, FileFormatError

if TYPE_CHECKING:
    from expertload.desk import Desk
    from expertload.desk.client import SentOutcome
    from expertload.desk.demo import Cast, Digits


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
        outcomes, examples = Counter[tuple[str, str]](), dict[tuple[str, str], str]()
        sent = chain(desk.send_many(islice(cases, 1)), desk.send_many(cases))
        for n, outcome in enumerate(sent, start=1):
            if n == 1 and outcome.cause == "model_not_named":
                complain(
                    "The desk's policy is for a named model, and these cases name none. Only the "
                    f"first case, '{one_line(outcome.key)}', was sent; it stays with experts. "
                    "Hint: pass --model NAME; 'expertload desk policy list' shows it."
                )
                raise typer.Exit(1)
            kind = _kind(outcome)
            outcomes[kind] += 1
            examples.setdefault(kind, outcome.key)
            if progress is not None:
                progress(n, None)
    _summarise(outcomes, examples)


def _kind(outcome: SentOutcome) -> tuple[str, str]:
    """Return what became of a case and why; equal refusals of several cases are one kind."""
    if outcome.is_acknowledged:
        return outcome.status, (outcome.cause or "").replace("_", " ")
    why = (outcome.error or "").replace(f"'{outcome.key}'", "'…'")
    return ("refused" if outcome.status == "refused" else "not sent"), why


def _summarise(outcomes: Counter[tuple[str, str]], examples: dict[tuple[str, str], str]) -> None:
    """Print how many cases were decided, and why the others were not."""
    screen, totals = console(), Counter[str]()
    for (status, _), n in outcomes.items():
        totals[status] += n
    counted = ", ".join(f"{totals[status]:,} {status}" for status in totals) or "nothing to send"
    screen.print(f"{totals.total():,} cases: {counted}.")
    for (status, why), n in outcomes.most_common(20):
        if status != "decided":
            first = examples[status, why] if status == "refused" else ""
            example = f" First case: {first}" if first else ""
            line = f"  {n:,} {status}: {one_line(why + example)}"
            screen.say(line)
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
    from scipy.special import softmax

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
    for texts, values in source.batches(list(taken.values()), numbers, size=1_000):
        written = [texts[name].to_pylist() for name in taken.values()]
        given = [values[name].to_pylist() for name in numbers]
        rows = zip(zip(*written, strict=True), zip(*given, strict=True), strict=True)
        for cells, row in rows:
            named = zip(taken, cells, strict=True)
            case: dict[str, Any] = {r: str(c) for r, c in named if c is not None}
            body = case.pop(kind, None)
            if body is not None:
                case["body"] = {"kind": kind, "content": _content(file, kind, body)}
            if len(numbers) == 1:
                yield {**case, "confidence": row[0]}
            else:
                proba = softmax(row).tolist() if picked.is_logits and None not in row else row
                yield {**case, "probabilities": dict(zip(picked.classes, proba, strict=True))}


def _content(file: Path, kind: str, body: str) -> str:
    """Return a text as it is, and an image's bytes in base64."""
    if kind == "text":
        return body

    path = file.parent / body
    try:
        return base64.b64encode(path.read_bytes()).decode()
    except OSError as error:
        raise DataNotFoundError(
            f"The image {path} could not be read: {error.strerror}. Hint: paths are from the "
            "folder of the file."
        ) from error


# ------------------------------------------------------------------ the demo


def demo(
    data: Path | None = None,
    port: Annotated[int, typer.Option(min=0, max=65535)] = 0,
    rate: Annotated[float, typer.Option(min=0.01, max=100)] = 1.0,
    drift_after: Annotated[int, typer.Option(min=0)] = 200,
    browser: bool = True,
) -> None:
    """Try the desk: spoiled digits, small networks, a certified policy, and you as the expert.

    First a day of work is played: experts' answers teach a second network, which takes over when
    that is shown to be safe, and the load falls. Then cases come live, and you are one of the
    readers. Later the images change, and the desk withdraws the policy.

    Parameters
    ----------
    data : FOLDER
        Where to keep the desk; a temporary folder by default.
    port
        The port; 0 takes a free one.
    rate
        Cases per second.
    drift_after
        Of the live cases, mirror all after these: an alarm follows.
    browser
        Open the page in a browser.
    """
    screen = console()
    folder = data or Path(tempfile.mkdtemp(prefix="expertload-desk-"))
    with open_desk(str(folder), serving=True) as desk:
        screen.print("Training a small network on 80 spoiled digits, certifying on 400 others ...")
        from expertload.desk import demo as play
        from expertload.desk.app import listen
        from expertload.desk.watch.state import edit_rules

        digits = play.train()
        screen.print(digits.point.guarantee)
        desk.write(edit_rules, play.DEMO_RULES.model_dump())
        link, colleagues = play.prepare(desk, digits)
        digits = _play_a_day(desk, digits, colleagues)
        listening = listen("127.0.0.1", port)
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        cases = digits.cases(run=f"{int(time.time())}", first=play.N_CASES, drift_after=drift_after)
        cast = play.Cast(desk, cases, colleagues, rate=rate)
        typer.echo(f"\nOpen this link, which works once:  {address}/welcome/{link}")
        typer.echo("Review digits there. The manager's page is Overview.")
        typer.echo("Ctrl-C ends the demo.")
        _run(desk, listening, cast, f"{address}/welcome/{link}" if browser else None)
        _say_goodbye(desk, folder)


def _play_a_day(desk: Desk, digits: Digits, colleagues: list[int]) -> Digits:
    """Play the rounds of a day on a new desk, and print how the load falls."""
    from expertload.desk.demo import play
    from expertload.desk.watch.state import state_of

    if desk.read(state_of)["counts"]["received"]:
        return digits
    screen = console()
    screen.print("Playing a day of work, about half a minute ...")
    loads: list[float] = []
    for played in play(desk, digits, colleagues):
        digits = played.digits
        loads.append(played.load)
        if len(loads) == 4 or played.news:
            mean = sum(loads) / len(loads)
            screen.print(f"load {mean:4.0%}  {'#' * round(40 * mean)}")
            loads.clear()
        if played.news:
            screen.say(f"  {played.news}")
    return digits


def _run(desk: Desk, listening: socket.socket, cast: Cast, link: str | None) -> None:
    """Serve until Ctrl-C; sender and colleagues stop at the end."""
    from expertload.desk.app import create_app, serve

    cast.start()
    if link is not None:  # in a thread: the port is open, and some browsers do not return
        threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()
    try:
        serve(create_app(desk), listening)
    finally:
        cast.stop()


def _say_goodbye(desk: Desk, folder: Path) -> None:
    from expertload.desk.watch.state import state_of

    counts = desk.read(state_of)["counts"]
    typer.echo(
        f"\n{counts['received']} cases received, {counts['decided']} decided automatically, "
        f"{counts['answers']} answers given."
    )
    typer.echo(f"The desk is kept in {folder}. To export and evaluate the reviewed cases:")
    typer.echo(f"  expertload desk export reviewed.csv --data {folder} --cases labelled")
    typer.echo("  expertload evaluate reviewed.csv --model-column none")
