"""Calibration losses: confidences should say how often the network is right.

All are secondary losses, to be combined with cross-entropy or focal loss (`CombinedLoss`). `mmce`
and `soft_ece` are functions of the confidence and correctness of each case's top label: a formula
gives the value, torch its slope by every confidence, and the slope goes back to the logits through
the autograd Function that all losses of confidence share (``base``). `soft_avuc` and
`confidence_penalty` are functions of the entropy of the predictions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from expertload._check import check_count, check_fraction, check_minimum, check_positive
from expertload.losses.base import Confidences, Gradient, LossModule, confidence_loss, labelled_rows

MMCE_WIDTH = 0.4
# The rounding error in double precision of a form that is zero.
ROUNDING_FLOOR = 1e-15
# The share of agreement (AC + IU) is kept from zero by this much, as in the original.
SMALLEST_AGREEMENT = 1e-5


def _loss_of_top_label(
    logits: Tensor, target: Tensor, ignore_index: int, formula: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Apply `formula` to the confidence and the correctness of all cases that are not ignored."""

    def solve(batch: Confidences) -> Gradient:
        with torch.enable_grad():
            confidence = batch.top.exp().requires_grad_()
            value = formula(confidence, batch.correct.bool())
        (slope,) = torch.autograd.grad(value, confidence)
        by_top = slope * confidence.detach()
        return Gradient(value.detach(), by_top, torch.zeros_like(by_top))

    return confidence_loss(logits, target, solve, ignore_index=ignore_index)


def _root(power: Tensor, exponent: float, zero: float = 0.0) -> Tensor:
    """Return the root of a number; 0 up to `zero`, with a slope of 0, a subgradient there."""
    positive = power > zero
    root = power.where(positive, 1.0) ** (1 / exponent)
    return root.where(positive, 0 * power)  # NaN stays NaN


# ------------------------------------------------------------------ weighted MMCE


def mmce_loss(logits: Tensor, target: Tensor, *, ignore_index: int = -100) -> Tensor:
    """Compute the weighted maximum mean calibration error of a batch.

    A secondary loss: combine it with cross-entropy or focal loss (`CombinedLoss`).

    Parameters
    ----------
    logits : Tensor of shape (N, C) or (N, C, d1, ...)
        Unnormalised scores, never probabilities. Half precision is computed in float32.
    target : Tensor of shape (N,) or (N, d1, ...)
        Class numbers.
    ignore_index : int, default=-100
        Cases with this target do not count.

    Returns
    -------
    Tensor
        The error, zero or more. Where all cases are right, or all wrong, the terms of the missing
        group are zero; where there are no cases, so are the loss and its gradient.

    Notes
    -----
    Exact at every batch size in O(n log n) time and O(n) memory: the kernel factors along the
    sorted confidences. Differentiable once, except where two confidences are equal; there, equals
    do not push each other.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import mmce_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> print(f"{mmce_loss(logits, torch.tensor([0, 0])):.4f}")
    0.6548
    """
    return _loss_of_top_label(logits, target, ignore_index, weighted_mmce)


