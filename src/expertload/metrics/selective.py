"""Metrics of the selective-classification literature.

That literature plots *risk* (one minus accuracy) against *coverage* (one minus expert load): both
axes of our curve are reversed. Its areas are ours under other names:

==================  ===============================================================================
there               here
==================  ===============================================================================
AURC                ``1 - aucoc_score(..., convention="thresholds")``, that is, `aurc_loss`
AUARC, AURRA        ``aucoc_score(..., convention="thresholds")``, that is, `auarc_score`
E-AURC              AURC minus that of the best ranking of the same answers: `excess_aurc_loss`
AUGRC               another area, of P(accepted *and* wrong) over coverage: `augrc_loss`
==================  ===============================================================================

Two libraries define AURC differently. With A for ``convention="authors"``:

- *torch-uncertainty* joins the n sample-wise points with straight lines and divides by 1 - 1/n,
  which gives ``1 - A * n / (n - 1)`` where no confidences are equal; where some are, its value
  depends on the order of rows.
- *fd-shifts* joins the points of the curve, extends the last one flat to coverage 0, and prints
  1000 times the area: ``1000 * (1 - A - s * a)``, where s is the share of cases at the top
  confidence and a their accuracy. Its AUGRC is 1000 times ours.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from expertload._check import check_fraction, check_option
from expertload._typing import ArrayLike
from expertload.cases import Cases, as_cases

AURCConvention = Literal["thresholds", "exact"]


def aurc_loss(
    y_true: ArrayLike | Cases,
    y_proba: ArrayLike | None = None,
    *,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    convention: AURCConvention = "thresholds",
) -> float:
    """Compute the area under the risk-coverage curve (AURC); lower is better.

    Parameters
    ----------
    y_true, y_proba, confidence, sample_weight, labels
        As in `expertload.coc_curve`.
    convention : {"thresholds", "exact"}, default="thresholds"
        The mean over the n sample-wise thresholds, as the literature has it, or the exact area;
        see `expertload.aucoc_score`. Equal confidences share their mean in both.

    Returns
    -------
    float
        One minus the area under the COC curve in that convention.

    Examples
    --------
    >>> from expertload.metrics import aurc_loss
    >>> y_proba = [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]]
    >>> aurc_loss([0, 1, 1, 0], y_proba)
    0.0625
    """
    return _aurc(as_cases(y_true, y_proba, confidence, sample_weight, labels), convention)


def excess_aurc_loss(
    y_true: ArrayLike | Cases,
    y_proba: ArrayLike | None = None,
    *,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    convention: AURCConvention = "thresholds",
) -> float:
    """Compute the excess AURC (E-AURC): what better ranking could still gain; lower is better.

    Parameters
    ----------
    y_true, y_proba, confidence, sample_weight, labels, convention
        As in `aurc_loss`.

    Returns
    -------
    float
        AURC minus the AURC of the same answers when all wrong ones are ranked last.

    Examples
    --------
    >>> from expertload.metrics import excess_aurc_loss
    >>> y_proba = [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]]
    >>> excess_aurc_loss([0, 1, 1, 0], y_proba)
    0.0
    """
    cases = as_cases(y_true, y_proba, confidence, sample_weight, labels)
    best = replace(cases, confidence=cases.correct.astype(np.float64))
    # The best ranking cannot be beaten; what falls below zero is rounding.
    return max(0.0, _aurc(cases, convention) - _aurc(best, convention))


def augrc_loss(
    y_true: ArrayLike | Cases,
    y_proba: ArrayLike | None = None,
    *,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    """Compute the area under the generalised risk-coverage curve (AUGRC); lower is better.

    Parameters
    ----------
    y_true, y_proba, confidence, sample_weight, labels
        As in `expertload.coc_curve`.

    Returns
    -------
    float
        The probability that a case is wrong and accepted, averaged over all coverages: between 0
        and 1/2.

    References
    ----------
    Traub et al., "Overcoming common flaws in the evaluation of selective classification
    systems", NeurIPS 2024.

    Examples
    --------
    >>> from expertload.metrics import augrc_loss
    >>> y_proba = [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]]
    >>> augrc_loss([0, 1, 1, 0], y_proba)
    0.03125
    """
    table = as_cases(y_true, y_proba, confidence, sample_weight, labels).tally
    # A case at load u is accepted at all coverages from 1 - u on: it weighs u in the area.
    delegated = 1 - table.remaining
    mean_load = (delegated[:-1] + delegated[1:]) / 2
    return float(table.errors @ mean_load / table.total)


def auarc_score(
    y_true: ArrayLike | Cases,
    y_proba: ArrayLike | None = None,
    *,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    """Compute the area under the accuracy-rejection curve (AUARC, AURRA); higher is better.

    The accuracy-rejection curve is the COC curve; this is
    ``aucoc_score(..., convention="thresholds")`` under the name that other libraries use.

    Parameters
    ----------
    y_true, y_proba, confidence, sample_weight, labels
        As in `expertload.coc_curve`.

    Returns
    -------
    float
        The mean accuracy over the n sample-wise thresholds.

    Examples
    --------
    >>> from expertload.metrics import auarc_score
    >>> y_proba = [[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]]
    >>> auarc_score([0, 1, 1, 0], y_proba)
    0.9375
    """
    return as_cases(y_true, y_proba, confidence, sample_weight, labels).aucoc("thresholds")


# ------------------------------------------------------------------ converters


def aurc_from_aucoc(aucoc: float) -> float:
    """Convert AUCOC to AURC of the same convention.

    Examples
    --------
    >>> from expertload.metrics import aurc_from_aucoc
    >>> aurc_from_aucoc(0.9375)
    0.0625
    """
    return 1 - check_fraction(aucoc, "aucoc")


def aucoc_from_aurc(aurc: float) -> float:
    """Convert AURC to AUCOC of the same convention.

    Examples
    --------
    >>> from expertload.metrics import aucoc_from_aurc
    >>> aucoc_from_aurc(0.0625)
    0.9375
    """
    return 1 - check_fraction(aurc, "aurc")


def excess_aurc_from_aucoc(aucoc: float, *, accuracy: float) -> float:
    """Convert the exact AUCOC of right-or-wrong answers to their exact excess AURC.

    The best ranking of answers that are wrong in a share e of all cases has an AURC of
    e + (1 - e) ln(1 - e).

    Examples
    --------
    >>> from expertload.metrics import excess_aurc_from_aucoc
    >>> print(f"{excess_aurc_from_aucoc(0.95, accuracy=0.75):.4f}")
    0.0158
    """
    accuracy = check_fraction(accuracy, "accuracy")
    best = 1 - accuracy + (accuracy * np.log(accuracy) if accuracy > 0 else 0.0)
    return float(1 - check_fraction(aucoc, "aucoc") - best)


# ------------------------------------------------------------------ computation


def _aurc(cases: Cases, convention: AURCConvention) -> float:
    check_option(convention, get_args(AURCConvention), "convention")
    return 1 - cases.aucoc(convention)
