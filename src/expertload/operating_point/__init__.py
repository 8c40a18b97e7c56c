"""Operating points: thresholds that are described, certified, saved and applied.

`choose` and `at_threshold` describe the data they are given. `certify` promises something about
new cases. All return an `OperatingPoint`, which decides cases and is saved as JSON.
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
from expertload.operating_point.choose import (
    at_threshold,
    at_threshold_from_correctness,
    choose,
    choose_from_correctness,
)
from expertload.operating_point.origin import Origin
from expertload.operating_point.point import Decisions, OperatingPoint
from expertload.operating_point.storage import from_json, load_operating_point

__all__ = [
    "CONDITIONS",
    "METHODS",
    "CertifiedCurve",
    "CertifiedGroups",
    "CertifiedPoint",
    "CertifiedTargets",
    "CertifiedThresholds",
    "Decisions",
    "ErrorBudget",
    "Ladder",
    "Method",
    "OperatingPoint",
    "Origin",
    "at_threshold",
    "at_threshold_from_correctness",
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
    "choose",
    "choose_from_correctness",
    "from_json",
    "load_operating_point",
]
