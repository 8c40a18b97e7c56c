"""The pieces of data-parallel training, in one process."""

from __future__ import annotations

import torch
from torch import nn

from expertload.lab._global_batch import GlobalBatchLoss, gather_rows


def test_one_process_has_the_loss_as_it_is():
    logits, target = torch.randn(5, 3, requires_grad=True), torch.tensor([0, 1, 2, 0, 1])
    loss = GlobalBatchLoss(nn.CrossEntropyLoss())
    assert torch.equal(loss(logits, target), nn.functional.cross_entropy(logits, target))
    assert gather_rows(logits)[0] is logits
