"""The warning that the paper's kernel has lost sight of confident cases."""

from __future__ import annotations

import warnings

import pytest
import torch
from tests.losses.test_aucoc_loss import REFLECTED

from expertload.losses import AUCOCLoss
from expertload.losses.aucoc import PATIENCE


def certain(n=64):
    """Confidences within a hundredth of 1, all right."""
    logits = torch.randn(n, 3, generator=torch.Generator().manual_seed(0))
    logits[:, 0] += 8
    return logits.requires_grad_(), torch.zeros(n, dtype=torch.long)


def unsure(n=64):
    logits = torch.randn(n, 3, generator=torch.Generator().manual_seed(0))
    return logits.requires_grad_(), torch.zeros(n, dtype=torch.long)


def test_it_warns_once_and_says_what_to_use():
    loss = AUCOCLoss(smoothing="probability")
    for _ in range(PATIENCE - 1):
        loss(*certain())
    with pytest.warns(UserWarning, match="smoothing='log_odds'"):
        loss(*certain())
    for _ in range(PATIENCE):  # a warning would be an error here
        loss(*certain())


@pytest.mark.parametrize("options", [{"smoothing": "log_odds"}, REFLECTED])
def test_other_forms_do_not_saturate(options):
    loss = AUCOCLoss(**options)
    for _ in range(PATIENCE + 1):
        loss(*certain())


def test_one_open_batch_starts_the_count_again():
    loss = AUCOCLoss(smoothing="probability")
    for _ in range(PATIENCE - 1):
        loss(*certain())
    loss(*unsure())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(*certain())


def test_evaluation_does_not_count():
    loss = AUCOCLoss(smoothing="probability").eval()
    for _ in range(PATIENCE + 1):
        loss(*certain())
