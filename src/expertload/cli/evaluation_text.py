"""Prints an evaluation in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from expertload._format import percent, promised
from expertload.cli.screen import one_line
from expertload.operating_point.point import digits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from expertload.cli.evaluate import Comparisons, Models
    from expertload.evaluation import Evaluation
    from expertload.io import PredictionsTable
    from expertload.operating_point import OperatingPoint
    from expertload.significance import Interval
    from expertload.team import TeamEvaluation


N_GROUPS = 5


def print_evaluation(
    screen: Console, name: str, table: PredictionsTable, found: Evaluation
) -> None:
    """Print the numbers, the operating point as a sentence, and the worst groups."""
    screen.print(Text(one_line(name), style="bold"), Text(f"{table.n_cases} cases", style="dim"))
    screen.print(Text(one_line(f"{table.where}: {table.used}"), style="dim"), soft_wrap=True)
    screen.print()
    screen.print(_numbers(found))
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
        screen.print(_team(found.team, promised(found.confidence_level)))
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


def _numbers(found: Evaluation) -> Table:
    grid = Table(box=None, show_header=False, pad_edge=False)
    grid.add_column(style="dim")
    grid.add_column(justify="right", style="bold")
    grid.add_column(style="dim")
    level = promised(found.confidence_level)
    grid.add_row("AUCOC", f"{found.aucoc.estimate:.4f}", _range(found.aucoc, level, "{:.4f}"))
    grid.add_row("accuracy", percent(found.accuracy.estimate), _range(found.accuracy, level))
    for target, load in found.loads.items():
        reached = "not reached" if load == 1 else percent(load)
        grid.add_row(f"load at {promised(target)}", reached, "on these cases")
    if found.calibration is not None:
        grid.add_row("calibration error", percent(found.calibration.expected_error), "ECE, 15 bins")
        if found.calibration.brier_loss is not None:
            log_loss = f"log loss {found.calibration.log_loss:.4f}"
            grid.add_row("Brier score", f"{found.calibration.brier_loss:.4f}", log_loss)
        if found.calibration.n_impossible:
            zeros = "true classes of probability 0; log loss uses the smallest positive number"
            grid.add_row("", str(found.calibration.n_impossible), zeros)
    return grid


def _team(team: TeamEvaluation, level: str) -> Table:
    """Return a table of experts alone, the model alone, and both together."""
    grid = Table(box=None, show_header=False, pad_edge=False)
    grid.add_column(style="dim")
    grid.add_column(justify="right", style="bold")
    grid.add_column(style="dim")
    sides = {
        "experts alone": team.experts,
        "model alone": team.model,
        "together at the threshold": team.team,
        "answers combined": team.combined,
    }
    for name, interval in sides.items():
        if interval is not None:
            grid.add_row(name, percent(interval.estimate), _range(interval, level))
    if team.delegated_experts is not None:
        grid.add_row("experts on what they get", percent(team.delegated_experts), "below it")
    return grid


def _range(interval: Interval, level: str, style: str = "") -> str:
    low, high = (style.format(v) if style else percent(v) for v in (interval.low, interval.high))
    return f"{low} to {high} ({level} interval)"


def _points(what: str, points: Mapping[Any, OperatingPoint]) -> Table:
    """Return a table of the certified points of groups, answers or targets."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in (what, "threshold", "load", "right when automatic"):
        table.add_column(heading, justify="left" if heading == what else "right")
    for group, point in points.items():
        name, load = Text(one_line(group)), percent(point.expert_load)
        if point.accuracy is None:
            table.add_row(name, Text("none certified", style="yellow"), load, "")
        else:
            table.add_row(name, digits(point.threshold), load, percent(point.accuracy))
    return table


def _groups(found: Evaluation) -> Table:
    shown = found.groups[:N_GROUPS]
    left_out = len(found.groups) - len(shown)
    table = Table(box=None, pad_edge=False, header_style="dim", title_justify="left")
    for heading in (
        "worst groups" if left_out else "groups",
        "cases",
        "right when automatic",
        "load",
        "",
    ):
        table.add_column(
            heading, justify="left" if heading in ("", "groups", "worst groups") else "right"
        )
    for group in shown:
        rate = group.accepted_accuracy
        right = (
            f"{percent(rate.estimate)} ({percent(rate.low)} to {percent(rate.high)})"
            if rate
            else "none automatic"
        )
        few = Text("few cases", style="yellow") if group.is_small else Text("")
        table.add_row(
            Text(one_line(group.name)), str(group.n_cases), right, percent(group.expert_load), few
        )
    if left_out:
        table.add_row(Text(f"and {left_out} more", style="dim"), "", "", "", "")
    return table
