"""Prints an evaluation in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from expertload._format import percent, promised
from expertload.cli.screen import one_line, table_of
from expertload.operating_point.point import digits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import Console

    from expertload.cli.evaluate import Comparisons, Models
    from expertload.evaluation import Evaluation, GroupEvaluation
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
    if found.thresholds is not None:
        screen.print()
        screen.print(_points(*found.thresholds))
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

    def row(name: Any, point: OperatingPoint) -> tuple[Text | str, ...]:
        threshold, right = Text("none certified", style="yellow"), ""
        if point.accuracy is not None:
            threshold, right = Text(digits(point.threshold)), percent(point.accuracy)
        shares = percent(1 - point.expert_load), percent(point.expert_load)
        return Text(one_line(name)), threshold, *shares, right

    headings = (what, "threshold", "automated", "load", "right when automatic")
    return table_of(headings, [row(*each) for each in points.items()])


def _groups(found: Evaluation) -> Table:
    """Return a table of the worst groups."""

    def row(group: GroupEvaluation) -> tuple[Text | str, ...]:
        rate, load, right = group.accepted_accuracy, group.expert_load, "none automatic"
        if rate is not None:
            right = f"{percent(rate.estimate)} ({percent(rate.low)} to {percent(rate.high)})"
        few = Text("few cases" if group.is_small else "", style="yellow")
        name, shares = Text(one_line(group.name)), (percent(1 - load), percent(load))
        return name, str(group.n_cases), right, *shares, few

    rows, left_out = [row(group) for group in found.groups[:N_GROUPS]], len(found.groups) - N_GROUPS
    if left_out > 0:
        rows.append((Text(f"and {left_out} more", style="dim"),))
    first = "worst groups" if left_out > 0 else "groups"
    return table_of((first, "cases", "right when automatic", "automated", "load", ""), rows)
