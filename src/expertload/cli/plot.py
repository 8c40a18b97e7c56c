"""`expertload plot FILE... --out coc.png`: plot the COC curve of files of predictions."""

from __future__ import annotations

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
    from expertload.evaluation import Evaluation


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
    found = {
        model: table.evaluate(
            target_accuracy=0.95 if target_accuracy is None else target_accuracy,
            confidence_level=confidence_level,
        )
        for model, table in tables.items()
    }
    print_warnings(tables.values())
    mark = target_accuracy is not None
    save_picture(lambda: _drawn(found, title, is_team=identity.expert is not None, mark=mark), out)
    screen = console()
    for table in tables.values():
        screen.say(one_line(f"{table.where}: {table.used}"), "dim")
    screen.say(f"The plot is in {out}.")


def _drawn(
    found: dict[str, Evaluation], title: str | None, *, is_team: bool, mark: bool
) -> COCComparisonDisplay | TeamDisplay:
    from expertload.display import COCComparisonDisplay, COCDisplay, TeamDisplay
    from expertload.operating_point import choose

    drawn: COCComparisonDisplay | TeamDisplay
    if is_team:
        (team,) = [model.team for model in found.values()]
        if team is None:
            raise typer.BadParameter("--expert needs the probabilities of the model.")
        drawn = TeamDisplay(team.curve, combined=team.combined_curve).plot()
    else:
        curves = {
            name: COCDisplay(
                expert_load=model.curve.expert_load,
                accuracy=model.curve.accuracy,
                aucoc=model.aucoc,
                band=model.band,
                name=name,
            )
            for name, model in found.items()
        }
        drawn = COCComparisonDisplay(curves).plot()
        for name, model in found.items():
            if mark:
                curves[name].mark(choose(model.cases, target_accuracy=model.target_accuracy))
    if title is not None:
        drawn.ax_.set_title(true_text(title), loc="left", parse_math=False)
    return drawn
