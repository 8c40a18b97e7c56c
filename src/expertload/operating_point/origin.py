"""Where an operating point comes from: the data, the model, the day, and what cases are ranked by.

A threshold outlives the session that found it. What it was read from travels with it, so that it
is not applied to another kind of confidence and can be traced to its data years later.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import numpy as np

from expertload._typing import AnyArray, ArrayLike
from expertload._validation import Cases, as_array

__all__ = ["Label", "Origin"]

Label: TypeAlias = str | int
RankedBy = Literal["top_probability", "given_confidence"]


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where an operating point comes from.

    Attributes
    ----------
    ranked_by : {"top_probability", "given_confidence"}
        What the threshold is a threshold of.
    labels : tuple of str or int, optional
        The names of the classes in the order of the columns, if they have names.
    data_sha256 : str, optional
        Digest of the correctness, confidence and weight of the cases, in their order.
    model_name : str, optional
        As the user named the model.
    created : str
        Day and time (UTC) the point was made, in ISO form.
    library_version : str
        Version of expertload that made it.
    """

    ranked_by: RankedBy = "given_confidence"
    labels: tuple[Label, ...] | None = None
    data_sha256: str | None = None
    model_name: str | None = None
    created: str = ""
    library_version: str = ""


def origin_of(
    cases: Cases, *, ranked_by: RankedBy, labels: tuple[Label, ...] | None = None
) -> Origin:
    """Return the origin of a point that is read from these cases now."""
    from expertload import __version__  # the package is still being imported when this module is

    return Origin(
        ranked_by=ranked_by,
        labels=labels,
        data_sha256=_digest(cases),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        library_version=__version__,
    )


def ranked_by(confidence: ArrayLike | None) -> RankedBy:
    """Return what cases are ranked by, from whether a confidence was given."""
    return "top_probability" if confidence is None else "given_confidence"


def class_names(
    y_true: ArrayLike, labels: ArrayLike | None, caller: str
) -> tuple[Label, ...] | None:
    """Return the names of the columns, None where they are numbered."""
    if labels is not None:
        return plain_labels(as_array(labels, "labels", caller))
    y = as_array(y_true, "y_true", caller)
    return (
        plain_labels(np.unique(y.astype(np.str_))) if y.dtype.kind in "OUT" and _named(y) else None
    )


def _named(y: AnyArray) -> bool:
    return y.dtype.kind in "UT" or all(isinstance(value, str) for value in y.ravel())


def plain_labels(values: AnyArray) -> tuple[Label, ...]:
    """Labels as Python's own strings and whole numbers, which JSON knows."""
    return tuple(value if isinstance(value, str) else int(value) for value in values.tolist())


def _digest(cases: Cases) -> str:
    """Digest of the cases, the same for every precision and for 0/1 as for False/True."""
    digest = hashlib.sha256()
    for values in (cases.correct, cases.confidence, cases.weight):
        if values is not None:
            digest.update(np.ascontiguousarray(values, dtype="<f8").data)
    return digest.hexdigest()
