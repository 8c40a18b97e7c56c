"""Losses that follow each training case: self-adaptive training and correctness ranking.

Such a loss keeps a memory of each case, which is part of its ``state_dict``, so it needs the
index of the case in every row. It has an attribute ``needs_cases = True``, and is called as::

    loss(logits, target, cases=numbers)

`CombinedLoss` and the lab pass the indices on to the part that needs them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from expertload._check import check_count, check_fraction, message
from expertload.exceptions import DataTypeError, ParameterError, ShapeError
from expertload.losses.base import LossModule, at_least_float32, check_inputs, in_rows, labelled

# ------------------------------------------------------------------ the memory of cases


def _follow(
    logits: Tensor, target: Tensor, known: Tensor, name: str, ignore_index: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return logits (n, C), target and `known` of the rows that are not ignored."""
    check_inputs(logits, target)
    per_class = name == "soft_target"
    wanted = tuple(logits.shape if per_class else target.shape)
    if known.shape != wanted:
        text = f"must have shape {wanted} for target of shape {tuple(target.shape)}"
        raise ShapeError(message(name, text, f"shape {tuple(known.shape)}"))
    keep = labelled(target, logits.shape[1], ignore_index=ignore_index)
    rows = slice(None) if keep is None else keep.flatten()
    scores = in_rows(logits.to(at_least_float32(logits.dtype)))
    known = in_rows(known) if per_class else known.flatten()
    return scores[rows], target.flatten().long()[rows], known[rows]


def _checked_numbers(cases: Tensor | None) -> Tensor:
    """Return the indices of the cases; raise if there are none."""
    if cases is None:
        raise ParameterError(
            "This loss follows each case through training and needs the indices of the cases. "
            "Hint: pass cases=..., the indices of the cases in the training data; for other data, "
            "use cross-entropy."
        )
    if "int" not in str(cases.dtype):
        hint = "one index per case, its position in the training data"
        got = f"a {cases.dtype} tensor"
        raise DataTypeError(message("cases", "must hold whole numbers", got, hint))
    if cases.device.type == "cpu" and cases.numel() and int(cases.min()) < 0:
        hint = "the index of a case is its position in the training data, starting at 0"
        raise ParameterError(message("cases", "must hold 0 or more", int(cases.min()), hint))
    return cases.long()


