"""The loss and its gradient are those of the paper's own code."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from tests.conftest import DATA
from tests.reference import aucoc_loss as reference

from expertload.losses import aucoc_loss

COMMITTED = json.loads((DATA / "aucoc_loss_values.json").read_text())


def loss_and_gradient(logits, target, **options):
    logits = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    loss = aucoc_loss(logits, torch.as_tensor(target), smoothing="probability", **options)
    loss.backward()
    return loss.item(), logits.grad.numpy()


@pytest.mark.parametrize("method", ["exact", "fast", "auto"])
def test_golden_values_and_gradients(golden, method):
    for case in golden.ids:
        loss, grad = loss_and_gradient(
            golden[f"{case}/logits"], golden[f"{case}/labels"], method=method
        )
        assert loss == pytest.approx(float(golden[f"{case}/aucoc_loss"]), abs=1e-7)
        expected = golden[f"{case}/aucoc_grad_logits"]
        np.testing.assert_allclose(grad, expected, atol=1e-6 * np.abs(expected).max())


def test_the_oracle_agrees_with_the_golden_values(golden):
    loss, grad = reference.aucoc_loss(golden["1/logits"], golden["1/labels"])
    assert loss == pytest.approx(float(golden["1/aucoc_loss"]), abs=1e-12)
    np.testing.assert_allclose(grad, golden["1/aucoc_grad_logits"], atol=1e-12)


@pytest.mark.parametrize("method", ["exact", "fast", "auto"])
@pytest.mark.parametrize("case", COMMITTED, ids=lambda case: case["name"])
def test_committed_values_and_gradients(case, method):
    loss, grad = loss_and_gradient(case["logits"], case["target"], method=method)
    assert loss == pytest.approx(case["loss"], abs=1e-7)
    np.testing.assert_allclose(grad, case["gradient"], atol=1e-7)
