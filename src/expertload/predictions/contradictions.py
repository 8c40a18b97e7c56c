"""Refuses files that contradict how they are read: nobody knows then which of both is right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from expertload._blocks import blocks
from expertload._opening import Coded, Table
from expertload._typing import FloatArray, IntArray
from expertload.columns import Columns, names_from, numbers_from, places_by_name, sums_missed
from expertload.exceptions import FileFormatError

__all__ = ["check_logits", "check_not_opposite", "check_predictions", "check_scale"]

# Standard errors below chance; a classifier without skill falls there once in a billion times.
UNLIKELY = 6
MANY = 30
SAMPLE = 100_000  # cases to compare, spread over the file


def check_predictions(
    said: Coded, column: str, classes: Sequence[object], y_proba: FloatArray, where: str
) -> None:
    """Refuse predictions that are not the most probable class; other names are no classes."""
    names = names_from(said.values).tolist()
    known = [name for name in names if name is not None]
    found, _ = places_by_name(known, [str(each) for each in classes])
    place = np.array([found.get(name, -1) for name in names])
    rows = []
    for block in blocks(len(y_proba)):
        proba, own = y_proba[block], place[said.codes[block]]
        told = np.take_along_axis(proba, np.maximum(own, 0)[:, None], axis=1)[:, 0]
        rows.append(block.start + np.flatnonzero((own >= 0) & (told < proba.max(axis=1))))
    against = np.concatenate(rows)
    if len(against):
        row = int(against[0])
        raise FileFormatError(
            f"The column '{column}' of {where} does not name the most probable class in row "
            f"{row + 1} ({names[said.codes[row]]}, not {classes[int(y_proba[row].argmax())]}), and "
            f"in {len(against)} row(s) in total: what the model answered is not clear. Hint: if "
            "the probabilities are right, pass --prediction none; if the predictions are, name "
            f"their confidence (--prediction {column} --confidence COLUMN)."
        )


def check_not_opposite(
    place: IntArray, y_proba: FloatArray, columns: Sequence[str], classes: Sequence[str], where: str
) -> None:
    """Refuse two classes that no name tells apart, if each is more probable in cases of the other.

    Only if chance is next to impossible as the reason. `classes` are those of the columns.
    """
    step = max(1, len(place) // SAMPLE)
    is_second, share = place[::step] == 1, y_proba[::step, 1]
    if is_second.all() or not is_second.any():
        return
    area, error = _area(share[is_second], np.sort(share[~is_second]))
    if area >= 0.5 - UNLIKELY * error:
        return
    raise FileFormatError(
        f"No name tells which class the column(s) {', '.join(columns)} of {where} belong to, and "
        f"they look exchanged: read as the probability of {' and '.join(classes)}, they are higher "
        f"in cases of the other class (the area under the ROC curve is {area:.2f}). Hint: name the "
        f"class of each column, in order (--classes {','.join(classes)} if this is how to read it)."
    )


def check_logits(columns: Columns, found: Table, where: str) -> None:
    """Refuse logits that look like probabilities: a second softmax would flatten them."""
    given = [numbers_from(found[name], name, where) for name in columns.probabilities]
    if min(each.min(initial=0) for each in given) < 0 or max(each.max() for each in given) > 1:
        return
    if len(given) == 1 and len(given[0]) < MANY:  # a few log-odds may be in [0, 1]
        return
    if len(given) > 1 and sums_missed(columns, np.column_stack(given)).any():
        return
    taken = f"'{columns.probabilities[0].removesuffix(columns.classes[0])}*'"
    raise FileFormatError(
        f"The logits of {where} look like probabilities: all are in [0, 1]"
        f"{', and sum to one in every row' if len(given) > 1 else ''}. Hint: if they are "
        f"probabilities, pass --probabilities {taken}; if not, --logits {taken}."
    )


def check_scale(
    known: Sequence[float] | None, confidence: FloatArray, column: str | None, where: str
) -> None:
    """Refuse confidences on a higher scale than a policy's, such as percentages: all would pass.

    Half of the cases must be as far above all that the policy was made from as these are from zero
    and from each other. `known` are quantiles, the first and last of which are the extremes.
    """
    if not known:
        return
    low, high, middle = known[0], known[-1], float(np.median(confidence))
    if middle > high + max(high - low, abs(high)):
        raise FileFormatError(
            f"The column '{column}' of {where} must be on the scale that the policy was made with, "
            f"from {low:g} to {high:g}. Got {middle:g} or more in half of the cases. Hint: if "
            "these are percentages, divide by 100; if the scale has changed, make a new policy."
        )


def _area(high: FloatArray, low: FloatArray) -> tuple[float, float]:
    """Return the area under the ROC curve, and its standard error without skill (Mann-Whitney)."""
    below = np.searchsorted(low, high, "left") + np.searchsorted(low, high, "right")
    pairs = len(high) * len(low)
    error = np.sqrt((len(high) + len(low) + 1) / (12 * pairs))
    return float(below.sum() / (2 * pairs)), float(error)
