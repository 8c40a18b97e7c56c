"""Self-adaptive training: each case's target moves towards the network's predictions.

A label may be wrong, or one of several possible ones. The network's own predictions, averaged over
epochs, show this. So after some epochs, the target of a case becomes a moving average of its
predictions that starts at the label, and a case is weighted by how certain its target is (Huang et
al. 2020, algorithm 1). It helps most if images cannot be augmented and networks memorise their
training set.

References
----------
Huang, Zhang and Zhang, "Self-adaptive training: beyond empirical risk minimization", NeurIPS 2020.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from expertload._validation import check_count, check_fraction
from expertload.losses.per_case import PerCase, checked_numbers, distinct, follow

__all__ = ["SelfAdaptiveLoss", "self_adaptive_loss"]


def self_adaptive_loss(
    logits: Tensor, target: Tensor, *, soft_target: Tensor, ignore_index: int = -100
) -> Tensor:
    """Compute the cross-entropy with soft targets, each case weighted by its largest one.

    `SelfAdaptiveLoss` calls it with its current soft targets.

    Parameters
    ----------
    logits : Tensor of shape (N, C) or (N, C, d1, ...)
        Unnormalised scores, never probabilities. Half precision is computed in float32.
    target : Tensor of shape (N,) or (N, d1, ...)
        Class numbers. Only which of them are ignored matters.
    soft_target : Tensor of the shape of logits
        Probabilities of the classes; no gradient goes through them.
    ignore_index : int, default=-100
        Cases with this target count for nothing.

    Returns
    -------
    Tensor
        The loss; 0 (with a gradient of zeros) if there are no cases.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import self_adaptive_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
    >>> soft = torch.tensor([[1.0, 0.0], [0.4, 0.6]])
    >>> print(f"{self_adaptive_loss(logits, torch.tensor([0, 0]), soft_target=soft):.4f}")
    0.4269
    """
    rows = follow(logits, target, soft_target, name="soft_target", ignore_index=ignore_index)
    return _weighed(rows.logits, rows.known)


class SelfAdaptiveLoss(nn.Module):
    """Cross-entropy whose targets move from the labels to the network's averaged predictions.

    Parameters
    ----------
    momentum : float, default=0.9
        The share of the old target that is kept when a case is seen again.
    start : int, default=10
        The number of epochs with the original label before the target moves. The paper uses 60 of
        200 epochs; about a third of the training is a good choice.
    ignore_index : int, default=-100
        Cases with this target are ignored, and their targets do not move.

    Notes
    -----
    Targets move in training mode, if gradients are computed. They are part of ``state_dict``, and
    need the memory of one probability per case and class. Soft labels are refused, because targets
    start at the label. A case that occurs twice in a batch moves once, towards the mean of both
    predictions.

    Examples
    --------
    The label of the case is the second class, the network keeps saying the first:

    >>> import torch
    >>> from expertload.losses import SelfAdaptiveLoss
    >>> loss = SelfAdaptiveLoss(momentum=0.5, start=1)
    >>> logits, target = torch.tensor([[3.0, 0.0]]), torch.tensor([1])
    >>> for epoch in range(3):
    ...     print(f"{loss(logits, target, cases=torch.tensor([7])):.3f}")
    3.049
    1.620
    0.905
    """

    needs_cases = True

    def __init__(self, *, momentum: float = 0.9, start: int = 10, ignore_index: int = -100) -> None:
        super().__init__()
        self.momentum = check_fraction(momentum, "momentum")
        self.start = check_count(start, "start", minimum=0)
        self.ignore_index = ignore_index
        self.seen = PerCase()  # how often each case was seen, and its target

    def forward(self, logits: Tensor, target: Tensor, *, cases: Tensor | None = None) -> Tensor:
        """Compute the loss of a batch; `cases` are the indices of its cases, of target's shape."""
        numbers = checked_numbers(cases)
        rows = follow(logits, target, numbers, name="cases", ignore_index=self.ignore_index)
        learning = self.training and torch.is_grad_enabled()
        return _weighed(rows.logits, self._soft_targets(*rows, move=learning))

    @torch.no_grad()
    def _soft_targets(self, logits: Tensor, target: Tensor, cases: Tensor, *, move: bool) -> Tensor:
        n_classes = logits.shape[1]
        once, place = distinct(cases)
        labels = _means(one_hot(target, n_classes).to(logits), place, len(once))
        seen = self.seen.of(once, 1 + n_classes, labels)
        visits, soft = seen[:, :1], seen[:, 1:]
        soft = torch.where(visits > 0, soft, labels)
        if move:
            said = _means(logits.softmax(1), place, len(once))
            moved = self.momentum * soft + (1 - self.momentum) * said
            # A NaN prediction must not stay in a case's target forever.
            may_move = (visits >= self.start) & moved.isfinite().all(1, keepdim=True)
            soft = torch.where(may_move, moved, soft)
            self.seen.set(once, torch.cat((visits + 1, soft), 1))
        return soft[place]

    def extra_repr(self) -> str:
        """Show the options when printed."""
        return f"momentum={self.momentum}, start={self.start}"


def _weighed(logits: Tensor, soft: Tensor) -> Tensor:
    """Return the mean cross-entropy, each case weighted by its largest soft target."""
    soft = soft.detach().to(logits)
    # A class that is impossible on both sides costs nothing; 0 times infinity would be NaN.
    log_proba = logits.log_softmax(1).masked_fill(soft == 0, 0.0)
    weight = soft.amax(1)
    terms = -(soft * log_proba).sum(1)
    return (weight * terms).sum() / weight.sum().clamp_min(torch.finfo(weight.dtype).tiny)


def _means(values: Tensor, place: Tensor, n: int) -> Tensor:
    """Return the mean of the rows at each of n positions."""
    counts = values.new_zeros(n, 1).index_add_(0, place, torch.ones_like(values[:, :1]))
    return values.new_zeros(n, values.shape[1]).index_add_(0, place, values) / counts
