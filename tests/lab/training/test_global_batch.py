"""The pieces of data-parallel training, in one process."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from expertload.exceptions import ParameterError
from expertload.lab.training import state as training_state
from expertload.lab.training.step import refuse_trainable


def test_a_loss_with_something_to_learn_is_refused():
    with pytest.raises(ParameterError, match="Bilinear has trainable parameters"):
        refuse_trainable(nn.Bilinear(2, 2, 2))
    refuse_trainable(nn.Bilinear(2, 2, 2).requires_grad_(False))


def test_generators_are_gathered_on_the_device_of_the_training(monkeypatch):
    """Collectives of GPUs know no tensors of the CPU, where torch keeps generators' states."""
    handed = []

    def gather(own):
        handed.append(own)
        return [torch.zeros(1, 4, dtype=torch.uint8), torch.ones(1, 4, dtype=torch.uint8)]

    monkeypatch.setattr(training_state, "gather_rows", gather)
    states = training_state.gather_generators(torch.device("meta"))
    assert [own.device.type for own in handed] == ["meta"]
    assert handed[0].shape == (1, *torch.get_rng_state().shape)
    assert [state.tolist() for state in states] == [[0] * 4, [1] * 4]


def test_generators_come_back_in_main_memory():
    (state,) = training_state.gather_generators(torch.device("cpu"))
    assert torch.equal(state, torch.get_rng_state())
