"""Rounds of learning: what experts answer today lowers the load tomorrow.

A model starts with 40 labels. In each round it gets new images and decides those that a certified
policy lets it decide. Experts read the others, and one in twenty of the decided ones, and the next
model learns from their answers. The images that certify never teach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from expertload import certify
from expertload.lab import load_dataset

TARGET = 0.95
FIRST_LABELS = 40
ROUNDS = 6
AUDITED = 0.05  # the share of automatic decisions that are read all the same


class Round(NamedTuple):
    """One round: labels known at its start, load, accuracy of the decisions, and cases read."""

    n_labels: int
    load: float
    accuracy: float
    n_read: int


def play(seed: int = 0) -> Iterator[Round]:
    """Play the rounds, and yield what happened in each."""
    data = load_dataset("digits-clean")
    apart, stream = data.test, data.train
    images, digits = _pixels(stream.images), stream.labels
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(digits))
    known, rest = order[:FIRST_LABELS], order[FIRST_LABELS:]
    for new in np.array_split(rest, ROUNDS):
        model = _fit(images[known], torch.from_numpy(digits[known]))
        policy = certify(apart.labels, model(_pixels(apart.images)), target_accuracy=TARGET)
        proba = model(images[new])
        decided = policy.decide(proba).accepted
        right = proba.argmax(axis=1)[decided] == digits[new][decided]
        read = ~decided | (rng.random(len(new)) < AUDITED)
        accuracy = float(right.mean()) if len(right) else float("nan")
        yield Round(len(known), float(1 - decided.mean()), accuracy, int(read.sum()))
        known = np.concatenate([known, new[read]])


def _pixels(images: np.ndarray) -> Tensor:
    return torch.from_numpy(images.reshape(len(images), -1)).float() / 255


def _fit(images: Tensor, digits: Tensor) -> Callable[[Tensor], np.ndarray]:
    """Return the probabilities of a logistic regression, fitted to convergence."""
    network = nn.Linear(images.shape[1], 10)
    nn.init.zeros_(network.weight)
    optimiser = torch.optim.LBFGS(network.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        penalty = 0.5 * network.weight.square().sum() / len(digits)
        value = nn.functional.cross_entropy(network(images), digits) + penalty
        value.backward()
        return value

    optimiser.step(loss)
    return lambda new: network(new).softmax(dim=1).detach().numpy()


def draw(rounds: list[Round], path: Path) -> None:
    """Draw the load of each round, and of a model that never learns."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    numbers = range(1, len(rounds) + 1)
    style: dict[str, Any] = {"color": "#0072B2", "marker": "o", "linewidth": 2}
    axes.plot(numbers, [100 * one.load for one in rounds], **style)
    axes.axhline(100 * rounds[0].load, color="#999999", linestyle=":")
    axes.text(len(rounds), 100 * rounds[0].load, "without learning", ha="right", va="bottom")
    axes.set(xlabel="round", ylabel="expert load (%)", ylim=(0, None), xticks=numbers)
    axes.set_title("What experts answer lowers the load", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    for number, one in enumerate(play(), start=1):
        print(f"round {number}: {one.n_labels} labels, load {one.load:.0%}")
