"""The entropy of a softmax, with a gradient that needs two passes over the logits.

With ``p = softmax(z)`` and ``H = -sum_j p_j ln p_j``, the derivative is
``dH/dz_j = -p_j (ln p_j + H)``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["SoftmaxEntropy"]


class SoftmaxEntropy(torch.autograd.Function):
    """Entropy, in nats, of each row of logits (n, C)."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        """Return the entropy of each row, in nats."""
        log_p = torch.log_softmax(logits, dim=1)
        # A class that is ruled out has log-probability minus infinity; 0 * -inf must be 0.
        log_p.clamp_(min=torch.finfo(log_p.dtype).min)
        p = log_p.exp()
        information = log_p.mul_(p)  # p ln p
        entropy = -information.sum(1)
        ctx.save_for_backward(p, information, entropy)
        return entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """Return the gradient, ``-p (ln p + H)`` for each entropy."""
        p, information, entropy = ctx.saved_tensors
        slope = torch.addcmul(information, p, entropy[:, None])
        return slope.mul_(-grad[:, None])
