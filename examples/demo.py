"""Lower the expert load step by step, certify the point at which to run, and learn from experts.

Small networks learn handwritten digits that were degraded until some need an expert. Each method
is added to those before it and measured against them. Then experts' answers teach a model, round
by round. Everything is written to ``demo-output``. ``expertload lab lower-load DATA`` does the
first part with other data, and ``expertload desk demo`` shows the second at a desk.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rounds import AUDITED, FIRST_LABELS, Round, draw, play

from expertload.lab import lower_load
from expertload.lab.ladder.outcome import LadderRow, LowerLoad

TARGET = 0.95
EPOCHS = 6  # about a minute in all on two cores
OUTPUT = Path("demo-output")


def percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def change_of(row: LadderRow) -> str:
    """Return the change of the load by a step, in points, with its interval."""
    change = row.load_change
    if change is None:
        return ""
    if not row.is_taken:
        return "not taken"
    if change.low == change.high:  # validation images preferred the step before
        return "no change"
    return f"{100 * change.estimate:+.1f} ({100 * change.low:+.1f} to {100 * change.high:+.1f})"


def table_of(rows: tuple[LadderRow, ...]) -> Table:
    """Return the table of the ladder, one row per step."""
    table = Table("step", box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("AUCOC", "accuracy", f"load@{100 * TARGET:g}", "change of load"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        shares = (row.aucoc, row.accuracy, row.loads[TARGET])
        cells = [f"{100 * share:.1f}" for share in shares]
        style = None if row.is_taken else "dim"
        table.add_row(row.title, *cells, change_of(row), style=style)
    return table


def gained(found: LowerLoad) -> str:
    """Return a sentence about the load before and after all steps."""
    first, last = (found.rows[place].loads[TARGET] for place in (0, -1))
    return (
        f"For {percent(TARGET)} accuracy on what the networks decide, experts read "
        f"{percent(first)} of the images at the bottom of the ladder and {percent(last)} at the "
        "top."
    )


def promised(found: LowerLoad) -> str:
    """Return the promise of the certified policy, and its effect on other images."""
    if found.policy is None:
        return found.promise
    return (
        f"{found.promise} The policy is certified on one half of the test images. On the other "
        f"half the policy delegates {percent(found.certified.load)} and is right in "
        f"{percent(found.certified.accuracy)} of the rest."
    )


def rounds_of(played: list[Round]) -> Table:
    """Return the table of the rounds in which experts' answers teach."""
    table = Table("round", box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("labels", "load", "right", "read by experts"):
        table.add_column(heading, justify="right", no_wrap=True)
    for number, one in enumerate(played, start=1):
        cells = (
            f"{one.n_labels}",
            f"{100 * one.load:.0f}",
            f"{100 * one.accuracy:.0f}",
            f"{one.n_read}",
        )
        table.add_row(str(number), *cells)
    return table


def main() -> None:
    started = time.monotonic()
    console = Console(highlight=False)
    shutil.rmtree(OUTPUT, ignore_errors=True)
    found = lower_load(
        "digits",
        out=OUTPUT.resolve(),
        epochs=EPOCHS,
        target_accuracy=TARGET,
        accelerator="cpu",
        console=console,
    )
    console.print("\n[bold]What each step gained[/bold]\n")
    console.print(table_of(found.rows))
    console.print(
        "\nIn per cent. AUCOC is the area under the curve of accuracy against expert load; higher "
        f"is better. load@{100 * TARGET:g} is the share of test images that experts must read for "
        f"{percent(TARGET)} accuracy on the rest. Changes are relative to the step before, with 95 "
        "% intervals over test images. Steps before the mean of the networks are means over single "
        "networks. Validation images decide whether a step is taken.\n"
    )
    console.print(gained(found))
    console.print("\n[bold]What can be promised[/bold]\n")
    console.print(promised(found), markup=False)
    console.print("\n[bold]What experts' answers teach[/bold]\n")
    console.print(
        f"Another model starts with {FIRST_LABELS} labelled digits. In each round it decides what "
        f"a certified policy lets it decide; experts read the rest and {percent(AUDITED)} of the "
        "decisions, and their answers teach the next model.\n"
    )
    played = list(play())
    console.print(rounds_of(played))
    console.print(
        f"\nIn per cent. The load fell from {played[0].load:.0%} to {played[-1].load:.0%}. "
        '"right" is the accuracy of about 150 automatic decisions, of which 95 % are promised.'
    )
    loop = OUTPUT.resolve() / "loop.png"
    draw(played, loop)
    console.print(
        f"\nDone in {time.monotonic() - started:.0f} s.\n"
        f"The policy: {found.policy or 'none'}\n"
        f"The curves: {found.picture}\n"
        f"The rounds: {loop}\n"
        f"The report: {found.report}",
        markup=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    sys.exit(main())
