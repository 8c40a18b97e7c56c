"""Soft-binned ECE: the expected calibration error with bins that gradients can see through.

A case belongs to every bin a little: its membership is a softmax over minus the squared distances
of its confidence to the bins' centres, divided by a temperature (Karandikar et al. 2021, eq. 8 to
11, SB-ECE of the binned kind). With S_j the total membership of bin j, A_j and C_j the accuracy
and the confidence averaged with it::

    SB-ECE = ( sum_j S_j / n * |A_j - C_j|^p ) ^ (1 / p)

As the temperature goes to zero this becomes the ECE with equal-width bins (for p = 1).
"""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from expertload._validation import check_count, check_minimum, check_positive
from expertload.losses._soft_bins import soft_binned_error
from expertload.losses._top_label import calibration_loss

__all__ = ["SoftECELoss", "soft_ece_loss"]


def soft_ece_loss(
    logits: Tensor,
    target: Tensor,
    *,
    temperature: float = 0.01,
    n_bins: int = 15,
    norm: float = 2.0,
    ignore_index: int = -100,
) -> Tensor:
    """Compute the soft-binned expected calibration error of a batch.

    A secondary loss: combine it with cross-entropy or focal loss (`CombinedLoss`).

    Parameters
    ----------
    logits : Tensor of shape (N, C) or (N, C, d1, ...)
        Unnormalised scores, never probabilities. Half precision is computed in float32.
    target : Tensor of shape (N,) or (N, d1, ...)
        Class numbers.
    temperature : float, default=0.01
        Softness of the bins. The paper's grid is 0.01, 0.1, 1, 10.
    n_bins : int, default=15
        Number of bins, their centres evenly spread over [0, 1].
    norm : float, default=2.0
        The power p, at least 1.
    ignore_index : int, default=-100
        Cases with this target count for nothing.

    Returns
    -------
    Tensor
        The error, in [0, 1]; 0 (with a gradient of zeros) where there are no cases.

    Examples
    --------
    >>> import torch
    >>> from expertload.losses import soft_ece_loss
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> print(f"{soft_ece_loss(logits, torch.tensor([0, 0])):.4f}")
    0.4452
    """
    _check_options(temperature, n_bins, norm, "soft_ece_loss")
    formula = partial(soft_binned_error, temperature=temperature, n_bins=n_bins, norm=norm)
    return calibration_loss(logits, target, ignore_index, formula, "soft_ece_loss")


class SoftECELoss(nn.Module):
    """Module form of `soft_ece_loss`, which documents the options.

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
        super().__init__()
        _check_options(temperature, n_bins, norm, "SoftECELoss")
        self.temperature = temperature
        self.n_bins = n_bins
        self.norm = norm
        self.ignore_index = ignore_index

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch."""
        return soft_ece_loss(
            logits,
            target,
            temperature=self.temperature,
            n_bins=self.n_bins,
            norm=self.norm,
            ignore_index=self.ignore_index,
        )

    def extra_repr(self) -> str:
        """Show the options when printed."""
        return f"temperature={self.temperature}, n_bins={self.n_bins}, norm={self.norm}"


def _check_options(temperature: float, n_bins: int, norm: float, caller: str) -> None:
    check_positive(temperature, "temperature", caller)
    check_count(n_bins, "n_bins", caller)
    check_minimum(
        norm, 1, "norm", caller, "use norm=2 for the paper's error, norm=1 for the usual ECE"
    )
