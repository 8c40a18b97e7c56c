"""`expertload lab lower-load`: lower the expert load on your data, step by step."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from expertload.cli.lab_train import ACCESS, TRAINING
from expertload.cli.options import takes
from expertload.cli.screen import Screen, console, table_of

if TYPE_CHECKING:
    from rich.table import Table

    from expertload.lab.ladder.outcome import LadderRow, LowerLoad
    from expertload.significance import Interval

WIDE = 150  # the width of a screen that has room for all numbers


@takes(training=TRAINING.only("settings", "accelerator"), access=ACCESS.without("device"))
def lower_load(
    data: Annotated[str, typer.Argument()] = "digits",
    target_accuracy: list[float] | None = None,
    network: str | None = None,
    epochs: Annotated[int, typer.Option(min=1)] = 30,
    networks: Annotated[int, typer.Option(min=2)] = 2,
    aucoc: bool = True,
    max_passes: Annotated[int | None, typer.Option(min=2)] = None,
    augment: bool = True,
    image_size: Annotated[int | None, typer.Option(min=1)] = None,
    start: Annotated[Path | None, typer.Option("--continue")] = None,
    out: Path | None = None,
    jobs: Annotated[int | None, typer.Option(min=1)] = None,
    *,
    training: dict[str, Any],
    access: dict[str, Any],
) -> None:
    """Lower the expert load on your data, step by step, and see what each step gains.

    The steps are augmentation, averaged weights, test-time augmentation, the mean of several
    networks, and AUCOC. A step is kept if it helps on validation images; test images choose
    nothing. The result is a table, a certified policy, a report and a model. The command can be
    stopped at any moment; run it again to continue.

    Parameters
    ----------
    data
        A name from 'lab data list', folder:PATH or npz:PATH.
    target_accuracy : ACCURACY, default 0.95 and 0.9
        The accuracy that automatic decisions must reach; the policy is certified for the first. May
        be repeated.
    network : NAME, default small-cnn or resnet8, by the size of images
        A network of the lab, or module:callable.
    epochs
        Epochs per training; augmented networks need more.
    networks
        Networks to train and average.
    aucoc
        Also try AUCOC, which trains the networks once more.
    max_passes, default 8 for each network
        The most passes through a network for one image, over networks and views.
    augment
        Try augmentation.
    image_size : PIXELS
        Resize the images of a folder to this many pixels per side.
    start : RUN
        Start with the weights of an earlier run or lower-load.
    out : FOLDER, default runs/lower-load-DATA
        Folder for all output.
    jobs, default all of a step
        Networks to train at a time.
    """
    from expertload.lab.ladder.lowering import lower_load as climb_it

    given = [] if image_size is None else [f"data.image_size={image_size}"]
    given += [] if augment else ["data.augment=false"]
    screen = console()
    outcome = climb_it(
        data,
        out=out,
        network=network,
        epochs=epochs,
        networks=networks,
        target_accuracy=target_accuracy or (0.95, 0.9),
        aucoc=aucoc,
        max_passes=max_passes,
        start=start,
        settings=[*given, *training["settings"]],
        data_dir=access["data_dir"],
        allow=access["allow"],
        jobs=jobs,
        accelerator=training["on"]["accelerator"],
        console=screen,
    )
    print_outcome(screen, outcome)


def print_outcome(screen: Screen, outcome: LowerLoad) -> None:
    """Print the table, the promise, and the paths of all output."""
    from expertload.lab.ladder.outcome import HALVES
    from expertload.lab.runs.folder import RunFolder

    say = screen.say
    screen.print()
    screen.print(_table(outcome, wide=screen.width >= WIDE))
    say(
        "\nIn percent. Changes are relative to the step before, with 95 % intervals over test "
        "images. Steps before the mean of the networks are means over single networks. Certified: "
        "the threshold is certified on one half of the test images, and its load is measured on "
        "the other half."
    )
    say(f"\n{HALVES}")
    say(outcome.promise)
    if outcome.policy is not None:
        say(
            f"On the other half it delegates {outcome.certified.load:.1%} and is right in "
            f"{outcome.certified.accuracy:.1%} of the rest."
        )
    say("")
    for what, path in {
        "model": outcome.model,
        "policy": outcome.policy,
        "report": outcome.report,
        "curves": outcome.picture,
        "table": outcome.table,
    }.items():
        say(f"{what:<7} {path if path is not None else 'none: nothing could be certified'}")
    say("\nNext, for new images:")
    network = RunFolder(outcome.model).config().model.name
    allowed = f" --allow-import {network}" if ":" in network else ""
    folder = shlex.quote(str(outcome.report.parent))
    say(f"  expertload lab predict {folder} --data folder:NEW --out new.csv{allowed}")
    if outcome.policy is not None:
        say(f"  expertload decide {shlex.quote(str(outcome.policy))} new.csv --keep image")


def _table(outcome: LowerLoad, *, wide: bool) -> Table:
    """Return a table with a row per step; a narrow screen shows only the main numbers."""
    first = _load_at(outcome.target_accuracies[0])
    brief = ("AUCOC", "accuracy", first, f"{first}, change")
    cells = [_cells(row, first) for row in outcome.rows]
    headings = [heading for heading in cells[0] if wide or heading in brief]
    rows = []
    for row, own in zip(outcome.rows, cells, strict=True):
        style = "" if row.is_taken else "dim"
        shown = (_title(row), *(own[heading] for heading in headings))
        rows.append([Text(cell, style=style) for cell in shown])
    return table_of(["", *headings], rows)


def _load_at(target_accuracy: float) -> str:
    return f"load at {100 * target_accuracy:g}"


def _cells(row: LadderRow, first: str) -> dict[str, str]:
    """Return the cells of a row by heading."""
    return {
        "AUCOC": f"{100 * row.aucoc:.2f}",
        "accuracy": f"{100 * row.accuracy:.1f}",
        **{_load_at(target): f"{100 * load:.1f}" for target, load in row.loads.items()},
        "certified": f"{100 * row.certified_load:.1f}",
        "AUCOC, change": _points(row.aucoc_change, 2),
        f"{first}, change": _points(row.load_change, 1),
        "training": f"{row.seconds:.0f} s",
        "passes": f"{row.passes:g}",
    }


def _title(row: LadderRow) -> str:
    """Return the title of a step, with its choice, or that it was not taken."""
    if not row.is_taken:
        return f"{row.title}: not taken"
    return f"{row.title} ({row.choice})" if row.choice else row.title


def _points(change: Interval | None, decimals: int) -> str:
    """Return a change in points, with its interval."""
    if change is None:
        return ""
    low, high = (f"{100 * end:+.{decimals}f}" for end in (change.low, change.high))
    return f"{100 * change.estimate:+.{decimals}f} ({low} to {high})"
