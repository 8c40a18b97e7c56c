"""Averaged weights: against a plain mean, their statistics, and what a run does with them."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from tests.lab.conftest import tiny
from tests.lab.training.own_parts import StopAfter, StopError, Tied, history
from torch import nn

from expertload.lab.data.loader import BatchLoader
from expertload.lab.models import build_model
from expertload.lab.results.rows import collect
from expertload.lab.runs.finished import FinishedRun
from expertload.lab.runs.folder import RunFolder
from expertload.lab.runs.network import apply_network, load_weights
from expertload.lab.training.loop import train
from expertload.lab.training.step import WeightAverage, make_average

NEARLY_ONE = 1 - 1e-9  # all weights count alike


def wander(network, steps, seed=0):
    """Change weights as training might; yield them, in double precision, after each step."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator))
        yield {name: p.detach().double() for name, p in copy.deepcopy(network).named_parameters()}


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.95, 0.9999])
def test_the_average_is_that_of_a_plain_loop(decay):
    network = nn.Linear(3, 2)
    average = WeightAverage(network, decay)
    seen = []
    for weights in wander(network, 25):
        seen.append(weights)
        average.update()
        counts = np.array([decay**age for age in range(len(seen))][::-1])
        counts /= counts.sum()
        for name in weights:
            expected = sum(count * each[name] for count, each in zip(counts, seen, strict=True))
            torch.testing.assert_close(average.state[name].double(), expected, rtol=1e-5, atol=1e-5)


def test_weights_that_are_used_twice_are_averaged_once():
    network = Tied(num_classes=4)
    average = WeightAverage(network, NEARLY_ONE)
    seen = []
    for weights in wander(network, 4):
        seen.append(weights["first.weight"])
        average.update()
    expected = sum(seen) / 4
    with average.applied([], network):
        torch.testing.assert_close(network.first.weight.double(), expected, rtol=1e-5, atol=1e-5)
        assert network.second.weight is network.first.weight


@pytest.mark.parametrize(
    ("epochs", "steps", "mean_age"), [(5.0, 8, 40), (0.5, 10, 5), (0.01, 10, 1)]
)
def test_an_average_over_epochs_looks_back_as_far(epochs, steps, mean_age):
    """The mean age of what counts, this step being one old, is as many steps as there are."""
    training = tiny(ema_epochs=epochs).training
    decay = make_average(nn.Linear(1, 1), training, steps).decay
    ages = np.arange(1, 100_000)
    counts = decay ** (ages - 1.0) if decay else (ages == 1).astype(float)
    assert (counts * ages).sum() / counts.sum() == pytest.approx(mean_age, rel=1e-3)


def test_statistics_of_batch_norm_are_measured_with_the_averaged_weights():
    torch.manual_seed(0)
    network = build_model("small-cnn", num_classes=4, in_channels=1, width=4).train()
    average = WeightAverage(network, 0.5)
    for _ in wander(network, 3):
        average.update()
    before = copy.deepcopy(network.state_dict())
    batches = [torch.randn(16, 1, 8, 8) for _ in range(3)]

    by_hand = copy.deepcopy(network)
    by_hand.load_state_dict({**before, **dict(average_parameters(average, network))})
    torch.optim.swa_utils.update_bn(batches, by_hand)

    with average.applied(batches, network):
        assert not network.training
        for name, expected in by_hand.state_dict().items():
            torch.testing.assert_close(network.state_dict()[name], expected)
    assert network.training
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def average_parameters(average, network):
    for name, _ in network.named_parameters():
        yield name, average.state[name]


def test_dropout_sleeps_while_statistics_are_measured():
    network = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(2)).train()
    average = WeightAverage(network, NEARLY_ONE)
    average.update()
    with average.applied([torch.ones(50, 2)], network):
        assert torch.equal(network[1].running_mean, torch.ones(2))
    assert network[0].training


# ------------------------------------------------------------------ a run


def averaging(**given):
    return tiny("ce+aucoc", weight=0.1, epochs=3, **{"ema_epochs": 1.0, **given})