class MMCELoss(LossModule):
    """Module form of `mmce_loss`, which documents the options.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import MMCELoss
    >>> print(f"{MMCELoss()(torch.zeros(1, 2), torch.tensor([0])):.4f}")
    0.5000
    """

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch."""
        return mmce_loss(logits, target, ignore_index=self.ignore_index)


def weighted_mmce(r: Tensor, correct: Tensor) -> Tensor:
    """Return the calibration error that a kernel measures, without bins.

    Kumar et al. 2018 embed the gap between correctness c and confidence r in the space of a
    Laplacian kernel ``k(r, r') = exp(-|r - r'| / 0.4)``. The weighted form, which they train with,
    averages the m right and the n - m wrong cases of a batch apart, so that neither outweighs the
    other::

        MMCE_w^2 =   sum_{wrong, wrong} r_i r_j k_ij / (n - m)^2
                   + sum_{right, right} (1 - r_i)(1 - r_j) k_ij / m^2
                   - 2 sum_{right, wrong} (1 - r_i) r_j k_ij / (m (n - m))

    With n_i = m for right cases and n - m for wrong ones, and ``u_i = (c_i - r_i) / n_i``, this is
    the quadratic form ``sum_ij u_i u_j k_ij``. The loss is its root.
    """
    right = correct.to(r.dtype)
    n_right = right.sum()
    u = (right - r) * torch.where(correct, 1 / n_right, 1 / (len(r) - n_right))
    return _root(u @ kernel_sums(r, u, MMCE_WIDTH), 2, ROUNDING_FLOOR)


def kernel_sums(position: Tensor, coefficient: Tensor, width: float) -> Tensor:
    """Sum `coefficient` with kernel weights around each position, in [0, 1], in double precision.

    On a line the kernel factors: for r_j <= r_i it is ``exp(-r_i / w) * exp(r_j / w)``. So the sum
    over all positions that are not larger is a running sum of ``u_j exp(r_j / w)`` along the sorted
    positions, and the sum over the larger ones a running sum of ``u_j exp(-r_j / w)`` from the end.
    """
    ascending, order = position.detach().sort()
    n_not_larger = torch.searchsorted(ascending, position.detach(), right=True)
    growth = torch.exp(position / width)
    rising: Tensor = pad((coefficient * growth)[order].cumsum(0), (1, 0))
    falling: Tensor = pad((coefficient / growth)[order].flip(0).cumsum(0).flip(0), (0, 1))
    return rising[n_not_larger] / growth + falling[n_not_larger] * growth


# ------------------------------------------------------------------ soft-binned ECE


def soft_ece_loss(logits: Tensor, target: Tensor, **options: Any) -> Tensor:
    """Compute the soft-binned expected calibration error of a batch.

    A secondary loss: combine it with cross-entropy or focal loss (`CombinedLoss`).

    Parameters
    ----------
    logits, target
        As in `mmce_loss`.
    **options
        Those of `SoftECELoss`.

    Returns
    -------
    Tensor
        The error, in [0, 1]; 0 (with a gradient of zeros) if there are no cases.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import soft_ece_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> print(f"{soft_ece_loss(logits, torch.tensor([0, 0])):.4f}")
    0.4452
    """
    return SoftECELoss(**options).forward(logits, target)


class SoftECELoss(LossModule):
    """Module form of `soft_ece_loss`.

    Parameters
    ----------
    temperature : float, default=0.01
        Softness of the bins. The paper's grid is 0.01, 0.1, 1, 10.
    n_bins : int, default=15
        Number of bins, their centres evenly spread over [0, 1].
    norm : float, default=2.0
        The power p, at least 1.
    ignore_index : int, default=-100
        Cases with this target do not count.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import SoftECELoss
    >>> print(f"{SoftECELoss()(torch.zeros(1, 2), torch.tensor([0])):.4f}")
    0.5000
    """

    def __init__(
        self,
        *,
        temperature: float = 0.01,
        n_bins: int = 15,
        norm: float = 2.0,
        ignore_index: int = -100,
    ) -> None:
        super().__init__(ignore_index=ignore_index)
        hint = "use norm=2 for the paper's error, norm=1 for the usual ECE"
        self.temperature = check_positive(temperature, "temperature")
        self.n_bins = check_count(n_bins, "n_bins")
        self.norm = check_minimum(norm, 1, "norm", hint)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch."""
        formula = partial(
            soft_binned_error, temperature=self.temperature, n_bins=self.n_bins, norm=self.norm
        )
        return _loss_of_top_label(logits, target, self.ignore_index, formula)


def soft_binned_error(
    r: Tensor, correct: Tensor, *, temperature: float, n_bins: int, norm: float
) -> Tensor:
    """Return the p-norm of the bins' gaps.

    A case belongs to every bin a little: its membership is a softmax over minus the squared
    distances of its confidence to the bins' centres x_j, divided by a temperature (Karandikar et
    al. 2021, eq. 8 to 11, SB-ECE of the binned kind). As the temperature goes to zero this becomes
    the ECE with equal-width bins (for p = 1). With gaps ``g_i = r_i - c_i`` between confidence and
    correctness, the loss is ``E^(1/p)`` with::

        U_ij = softmax_j(-(r_i - x_j)^2 / T)      S_j = sum_i U_ij      b_j = sum_i U_ij g_i / S_j

        E = (1/n) sum_j S_j |b_j|^p
    """
    gap = r - correct.to(r.dtype)
    centres = (torch.arange(n_bins, dtype=r.dtype, device=r.device) + 0.5) / n_bins
    membership = torch.softmax((r[:, None] - centres).square() / -temperature, dim=1)
    size, gaps = torch.stack([torch.ones_like(gap), gap]) @ membership
    # A bin that is far from all cases may have size zero; its gap and weight are then zero.
    bin_gap = gaps / size.clamp_min(torch.finfo(size.dtype).tiny)
    return _root(size @ bin_gap.abs() ** norm / max(len(r), 1), norm)


# ------------------------------------------------------------------ soft AvUC and entropy


