"""What `expertload evaluate` prints: numbers, promises, comparisons, the chosen confidence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from rich.table import Table
from rich.text import Text

from expertload._format import percent, promised, shares
from expertload.cli.screen import Screen, one_line, table_of
from expertload.operating_point.point import digits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from expertload.calibrators import ConfidenceScore
    from expertload.cli.evaluate import Comparisons, Models
    from expertload.evaluation import ConfidenceChoice, Evaluation, GroupEvaluation
    from expertload.io import PredictionsTable
    from expertload.operating_point import OperatingPoint
    from expertload.significance import Interval


N_GROUPS = 5


def print_evaluation(
    screen: Screen, name: str, table: PredictionsTable, evaluation: Evaluation
) -> None:
    """Print the numbers, the operating point as a sentence, and the worst groups."""
    screen.print(Text(one_line(name), style="bold"), Text(f"{table.n_cases} cases", style="dim"))
    screen.say(one_line(f"{table.where}: {table.used}"), "dim")
    screen.print()
    screen.print(_grid(evaluation.rows))
    screen.print()
    certified = getattr(evaluation.policy, "certified", evaluation.is_certified)
    lead, conditions = evaluation.lead
    screen.print(one_line(lead), style="green" if certified else "yellow")
    screen.print(one_line(conditions), style="dim")
    if evaluation.thresholds is not None:
        screen.print()
        screen.print(_points(*evaluation.thresholds))
    if evaluation.team is not None:
        screen.print()
        screen.print(_grid(evaluation.team_rows))
        screen.print(str(evaluation.team), style="dim")
    if evaluation.groups:
        screen.print()
        if evaluation.thresholds is not None:
            one = f"one threshold for all cases ({digits(evaluation.operating_point.threshold)})"
            screen.print(f"For comparison: {one}, with no promise to a group.", style="dim")
        screen.print(_groups(evaluation))
    if evaluation.target_certification is not None:
        targets = evaluation.target_certification
        screen.print()
        screen.print(_points("target", {promised(t): point for t, point in targets.items()}))
        level = promised(targets.confidence_level)
        screen.print(f"All of these hold together, with {level} confidence.", style="dim")
    screen.print()


def print_comparisons(
    screen: Screen, models: Models, comparisons: Comparisons, matched_by: str | None = None
) -> None:
    """Print each model minus the first, how cases were matched, and what was not compared."""
    first, (compared, apart) = next(iter(models)), comparisons
    target = promised(models[first][1].target_accuracy)
    for other, difference in compared.items():
        pair = one_line(f"{other} minus {first}")
        screen.say(f"AUCOC, {pair}: {difference.aucoc}")
        if difference.load is not None:
            screen.say(f"Load at {target}, {pair}: {_points_of(difference.load)}")
    if compared:
        how = (
            "assumed to be the same cases, in the same order; --id COLUMN matches them"
            if matched_by is None
            else f"on the same cases, matched by {one_line(matched_by)}"
        )
        screen.print(f"Paired comparisons, {how}.", style="dim")
    for other, why in apart.items():
        refusal = one_line(f"{other} is not compared with {first}. {why}")
        screen.say(refusal, "yellow")


def _points_of(change: Interval) -> str:
    """Return a difference in load in points, and whether it may be chance."""
    low, high = 100 * change.low, 100 * change.high
    chance = "; this may be chance" if low <= 0 <= high else ""
    interval = f"{promised(change.confidence_level)} interval {low:+.1f} to {high:+.1f}"
    return f"{100 * change.estimate:+.1f} points ({interval}){chance}"


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
        load = shares(point.expert_load)
        if point.accuracy is None:
            return one_line(name), Text("none certified", style="yellow"), *load, ""
        return one_line(name), digits(point.threshold), *load, percent(point.accuracy)

    headings = (what, "threshold", "automated", "load", "right when automatic")
    return table_of(headings, [row(*point) for point in points.items()])


def _groups(evaluation: Evaluation) -> Table:
    """Return a table of the worst groups."""

    def row(group: GroupEvaluation) -> tuple[Text | str, ...]:
        rate, load, right = group.accepted_accuracy, group.expert_load, "none automatic"
        if rate is not None:
            right = f"{percent(rate.estimate)} ({percent(rate.low)} to {percent(rate.high)})"
        few = Text("few cases" if group.is_small else "", style="yellow")
        return one_line(group.name), str(group.n_cases), right, *shares(load), few

    rows, left_out = (
        [row(group) for group in evaluation.groups[:N_GROUPS]],
        len(evaluation.groups) - N_GROUPS,
    )
    if left_out > 0:
        rows.append((Text(f"and {left_out} more", style="dim"),))
    first = "worst groups" if left_out > 0 else "groups"
    return table_of((first, "cases", "right when automatic", "automated", "load", ""), rows)


# ------------------------------------------------------------------ --choose-confidence


OPTION = "--choose-confidence"
SHARE = 0.3  # of the cases, to choose on


class SplitChoice(NamedTuple):
    """The score chosen on some cases, and the remaining cases."""

    choice: ConfidenceChoice
    rest: PredictionsTable
    seed: int

    @property
    def score(self) -> ConfidenceScore | None:
        """The score that ranks the remaining cases; None for the maximum probability."""
        return None if self.choice.score.name == "max_probability" else self.choice.score

    def explain(self, evaluation: Evaluation) -> Evaluation:
        """Add to the guarantee which score ranks cases, and on which cases it was chosen."""
        why = (
            f"Cases are ranked by '{self.choice.score.name}', which was chosen on "
            f"{self.choice.n_cases} other cases of the same file (seed {self.seed})."
        )
        return replace(evaluation, conditions=f"{evaluation.conditions} {why}")

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as plain numbers."""
        saved = self.choice.load_saved
        return {
            "score": self.choice.score.to_dict(),
            "n_choosing": self.choice.n_cases,
            "n_certifying": self.rest.n_cases,
            "share": SHARE,
            "seed": self.seed,
            "loads": dict(self.choice.loads),
            "load_saved": {"estimate": saved.estimate, "low": saved.low, "high": saved.high},
            "chosen_without_each_fold": list(self.choice.chosen_without),
        }


