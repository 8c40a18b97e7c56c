import numpy as np
import pytest
import torch
from tests.losses.test_baselines import batch
from tests.reference import baseline_losses as oracle
from torch.nn.functional import cross_entropy

from expertload.losses import adaptive_focal_loss, focal_loss


@pytest.mark.parametrize(
    ("loss", "name"), [(focal_loss, "focal_gamma3_mean"), (adaptive_focal_loss, "adafocal53_mean")]
)
def test_values_and_gradients_of_the_authors_code(loss, name, golden):
    for case in golden.ids:
        logits = torch.from_numpy(golden[f"{case}/logits"]).requires_grad_()
        value = loss(logits, torch.from_numpy(golden[f"{case}/labels"]))
        value.backward()
        assert value.item() == pytest.approx(float(golden[f"{case}/{name}"]), rel=1e-10)
        np.testing.assert_allclose(
            logits.grad.numpy(), golden[f"{case}/{name}_grad_logits"], rtol=1e-10, atol=1e-12
        )


def test_gamma_zero_is_cross_entropy():
    logits, target = batch()
    torch.testing.assert_close(focal_loss(logits, target, gamma=0), cross_entropy(logits, target))


@pytest.mark.parametrize("loss", [focal_loss, adaptive_focal_loss])
def test_reductions_agree(loss):
    logits, target = batch()
    target[3] = -100
    per_case = loss(logits, target, reduction="none")
    assert per_case.shape == target.shape
    assert per_case[3] == 0
    torch.testing.assert_close(loss(logits, target, reduction="sum"), per_case.sum())
    torch.testing.assert_close(loss(logits, target), per_case.sum() / 39)


def test_per_case_values_of_a_dense_batch():
    logits, target = batch(n=6)
    dense = focal_loss(
        logits.reshape(2, 3, 5).movedim(-1, 1), target.reshape(2, 3), reduction="none"
    )
    assert dense.shape == (2, 3)
    expected = oracle.focal(logits.tolist(), target.tolist())
    np.testing.assert_allclose(dense.flatten().numpy(), expected, rtol=1e-12)


def test_gamma_changes_exactly_at_the_switch_probability():
    proba = torch.tensor([[0.1999, 0.8001], [0.2001, 0.7999]], dtype=torch.float64)
    target = torch.tensor([0, 0])
    per_case = adaptive_focal_loss(proba.log(), target, reduction="none")
    below = focal_loss(proba[:1].log(), target[:1], gamma=5.0)
    above = focal_loss(proba[1:].log(), target[1:], gamma=3.0)
    torch.testing.assert_close(per_case, torch.stack([below, above]))