def soft_avuc_loss(logits: Tensor, target: Tensor, **options: Any) -> Tensor:
    """Compute the soft accuracy-versus-uncertainty loss of a batch.

    It trains a network to be certain where it is right and uncertain where it is wrong. AvUC
    (Krishnan and Tickoo 2020) counts a case as certain or uncertain by a threshold on the entropy h
    of its prediction, which has no gradient. Karandikar et al. 2021 (eq. 14 and 15) put a soft step
    in its place, t, on the entropy divided by its largest value, log C, with threshold kappa and
    temperature T::

        t = sigmoid( (logit(h / log C) - logit(kappa)) / T )

        right cases:   AC = sum (1 - t)(1 - tanh h)      AU = sum t tanh h
        wrong cases:   IC = sum (1 - t)(1 - tanh h)      IU = sum t tanh h

        loss = log( 1 + (AU + IC) / (AC + IU) )

    A secondary loss: combine it with cross-entropy or focal loss (`CombinedLoss`).

    Parameters
    ----------
    logits, target
        As in `mmce_loss`.
    **options
        Those of `SoftAvUCLoss`.

    Returns
    -------
    Tensor
        The loss; 0 (with a gradient of zeros) if there are no cases.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import soft_avuc_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> print(f"{soft_avuc_loss(logits, torch.tensor([0, 0])):.4f}")
    0.3255
    """
    return SoftAvUCLoss(**options).forward(logits, target)


class SoftAvUCLoss(LossModule):
    """Module form of `soft_avuc_loss`.

    Parameters
    ----------
    temperature : float, default=1.0
        Softness of the step. The paper's grid is 0.01, 0.1, 1, 10.
    threshold : float, default=0.4
        The relative entropy, in (0, 1), above which a case counts as uncertain. The paper's grid
        is 0.2, 0.4, 0.7.
    ignore_index : int, default=-100
        Cases with this target do not count.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import SoftAvUCLoss
    >>> loss = SoftAvUCLoss(temperature=0.1, threshold=0.7)
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> print(f"{loss(logits, torch.tensor([0, 0])):.4f}")
    0.0003
    """

    def __init__(
        self, *, temperature: float = 1.0, threshold: float = 0.4, ignore_index: int = -100
    ) -> None:
        super().__init__(ignore_index=ignore_index)
        self.temperature = check_positive(temperature, "temperature")
        self.threshold = check_fraction(threshold, "threshold", inclusive=False)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch."""
        scores, labels = labelled_rows(logits, target, ignore_index=self.ignore_index)
        certain, uncertain = self._soft_counts(scores)
        correct = scores.argmax(dim=1) == labels
        agreement = torch.where(correct, certain, uncertain).sum()
        disagreement = torch.where(correct, uncertain, certain).sum()
        return torch.log1p(disagreement / agreement.clamp_min(SMALLEST_AGREEMENT))

    def _soft_counts(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return how much each case counts as certain, and as uncertain."""
        entropy = softmax_entropy(scores)
        # With one class there is no uncertainty, and the largest entropy is zero.
        relative = entropy / math.log(max(scores.shape[1], 2))
        # The logit is infinite at 0 and 1; within rounding of them it is constant, with slope zero.
        margin = 8 * torch.finfo(relative.dtype).eps
        at_threshold = math.log(self.threshold / (1 - self.threshold))
        step = (torch.logit(relative, margin) - at_threshold) / self.temperature
        size = torch.tanh(entropy)
        return torch.sigmoid(-step) * (1 - size), torch.sigmoid(step) * size


def confidence_penalty(logits: Tensor, target: Tensor, *, ignore_index: int = -100) -> Tensor:
    """Compute minus the mean entropy, in nats, of a batch's predictions (Pereyra et al. 2017).

    Added to cross-entropy (`CombinedLoss`; 0.1 is a usual weight), it keeps a network from being
    certain of everything, like label smoothing. It serves as a control: a loss that ranks cases
    must gain more than this simple penalty.

    Parameters
    ----------
    logits, ignore_index
        As in `mmce_loss`.
    target : Tensor of shape (N,) or (N, d1, ...)
        Class numbers. Only which of them are ignored matters.

    Returns
    -------
    Tensor
        Between -log C (uniform) and 0 (certain); 0 if there are no cases.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import confidence_penalty
    >>> logits = torch.tensor([[0.0, 0.0], [0.0, 9.0]])
    >>> print(f"{confidence_penalty(logits, torch.tensor([0, 1])):.4f}")
    -0.3472
    """
    scores, _ = labelled_rows(logits, target, ignore_index=ignore_index)
    return -softmax_entropy(scores).sum() / max(len(scores), 1)


class ConfidencePenalty(LossModule):
    """Module form of `confidence_penalty`, which documents the options.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import ConfidencePenalty
    >>> print(f"{ConfidencePenalty()(torch.zeros(1, 2), torch.tensor([0])):.4f}")
    -0.6931
    """

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch."""
        return confidence_penalty(logits, target, ignore_index=self.ignore_index)


def softmax_entropy(logits: Tensor) -> Tensor:
    """Return the entropy of each row's softmax, in nats."""
    # A class that is ruled out has log-probability minus infinity; 0 * -inf must be 0.
    log_p = torch.log_softmax(logits, dim=1).clamp(min=torch.finfo(logits.dtype).min)
    return -(log_p.exp() * log_p).sum(1)
