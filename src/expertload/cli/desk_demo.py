"""`expertload desk demo`: the whole desk in one command."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expertload.cli.desk import open_desk
from expertload.cli.screen import console

if TYPE_CHECKING:
    from expertload.desk import Desk
    from expertload.desk.demo import Cast, Digits


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
        from expertload.desk.watch.state import change_rules

        digits = play.train()
        screen.print(digits.point.guarantee)
        desk.write(change_rules, play.DEMO_RULES)
        link, colleagues = play.prepare(desk, digits)
        digits = _play_a_day(desk, digits, colleagues)
        listening = socket.create_server(("127.0.0.1", port))
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
    for each in play(desk, digits, colleagues):
        digits = each.digits
        loads.append(each.load)
        if len(loads) == 4 or each.news:
            mean = sum(loads) / len(loads)
            screen.print(f"load {mean:4.0%}  {'#' * round(40 * mean)}", markup=False)
            loads.clear()
        if each.news:
            screen.print(f"  {each.news}", markup=False, soft_wrap=True)
    return digits


def _run(desk: Desk, listening: socket.socket, cast: Cast, link: str | None) -> None:
    """Serve until Ctrl-C; sender and colleagues start when the desk is up, and stop at its end."""
    import uvicorn

    from expertload.desk.app import create_app

    config = uvicorn.Config(
        create_app(desk), log_level="warning", server_header=False, timeout_graceful_shutdown=3
    )
    server = uvicorn.Server(config)
    opening = threading.Thread(target=_start_cast, args=(server, cast, link), daemon=True)
    opening.start()
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        cast.stop()
        listening.close()


def _start_cast(server: object, cast: Cast, link: str | None) -> None:
    import webbrowser

    while not getattr(server, "started", False):
        time.sleep(0.02)
    cast.start()
    if link is not None:
        webbrowser.open(link)


def _say_goodbye(desk: Desk, folder: Path) -> None:
    from expertload.desk.watch.state import state_of

    state = desk.read(state_of)
    counts = state["counts"]
    typer.echo(
        f"\n{counts['received']} cases received, {counts['decided']} decided automatically, "
        f"{counts['answers']} answers given."
    )
    typer.echo(f"The desk is kept in {folder}. To export and evaluate the reviewed cases:")
    typer.echo(f"  expertload desk export reviewed.csv --data {folder} --cases labelled")
    typer.echo("  expertload evaluate reviewed.csv --model-column none")