def choose_on_a_part(
    tables: Mapping[str, PredictionsTable], seed: int, target: float, level: float
) -> SplitChoice:
    """Choose a confidence on a random part of the only model's cases."""
    from expertload.evaluation import choose_confidence, split_cases

    table = _only(tables)
    choosing, certifying = split_cases(
        table.n_cases, share=SHARE, clusters=table.cases.clusters, random_state=seed
    )
    choice = choose_confidence(
        table.take(choosing).cases,
        target_accuracy=target,
        confidence_level=level,
        random_state=seed,
    )
    return SplitChoice(choice, table.take(certifying), seed)


def _only(tables: Mapping[str, PredictionsTable]) -> PredictionsTable:
    if len(tables) > 1:
        raise typer.BadParameter(f"{OPTION} supports only one model: evaluate models one by one.")
    (table,) = tables.values()
    if table.columns.confidence is not None or table.cases.proba is None:
        raise typer.BadParameter(
            f"{OPTION} needs labels and the probabilities or logits of the classes. It computes "
            "the confidence itself, so leave out --confidence."
        )
    if table.cases.weight is not None:
        raise typer.BadParameter(f"{OPTION} needs cases without weights.")
    return table


def print_choice(screen: Screen, split: SplitChoice) -> None:
    """Print the loads of all scores, the load saved, and which cases remain."""
    choice = split.choice
    styles = {name: "bold" if name == choice.score.name else "" for name in choice.loads}
    rows = [
        [Text(cell, style=styles[name]) for cell in (name, *shares(load))]
        for name, load in choice.loads.items()
    ]
    target = promised(choice.target_accuracy)
    screen.print(table_of(["confidence", f"automated at {target}", f"load at {target}"], rows))
    screen.print()
    screen.print(str(choice))
    others = f"the other {split.rest.n_cases} cases, which were not used for the choice"
    screen.print(f"The results below use {others}.", style="dim")
    screen.print()
