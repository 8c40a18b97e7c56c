"""Networks of one's own to train, and ways to end a training early."""

from __future__ import annotations

import json

import pytest
from torch import nn

from expertload.lab.training.loop import train
from expertload.lab.training.progress import Reporter


def plain_network(num_classes, width=16):
    """A network without batch norm, in which rows of a batch do not know each other."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, width), nn.Tanh(), nn.Linear(width, num_classes)
    )


def smaller_network(num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))


PLAIN = "tests.lab.training.own_parts:plain_network"


class BackboneInModule(nn.Module):
    """A network whose attributes are called as those of torch's wrappers are."""

    def __init__(self, num_classes):
        super().__init__()
        self.module = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh())
        self._orig_mod = nn.Linear(16, 16)
        self.head = nn.Linear(16, num_classes)

    def forward(self, images):
        return self.head(self._orig_mod(self.module(images)))


class Tied(nn.Module):
    """A network that uses a weight twice, as autoencoders and language models do."""

    def __init__(self, num_classes):
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
        self.second.weight = self.first.weight
        self.head = nn.Linear(64, num_classes)

    def forward(self, images):
        return self.head(self.second(self.first(images.flatten(1)).tanh()))


def history(path):
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


class StopError(Exception):
    pass


class StopAfter(Reporter):
    """A reporter that ends training after some epochs, the state being saved."""

    def __init__(self, epochs):
        super().__init__()
        self.epochs = epochs

    def start(self, config, *, first_epoch):
        self.first_epoch = first_epoch

    def epoch(self, record, *, n_epochs, best_epoch):
        if record["epoch"] == self.epochs:
            raise StopError


def stop_after(path, config, *, epochs):
    reporter = StopAfter(epochs)
    with pytest.raises(StopError):
        train(config, path, reporter=reporter)


def stop(*_):
    raise KeyboardInterrupt
