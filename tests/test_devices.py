"""Every branch for devices other than the CPU, on a stand-in that computes on the CPU."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from expertload.ensembling import Ensemble, ViewEnsemble
from expertload.exceptions import ParameterError
from expertload.lab.data import Augmentation, load_dataset
from expertload.lab.data.loader import BatchLoader
from expertload.lab.models import build_model, features_of
from expertload.lab.runs.network import apply_network, find_device
from expertload.lab.training import setup, state
from expertload.losses import LOSS_NAMES, build_loss
from expertload.torch_metrics import AUCOC, LoadAtAccuracy
from tests.elsewhere import DEVICE, Accelerator, Elsewhere, to_accelerator, to_cpu

EVERY_CHANGE = Augmentation(padding=1, flip=True, flip_vertical=True, symmetries=True, reflect=True)
FORMS = (
    *((name, {}) for name in LOSS_NAMES),
    *(("ce+aucoc", {"smoothing": "log_odds", "method": method}) for method in ("fast", "exact")),
    ("ce+aucoc", {"boundary": "reflect"}),
    ("ce+aucoc", {"correctness": "hard"}),
    *((name, {}) for name in ("gce", "aucoc_upper_bound", "ce+confidence_penalty")),
)


def batch(n=300, classes=5):
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(n, classes, generator=generator)
    return logits, torch.randint(0, classes, (n,), generator=generator)


def value_and_gradient(loss, logits, target, place):
    leaf = place(logits.requires_grad_())
    value = loss(leaf, place(target))
    value.backward()
    return value, leaf.grad


@pytest.mark.parametrize(("name", "options"), FORMS, ids=str)
def test_losses_have_the_same_values_elsewhere(name, options):
    logits, target = batch()
    here = value_and_gradient(build_loss(name, **options), logits, target, leaf_of)
    with Accelerator():
        there = value_and_gradient(build_loss(name, **options), logits, target, to_accelerator)
    for ours, theirs in zip(here, there, strict=True):
        assert theirs.device == DEVICE
        torch.testing.assert_close(to_cpu(theirs), ours.detach(), rtol=1e-6, atol=1e-9)


def leaf_of(tensor):
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def test_a_large_batch_and_soft_targets_elsewhere():
    logits, target = batch(n=20_000)
    soft = torch.nn.functional.one_hot(target, 5) * 0.8 + 0.04
    for wanted in (target, soft):
        loss = build_loss("aucoc")
        here = value_and_gradient(loss, logits, wanted, leaf_of)
        with Accelerator():
            there = value_and_gradient(loss, logits, wanted, to_accelerator)
        for ours, theirs in zip(here, there, strict=True):
            torch.testing.assert_close(to_cpu(theirs), ours.detach(), rtol=1e-5, atol=1e-9)


def test_the_stand_in_refuses_to_mix_devices():
    with Accelerator(), pytest.raises(RuntimeError, match="same device"):
        _ = to_accelerator(torch.ones(3)) + torch.ones(3)


def test_metrics_take_predictions_from_elsewhere():
    logits, target = batch()
    for make in (AUCOC, lambda: LoadAtAccuracy(0.5)):
        here, there = make(), make()
        here.update(logits.softmax(1), target)
        with Accelerator():
            there.update(to_accelerator(logits.softmax(1)), to_accelerator(target))
            found = there.compute()
        assert float(found) == float(here.compute())


def test_batches_are_made_elsewhere():
    digits = load_dataset("digits")
    options = {
        "batch_size": 64,
        "normalisation": digits.normalisation,
        "augmentation": EVERY_CHANGE,
        "shuffle": True,
    }
    here = next(BatchLoader(digits.train, **options).epoch(1))
    with Accelerator():
        there = next(BatchLoader(digits.train, **options, device=DEVICE).epoch(1))
    for ours, theirs in zip(here, there, strict=True):
        assert isinstance(theirs, Elsewhere)
        torch.testing.assert_close(to_cpu(theirs), ours)


def test_networks_predict_elsewhere():
    digits = load_dataset("digits")
    torch.manual_seed(0)
    network = build_model("tiny-cnn", num_classes=10, in_channels=1).eval()
    both = Ensemble([ViewEnsemble(network, "shift"), network]).eval()
    arguments = digits.test.take(np.arange(20)), digits.normalisation
    here = apply_network(both, *arguments)
    features = apply_network(network, *arguments, lambda images: features_of(network, images))
    with Accelerator():
        both.to(DEVICE)
        there = apply_network(both, *arguments)
        moved = apply_network(network, *arguments, lambda images: features_of(network, images))
    np.testing.assert_allclose(there, here, rtol=1e-6)
    np.testing.assert_allclose(moved, features, rtol=1e-6)


# ------------------------------------------------------------------ which device


def test_a_device_is_found_by_name(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    assert find_device("auto") == find_device("cpu") == torch.device("cpu")
    for name in ("cuda", "mps"):
        with pytest.raises(ParameterError, match="'device' must exist on this machine"):
            find_device(name)
    with pytest.raises(ParameterError, match="There is no device 'gpu7'"):
        find_device("gpu7")
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    assert find_device("auto") == torch.device("cuda")
    assert find_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(ParameterError, match="'device'"):
        find_device("mps")


def test_generators_and_names_of_gpus(monkeypatch):
    gpu, kept = torch.device("cuda:1"), {}
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: torch.tensor([device.index]))
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda s, device: kept.update({device: s}))
    state.restore_generator(state.generator_state(gpu), gpu)
    assert kept[gpu].tolist() == [1]
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU {device.index}")
    monkeypatch.setattr(setup, "sources_of", lambda config: {})
    fabric = SimpleNamespace(device=gpu, world_size=1)
    found = setup.describe_environment(fabric, load_dataset("digits"), None)
    assert found["device"] == "GPU 1"
