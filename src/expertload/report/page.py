"""Writes the report: the template, the style, the script and the numbers become one file.

The page downloads nothing and runs only its own script. The browser enforces both: the page has a
content security policy that allows one style sheet and one script, identified by their hashes, and
no connections. So even a name that passed the escaping with a tag could do nothing.
"""

from __future__ import annotations

import json
import math
import os
import platform
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from expertload._check import (
    check_fraction,
    check_models,
    check_positive,
    parameter_error,
    require_extra,
)
from expertload._files import write_atomically
from expertload._format import percent, promised
from expertload.evaluation import Evaluation, compare_with_first
from expertload.operating_point.point import digits as point_digits
from expertload.report import charts
from expertload.report.scale import Frame
from expertload.report.slider import Stops, find_stops

N_COLOURS, N_TABLE_ROWS = 7, 20


def models_of_page(models: Mapping[str, Evaluation]) -> tuple[list[SimpleNamespace], Frame]:
    """Return all that the page shows about each model, and the frame that all curves share."""
    stops = [find_stops(evaluation) for evaluation in models.values()]
    frame = charts.coc_frame(list(models.values()), stops)
    comparisons, _ = compare_with_first(models)
    parts = [
        SimpleNamespace(
            name=name,
            colour=i % N_COLOURS,
            dashes=i // N_COLOURS % 3,
            evaluation=evaluation,
            stops=own,
            lines=charts.curve_lines(frame, evaluation),
            in_words=charts.curve_in_words(name, own),
            reliability=charts.reliability_figure(evaluation),
            histogram=charts.histogram_figure(evaluation),
            team=charts.team_figure(evaluation),
            promises=charts.promise_figures(evaluation),
            parts=charts.part_tables(i, evaluation, own),
            table=_table(own),
            comparison=comparisons.get(name),
        )
        for i, ((name, evaluation), own) in enumerate(zip(models.items(), stops, strict=True))
    ]
    return parts, frame


def _table(stops: Stops) -> list[dict[str, Any]]:
    """Return the numbers of the curve at about every twentieth of the load."""
    loads = stops.load[:-1]
    marks = np.searchsorted(loads, np.arange(N_TABLE_ROWS) / N_TABLE_ROWS)
    rows = np.unique(np.minimum(marks, len(loads) - 1))
    accepted, errors = stops.accepted[rows], stops.errors[rows]
    columns = {
        "threshold": stops.threshold[rows],
        "load": loads[rows],
        "accuracy": 1 - errors / accepted,
        "low": stops.low[rows],
        "high": stops.high[rows],
        "accepted": accepted,
        "errors": errors,
        "is_certified": stops.certified[rows],
    }
    listed = [values.tolist() for values in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*listed, strict=True)]


# ------------------------------------------------------------------ wording


def count(number: float) -> str:
    """Return a count with thin spaces between thousands; weights keep a few digits.

    Examples
    --------
    >>> count(20000.0), count(3.25)
    ('20\u202f000', '3.25')
    """
    whole = number == int(number)
    return (f"{int(number):,}" if whole else f"{number:,.4g}").replace(",", "\u202f")


def digits(threshold: float) -> str:
    """Return a threshold with four digits, or more if it would be rounded down, or to 1.

    Examples
    --------
    >>> digits(0.91238), digits(0.912345), digits(0.9999996), digits(1.0)
    ('0.9124', '0.912345', '0.9999996', '1')
    """
    return "none" if math.isinf(threshold) else point_digits(threshold, 4)


def chance(p_value: float) -> str:
    """Return a p-value as text.

    Examples
    --------
    >>> chance(0.0312), chance(1e-9)
    ('0.031', '< 0.001')
    """
    return "< 0.001" if p_value < 0.001 else f"{p_value:.2g}"


FORMATS: dict[str, Any] = {
    "percent": percent,
    "promised": promised,
    "count": count,
    "digits": digits,
    "chance": chance,
    "score": lambda value: f"{value:.4f}",
    "points": lambda value: f"{100 * value:+.1f}".replace("-", "\N{MINUS SIGN}"),
    "signed": lambda value: f"{value:+.4f}".replace("-", "\N{MINUS SIGN}"),
}


TEMPLATES = Path(__file__).parent / "templates"
INLINED = ("page.css", "tables.js", "page.js")


