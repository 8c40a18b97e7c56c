"""The upper bound on AUCOCLoss that Jensen's inequality gives, for ablation.

The area is a weighted sum of the samples' true-class probabilities, A = sum_n beta_n s_n, with
weights beta_n >= 0 that depend on the confidences alone. Jensen's inequality pulls the logarithm
inside (the paper's appendix, "Potential upper bound to AUCOCLoss"):

    -log A <= -log B - sum_n (beta_n / B) log s_n        B = sum_n beta_n

The appendix takes the weights to sum to one, B = 1. A Gaussian kernel leaks beyond a confidence of
one, so on a batch B is a little less, and only with the term -log B is this a bound.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from expertload.losses.confidence_function import (
    LogConfidences,
    LossAndGradient,
    Reading,
    confidence_loss,
)
from expertload.losses.estimate import Batch, estimate_areas
from expertload.losses.kde.array_namespace import at_least, in_rows, namespace
from expertload.losses.options import AreaOptions, checked_options

__all__ = ["AUCOCUpperBoundLoss", "aucoc_upper_bound_loss"]

# Logarithms are cut off here, so that the sums of a batch, and their slopes, are numbers.
LOWEST_LOG = -1e30


def aucoc_upper_bound_loss(
    logits: Tensor,
    target: Tensor,
    *,
    bandwidth: str | float = "scott",
    boundary: str = "none",
    estimator: str = "kde",
    method: str = "auto",
    ignore_index: int | None = -100,
    check_finite: bool = False,
    sync_distributed: bool = False,
) -> Tensor:
    """Return Jensen's upper bound on the paper's `aucoc_loss`, whose parameters it shares.

    The paper found it too loose to train with: it is a cross-entropy that weighs confident samples
    more. The gradient is taken as that of `aucoc_loss` is, with the expert load held fixed.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import aucoc_loss, aucoc_upper_bound_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0], [0.0, 3.0]])
    >>> target = torch.tensor([0, 1, 1, 1])
    >>> round(aucoc_upper_bound_loss(logits, target).item(), 4)
    0.8655
    >>> exact = aucoc_loss(logits, target, smoothing="probability")
    >>> bool(exact <= aucoc_upper_bound_loss(logits, target))
    True
    """
    options = AreaOptions(
        "target_probability", bandwidth, boundary, estimator, method, bool(sync_distributed)
    )
    options = checked_options(options)
    reading = Reading(ignore_index, check_finite)
    return confidence_loss(logits, target, reading, partial(_solve, options=options))


class AUCOCUpperBoundLoss(nn.Module):
    """Jensen's upper bound on the paper's `AUCOCLoss`, as a module; see `aucoc_upper_bound_loss`.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import AUCOCUpperBoundLoss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0], [0.0, 3.0]])
    >>> round(AUCOCUpperBoundLoss()(logits, torch.tensor([0, 1, 1, 1])).item(), 4)
    0.8655
    """

    def __init__(
        self,
        *,
        bandwidth: str | float = "scott",
        boundary: str = "none",
        estimator: str = "kde",
        method: str = "auto",
        ignore_index: int | None = -100,
        check_finite: bool = False,
        sync_distributed: bool = False,
    ) -> None:
        super().__init__()
        options = AreaOptions(
            "target_probability", bandwidth, boundary, estimator, method, bool(sync_distributed)
        )
        self.options = checked_options(options)
        self.ignore_index = ignore_index
        self.check_finite = check_finite

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the bound for a batch."""
        reading = Reading(self.ignore_index, self.check_finite)
        return confidence_loss(logits, target, reading, partial(_solve, options=self.options))

    def extra_repr(self) -> str:
        """Name the options that differ from the defaults."""
        return self.options.describe()


def _solve(logs: LogConfidences, options: AreaOptions) -> LossAndGradient:
    """Differentiate -log B - C / B, C the area with log s in place of s."""
    xp = namespace(logs.top)
    confidence = xp.exp(logs.top)
    values = (at_least(logs.target, LOWEST_LOG), xp.ones_like(logs.target))
    batch = Batch(confidence, values, logs.keep, logs.resolution)
    (logarithms, mass), empty = estimate_areas(batch, options)
    weight_sum = mass.area + empty
    mean_log = logarithms.area / weight_sum
    by_mass = (mean_log - 1) / weight_sum
    by_confidence = mass.by_confidence * by_mass - logarithms.by_confidence / weight_sum
    loss = -xp.log(weight_sum) - mean_log
    gradient = in_rows(by_confidence * confidence, logarithms.by_value / -weight_sum)
    return LossAndGradient(loss, gradient)
