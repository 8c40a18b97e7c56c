"""Training objectives that lower expert load, and the baselines they are compared with."""

from expertload.losses.aucoc import AUCOCLoss, aucoc_loss
from expertload.losses.aucoc_upper_bound import AUCOCUpperBoundLoss, aucoc_upper_bound_loss

__all__ = [
    "AUCOCLoss",
    "AUCOCUpperBoundLoss",
    "aucoc_loss",
    "aucoc_upper_bound_loss",
]
