"""Operating points: thresholds that are described, certified, saved and applied.

`choose` and `at_threshold` describe the data they are given. `certify` promises something about
new cases. All return an `OperatingPoint`, which decides cases and is saved as JSON.
"""

from expertload._names import METHODS, Method
from expertload.operating_point.cascade import CertifiedCascade, certify_cascade
from expertload.operating_point.certified import (
    CONDITIONS,
    CertifiedPoint,
    CertifiedTargets,
    ClusterPromise,
)
from expertload.operating_point.certify import certify
from expertload.operating_point.classes import (
    CertifiedClasses,
    CertifiedGroupClasses,
    ClassPromise,
    certify_classes,
    certify_group_classes,
)
from expertload.operating_point.groups import CertifiedGroups, certify_groups
from expertload.operating_point.ladder import CertifiedThresholds, Ladder
from expertload.operating_point.point import Decisions, OperatingPoint, Origin, at_threshold, choose
from expertload.operating_point.promises import (
    CertifiedCurve,
    ErrorBudget,
    certified_curve,
    certify_error_budget,
    certify_mean_cost,
)
from expertload.operating_point.storage import from_json, load_operating_point

__all__ = [
    "CONDITIONS",
    "METHODS",
    "CertifiedCascade",
    "CertifiedClasses",
    "CertifiedCurve",
    "CertifiedGroupClasses",
    "CertifiedGroups",
    "CertifiedPoint",
    "CertifiedTargets",
    "CertifiedThresholds",
    "ClassPromise",
    "ClusterPromise",
    "Decisions",
    "ErrorBudget",
    "Ladder",
    "Method",
    "OperatingPoint",
    "Origin",
    "at_threshold",
    "certified_curve",
    "certify",
    "certify_cascade",
    "certify_classes",
    "certify_error_budget",
    "certify_group_classes",
    "certify_groups",
    "certify_mean_cost",
    "choose",
    "from_json",
    "load_operating_point",
]
