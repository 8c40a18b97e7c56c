"""`expertload cascade SMALL LARGE`: a small model, a large model and a person, one promise."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from expertload._format import percent
from expertload.cli.models import print_warnings, read_models
from expertload.cli.options import COLUMNS, IDENTITY, OPENING, Names, takes
from expertload.cli.outputs import AsJson
from expertload.cli.screen import console, one_line, table_of

if TYPE_CHECKING:
    from expertload.io import ColumnNames, FileOptions, Identity
    from expertload.operating_point import CertifiedCascade


@takes(
    columns=COLUMNS.without("group", "weight"),
    identity=IDENTITY.only("identifier", "cluster"),
    opening=OPENING,
)
def cascade(
    small: Path,
    large: Path,
    target_accuracy: float = 0.95,
    handover: list[float] | None = None,
    costs: str = "0,0,1",
    confidence_level: float = 0.95,
    name: Names = None,
    as_json: AsJson = False,
    *,
    columns: ColumnNames,
    identity: Identity,
    opening: FileOptions,
) -> None:
    """Certify two models in sequence before a person: two thresholds, and one promise over both.

    The small model decides cases at or above its threshold. Else the large model is asked, and
    decides at or above its own. Else an expert does. Columns are found by name, as for `expertload
    evaluate`.

    Parameters
    ----------
    small : SMALL
        Predictions of the model that is asked first, as for 'evaluate'.
    large : LARGE
        Predictions of the model that is asked next, about the same cases; matched by --id, or else
        in the same order.
    target_accuracy : ACCURACY
        The accuracy to promise among all cases that either model decides.
    handover : CONFIDENCE, default the target accuracy
        Below this confidence the small model hands over to the large one; fixed without looking at
        these labels. May be repeated: each is tested at its share of the level, and the cheapest is
        taken.
    costs : PRICES
        The prices of asking the small model, the large model and an expert about one case.
    confidence_level : LEVEL
        The confidence level of the promise.
    """
    from dataclasses import replace

    from expertload.io import match_cases
    from expertload.operating_point import certify_cascade

    names = replace(columns, group="none", weight="none")
    read = read_models(
        [small, large], name, names, [*filter(None, [names.probabilities])], identity, opening
    )
    tables = match_cases(read)
    print_warnings(tables.values())
    first, then = (table.cases for table in tables.values())
    found = certify_cascade(
        first,
        then,
        handover=handover or [target_accuracy],
        target_accuracy=target_accuracy,
        confidence_level=confidence_level,
        costs=_prices(costs),
    )
    stages = _stages(found, [*tables])
    if as_json:
        files = [table.where for table in tables.values()]
        typer.echo(json.dumps(_to_dict(found, files, stages), indent=2, allow_nan=False))
    else:
        _show(found, stages)


def _prices(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"--costs must be three prices, 1,20,300. Got {text}.") from None


def _stages(found: CertifiedCascade, names: list[str]) -> list[dict[str, Any]]:
    """Return what each stage is asked and decides, as shares of all cases, and what that costs."""
    total, load = found.point.n_cases, found.expert_load
    points, asked = (found.small, found.large, None), (1.0, found.large_share, load)
    return [
        {
            "name": name,
            "threshold": point.threshold if point and point.threshold < math.inf else None,
            "asked": share,
            "decided": point.n_accepted / total if point else load,
            "accuracy": point.accuracy if point else None,
            "cost": price * share,
        }
        for name, point, share, price in zip(
            [*names, "experts"], points, asked, found.costs, strict=True
        )
    ]


def _to_dict(
    found: CertifiedCascade, files: list[str], stages: list[dict[str, Any]]
) -> dict[str, Any]:
    from expertload import __version__

    return {
        "expertload": __version__,
        "files": files,
        "n_cases": int(found.point.n_cases),
        "target_accuracy": found.point.target_accuracy,
        "confidence_level": found.confidence_level,
        "is_certified": found.is_certified,
        "guarantee": found.guarantee,
        "expert_load": found.expert_load,
        "mean_cost": found.mean_cost,
        "stages": stages,
    }


def _show(found: CertifiedCascade, stages: list[dict[str, Any]]) -> None:
    from expertload.operating_point.point import digits

    def row(stage: dict[str, Any]) -> list[str]:
        threshold, right = stage["threshold"], stage["accuracy"]
        return [
            one_line(stage["name"]),
            "" if threshold is None else digits(threshold),
            percent(stage["asked"]),
            percent(stage["decided"]),
            "" if right is None else percent(right),
            f"{stage['cost']:.4g}",
        ]

    headings = ["stage", "threshold", "asked", "decides", "right of these", "cost of a case"]
    load, screen = found.expert_load, console()
    screen.print(table_of(headings, map(row, stages)))
    screen.print()
    screen.print(
        f"The models decide {percent(1 - load)} of {found.point.n_cases:.0f} cases and leave "
        f"{percent(load)} to experts. A case costs {found.mean_cost:.4g} on average, and "
        f"{found.costs[2]:.4g} if experts decide all.",
        soft_wrap=True,
    )
    style = "green" if found.is_certified else "yellow"
    screen.print(Text(found.guarantee, style=style), soft_wrap=True)
