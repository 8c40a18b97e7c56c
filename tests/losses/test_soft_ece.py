import numpy as np
import torch
from tests.losses.test_baselines import batch, value_and_gradient

from expertload.losses import soft_ece_loss


def test_cold_bins_become_the_hard_ece():
    logits, target = batch(n=300, classes=4)
    proba = torch.softmax(logits, 1).numpy()
    confidence, right = proba.max(1), proba.argmax(1) == target.numpy()
    bins = np.minimum((confidence * 10).astype(int), 9)
    expected = sum(
        (bins == j).mean() * abs(right[bins == j].mean() - confidence[bins == j].mean())
        for j in np.unique(bins)
    )
    cold = soft_ece_loss(logits, target, temperature=1e-7, n_bins=10, norm=1)
    np.testing.assert_allclose(cold.item(), expected, rtol=1e-6)


def test_the_gradient_sees_confidence():
    """The term lowers the confidence of confident errors: it is not the loss of class numbers."""
    logits = torch.tensor([[3.0, 0.0, 0.0]] * 8, dtype=torch.float64)
    _, gradient = value_and_gradient(soft_ece_loss, logits, torch.ones(8, dtype=torch.long))
    assert (gradient[:, 0] > 0).all()
    assert (gradient[:, 1:] < 0).all()


def test_a_calibrated_batch_has_no_error_and_no_gradient():
    proba = torch.tensor([[0.5, 0.25, 0.25]] * 4, dtype=torch.float64)
    value, gradient = value_and_gradient(
        lambda x, y: soft_ece_loss(x, y), proba.log(), torch.tensor([0, 0, 1, 1])
    )
    assert value < 1e-12
    assert gradient.isfinite().all()
