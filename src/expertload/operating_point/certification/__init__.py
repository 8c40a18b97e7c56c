"""Certified thresholds, and how each promise is tested.

`spending` is the default procedure with its proof, `starts` the former one; `methods` lists all of
them. `verdict` turns their tests into a `CertifiedPoint`, and `advice` what would have been
enough.
"""

from expertload.operating_point.certification.budget import (
    ErrorBudget,
    certify_error_budget,
    certify_error_budget_from_correctness,
)
from expertload.operating_point.certification.certified_point import CONDITIONS, CertifiedPoint
from expertload.operating_point.certification.certified_thresholds import CertifiedThresholds
from expertload.operating_point.certification.certify import certify, certify_from_correctness
from expertload.operating_point.certification.costs import (
    certify_mean_cost,
    certify_mean_cost_from_correctness,
)
from expertload.operating_point.certification.curve import (
    CertifiedCurve,
    certified_curve,
    certified_curve_from_correctness,
)
from expertload.operating_point.certification.groups import (
    CertifiedGroups,
    certify_groups,
    certify_groups_from_correctness,
)
from expertload.operating_point.certification.ladder import Ladder
from expertload.operating_point.certification.promise import METHODS, Method
from expertload.operating_point.certification.targets import CertifiedTargets

__all__ = [
    "CONDITIONS",
    "METHODS",
    "CertifiedCurve",
    "CertifiedGroups",
    "CertifiedPoint",
    "CertifiedTargets",
    "CertifiedThresholds",
    "ErrorBudget",
    "Ladder",
    "Method",
    "certified_curve",
    "certified_curve_from_correctness",
    "certify",
    "certify_error_budget",
    "certify_error_budget_from_correctness",
    "certify_from_correctness",
    "certify_groups",
    "certify_groups_from_correctness",
    "certify_mean_cost",
    "certify_mean_cost_from_correctness",
]