def build_report(
    models: Mapping[str, Evaluation] | Evaluation,
    *,
    path: str | os.PathLike[str],
    title: str = "Expert load report",
    note: str | None = None,
    expert_accuracy: float = 1.0,
    volume: float | None = None,
    minutes_a_case: float = 3.0,
    created: datetime | None = None,
) -> Path:
    """Write a self-contained HTML page about one model, or several compared.

    Parameters
    ----------
    models : mapping from str to Evaluation, or Evaluation
        Results of `expertload.evaluation.evaluate`, by the name of the model. The
        others are compared with the first one.
    path : str or path-like
        The file to write, which must end in .html; it is replaced completely or not at all.
    title : str, default="Expert load report"
        The heading of the page.
    note : str, optional
        A paragraph under the heading, for example about the data.
    expert_accuracy : float, default=1.0
        How often experts are right; readers can change it on the page. Not used for models whose
        experts' answers are known: what these were right in is used at every threshold.
    volume : float, optional
        The number of cases for which the hours of review are computed; by default, the number of
        evaluated cases. Readers can change it on the page.
    minutes_a_case : float, default=3.0
        The minutes that a review takes; readers can change it on the page.
    created : datetime, optional
        The date on the page, now by default.

    Returns
    -------
    Path
        The path of the page.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from expertload import Cases
    >>> from expertload.evaluation import evaluate
    >>> from expertload.report import build_report
    >>> evaluation = evaluate(Cases.from_correctness([0, 1, 1, 1], [0.6, 0.7, 0.8, 0.9]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = build_report({"triage": evaluation}, path=Path(folder) / "report.html")
    ...     print(page.name, page.read_text(encoding="utf-8").count("<h1>"))
    report.html 1
    """
    check_page_name(path, "path")
    evaluations = _check_evaluations(models)
    defaults = {
        "expertAccuracy": check_fraction(expert_accuracy, "expert_accuracy"),
        "volume": check_positive(
            next(iter(evaluations.values())).n_cases if volume is None else volume,
            "volume",
            zero=True,
        ),
        "minutes": check_positive(minutes_a_case, "minutes_a_case", zero=True),
    }
    page = _render(evaluations, defaults, title, note, created or datetime.now(UTC))
    write_atomically(path, page.encode("utf-8", "replace"))  # a file name may not be valid text
    return Path(path)


def _render(
    models: Mapping[str, Evaluation],
    defaults: dict[str, float],
    title: str,
    note: str | None,
    created: datetime,
) -> str:
    jinja2 = require_extra("jinja2", "report", "The report")
    safe = require_extra("markupsafe", "report", "The report").Markup  # our own text
    parts, frame = models_of_page(models)
    style, *scripts = ((TEMPLATES / name).read_text("utf-8") for name in INLINED)
    script = "\n".join(scripts)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FORMATS)
    page: str = environment.get_template("page.html.j2").render(
        title=title,
        note=note,
        created=created,
        models=parts,
        frame=frame,
        defaults=defaults,
        style=safe(style),
        script=safe(script),
        policy=_content_security_policy(style, script),
        payload=safe(_payload(parts, frame, defaults)),
        versions=_versions(),
    )
    return page


def _content_security_policy(style: str, script: str) -> str:
    """Return a policy that allows only this style, this script, and an empty icon."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


def _payload(parts: list[SimpleNamespace], frame: Frame, defaults: dict[str, float]) -> str:
    """Return the numbers behind the slider, escaped so that no text can end the script block."""
    data = {
        "tables": {table.number: table.moves for part in parts for table in part.parts.values()},
        "models": [
            {
                "name": part.name,
                "histogram": part.histogram.frame.x_range,
                "tables": [table.number for table in part.parts.values()],
                **part.stops.to_dict(),
                **_team(part),
            }
            for part in parts
        ],
        "frame": {"x": [frame.left, frame.right], "y": [frame.bottom, frame.top]},
        "accuracy": frame.y_range,
        "strip": [parts[0].histogram.frame.left, parts[0].histogram.frame.right],
        **defaults,
    }
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _team(part: SimpleNamespace) -> dict[str, list[float]]:
    """Return the team's accuracy at each stop, if experts' answers are known."""
    team = part.evaluation.team
    if team is None:
        return {}
    rows = np.searchsorted(team.curve.thresholds, part.stops.threshold)
    return {"team": team.curve.accuracy[rows].tolist()}


def _versions() -> str:
    from expertload import __version__

    return f"expertload {__version__}, numpy {np.__version__}, Python {platform.python_version()}"


def _check_evaluations(models: Any) -> dict[str, Evaluation]:
    """Return evaluations by name; a single one without a name is called "model"."""
    named = check_models({"Model": models} if isinstance(models, Evaluation) else models)
    for name, model in named.items():
        if not isinstance(model, Evaluation):
            got = f"a {type(model).__name__} for '{name}'"
            wanted = "must map names to Evaluation objects"
            raise parameter_error("models", wanted, got, "pass results of evaluate")
    return named


def check_page_name(path: str | os.PathLike[str], name: str) -> None:
    """Raise unless the name ends in .html, because browsers open HTML only under such names."""
    if not os.fspath(path).lower().endswith((".html", ".htm")):
        hint = "write an .html file; for a PDF, print it from a browser"
        raise parameter_error(name, "must end in .html", os.fspath(path), hint)
