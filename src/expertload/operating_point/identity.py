"""Which policy is this? A digest of what it decides and of what it was certified on.

The same policy saved twice, or under another model's name, has one digest. Another threshold or
other calibration cases make another one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["policy_digest"]


def policy_digest(policy: Any) -> str:
    """Return the digest of an operating point, or of those of all groups.

    Examples
    --------
    >>> from expertload.operating_point import certify_from_correctness
    >>> from expertload.operating_point.identity import policy_digest
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
