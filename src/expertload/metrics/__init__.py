"""Metrics: calibration, proper scores, selective classification, outliers."""

from expertload.metrics.calibration import (
    ReliabilityCurve,
    classwise_calibration_error,
    expected_calibration_error,
    expected_calibration_error_from_correctness,
    kolmogorov_smirnov_error,
    kolmogorov_smirnov_error_from_correctness,
    maximum_calibration_error,
    reliability_curve,
    reliability_curve_from_correctness,
)
from expertload.metrics.ood import fpr_at_tpr_error, outlier_aupr_score, outlier_auroc_score
from expertload.metrics.proper import brier_loss, log_loss
from expertload.metrics.selective import (
    auarc_score,
    aucoc_from_aurc,
    augrc_loss,
    augrc_loss_from_correctness,
    aurc_from_aucoc,
    aurc_loss,
    aurc_loss_from_correctness,
    excess_aurc_from_aucoc,
    excess_aurc_loss,
    excess_aurc_loss_from_correctness,
)

__all__ = [
    "ReliabilityCurve",
    "auarc_score",
    "aucoc_from_aurc",
    "augrc_loss",
    "augrc_loss_from_correctness",
    "aurc_from_aucoc",
    "aurc_loss",
    "aurc_loss_from_correctness",
    "brier_loss",
    "classwise_calibration_error",
    "excess_aurc_from_aucoc",
    "excess_aurc_loss",
    "excess_aurc_loss_from_correctness",
    "expected_calibration_error",
    "expected_calibration_error_from_correctness",
    "fpr_at_tpr_error",
    "kolmogorov_smirnov_error",
    "kolmogorov_smirnov_error_from_correctness",
    "log_loss",
    "maximum_calibration_error",
    "outlier_aupr_score",
    "outlier_auroc_score",
    "reliability_curve",
    "reliability_curve_from_correctness",
]
