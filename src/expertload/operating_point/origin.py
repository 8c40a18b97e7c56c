"""The origin of an operating point: the data, the model, the date, and the score that ranks cases.

A threshold is used long after it was computed. Its origin is stored with it, so that nobody applies
it to another kind of confidence, and so that it can be traced to its data years later.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from expertload._blocks import blocks
from expertload._cases import Cases
from expertload._names import ReadAs
from expertload._typing import AnyArray, ArrayLike
from expertload.tally import COMPARISON_SLACK, Tally

if TYPE_CHECKING:
    from expertload.calibrators import ConfidenceScore

__all__ = ["Label", "Origin", "policy_digest"]

Label: TypeAlias = str | int
RankedBy = Literal["top_probability", "given_confidence", "score"]
N_QUANTILES = 101


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where an operating point comes from.

    Attributes
    ----------
    ranked_by : {"top_probability", "given_confidence", "score"}
        What the threshold is compared with.
    score : ConfidenceScore, optional
        How the confidence is computed from probabilities, if cases are ranked by a score.
    labels : tuple of str or int, optional
        The names of the classes in the order of the columns, or their numbers if they have no
        names; None if only correctness was known.
    probability_columns : tuple of str or None, optional
        The columns of a file that held the probabilities, in the order of the classes. If one
        column was enough for two classes, the other class has None.
    read_as : {"probabilities", "normalized", "logits"}, optional
        How those columns were read: as they are, divided by the sum of their row, or through a
        softmax.
    confidence_column : str, optional
        The column of a file that held the confidence.
    confidence_quantiles : tuple of float, optional
        101 quantiles of the confidences, from the smallest to the largest. A monitor compares new
        cases with them.
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
    score: ConfidenceScore | None = None
    labels: tuple[Label, ...] | None = None
    probability_columns: tuple[str | None, ...] | None = None
    read_as: ReadAs | None = None
    confidence_column: str | None = None
    confidence_quantiles: tuple[float, ...] | None = None
    data_sha256: str | None = None
    model_name: str | None = None
    created: str = ""
    library_version: str = ""


def origin_of(
    cases: Cases,
    table: Tally,
    *,
    ranked_by: RankedBy,
    labels: tuple[Label, ...] | None = None,
    model_name: str | None = None,
) -> Origin:
    """Return the origin of a point made now from these cases and their tally."""
    from expertload import __version__  # avoids a cycle

    return Origin(
        ranked_by=ranked_by,
        labels=labels,
        confidence_quantiles=_quantiles(table),
        data_sha256=_digest(cases),
        model_name=model_name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        library_version=__version__,
    )


def ranked_by(confidence: ArrayLike | None) -> RankedBy:
    """Return the kind of score that ranks cases, from whether a confidence was given."""
    return "top_probability" if confidence is None else "given_confidence"


def plain_labels(values: AnyArray) -> tuple[Label, ...]:
    """Return labels as Python strings and integers, for JSON."""
    return tuple(value if isinstance(value, str) else int(value) for value in values.tolist())


def names_in_a_policy(classes: AnyArray) -> tuple[Label, ...] | None:
    """Return two or more classes as a policy stores them: as text or whole numbers, else None."""
    values = classes.tolist()
    if len(values) < 2:
        return None
    if all(isinstance(value, str) for value in values):
        return tuple(values)
    is_whole = all(isinstance(value, Real) and float(value).is_integer() for value in values)
    return tuple(int(value) for value in values) if is_whole else None


def _quantiles(table: Tally) -> tuple[float, ...]:
    """Return the smallest confidences that 0, 1, ..., 100 % of the weight do not exceed."""
    share = np.cumsum(table.weight)
    share /= table.total
    wanted = np.linspace(0, 1, N_QUANTILES) - COMPARISON_SLACK
    row = np.minimum(np.searchsorted(share, wanted), len(share) - 1)
    return tuple(table.confidence[row].astype(np.float64).tolist())


def _digest(cases: Cases) -> str:
    """Digest of the cases, the same for every precision and for 0/1 as for False/True."""
    digest = hashlib.sha256()
    for values in (cases.correct, cases.confidence, cases.weight):
        if values is not None:
            for rows in blocks(len(values)):
                digest.update(np.ascontiguousarray(values[rows], dtype="<f8").data)
    return digest.hexdigest()


def policy_digest(policy: Any) -> str:
    """Return the digest of an operating point, or of those of all groups.

    The same policy saved twice, or with another model name, has the same digest. Another threshold
    or other calibration cases give another digest.

    Examples
    --------
    >>> from expertload.operating_point import certify_from_correctness
    >>> from expertload.operating_point.origin import policy_digest
    >>> policy = certify_from_correctness([1] * 200, range(200), target_accuracy=0.95)
    >>> policy_digest(policy)[:8]
    'd4b1cf73'
    """
    points = policy.items() if isinstance(policy, Mapping) else [("", policy)]
    origin = policy.origin
    content = {
        "thresholds": [[group, point.threshold] for group, point in points],
        "target_accuracy": getattr(policy, "target_accuracy", None),
        "confidence_level": getattr(policy, "confidence_level", None),
        "ranked_by": origin.ranked_by,
        "labels": origin.labels,
        "data": origin.data_sha256,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
