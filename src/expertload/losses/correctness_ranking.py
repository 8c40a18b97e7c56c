"""Correctness ranking loss: cases that were right more often should be more confident.

The share of epochs in which the network was right on a case shows how easy the case is. For two
cases, the confidences should differ in that direction, by at least the difference of these shares
(Moon et al. 2020, equation 2). As in the paper, each case of a batch is compared with the next one,
and the last with the first.

References
----------
Moon, Kim, Shin and Hwang, "Confidence-aware learning for deep neural networks", ICML 2020.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from expertload.losses.per_case import PerCase, checked_numbers, distinct, follow

__all__ = ["CorrectnessRankingLoss", "correctness_ranking_loss"]


def correctness_ranking_loss(
    logits: Tensor, target: Tensor, *, correctness: Tensor, ignore_index: int = -100
) -> Tensor:
    """Compute how far the order of confidences differs from how often cases were right before.

    A secondary loss: combine it with cross-entropy (`CombinedLoss`). `CorrectnessRankingLoss` calls
    it with the recorded share of times that each case was right.

    Parameters
    ----------
    logits : Tensor of shape (N, C) or (N, C, d1, ...)
        Unnormalised scores, never probabilities. Half precision is computed in float32.
    target : Tensor of shape (N,) or (N, d1, ...)
        Class numbers. Only which of them are ignored matters.
    correctness : Tensor of the shape of target
        The share of times that each case was right, in [0, 1]; NaN if unknown, so that the case is
        not compared with others.
    ignore_index : int, default=-100
        Cases with this target count for nothing.

    Returns
    -------
    Tensor
        The mean over pairs of neighbours; 0 (with a gradient of zeros) if there are no cases.

    Examples
    --------
    The first case is the more confident one, but was right less often:

    >>> import torch
    >>> from expertload.losses import correctness_ranking_loss
    >>> logits, target = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])
    >>> share = torch.tensor([0.25, 0.75])
    >>> print(f"{correctness_ranking_loss(logits, target, correctness=share):.4f}")
    0.6497
    """
    rows = follow(logits, target, correctness, name="correctness", ignore_index=ignore_index)
    return _disorder(rows.logits, rows.known)


class CorrectnessRankingLoss(nn.Module):
    """Ranks cases by how often they were right before, with a memory of each case.

    A secondary loss: combine it with cross-entropy (`CombinedLoss`). See
    `correctness_ranking_loss` for what is computed.

    Parameters
    ----------
    ignore_index : int, default=-100
        Cases with this target are ignored, and nothing is stored about them.

    Notes
    -----
    A batch is first compared by the stored counts, then added to them, in training mode and if
    gradients are computed. In the first epoch there are no counts, and the loss is 0. Counts are
    part of ``state_dict``. Soft labels are refused, because a prediction must be right or wrong.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import CorrectnessRankingLoss
    >>> loss = CorrectnessRankingLoss()
    >>> logits, target = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([1, 1])
    >>> for epoch in range(2):
    ...     print(f"{loss(logits, target, cases=torch.tensor([0, 1])):.4f}")
    0.0000
    1.1497
    """

    needs_cases = True

    def __init__(self, *, ignore_index: int = -100) -> None:
        super().__init__()
        self.ignore_index = ignore_index
        self.seen = PerCase()  # how often each case was seen, and how often it was right

    def forward(self, logits: Tensor, target: Tensor, *, cases: Tensor | None = None) -> Tensor:
        """Compute the loss of a batch; `cases` are the indices of its cases, of target's shape."""
        numbers = checked_numbers(cases)
        scores, labels, numbers = follow(
            logits, target, numbers, name="cases", ignore_index=self.ignore_index
        )
        visits, right = self.seen.of(numbers, 2, scores.detach()).unbind(1)
        value = _disorder(scores, right / visits)
        if self.training and torch.is_grad_enabled():
            self._remember(scores.detach().argmax(1) == labels, numbers, scores.detach())
        return value

    def _remember(self, right: Tensor, numbers: Tensor, like: Tensor) -> None:
        once, place = distinct(numbers)
        now = torch.stack((torch.ones_like(right), right), 1).to(like)
        before = self.seen.of(once, 2, like)
        self.seen.set(once, before.index_add(0, place, now))


def _disorder(logits: Tensor, correctness: Tensor) -> Tensor:
    """Return the mean hinge loss over neighbours whose confidences differ too little."""
    confidence = logits.log_softmax(1).amax(1).exp()
    ahead = (correctness - correctness.roll(-1)).detach().to(confidence).nan_to_num(0.0)
    apart = confidence - confidence.roll(-1)
    terms = (ahead.abs() - ahead.sign() * apart).relu()
    return terms.sum() / max(len(terms), 1)
