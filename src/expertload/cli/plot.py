"""`expertload plot FILE... --out coc.png`: plot the COC curve of files of predictions."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expertload._names import ColumnNames, FileOptions, Identity
from expertload.cli.files import (
    check_models,
    check_picture,
    print_warnings,
    read_models,
    save_picture,
)
from expertload.cli.options import COLUMNS, IDENTITY, OPENING, Names, takes
from expertload.cli.screen import console, one_line, true_text

if TYPE_CHECKING:
    from expertload.display import COCComparisonDisplay, TeamDisplay


@takes(columns=COLUMNS.without("group"), identity=IDENTITY, opening=OPENING)
def plot(
    files: list[Path],
    out: Annotated[Path, typer.Option()],
    target_accuracy: float | None = None,
    confidence_level: float = 0.95,
    title: str | None = None,
    name: Names = None,
    *,
    columns: ColumnNames,
    identity: Identity,
    opening: FileOptions,
) -> None:
    """Plot the COC curve: accuracy of automatic decisions against the share left to experts.

    With `--expert`, plot the team's curve: the accuracy of model and experts together.

    Columns are found by name, as for `expertload evaluate`.

    Parameters
    ----------
    files : FILE
        Predictions, as for 'evaluate'. Several files are several models in one plot.
    out : PICTURE
        The file to write: .png, .svg or .pdf.
    target_accuracy : ACCURACY
        Mark where each curve reaches this accuracy.
    confidence_level : LEVEL
        Confidence level of the bands and intervals.
    title
        A title above the plot.
    """
    patterns = [columns.probabilities] if columns.probabilities else []
    check_models(files, patterns, identity.model)
    check_picture(out, others=files)
    if identity.expert is not None and len(files) > 1:
        raise typer.BadParameter("--expert plots one team: name one FILE.")
    columns = replace(columns, group="none")
    tables = read_models(files, name, columns, patterns, identity, opening)
    print_warnings(tables.values())
    cases = {model: table.cases for model, table in tables.items()}

    def draw() -> COCComparisonDisplay | TeamDisplay:
        from expertload.display import COCComparisonDisplay, TeamDisplay
        from expertload.operating_point import choose
        from expertload.team import evaluate_team

        drawn: COCComparisonDisplay | TeamDisplay
        if identity.expert is not None:
            (own,) = cases.values()
            team = evaluate_team(own, threshold=math.inf)
            drawn = TeamDisplay(team.curve, combined=team.combined_curve).plot()
        else:
            drawn = COCComparisonDisplay.from_cases(cases, confidence_level=confidence_level)
            if target_accuracy is not None:
                for name, own in cases.items():
                    drawn.displays[name].mark(choose(own, target_accuracy=target_accuracy))
        if title is not None:
            drawn.ax_.set_title(true_text(title), loc="left", parse_math=False)
        return drawn

    save_picture(draw, out)
    screen = console()
    for table in tables.values():
        screen.say(one_line(f"{table.where}: {table.used}"), "dim")
    screen.say(f"The plot is in {out}.")
