"""The mean probability of several networks, as a network."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the customary name

from expertload.exceptions import ParameterError

__all__ = ["Ensemble", "is_single_logit", "log_mean_probability"]


def log_mean_probability(logits: Iterable[Tensor]) -> Tensor:
    """Return the logarithm of the mean of softmax probabilities.

    These are logits: their softmax is the mean probability. Even probabilities as small as
    exp(-1000) are kept. Of the single logits of a binary task, it is the log-odds of the mean
    probability, whose sigmoid is the mean of their sigmoids.

    Parameters
    ----------
    logits : iterable of Tensor of shape (n, classes), (n, 1) or (n,)
        At least one.

    Returns
    -------
    Tensor of the same shape

    Examples
    --------
    >>> import torch
    >>> from expertload.ensembling.networks import log_mean_probability
    >>> sure, unsure = torch.tensor([[0.9, 0.1]]).log(), torch.tensor([[0.5, 0.5]]).log()
    >>> log_mean_probability([sure, unsure]).exp()
    tensor([[0.7000, 0.3000]])
    """
    members = list(logits)
    if is_single_logit(members[0]):
        each = torch.stack(members)
        return F.logsigmoid(each).logsumexp(dim=0) - F.logsigmoid(-each).logsumexp(dim=0)
    log_proba = torch.stack([torch.log_softmax(each, dim=1) for each in members])
    count = torch.tensor(float(len(log_proba)), dtype=log_proba.dtype, device=log_proba.device)
    return torch.logsumexp(log_proba, dim=0) - torch.log(count)


def is_single_logit(logits: Tensor) -> bool:
    """Whether each case has a single logit, the log-odds of the second of two classes."""
    return logits.ndim == 1 or logits.shape[1] == 1


class Ensemble(nn.Module):
    """A network that predicts the mean probability of several networks.

    Parameters
    ----------
    networks : iterable of Module
        Each maps the same input to logits of shape (n, classes), or to the single logit of a
        binary task, of shape (n, 1) or (n,).

    Examples
    --------
    >>> import torch
    >>> from expertload.ensembling import Ensemble
    >>> torch.manual_seed(0) and None
    >>> networks = [torch.nn.Linear(4, 3) for _ in range(2)]
    >>> images = torch.randn(5, 4)
    >>> mean = (networks[0](images).softmax(1) + networks[1](images).softmax(1)) / 2
    >>> torch.allclose(Ensemble(networks)(images).softmax(1), mean)
    True
    """

    def __init__(self, networks: Iterable[nn.Module]) -> None:
        super().__init__()
        given: object = networks
        if isinstance(given, nn.Module) and not isinstance(given, nn.ModuleList):
            raise ParameterError(
                "'networks' must be a list of networks. Got one network, "
                f"a {type(given).__name__}, instead. Hint: pass [network]."
            )
        self.networks = nn.ModuleList(networks)
        if not len(self.networks):
            raise ParameterError("'networks' must not be empty.")

    @property
    def passes(self) -> int:
        """The cost: passes through a network for each image."""
        return len(self.networks)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits whose softmax (or sigmoid) is the mean probability."""
        return log_mean_probability(network(images) for network in self.networks)
