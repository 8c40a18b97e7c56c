from __future__ import annotations

import numpy as np
import pytest

from expertload.cases import Cases
from expertload.evaluation import evaluate

SITES = ["Basel", "Bern", "Genève", "Chur"]


class Visit:
    """A page that is open, what it asked the network for, and what it complained about."""

    def __init__(self, page, path):
        self.page, self.requests, self.complaints = page, [], []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.goto(path.as_uri())

    def value(self, name: str) -> float | None:
        """The full number behind what is shown."""
        text = self.page.locator(f"#{name}").get_attribute("value")
        return float(text) if text else None

    def text(self, query: str) -> str:
        return self.page.locator(query).first.inner_text()

    def go_to(self, stop: int) -> None:
        self.page.locator("#stop").fill(str(stop))

    @property
    def n_stops(self) -> int:
        return int(self.page.locator("#stop").get_attribute("max")) + 1


@pytest.fixture
def visit(browser):
    """Open a file, by default on a desk in daylight."""
    contexts = []

    def open_page(path, *, width=1280, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        return Visit(context.new_page(), path)

    yield open_page
    for context in contexts:
        context.close()


def predictions(n: int, *, seed: int = 0, noise: float = 0.3, n_classes: int = 4):
    """Labels, probabilities and sites; labels and sites depend on n alone."""
    cases, model = np.random.default_rng(n), np.random.default_rng(seed)
    y_true = cases.integers(0, n_classes, n)
    site = cases.choice(SITES, n, p=[0.5, 0.3, 0.19, 0.01])
    logits = cases.normal(0, 1, (n, n_classes)) + model.normal(0, noise, (n, n_classes))
    logits[np.arange(n), y_true] += 2.5
    proba = np.exp(1.3 * logits)
    return y_true, proba / proba.sum(axis=1, keepdims=True), site


@pytest.fixture(scope="session")
def models():
    """Three models on the same cases, with groups."""
    found = {}
    for seed, name in enumerate(("first", "second", "third")):
        y_true, proba, site = predictions(2000, seed=seed, noise=0.2 + 0.6 * seed)
        found[name] = evaluate(
            Cases.from_predictions(y_true, proba, groups=site), target_accuracy=0.9
        )
    return found
