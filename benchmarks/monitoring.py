"""How many audits find a fall in accuracy: restarting bets and MAPIE's monitor on the same streams.

Every monitor gets the same audits, and a probability of .05 of ever raising a false alarm. MAPIE's
`RiskMonitoring` is given the threshold and need not estimate one, but it still spends half of its
level on that estimate. So it also runs at twice the level, which makes up for this.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from benchmarks.measure import best_times, row
from expertload.monitoring import evidence_path

TARGET, ALPHA = 0.95, 0.05
# For each kind of fall: the accuracy before, after how many audits it falls, to what, and how many
# audits are looked at.
FALLS = {
    "to .90 from the start": (0.97, 0, 0.90, 3000),
    "to .90 after 1,000 at .97": (0.97, 1000, 0.90, 5000),
    "to .85 from the start": (0.97, 0, 0.85, 1000),
}
ROUNDS, ROUNDS_OF_MAPIE = 2000, 40
Monitor = Callable[[np.ndarray], np.ndarray]


def streams(fall: str, rounds: int) -> np.ndarray:
    before, after, to, n = FALLS[fall]
    accuracy = np.where(np.arange(n) < after, before, to)
    return np.random.default_rng(0).random((rounds, n)) < accuracy


def ours(blocks: int | None) -> Monitor:
    def alarms(correct: np.ndarray) -> np.ndarray:
        path = evidence_path(correct, target_accuracy=TARGET, blocks=blocks)
        return first(path >= 1 / ALPHA)

    return alarms


def windows_of_200(correct: np.ndarray) -> np.ndarray:
    """Exact binomial tests of separate windows, the level spent as 1 / ((k + 1) (k + 2))."""
    from scipy.stats import binom

    wrong = (~correct).reshape(len(correct), -1, 200).sum(axis=2)
    k = np.arange(wrong.shape[1])
    found = binom.sf(wrong - 1, 200, 1 - TARGET) <= ALPHA / ((k + 1) * (k + 2))
    return np.where(found.any(axis=1), 200 * (found.argmax(axis=1) + 1), np.inf)


def mapie(level: float) -> Monitor:
    from mapie.exchangeability_testing import RiskMonitoring

    def alarms(correct: np.ndarray) -> np.ndarray:
        found = []
        for stream in correct:
            monitor = RiskMonitoring("accuracy", test_level=level, threshold=1 - TARGET, warn=False)
            monitor.update(np.ones(len(stream), dtype=int), stream.astype(int))
            found.append(first(monitor.online_risk_lower_bound_sequence_history > 1 - TARGET))
        return np.array(found)

    return alarms


def first(crossed: np.ndarray) -> np.ndarray:
    """Return the number of the first audit; infinity if there is none."""
    return np.where(crossed.any(axis=-1), crossed.argmax(axis=-1) + 1.0, np.inf)


def described(found: np.ndarray, after: int) -> tuple[float, str]:
    """Return the median delay, and median, mean and 95th percentile as text."""
    delays = found[found > after] - after
    median = float(np.quantile(delays, 0.5, method="inverted_cdf"))
    late = float(np.quantile(delays, 0.95, method="inverted_cdf"))
    return median, f"{median:>8.0f} {np.mean(delays):>8.0f} {late:>8.0f}"


def detection() -> None:
    rivals: dict[str, tuple[Monitor, int]] = {
        "restarting bets, for ever": (ours(None), ROUNDS),
        "restarting bets, 24 blocks": (ours(24), ROUNDS),
        "bets without restarts": (ours(1), ROUNDS),
        "exact windows of 200": (windows_of_200, ROUNDS),
        "MAPIE's monitor": (mapie(ALPHA), ROUNDS_OF_MAPIE),
        "MAPIE's monitor, twice the level": (mapie(2 * ALPHA), ROUNDS_OF_MAPIE),
    }
    for fall, (_, after, _, _) in FALLS.items():
        print(f"\n{'audits until a fall ' + fall:<46} {'median':>8} {'mean':>8} {'95 %':>8}")
        medians = {}
        for name, (monitor, rounds) in rivals.items():
            medians[name], text = described(monitor(streams(fall, rounds)), after)
            print(f"    {name:<42} {text}")
        best_of_mapie = medians["MAPIE's monitor, twice the level"]
        ratio = best_of_mapie / medians["restarting bets, for ever"]
        row("    MAPIE's median, relative to ours", ratio, at_least=2)


def speed() -> None:
    correct = np.random.default_rng(0).random(2000) < TARGET
    fast, slow = best_times(
        lambda: evidence_path(correct, target_accuracy=TARGET),
        lambda: mapie(ALPHA)(correct[None]),
        repeats=2,
    )
    row("\n2,000 audits: faster than MAPIE's monitor", slow / fast, at_least=10)
    few, many = (np.ones(n) for n in (100_000, 1_000_000))
    short, long = best_times(
        lambda: evidence_path(few, target_accuracy=TARGET),
        lambda: evidence_path(many, target_accuracy=TARGET),
    )
    row("1,000,000 audits: time, relative to 100,000", long / short, at_most=13)


def main() -> None:
    """Run all of them."""
    print("monitoring")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        detection()
        speed()
