"""Computes the charts of the page, which the template writes as SVG, and the tables below them.

Each row of a table is a group or a class at one threshold. For every stop of the slider, the page
has the numbers of accepted cases and of errors in each part; shares and intervals are computed from
them. Most counts do not change from one stop to the next, so only changes are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.special import ndtri

from expertload._format import percent, promised
from expertload._typing import FloatArray
from expertload.cases import Cases
from expertload.display._draw import along_curve, visible
from expertload.evaluation import Evaluation, GroupEvaluation, Members
from expertload.operating_point import CertifiedPoint, ClassPromise, certified_curve
from expertload.operating_point.point import digits
from expertload.report.scale import Frame, Tick
from expertload.report.slider import Stops, certified_in_words, certified_strokes
from expertload.significance.interval import effective_size_of_rate, wilson

Part = SimpleNamespace  # of a page, for the template
COC = Frame(width=720, height=420, left=58, right=702, top=20, bottom=376)
SMALL = Frame(width=440, height=300, left=58, right=416, top=16, bottom=256)
COLUMNS = 240
# The far right of a curve has few cases and may drop sharply; it must not set the scale.
FEW = 30
# A difference between confidence and accuracy too small to mention.
SMALL_GAP = 0.005


@dataclass(frozen=True)
class Figure:
    """One of the small charts."""

    frame: Frame
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    dots: Sequence[Part] = ()
    bars: Sequence[Part] = ()
    paths: dict[str, str] = field(default_factory=dict)
    summary: str = ""
    title: str = ""
    axis: str = ""


def coc_frame(evaluations: Sequence[Evaluation], stops: Sequence[Stops]) -> Frame:
    """Return the frame for all curves, from a round accuracy up to one."""
    lowest = min(_lowest(e, s) for e, s in zip(evaluations, stops, strict=True))
    floor = max(0.0, np.floor(lowest * 20 - 0.2) / 20)
    return replace(COC, y_range=(min(float(floor), 0.95), 1.0))


def _lowest(evaluation: Evaluation, stops: Stops) -> float:
    accepted = stops.accepted[:-1]
    solid = accepted >= min(FEW, accepted[0])
    accuracy = 1 - stops.errors[:-1][solid] / accepted[solid]
    return float(min(accuracy.min(), evaluation.accuracy.low))


def curve_lines(frame: Frame, evaluation: Evaluation) -> Part:
    """Return the SVG paths of the curve, as randomised thresholds trace it, and what belongs to it.

    These are its tail, where few cases are left; its band; the strokes of its certified part; and
    its floor, the certified lower bound at all thresholds together, empty for weighted or graded
    cases.
    """
    curve, band = evaluation.curve, evaluation.band
    load, accuracy, low, high = along_curve(
        curve.expert_load, curve.accuracy, band.low, band.high, columns=COLUMNS
    )
    low, high = (np.maximum(line, frame.y_range[0]) for line in (low, high))
    solid = max(2, int(np.searchsorted(load, 1 - FEW / evaluation.n_cases, side="right")))
    tail = frame.path(load[solid - 1 :], accuracy[solid - 1 :]) if solid < len(load) else ""
    return Part(
        curve=frame.path(load[:solid], accuracy[:solid]),
        tail=tail,
        band=frame.area(load, low, high),
        floor=_floor(frame, evaluation),
        certified=certified_strokes(frame, evaluation, load, accuracy),
    )


def _floor(frame: Frame, evaluation: Evaluation) -> str:
    if not evaluation.cases.is_counted or evaluation.cases.clusters is not None:
        return ""
    curve = certified_curve(evaluation.cases, confidence_level=evaluation.confidence_level)
    load, _, lower, _ = along_curve(
        curve.expert_load, curve.accuracy, curve.lower, curve.lower, columns=COLUMNS
    )
    seen = lower >= frame.y_range[0]
    last = int(np.flatnonzero(seen)[-1]) + 1 if seen.any() else 0
    drawn = np.maximum(lower[:last], frame.y_range[0])
    return frame.path(load[:last], drawn) if last > 1 else ""


def reliability_figure(evaluation: Evaluation) -> Figure | None:
    """Draw confidence against accuracy, bin by bin, with intervals."""
    curve = evaluation.reliability
    if curve is None:
        return None
    n = curve.share * effective_size_of_rate(evaluation.cases)
    low, high = wilson(curve.accuracy, n, evaluation.confidence_level)
    least = float(min(low.min(), curve.confidence.min()))
    start = min(0.9, np.floor(least * 10) / 10)
    frame = replace(SMALL, x_range=(start, 1.0), y_range=(start, 1.0))
    heights = [frame.y(v).tolist() for v in (curve.accuracy, low, high)]
    columns = zip(frame.x(curve.confidence).tolist(), *heights, strict=True)
    dots = [Part(x=x, y=y, low=bottom, high=top) for x, y, bottom, top in columns]
    summary = _gap_in_words(float(curve.share @ curve.confidence), evaluation)
    return Figure(frame, frame.x_ticks(), frame.y_ticks(), dots=dots, summary=summary)


def promise_figures(evaluation: Evaluation) -> list[Figure]:
    """Draw each promise about a class against the share of its cases that is left to experts."""
    classes = evaluation.class_certification
    if classes is None:
        return []
    return [_promise_figure(evaluation.cases, *kept) for kept in classes.promises.items()]


def _promise_figure(cases: Cases, promise: ClassPromise, point: CertifiedPoint) -> Figure:
    is_precision, part = promise.kind == "precision", promise.about(cases)
    table, curve = part.tally, part.curve()
    rates = curve.accuracy if is_precision else table.accepted_errors / table.total
    seen = rates[table.accepted >= min(FEW, len(part))]  # one error of a few is no trend
    ends = (float(min(*seen, promise.share)), 1.0) if is_precision else (0.0, 2 * promise.share)
    frame = replace(SMALL, y_range=(ends[0], float(max(ends[1], seen[0]))))
    rows = visible(curve.expert_load[: len(seen)], seen, COLUMNS)
    paths = {
        "curve": frame.path(curve.expert_load[rows], seen[rows]),
        "promise": frame.path(np.array([0.0, 1.0]), np.full(2, promise.share)),
    }
    what = f"answers '{promise.label}'" if is_precision else f"cases of class '{promise.label}'"
    summary = f"Not certified on {len(part)} {what}."
    row = int(np.searchsorted(curve.thresholds, point.threshold))
    if point.is_certified and row < len(rates):
        load = float(curve.expert_load[row])
        paths["threshold"] = frame.path(np.full(2, load), np.array(frame.y_range))
        rate, given = percent(float(rates[row])), f"{len(part)} {what}"
        summary = f"At the certified confidence of {digits(point.threshold)}, " + (
            f"{percent(1 - load)} of {given} are automated, and {rate} of these were right here."
            if is_precision
            else f"{rate} of {given} were decided as something else here."
        )
    title = (
        f"At least {promised(promise.share)} of automatic {what} right"
        if is_precision
        else f"At most {promised(promise.share)} of {what} missed"
    )
    return Figure(
        *(frame, frame.x_ticks(), frame.y_ticks()),
        paths=paths,
        summary=summary,
        title=title,
        axis="Right among automatic answers" if is_precision else "Decided as something else",
    )


def team_figure(evaluation: Evaluation) -> Figure | None:
    """Draw the accuracy of model and experts together against the load, plain and combined."""
    team = evaluation.team
    if team is None:
        return None
    lines = {"together": team.curve, "combined": team.combined_curve}
    curves = {name: curve for name, curve in lines.items() if curve is not None}
    lowest = min(float(curve.accuracy.min()) for curve in curves.values())
    frame = replace(SMALL, x_range=(0.0, 1.0), y_range=(np.floor(lowest * 50 - 0.2) / 50, 1.0))
    paths = {}
    for name, curve in curves.items():
        rows = visible(curve.expert_load, curve.accuracy, COLUMNS)
        paths[name] = frame.path(curve.expert_load[rows], curve.accuracy[rows])
    experts = np.full(2, team.experts.estimate)
    paths["experts"] = frame.path(np.array([0.0, 1.0]), experts)
    return Figure(frame, frame.x_ticks(), frame.y_ticks(), paths=paths, summary=str(team))


def _gap_in_words(confidence: float, evaluation: Evaluation) -> str:
    """Return how far mean confidence and accuracy differ, and whether that may be chance."""
    accuracy = evaluation.accuracy
    gap = confidence - accuracy.estimate
    side = "higher" if gap > 0 else "lower"
    points = f"On average, confidence is {100 * abs(gap):.1f} points {side} than accuracy"
    if accuracy.low <= confidence <= accuracy.high:
        if abs(gap) < SMALL_GAP:
            return "On average, confidence and accuracy agree within half a point."
        return f"{points}; with {evaluation.n_cases} cases, that may be chance."
    mood = "over-confident" if gap > 0 else "under-confident"
    return f"{points}: the model is {mood}."


def histogram_figure(evaluation: Evaluation) -> Figure:
    """Draw how many cases of each confidence are right and wrong."""
    edges, right, wrong = evaluation.histogram
    tallest = float((right + wrong).max())
    frame = replace(SMALL, x_range=(float(edges[0]), float(edges[-1])), y_range=(0.0, tallest))
    x, base, top, middle = frame.x(edges), frame.y(0.0), frame.y(right + wrong), frame.y(wrong)
    columns = {  # wrong cases below, right cases on top
        "x": x[:-1] + 0.75,
        "width": np.diff(x) - 1.5,
        "right_top": top,
        "right_height": middle - top,
        "wrong_top": middle,
        "wrong_height": base - middle,
    }
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    bars = [Part(**dict(zip(columns, row, strict=True))) for row in rows]
    summary = f"{_count(right.sum())} right and {_count(wrong.sum())} wrong"
    is_share = evaluation.reliability is not None and frame.x_range[1] == 1
    x_ticks = frame.x_ticks() if is_share else frame.x_ticks(label="{:g}".format)
    return Figure(frame, x_ticks, frame.y_ticks(4, _count), bars=bars, summary=summary)


def _count(value: float) -> str:
    return f"{value:,.10g}".replace(",", "\u202f")


def curve_in_words(name: str, stops: Stops) -> str:
    """Return a description of the curve, for readers who cannot see it."""
    accuracies = ", ".join(_at(stops, load) for load in (0.0, 0.25, 0.5))
    certified = certified_in_words(stops.load, stops.certified)
    return f"{name}: " + "; ".join(part for part in (accuracies, certified) if part) + "."


def _at(stops: Stops, load: float) -> str:
    row = min(int(np.searchsorted(stops.load, load)), len(stops.load) - 2)
    accuracy = 1 - stops.errors[row] / stops.accepted[row]
    return f"{percent(float(accuracy))} accuracy at {percent(float(stops.load[row]))} load"


# The number of rows shown at first, and the largest number of rows on a page.
FIRST_ROWS, MOST_ROWS = 12, 1000
# A table that is only a little longer is shown completely.
FEW_MORE = 4
STRIP = Frame(width=160, height=18, left=4, right=156, top=0, bottom=18)  # as in tables.js


def part_tables(index: int, evaluation: Evaluation, stops: Stops) -> dict[str, Part]:
    """Return the tables of the model with this index: of groups and of classes, if known.

    Each has its rows, worst first, and how they change along the slider.
    """
    answers = evaluation.answers
    of_class = None if answers is None else Members(answers.names, answers.target)
    kinds = {
        "group": (evaluation.groups, evaluation.members),
        "class": (evaluation.classes, of_class),
    }
    return {
        kind: _table(2 * index + i, kind, parts, members, evaluation, stops)
        for i, (kind, (parts, members)) in enumerate(kinds.items())
        if members is not None
    }


def _table(
    number: int,
    kind: str,
    parts: Sequence[GroupEvaluation],
    members: Members,
    evaluation: Evaluation,
    stops: Stops,
) -> Part:
    shown = parts[:MOST_ROWS]
    strip = _strip(shown, evaluation.target_accuracy)
    fold = FIRST_ROWS if len(shown) > FIRST_ROWS + FEW_MORE else len(shown)
    return Part(
        number=number,
        kind=kind,
        rows=[
            Part(
                part=part,
                dot=_dot(part, strip),
                is_folded=i >= fold,
                confusions=getattr(part, "confused_with", ()),
            )
            for i, part in enumerate(shown)
        ],
        n_folded=len(shown) - fold,
        n_left_out=len(parts) - len(shown),
        target_on_strip=float(strip.x(evaluation.target_accuracy)),
        moves={
            "kind": kind,
            "strip": strip.x_range,
            **_moves([part.name for part in shown], members, evaluation, stops),
        },
    )


# ------------------------------------------------------------------ along the slider


def _moves(
    names: Sequence[str], members: Members, evaluation: Evaluation, stops: Stops
) -> dict[str, Any]:
    cases = evaluation.cases
    correct, confidence, weight = cases.correct, cases.confidence, cases.weight
    rows = {name: row for row, name in enumerate(names)}
    row_of = np.array([rows.get(name, -1) for name in members.names])[members.of_case]
    kept = np.flatnonzero(row_of >= 0)
    # A case is accepted at all stops before this one.
    last = np.searchsorted(stops.threshold, confidence[kept], side="right")
    place = row_of[kept] * (len(stops.threshold) + 1) + last
    shape = (len(names), len(stops.threshold) + 1)

    def counted(values: FloatArray) -> FloatArray:
        sums = np.bincount(place, values, shape[0] * shape[1]).astype(np.float64).reshape(shape)
        return np.asarray(np.cumsum(sums[:, ::-1], axis=1)[:, ::-1][:, 1:])

    mass = np.ones(len(kept)) if weight is None else weight[kept]
    series = {
        "accepted": counted(mass),
        "errors": counted(mass * (1.0 - correct[kept].astype(np.float64))),
    }
    if weight is not None:  # intervals need Kish's effective number of cases
        series |= {"squares": counted(mass**2), "counts": counted((mass > 0).astype(np.float64))}
    z = float(ndtri((1 + evaluation.confidence_level) / 2))
    return {"z": z, **{name: [_changes(row) for row in rows] for name, rows in series.items()}}


def _changes(values: FloatArray) -> list[float | int]:
    """Return pairs of a stop and the value from there on, for every change.

    Examples
    --------
    >>> _changes(np.array([9.0, 9.0, 4.5, 0.0, 0.0]))
    [0, 9, 2, 4.5, 3, 0]
    """
    stops = np.flatnonzero(np.diff(values, prepend=np.nan) != 0)
    pairs: list[float | int] = []
    for stop, value in zip(stops.tolist(), values[stops].tolist(), strict=True):
        pairs += [stop, int(value) if value == int(value) else value]
    return pairs


# ------------------------------------------------------------------ on the strip


def _strip(parts: Sequence[GroupEvaluation], target: float) -> Frame:
    """Return the scale of the strip, from the lowest interval up to one."""
    seen = [part.accepted_accuracy for part in parts if part.accepted_accuracy]
    lows = [interval.low for interval in (*seen, *(part.accuracy for part in parts))]
    return replace(STRIP, x_range=(min(*lows, target, 0.99), 1.0))


def _dot(part: GroupEvaluation, strip: Frame) -> Part | None:
    seen = part.accepted_accuracy
    if seen is None:
        return None
    x, low, high = (float(strip.x(value)) for value in (seen.estimate, seen.low, seen.high))
    return Part(x=x, low=low, high=high)
