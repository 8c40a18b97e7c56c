"""`expertload evaluate --choose-confidence`: choose on some cases, certify on the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from rich.text import Text

from expertload._format import percent, promised
from expertload.cli.screen import table_of

if TYPE_CHECKING:
    from rich.console import Console

    from expertload.calibrators import ConfidenceScore
    from expertload.evaluation import ConfidenceChoice, Evaluation
    from expertload.io import PredictionsTable


OPTION = "--choose-confidence"
SHARE = 0.3  # of the cases, to choose on


class SplitChoice(NamedTuple):
    """The score chosen on some cases, and the remaining cases."""

    found: ConfidenceChoice
    rest: PredictionsTable
    seed: int

    @property
    def score(self) -> ConfidenceScore | None:
        """The score that ranks the remaining cases; None for the maximum probability."""
        return None if self.found.score.name == "max_probability" else self.found.score

    def explain(self, evaluation: Evaluation) -> Evaluation:
        """Add to the guarantee which score ranks cases, and on which cases it was chosen."""
        why = (
            f"Cases are ranked by '{self.found.score.name}', which was chosen on "
            f"{self.found.n_cases} other cases of the same file (seed {self.seed})."
        )
        return replace(evaluation, conditions=f"{evaluation.conditions} {why}")

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as plain numbers."""
        saved = self.found.load_saved
        return {
            "score": self.found.score.to_dict(),
            "n_choosing": self.found.n_cases,
            "n_certifying": self.rest.n_cases,
            "share": SHARE,
            "seed": self.seed,
            "loads": dict(self.found.loads),
            "load_saved": {"estimate": saved.estimate, "low": saved.low, "high": saved.high},
            "chosen_without_each_fold": list(self.found.chosen_without),
        }


def choose_on_a_part(
    tables: Mapping[str, PredictionsTable], seed: int, target: float, level: float
) -> SplitChoice:
    """Choose a confidence on a random part of the only model's cases."""
    from expertload.evaluation import choose_confidence, split_cases

    table = _only(tables)
    clusters = table.clusters if table.is_clustered else None
    choosing, certifying = split_cases(
        table.n_cases, share=SHARE, clusters=clusters, random_state=seed
    )
    found = choose_confidence(
        table.take(choosing).cases,
        target_accuracy=target,
        confidence_level=level,
        random_state=seed,
    )
    return SplitChoice(found, table.take(certifying), seed)


def _only(tables: Mapping[str, PredictionsTable]) -> PredictionsTable:
    if len(tables) > 1:
        raise typer.BadParameter(f"{OPTION} supports only one model: evaluate models one by one.")
    (table,) = tables.values()
    if table.confidence is not None or table.y_proba is None or table.place is None:
        raise typer.BadParameter(
            f"{OPTION} needs labels and the probabilities or logits of the classes. It computes "
            "the confidence itself, so leave out --confidence."
        )
    if table.weight is not None:
        raise typer.BadParameter(f"{OPTION} needs cases without weights.")
    return table


def print_choice(screen: Console, choice: SplitChoice) -> None:
    """Print the loads of all scores, the load saved, and which cases remain."""
    found = choice.found
    styles = {name: "bold" if name == found.score.name else "" for name in found.loads}
    rows = [
        [Text(each, style=styles[name]) for each in (name, percent(1 - load), percent(load))]
        for name, load in found.loads.items()
    ]
    target = promised(found.target_accuracy)
    screen.print(table_of(["confidence", f"automated at {target}", f"load at {target}"], rows))
    screen.print()
    screen.print(Text(str(found)))
    screen.print(
        Text(
            f"The results below use the other {choice.rest.n_cases} cases, which were not used for "
            "the choice.",
            style="dim",
        )
    )
    screen.print()
