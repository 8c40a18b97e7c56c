"""Lower the expert load step by step, and certify the point at which to run.

Small networks learn handwritten digits that were degraded until some need an expert. Each method
is added to those before it and measured against them. Everything is written to ``demo-output``.
``expertload lab lower-load DATA`` does the same with other data.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from expertload.cli.lab_lower_load import Telling
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
    if not row.numbers.is_taken:
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
        numbers = row.numbers
        shares = (numbers.aucoc, numbers.accuracy, numbers.loads[TARGET])
        cells = [f"{100 * share:.1f}" for share in shares]
        style = None if numbers.is_taken else "dim"
        table.add_row(row.title, *cells, change_of(row), style=style)
    return table


def gained(found: LowerLoad) -> str:
    """Return a sentence about the load before and after all steps."""
    first, last = (found.rows[place].numbers.loads[TARGET] for place in (0, -1))
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
        narrator=Telling(console),
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
    console.print(
        f"\nDone in {time.monotonic() - started:.0f} s.\n"
        f"The policy: {found.policy or 'none'}\n"
        f"The curves: {found.picture}\n"
        f"The report: {found.report}",
        markup=False,
        soft_wrap=True,
    )


if __name__ == "__main__":
    sys.exit(main())
