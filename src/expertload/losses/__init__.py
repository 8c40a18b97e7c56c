"""Training objectives that lower expert load, and the baselines they are compared with.

Each is a function and a module, used like ``torch.nn.CrossEntropyLoss``: they take logits, never
probabilities, and class numbers.
"""

from expertload._validation import needs_extra

with needs_extra("torch", "expertload.losses"):
    from expertload.losses.adaptive_focal import AdaptiveFocalLoss, adaptive_focal_loss
    from expertload.losses.aucoc import AUCOCLoss, aucoc_loss
    from expertload.losses.aucoc_upper_bound import AUCOCUpperBoundLoss, aucoc_upper_bound_loss
    from expertload.losses.build import build_loss
    from expertload.losses.combined import CombinedLoss, LossParts
    from expertload.losses.confidence_penalty import ConfidencePenalty, confidence_penalty
    from expertload.losses.correctness_ranking import (
        CorrectnessRankingLoss,
        correctness_ranking_loss,
    )
    from expertload.losses.focal import FocalLoss, focal_loss
    from expertload.losses.generalised_cross_entropy import (
        GeneralisedCrossEntropyLoss,
        generalised_cross_entropy_loss,
    )
    from expertload.losses.mmce import MMCELoss, mmce_loss
    from expertload.losses.self_adaptive import SelfAdaptiveLoss, self_adaptive_loss
    from expertload.losses.soft_avuc import SoftAvUCLoss, soft_avuc_loss
    from expertload.losses.soft_ece import SoftECELoss, soft_ece_loss

__all__ = [
    "AUCOCLoss",
    "AUCOCUpperBoundLoss",
    "AdaptiveFocalLoss",
    "CombinedLoss",
    "ConfidencePenalty",
    "CorrectnessRankingLoss",
    "FocalLoss",
    "GeneralisedCrossEntropyLoss",
    "LossParts",
    "MMCELoss",
    "SelfAdaptiveLoss",
    "SoftAvUCLoss",
    "SoftECELoss",
    "adaptive_focal_loss",
    "aucoc_loss",
    "aucoc_upper_bound_loss",
    "build_loss",
    "confidence_penalty",
    "correctness_ranking_loss",
    "focal_loss",
    "generalised_cross_entropy_loss",
    "mmce_loss",
    "self_adaptive_loss",
    "soft_avuc_loss",
    "soft_ece_loss",
]
