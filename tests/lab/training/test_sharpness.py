"""Sharpness-aware steps against the formula, and what they leave behind."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.lab.conftest import tiny
from torch import nn

from expertload.lab.training.loop import train
from expertload.lab.training.step import Sharpness
from expertload.losses import CorrectnessRankingLoss

CPU = torch.device("cpu")


class Remembering(nn.Module):
    """A loss with a memory, of the same cases in every batch."""

    def __init__(self):
        super().__init__()
        self.ranking = CorrectnessRankingLoss()

    def forward(self, logits, target):
        return self.ranking(logits, target, cases=torch.arange(len(target)))


def make(*, dropout=False):
    torch.manual_seed(0)
    layers = [nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)]
    network = nn.Sequential(*layers[:3], *([nn.Dropout(0.5)] if dropout else []), layers[3])
    return network.double().train(), torch.randn(20, 4).double(), torch.randint(3, (20,))


def gradient(network, loss, images, labels):
    network.zero_grad()
    loss(network(images), labels).backward()
    return [p.grad.clone() for p in network.parameters()]


def sharp_gradient(network, loss, rho, images, labels):
    sharpness = Sharpness(network, loss, rho, CPU)
    sharpness.before_the_first_pass()
    gradient(network, loss, images, labels)
    with sharpness.climbed():
        loss(network(images), labels).backward()
    return [p.grad.clone() for p in network.parameters()]


@pytest.mark.parametrize("rho", [0.01, 0.5])
def test_the_gradient_is_that_of_the_formula(rho):
    network, images, labels = make()
    loss = nn.CrossEntropyLoss()
    by_hand = copy.deepcopy(network)
    slope = gradient(by_hand, loss, images, labels)
    length = torch.cat([g.flatten() for g in slope]).norm()
    with torch.no_grad():
        for parameter, g in zip(by_hand.parameters(), slope, strict=True):
            parameter += rho * g / length
    expected = gradient(by_hand, loss, images, labels)
    found = sharp_gradient(network, loss, rho, images, labels)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    assert not torch.allclose(found[0], slope[0])


def test_all_but_the_gradient_is_as_after_one_pass():
    network, images, labels = make(dropout=True)
    loss = Remembering()
    once, loss_once = copy.deepcopy(network), copy.deepcopy(loss)
    state = torch.get_rng_state()
    gradient(once, loss_once, images, labels)
    random_after = torch.get_rng_state()
    torch.set_rng_state(state)
    sharp_gradient(network, loss, 0.1, images, labels)
    for name, tensor in once.state_dict().items():
        assert torch.equal(network.state_dict()[name], tensor), name
    for name, tensor in loss_once.state_dict().items():
        assert torch.equal(loss.state_dict()[name], tensor), name
    assert torch.equal(torch.get_rng_state(), random_after)


def test_both_passes_drop_out_the_same():
    network, images, labels = make(dropout=True)
    masks = []
    network[3].register_forward_hook(lambda _, i, o: masks.append((o == 0) & (i[0] != 0)))
    sharp_gradient(network, nn.CrossEntropyLoss(), 1e-9, images, labels)
    assert torch.equal(masks[0], masks[1])


@pytest.mark.training
def test_a_run_with_sharpness_trains_to_something_else(tmp_path):
    plain = train(tiny(), tmp_path / "plain")
    sharp = train(tiny(sam_rho=0.05), tmp_path / "sharp")
    assert sharp["test"] != plain["test"]
    assert sharp["test"]["accuracy"] > 0.1