@pytest.mark.training
def test_both_kinds_are_evaluated_and_the_better_is_kept(run_path):
    config = averaging()
    results = train(config, run_path)
    records = history(run_path)
    best = {
        "raw": max(record["aucoc"] for record in records),
        "averaged": max(record["averaged_aucoc"] for record in records),
    }
    chosen = max(best, key=best.get)
    assert best["raw"] != best["averaged"]
    assert results["weights"] == chosen
    for kind, score in best.items():
        assert results[kind]["validation"]["aucoc"] == pytest.approx(score, abs=1e-12)
    assert results["test"] == results[chosen]["test"]
    assert results["best_epoch"] == results[chosen]["best_epoch"]
    run = FinishedRun(run_path)
    data = run.load_data()
    network = run.load_network(data)
    with torch.no_grad():
        logits = apply_network(network, data.test, data.normalisation)
    np.testing.assert_allclose(logits, run.test[0], atol=1e-5)
    splits = {row.split for row in collect(run_path)}
    assert {"test", "raw:test", "averaged:test", "averaged:validation"} <= splits


@pytest.mark.training
@pytest.mark.parametrize("epochs", [1, 2])
def test_a_run_with_augmentation_average_and_aucoc_goes_on_to_the_bit(epochs, tmp_path):
    augment = {"padding": 1, "symmetries": True, "reflect": True}
    config = averaging(augment=augment, ema_epochs=0.7)
    whole = train(config, tmp_path / "whole")
    reporter = StopAfter(epochs)
    with pytest.raises(StopError):
        train(config, tmp_path / "stopped", reporter=reporter)
    resumed = train(config, tmp_path / "stopped")
    for kind in ("raw", "averaged"):
        assert whole[kind]["test"] == resumed[kind]["test"]
        ours, theirs = (
            load_weights(RunFolder(tmp_path / place).best_of(kind))[0]
            for place in ("whole", "stopped")
        )
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    drop = ("seconds",)
    assert [{k: v for k, v in r.items() if k not in drop} for r in history(tmp_path / "whole")] == [
        {k: v for k, v in r.items() if k not in drop} for r in history(tmp_path / "stopped")
    ]


@pytest.mark.training
def test_what_a_kill_left_unwritten_is_written_on_resuming(tmp_path):
    """The checkpoint is there, the best averaged weights of its epoch are not."""
    config = averaging()
    whole = train(config, tmp_path / "whole")
    with pytest.raises(StopError):
        train(config, tmp_path / "killed", reporter=StopAfter(1))
    for kind in ("raw", "averaged"):
        RunFolder(tmp_path / "killed").best_of(kind).unlink()
    assert train(config, tmp_path / "killed")["test"] == whole["test"]


@pytest.mark.training
def test_the_average_does_not_change_the_training(tmp_path):
    plain = train(tiny(epochs=3), tmp_path / "plain")
    beside = train(tiny(epochs=3, ema_epochs=1.0), tmp_path / "beside")
    assert beside["raw"]["test"] == plain["test"]
    losses = [[r["train_loss"] for r in history(tmp_path / p)] for p in ("plain", "beside")]
    assert losses[0] == losses[1]


def test_a_part_of_the_training_data_is_enough_for_statistics(monkeypatch):
    served = []

    def batches():
        for number in range(1000):
            served.append(number)
            yield torch.randn(4, 2)

    network = nn.BatchNorm1d(2)
    average = WeightAverage(network, NEARLY_ONE)
    average.update()
    with average.applied(batches(), network):
        pass
    assert len(served) <= 51


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"warm_up": 30}, "must not exceed epochs"),
        ({"ema_epochs": 0.0}, "greater than 0"),
    ],
)
def test_settings_that_contradict_each_other(given, said):
    with pytest.raises(ValidationError, match=said):
        tiny(**given)


def test_loaders_serve_an_epoch_twice():
    """Statistics are measured on the batches of the epoch that was just trained."""
    from expertload.lab.data import load_dataset

    digits = load_dataset("digits")
    loader = BatchLoader(
        digits.train, batch_size=64, normalisation=digits.normalisation, shuffle=True
    )
    first, again = (next(loader.epoch(3)) for _ in range(2))
    assert torch.equal(first.images, again.images)
