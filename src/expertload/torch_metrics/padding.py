"""Which samples of a distributed sampler are repeats that fill up its last round."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DistributedSampler

__all__ = ["not_padding"]


def not_padding(sampler: DistributedSampler[Any]) -> Tensor:
    """Mark the samples of this process that are not there to fill the last round.

    A ``DistributedSampler`` gives every process the same number of samples, and repeats some of
    the first ones where the data set does not divide evenly. Metrics would count these twice.

    Parameters
    ----------
    sampler : DistributedSampler
        As handed to the data loader; shuffled or not.

    Returns
    -------
    Tensor of bool of shape (len(sampler),)
        In the order in which the loader yields this process's samples: slice it batch by batch
        and pass it as ``valid``.

    Examples
    --------
    Five samples on two processes are three each; the second process repeats one:

    >>> from torch.utils.data import DistributedSampler
    >>> from expertload.torch_metrics import not_padding
    >>> not_padding(DistributedSampler(range(5), num_replicas=2, rank=1))
    tensor([ True,  True, False])
    """
    # The sampler deals out the (shuffled) data set like cards, and then starts again.
    position = torch.arange(len(sampler)) * sampler.num_replicas + sampler.rank
    n_samples = len(sampler.dataset)  # type: ignore[arg-type]
    return torch.lt(position, n_samples)
