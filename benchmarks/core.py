"""The core against scikit-learn's ROC area and against loops over itself."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import numpy as np
from sklearn.metrics import roc_auc_score

import expertload as el
from benchmarks.measure import best_times, peak_memory, row
from expertload import Cases, significance


def area(correct: np.ndarray, confidence: np.ndarray) -> float:
    return el.aucoc_score(Cases.from_correctness(correct, confidence))


def large_area() -> None:
    rng = np.random.default_rng(0)
    n = 10_000_000
    confidence = rng.beta(5, 1, n).astype(np.float32)
    correct = rng.random(n) < confidence
    ours, theirs = best_times(
        lambda: area(correct, confidence),
        lambda: roc_auc_score(correct, confidence),
        repeats=2,
    )
    row(
        "AUCOC of 10 million float32: faster than roc_auc_score",
        theirs / ours,
        at_least=5,
    )
    peak = peak_memory(lambda: area(correct, confidence))
    ratio = peak / (confidence.nbytes + correct.nbytes)
    row("    peak extra memory, relative to the input", ratio, at_most=6)


def growth() -> None:
    rng = np.random.default_rng(0)
    seconds = {}
    for n in (1_000_000, 2_000_000, 4_000_000, 8_000_000):
        confidence = rng.random(n)
        correct = rng.random(n) < confidence
        (seconds[n],) = best_times(partial(area, correct, confidence))
    exponent = np.polyfit(np.log(list(seconds)), np.log(list(seconds.values())), 1)[0]
    row("    time grows with n to the power", exponent, unit="", at_most=1.2)


def model(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    y_proba = rng.dirichlet(np.ones(10), n)
    return (y_proba.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1), y_proba


def resampling() -> None:
    rng = np.random.default_rng(0)
    y_true, y_proba = model(10_000, rng)
    _, other = model(10_000, rng)

    def loop() -> None:
        for _ in range(2000):
            i = rng.integers(0, len(y_true), len(y_true))
            el.aucoc_score(y_true[i], y_proba[i])

    ours, theirs = best_times(
        lambda: significance.bootstrap_interval(
            Cases.from_predictions(y_true, y_proba), n_resamples=2000
        ),
        loop,
        repeats=2,
    )
    row(
        "2000 bootstrap resamples, n = 10,000: faster than a loop",
        theirs / ours,
        at_least=5,
    )

    def calls() -> None:
        for _ in range(2500):
            el.aucoc_score(y_true, y_proba)

    test, budget = best_times(
        lambda: significance.permutation_test(
            Cases.from_predictions(y_true, y_proba),
            Cases.from_predictions(y_true, other),
            n_rounds=1000,
        ),
        calls,
        repeats=2,
    )
    row(
        "permutation test, 1000 rounds, n = 10,000: time of 2500 scores",
        test / budget,
        at_most=1,
    )
    closed, bootstrap = best_times(
        lambda: significance.aucoc_interval(Cases.from_predictions(y_true, y_proba)),
        lambda: significance.bootstrap_interval(
            Cases.from_predictions(y_true, y_proba), n_resamples=2000
        ),
    )
    row(
        "closed-form interval: faster than that bootstrap",
        bootstrap / closed,
        at_least=50,
    )


def import_time() -> None:
    code = (
        "import time; import numpy, scipy.special; t = time.perf_counter(); import expertload; "
        "print(time.perf_counter() - t)"
    )
    command = [sys.executable, "-c", code]
    seconds = min(
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    )
    row("import expertload, beyond numpy and scipy.special", seconds, unit="s", at_most=0.3)


def main() -> None:
    """Run all of them."""
    print("core")
    large_area()
    growth()
    resampling()
    import_time()
