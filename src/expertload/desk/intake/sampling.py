"""Draws by a keyed hash: who is read blind, who is read twice, which cases certify.

Sending a case again does not draw again, senders cannot foresee a draw, and a higher rate includes
every case that a lower rate includes.

Experts' answers teach models, and certify them. A case that does both would flatter the model. So
the hash sets cases apart: these certify and never train, and no others certify. All cases of one
patient (`cluster`) are on the same side.
"""

from __future__ import annotations

import hmac
from typing import Any

from expertload.desk.store.database import AnyRow, Project
from expertload.monitoring.planning import DOUBTFUL_SHARE


def draw(secret: bytes, purpose: str, project: str, key: str) -> float:
    """Return a number in [0, 1), fixed for a case and a purpose, and uniform over cases."""
    drawn = f"{purpose}\x1f{project}\x1f{key}".encode()  # keys hold no control characters
    digest = hmac.digest(secret, drawn, "sha256")
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53  # as many bits as a float can hold


def audit_rates(rate: float, ratio: float) -> tuple[float, float]:
    """Return the rates of confident and of doubtful decisions, whose mean over all is `rate`.

    Parameters
    ----------
    rate : float
        The share of automatic decisions to audit.
    ratio : float
        How many times as often doubtful ones are audited, as far as probabilities allow.

    Examples
    --------
    >>> from expertload.desk.intake.sampling import audit_rates
    >>> print("{:.3f} {:.3f}".format(*audit_rates(0.07, 3)))
    0.050 0.150
    """
    least = rate / (1 + DOUBTFUL_SHARE * (ratio - 1))
    if ratio * least <= 1:
        return least, ratio * least
    return (rate - DOUBTFUL_SHARE) / (1 - DOUBTFUL_SHARE), 1.0


def is_set_apart(project: Project, case: Any) -> bool:
    """Whether a case may certify, and so never trains; its row has key, cluster, draw and rate.

    It depends only on what never changes: the secret, these columns, and the rule `certify_share`,
    which is fixed from the first export for training on. Of cases without a cluster, a share of the
    fair sample is set apart (those read whatever the policy decides); of clusters, the same share
    with all of their cases.
    """
    if case.cluster is None and case.draw >= case.rate:
        return False
    unit = f"key {case.key}" if case.cluster is None else f"cluster {case.cluster}"
    return draw(project.secret, "certify", project.name, unit) < project.rules.certify_share


def training_probability(project: Project, case: AnyRow, *, labelled: float) -> float:
    """Return the probability that a case is labelled and may train.

    Parameters
    ----------
    project : Project
    case : row
        A case that is not set apart.
    labelled : float
        The probability that it is labelled: 1 for delegated cases, the rate for others.
    """
    apart = project.rules.certify_share
    if case.cluster is not None:
        return labelled * (1 - apart)
    return labelled - apart * min(labelled, float(case.rate))
