"""`sync_distributed` in real processes: the loss of the whole batch, whoever holds which part."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests import forked
from tests.losses import distributed_worker
from tests.losses.distributed_worker import model, whole_batch

from expertload.losses import aucoc_loss, aucoc_upper_bound_loss

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(
        not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
        reason="this build of torch has no gloo",
    ),
]


def exit_codes(sizes, folder, mode):
    return forked.finish(
        [forked.start(distributed_worker.main, r, sizes, folder, mode) for r in range(len(sizes))]
    )


@pytest.mark.parametrize(
    "sizes",
    [(20, 20), (30, 7), (25, 0, 13)],
    ids=["two equal", "two unequal", "three, one of them empty"],
)
def test_value_and_gradient_are_those_of_the_whole_batch(tmp_path, sizes):
    assert exit_codes(sizes, tmp_path, "compute") == [0] * len(sizes)
    parts = [np.load(tmp_path / f"{rank}.npz") for rank in range(len(sizes))]

    inputs, target = whole_batch(sizes)
    leaf = inputs.clone().requires_grad_()
    loss = aucoc_loss(leaf, target)
    loss.backward()
    layer = model()
    aucoc_loss(layer(inputs), target).backward()

    gathered = np.concatenate([part["gradient"] for part in parts])
    # Averaging over processes, as data-parallel training does, undoes this factor.
    np.testing.assert_allclose(gathered, len(sizes) * leaf.grad.numpy(), atol=1e-12)
    for part in parts:
        assert part["loss"] == pytest.approx(loss.item(), abs=1e-12)
        assert part["as_text"] == pytest.approx(loss.item(), abs=1e-12)
        assert part["bound"] == pytest.approx(aucoc_upper_bound_loss(inputs, target).item())
        np.testing.assert_allclose(part["weight_gradient"], layer.weight.grad, atol=1e-12)


def test_a_dead_process_ends_the_job_with_an_error(tmp_path):
    codes = exit_codes((10, 10), tmp_path, "die")
    assert codes[1] == 3
    assert codes[0] not in (0, None, -9)  # it failed by itself and was not killed
    assert not (tmp_path / "0.npz").exists()


def test_alone_it_is_the_loss_of_the_batch():
    inputs, target = whole_batch((20,))
    assert aucoc_loss(inputs, target, sync_distributed=True).item() == pytest.approx(
        aucoc_loss(inputs, target).item(), abs=1e-12
    )
