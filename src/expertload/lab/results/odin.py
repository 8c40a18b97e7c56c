"""ODIN's input perturbation: change each image so that its predicted class becomes more likely.

Inliers gain more confidence from this than outliers, which separates the two better.
Every value of the image moves by epsilon in the direction in which the tempered probability of
the predicted class rises.

References
----------
Liang et al., "Enhancing the reliability of out-of-distribution image detection in neural
networks", ICLR 2018.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["perturb"]


def perturb(
    network: nn.Module, images: Tensor, *, epsilon: float | Tensor, temperature: float = 1000.0
) -> Tensor:
    """Move images a step up the log-probability of their predicted class.

    Parameters
    ----------
    network : Module
        From images to logits, in evaluation mode.
    images : Tensor of shape (n, channels, height, width)
        Normalised, as the input of the network.
    epsilon : float or Tensor that broadcasts to the images
        The size of the step; a tensor of shape (channels, 1, 1) if channels are scaled differently.
    temperature : float, default=1000
        The divisor of the logits; ODIN uses 1000.

    Returns
    -------
    Tensor
        Of the shape of the images.

    Examples
    --------
    >>> import torch
    >>> from expertload.lab.results.odin import perturb
    >>> network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(1, 2, bias=False))
    >>> network[1].weight.data = torch.tensor([[1.0], [-1.0]])
    >>> perturb(network, torch.tensor([0.5, -0.5]).view(2, 1, 1, 1), epsilon=0.1).flatten()
    tensor([ 0.6000, -0.6000])
    """
    with torch.enable_grad():
        moving = images.detach().clone().requires_grad_()
        log_proba = torch.log_softmax(network(moving) / temperature, dim=1)
        # In evaluation mode rows do not affect each other, so one backward pass is enough for all.
        (slope,) = torch.autograd.grad(log_proba.max(dim=1).values.sum(), moving)
    return images + epsilon * slope.sign()
