"""Two losses trained together: a primary one, plus a weight times a secondary one.

Calibration losses and AUCOCLoss train the order or the spread of confidences. A primary loss
(cross-entropy or focal loss) trains the classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn

from expertload._validation import check_positive, check_scalar_loss
from expertload.losses.per_case import call_loss, needs_cases

__all__ = ["CombinedLoss", "LossParts"]

Loss = Callable[..., Tensor]


class LossParts(NamedTuple):
    """The result of `CombinedLoss.parts`; `secondary` is before multiplication by the weight."""

    total: Tensor
    primary: Tensor
    secondary: Tensor


class CombinedLoss(nn.Module):
    """Add a weighted secondary loss to a primary one.

    Parameters
    ----------
    primary, secondary : Module or callable
        Each is called with logits and target and returns a scalar. A loss with an attribute
        ``needs_cases = True`` is also called with ``cases=``, the indices of the cases.
    weight : float, default=1.0
        The factor of the secondary loss. Both losses should be means over the batch, as with
        ``reduction="mean"``, so that the weight has the same effect at every batch size.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import CombinedLoss, MMCELoss
    >>> loss = CombinedLoss(torch.nn.CrossEntropyLoss(), MMCELoss(), weight=2.0)
    >>> logits, target = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
    >>> print(f"{loss(logits, target):.4f}")
    2.0297

    For a log, take the parts in place of the sum; nothing is computed twice:

    >>> parts = loss.parts(logits, target)
    >>> print(f"{parts.total:.4f} = {parts.primary:.4f} + 2 * {parts.secondary:.4f}")
    2.0297 = 0.7201 + 2 * 0.6548
    """

    def __init__(self, primary: Loss, secondary: Loss, weight: float = 1.0) -> None:
        super().__init__()
        self.primary = primary
        self.secondary = secondary
        self.weight = check_positive(weight, "weight", zero=True)

    @property
    def needs_cases(self) -> bool:
        """Whether a part needs the indices of the cases, as ``cases=``."""
        return needs_cases(self.primary) or needs_cases(self.secondary)

    def forward(self, logits: Tensor, target: Tensor, *, cases: Tensor | None = None) -> Tensor:
        """Compute the sum for a batch; `cases` are the indices of its cases, if needed."""
        return self.parts(logits, target, cases=cases).total

    def parts(self, logits: Tensor, target: Tensor, *, cases: Tensor | None = None) -> LossParts:
        """Return the sum and both parts, each with its graph, as `LossParts`."""
        primary = call_loss(self.primary, logits, target, cases)
        secondary = call_loss(self.secondary, logits, target, cases)
        check_scalar_loss(primary.ndim, "primary")
        check_scalar_loss(secondary.ndim, "secondary")
        return LossParts(primary + self.weight * secondary, primary, secondary)

    def extra_repr(self) -> str:
        """Show the weight when printed."""
        return f"weight={self.weight}"