class _PerCase(nn.Module):
    """A row of numbers for each case, zeros at first.

    Rows are added when cases first occur, so their number need not be known in advance.
    """

    def __init__(self) -> None:
        super().__init__()
        # Not a buffer: half precision and broadcasts of data-parallel training must not change it.
        self.rows = torch.zeros(0, 0)

    def get_extra_state(self) -> Tensor:
        """Return the state for ``state_dict``."""
        return self.rows

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the state from ``state_dict``."""
        self.rows = state.detach().clone()

    def of(self, cases: Tensor, width: int, like: Tensor) -> Tensor:
        """Return the rows of some cases, of a width, on the device and in the dtype of `like`."""
        if not len(cases):
            return like.new_zeros(0, width)
        highest = int(cases.max())
        if self.rows.shape[1] == 0:
            self.rows = self.rows.new_zeros(0, width)
        self.rows = self.rows.to(like)
        if highest >= len(self.rows):
            # An eighth more than needed now, so that new cases in order rarely need a copy.
            more = highest + 1 + highest // 8 - len(self.rows)
            self.rows = torch.cat((self.rows, self.rows.new_zeros(more, width)))
        return self.rows[cases]

    def set(self, cases: Tensor, values: Tensor) -> None:
        """Set the rows of distinct cases that `of` has returned before."""
        self.rows[cases] = values


# ------------------------------------------------------------------ self-adaptive training


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
        Cases with this target do not count.

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
    scores, _, soft = _follow(logits, target, soft_target, "soft_target", ignore_index)
    return _weighed(scores, soft)


class SelfAdaptiveLoss(LossModule):
    """Cross-entropy whose targets move from the labels to the network's averaged predictions.

    A label may be wrong, or one of several possible ones. The network's own predictions, averaged
    over epochs, show this. So after some epochs, the target of a case becomes a moving average of
    its predictions that starts at the label, and a case is weighted by how certain its target is
    (Huang et al. 2020, algorithm 1). It helps most if images cannot be augmented and networks
    memorise their training set.

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

    References
    ----------
    Huang, Zhang and Zhang, "Self-adaptive training: beyond empirical risk minimization", NeurIPS
    2020.

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
        super().__init__(ignore_index=ignore_index)
        self.momentum = check_fraction(momentum, "momentum")
        self.start = check_count(start, "start", minimum=0)
        self.seen = _PerCase()  # how often each case was seen, and its target

    def forward(self, logits: Tensor, target: Tensor, *, cases: Tensor | None = None) -> Tensor:
        """Compute the loss of a batch; `cases` are the indices of its cases, of target's shape."""
        numbers = _checked_numbers(cases)
        rows = _follow(logits, target, numbers, "cases", self.ignore_index)
        is_learning = self.training and torch.is_grad_enabled()
        return _weighed(rows[0], self._soft_targets(*rows, move=is_learning))

    @torch.no_grad()
    def _soft_targets(self, logits: Tensor, target: Tensor, cases: Tensor, *, move: bool) -> Tensor:
        n_classes = logits.shape[1]
        once, place = cases.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        labels = _means(one_hot(target, n_classes).to(logits), place, len(once))
        seen = self.seen.of(once, 1 + n_classes, labels)
        visits, soft = seen[:, :1], seen[:, 1:]
        soft = torch.where(visits > 0, soft, labels)
        if move:
            predicted = _means(logits.softmax(1), place, len(once))
            moved = self.momentum * soft + (1 - self.momentum) * predicted
            # A NaN prediction would stay in the target of its case.
            may_move = (visits >= self.start) & moved.isfinite().all(1, keepdim=True)
            soft = torch.where(may_move, moved, soft)
            self.seen.set(once, torch.cat((visits + 1, soft), 1))
        return soft[place]


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


# ------------------------------------------------------------------ correctness ranking


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
        Cases with this target do not count.

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
    scores, _, share = _follow(logits, target, correctness, "correctness", ignore_index)
    return _disorder(scores, share)


class CorrectnessRankingLoss(LossModule):
    """Ranks cases by how often they were right before, with a memory of each case.

    The share of epochs in which the network was right on a case shows how easy the case is. For two
    cases, the confidences should differ in that direction, by at least the difference of these
    shares (Moon et al. 2020, equation 2). As in the paper, each case of a batch is compared with
    the next one, and the last with the first.

    A secondary loss: combine it with cross-entropy (`CombinedLoss`).

    Parameters
    ----------
    ignore_index : int, default=-100
        Cases with this target are ignored, and nothing is stored about them.

    Notes
    -----
    A batch is first compared by the stored counts, then added to them, in training mode and if
    gradients are computed. In the first epoch there are no counts, and the loss is 0. Counts are
    part of ``state_dict``. Soft labels are refused, because a prediction must be right or wrong.

    References
    ----------
    Moon, Kim, Shin and Hwang, "Confidence-aware learning for deep neural networks", ICML 2020.

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
        super().__init__(ignore_index=ignore_index)
        self.seen = _PerCase()  # how often each case was seen, and how often it was right

    def forward(self, logits: Tensor, target: Tensor, *, cases: Tensor | None = None) -> Tensor:
        """Compute the loss of a batch; `cases` are the indices of its cases, of target's shape."""
        numbers = _checked_numbers(cases)
        scores, labels, numbers = _follow(logits, target, numbers, "cases", self.ignore_index)
        visits, right = self.seen.of(numbers, 2, scores.detach()).unbind(1)
        value = _disorder(scores, right / visits)
        if self.training and torch.is_grad_enabled():
            self._remember(scores.detach().argmax(1) == labels, numbers, scores.detach())
        return value

    def _remember(self, right: Tensor, numbers: Tensor, like: Tensor) -> None:
        once, place = numbers.unique(return_inverse=True)  # type: ignore[no-untyped-call]
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
