"""Training objectives that lower expert load, and the baselines they are compared with.

Each is a function and a module, used like ``torch.nn.CrossEntropyLoss``: they take logits, never
probabilities, and class numbers.
"""

from expertload._check import needs_extra

with needs_extra("torch", "expertload.losses"):
    from expertload.losses.aucoc import (
        AUCOCLoss,
        AUCOCUpperBoundLoss,
        aucoc_loss,
        aucoc_upper_bound_loss,
    )
    from expertload.losses.build import LOSS_NAMES, CombinedLoss, LossParts, build_loss
    from expertload.losses.calibration import (
        ConfidencePenalty,
        MMCELoss,
        SoftAvUCLoss,
        SoftECELoss,
        confidence_penalty,
        mmce_loss,
        soft_avuc_loss,
        soft_ece_loss,
    )
    from expertload.losses.focal import (
        AdaptiveFocalLoss,
        FocalLoss,
        GeneralisedCrossEntropyLoss,
        adaptive_focal_loss,
        focal_loss,
        generalised_cross_entropy_loss,
    )

__all__ = [
    "LOSS_NAMES",
    "AUCOCLoss",
    "AUCOCUpperBoundLoss",
    "AdaptiveFocalLoss",
    "CombinedLoss",
    "ConfidencePenalty",
    "FocalLoss",
    "GeneralisedCrossEntropyLoss",
    "LossParts",
    "MMCELoss",
    "SoftAvUCLoss",
    "SoftECELoss",
    "adaptive_focal_loss",
    "aucoc_loss",
    "aucoc_upper_bound_loss",
    "build_loss",
    "confidence_penalty",
    "focal_loss",
    "generalised_cross_entropy_loss",
    "mmce_loss",
    "soft_avuc_loss",
    "soft_ece_loss",
]
