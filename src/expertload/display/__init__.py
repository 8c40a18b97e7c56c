"""Plots: the COC curve, the team's curve, reliability diagrams, evidence, and outlier scores.

Each display follows scikit-learn's convention: class methods compute and draw, the constructor
takes numbers computed elsewhere, and `plot` draws on any axes. Importing this package does not
import matplotlib; the first plot does.
"""

from expertload.display.coc import COCComparisonDisplay, COCDisplay, COCFoldsDisplay, TeamDisplay
from expertload.display.evidence import EvidenceDisplay
from expertload.display.outlier import OutlierDisplay
from expertload.display.reliability import ReliabilityDisplay

__all__ = [
    "COCComparisonDisplay",
    "COCDisplay",
    "COCFoldsDisplay",
    "EvidenceDisplay",
    "OutlierDisplay",
    "ReliabilityDisplay",
    "TeamDisplay",
]
