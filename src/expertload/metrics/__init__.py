"""Metrics: calibration, proper scores, selective classification, outliers."""

from expertload.metrics.calibration import (
    ReliabilityCurve,
    classwise_calibration_error,
    expected_calibration_error,
    kolmogorov_smirnov_error,
    maximum_calibration_error,
    reliability_curve,
)
from expertload.metrics.outliers import fpr_at_tpr_error, outlier_aupr_score, outlier_auroc_score
from expertload.metrics.proper import brier_loss, log_loss
from expertload.metrics.selective import (
    auarc_score,
    aucoc_from_aurc,
    augrc_loss,
    aurc_from_aucoc,
    aurc_loss,
    excess_aurc_from_aucoc,
    excess_aurc_loss,
)

__all__ = [
    "ReliabilityCurve",
    "auarc_score",
    "aucoc_from_aurc",
    "augrc_loss",
    "aurc_from_aucoc",
    "aurc_loss",
    "brier_loss",
    "classwise_calibration_error",
    "excess_aurc_from_aucoc",
    "excess_aurc_loss",
    "expected_calibration_error",
    "fpr_at_tpr_error",
    "kolmogorov_smirnov_error",
    "log_loss",
    "maximum_calibration_error",
    "outlier_aupr_score",
    "outlier_auroc_score",
    "reliability_curve",
]
