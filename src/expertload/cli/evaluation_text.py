"""Prints an evaluation in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from expertload._format import percent, promised
from expertload.cli.screen import one_line
from expertload.operating_point.point import digits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import Console

    from expertload.cli.evaluate import Comparisons, Models
    from expertload.evaluation import Evaluation
    from expertload.io import PredictionsTable
    from expertload.operating_point import OperatingPoint
    from expertload.significance import Interval


N_GROUPS = 5


def print_evaluation(
    screen: Console, name: str, table: PredictionsTable, found: Evaluation
) -> None:
    """Print the numbers, the operating point as a sentence, and the worst groups."""
    screen.print(Text(one_line(name), style="bold"), Text(f"{table.n_cases} cases", style="dim"))
    screen.print(Text(one_line(f"{table.where}: {table.used}"), style="dim"), soft_wrap=True)
    screen.print()
    screen.print(_grid(found.rows))
    screen.print()
    certified = getattr(found.policy, "certified", found.is_certified)
    lead, conditions = found.lead
    screen.print(Text(one_line(lead), style="green" if certified else "yellow"))
    screen.print(Text(one_line(conditions), style="dim"))
    for what, points in (
        ("group", found.group_certification),
        ("answer", found.class_certification),
    ):
        if points is not None:
            screen.print()
            screen.print(_points(what, points))
    if found.team is not None:
        screen.print()
        screen.print(_grid(found.team_rows))
        screen.print(Text(str(found.team), style="dim"))
    if found.groups:
        screen.print()
        screen.print(_groups(found))
    if found.target_certification is not None:
        certified = found.target_certification.items()
        targets = {promised(target): point for target, point in certified}
        screen.print()
        screen.print(_points("target", targets))
        level = promised(found.target_certification.confidence_level)
        screen.print(Text(f"All of these hold together, with {level} confidence.", style="dim"))
    screen.print()


def print_comparisons(
    screen: Console, models: Models, comparisons: Comparisons, matched_by: str | None = None
) -> None:
    """Print each model minus the first, how cases were matched, and what was not compared."""
    first, (compared, apart) = next(iter(models)), comparisons
    target = promised(models[first][1].target_accuracy)
    for other, found in compared.items():
        pair = one_line(f"{other} minus {first}")
        screen.print(Text(f"AUCOC, {pair}: {found.aucoc}"), soft_wrap=True)
        if found.load is not None:
            screen.print(
                Text(f"Load at {target}, {pair}: {_points_of(found.load)}"), soft_wrap=True
            )
    if compared:
        how = (
            "assumed to be the same cases, in the same order; --id COLUMN matches them"
            if matched_by is None
            else f"on the same cases, matched by {one_line(matched_by)}"
        )
        screen.print(Text(f"Paired comparisons, {how}.", style="dim"))
    for other, why in apart.items():
        said = one_line(f"{other} is not compared with {first}. {why}")
        screen.print(Text(said, style="yellow"), soft_wrap=True)


def _points_of(change: Interval) -> str:
    """Return a difference in load in points, and whether it may be chance."""
    low, high = 100 * change.low, 100 * change.high
    chance = "; this may be chance" if low <= 0 <= high else ""
    level = promised(change.confidence_level)
    return (
        f"{100 * change.estimate:+.1f} points ({level} interval {low:+.1f} to {high:+.1f}){chance}"
    )


def _grid(rows: Iterable[tuple[str, str, str]]) -> Table:
    """Return rows of a name, a number and a remark."""
    grid = Table(box=None, show_header=False, pad_edge=False)
    grid.add_column(style="dim")
    grid.add_column(justify="right", style="bold")
    grid.add_column(style="dim")
    for row in rows:
        grid.add_row(*row)
    return grid


def _points(what: str, points: Mapping[Any, OperatingPoint]) -> Table:
    """Return a table of the certified points of groups, answers or targets."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in (what, "threshold", "automated", "load", "right when automatic"):
        table.add_column(heading, justify="left" if heading == what else "right")
    for group, point in points.items():
        shares = percent(1 - point.expert_load), percent(point.expert_load)
        name, right = Text(one_line(group)), ""
        threshold = Text("none certified", style="yellow")
        if point.accuracy is not None:
            threshold, right = Text(digits(point.threshold)), percent(point.accuracy)
        table.add_row(name, threshold, *shares, right)
    return table


def _groups(found: Evaluation) -> Table:
    shown = found.groups[:N_GROUPS]
    left_out = len(found.groups) - len(shown)
    table = Table(box=None, pad_edge=False, header_style="dim", title_justify="left")
    table.add_column("worst groups" if left_out else "groups")
    for heading in ("cases", "right when automatic", "automated", "load"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for group in shown:
        rate, load = group.accepted_accuracy, group.expert_load
        right = "none automatic"
        if rate is not None:
            right = f"{percent(rate.estimate)} ({percent(rate.low)} to {percent(rate.high)})"
        few = Text("few cases" if group.is_small else "", style="yellow")
        shares = percent(1 - load), percent(load)
        table.add_row(Text(one_line(group.name)), str(group.n_cases), right, *shares, few)
    if left_out:
        table.add_row(Text(f"and {left_out} more", style="dim"))
    return table
