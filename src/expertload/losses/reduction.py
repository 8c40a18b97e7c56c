"""Losses that are a sum over cases: the terms, and their reduction."""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor
from torch.nn.functional import cross_entropy

from expertload.losses.inputs import check_inputs, labelled
from expertload.losses.top_label import working_dtype

__all__ = ["REDUCTIONS", "Reduction", "negative_log_likelihood", "reduce"]

Reduction = Literal["mean", "sum", "none"]
REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)


def negative_log_likelihood(
    logits: Tensor, target: Tensor, ignore_index: int
) -> tuple[Tensor, Tensor | int]:
    """Return minus the log-probability of the true class (0 if ignored), and the number of cases.

    A loss that depends on the true class alone is a function of this, which PyTorch computes in
    one fused pass over logits of any shape.
    """
    check_inputs(logits, target)
    kept = labelled(target, logits.shape[1], ignore_index=ignore_index)
    scores = logits.to(working_dtype(logits))
    nll = cross_entropy(scores, target.long(), reduction="none", ignore_index=ignore_index)
    return nll, target.numel() if kept is None else kept.sum()


def reduce(terms: Tensor, n_cases: Tensor | int, reduction: Reduction) -> Tensor:
    """Reduce the terms of the cases; the mean is over the cases that are not ignored."""
    if reduction == "none":
        return terms
    total = terms.sum()
    if reduction == "sum":
        return total
    return total / (max(n_cases, 1) if isinstance(n_cases, int) else n_cases.clamp_min(1))
