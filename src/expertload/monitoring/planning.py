"""Computes how many audits it takes to find a fall, to plan how many cases to audit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expertload._check import (
    check_count,
    check_fraction,
    check_level,
    check_minimum,
    insufficient,
    message,
    random_generator,
)
from expertload._typing import FloatArray, Seed
from expertload.exceptions import ParameterError
from expertload.monitoring.audits import check_blocks
from expertload.monitoring.bets import BLOCK, Capital, accuracy_bets, advance, growth_rates, start

MOST_AUDITS = 200_000
DOUBTFUL_SHARE = 0.2  # of the decisions: the least confident fifth


@dataclass(frozen=True, kw_only=True)
class RequiredAudits:
    """The number of audits needed to find a fall.

    Attributes
    ----------
    mean, percentile_95 : float
        Audits after the fall until the promise is refuted: on average, and enough in 95 of 100
        cases. Infinite if some simulated falls were not found within 200,000 audits.
    false_alarms : float
        The share of simulated streams refuted before the fall; both numbers exclude them.
    n_rounds : int
        The number of simulated streams.
    """

    mean: float
    percentile_95: float
    false_alarms: float
    n_rounds: int

    def __str__(self) -> str:
        return (
            f"{self.mean:.0f} audits on average until the fall is found, {self.percentile_95:.0f} "
            "in 95 of 100 cases."
        )


def required_audits(
    target_accuracy: float,
    drop_to: float,
    *,
    confidence_level: float = 0.95,
    after: int = 0,
    accuracy_before: float | None = None,
    blocks: int | None = None,
    doubtful_ratio: float = 1.0,
    doubtful_errors: float = 0.5,
    n_rounds: int = 2000,
    random_state: Seed = 0,
) -> RequiredAudits:
    """Return how many audits the monitor needs to find a fall of the accuracy.

    Parameters
    ----------
    target_accuracy : float
        The promised accuracy.
    drop_to : float
        The accuracy after the fall, below the target.
    confidence_level : float, default=0.95
        The confidence level of the monitor.
    after : int, default=0
        The number of audits before the fall.
    accuracy_before : float, optional
        The accuracy until then; halfway between the target and 1 by default.
    blocks : int, optional
        The number of blocks of 50 audits that the monitor is made for. No limit by default.
    doubtful_ratio : float, default=1.0
        How many times as often the least confident fifth of the decisions is audited, with weights
        that make up for it; 1 audits all alike.
    doubtful_errors : float, default=0.5
        The share of the errors that are in this fifth, at all times.
    n_rounds : int, default=2000
        The number of simulated streams; by default, the mean is exact to about two percent.
    random_state : int, Generator or None, default=0
        Fixed by default, so that results are reproducible.

    Returns
    -------
    RequiredAudits
        Mean and 95th percentile of the audits needed after the fall.

    Raises
    ------
    InsufficientDataError
        If the fall is so small that the monitor does not find it.

    Examples
    --------
    >>> from expertload.monitoring import required_audits
    >>> print(required_audits(0.95, 0.85, n_rounds=500))
    63 audits on average until the fall is found, 143 in 95 of 100 cases.
    >>> print(required_audits(0.95, 0.85, doubtful_ratio=3, n_rounds=500))
    61 audits on average until the fall is found, 133 in 95 of 100 cases.
    """
    target = check_fraction(target_accuracy, "target_accuracy", inclusive=False)
    drop = check_fraction(drop_to, "drop_to")
    if drop >= target:
        wanted = f"must be below the target, {target:g}"
        raise ParameterError(message("drop_to", wanted, f"{drop:g}"))
    level = check_level(confidence_level)
    n_before = check_count(after, "after", minimum=0)
    before = (1 + target) / 2 if accuracy_before is None else accuracy_before
    rates = 1 - check_fraction(before, "accuracy_before"), 1 - drop
    design = (
        check_minimum(doubtful_ratio, 1, "doubtful_ratio", "1 audits all decisions alike"),
        check_fraction(doubtful_errors, "doubtful_errors"),
    )
    bets = accuracy_bets(target)
    if growth_rates(bets, 1 - drop).max() <= 0:
        raise insufficient(
            "a fall that can be detected",
            f"one from {target:g} to {drop:g}",
            "use a lower drop_to: the monitor bets on error rates of at least 1.3 times the "
            "promised one, and detects those of at least about 1.15 times",
        )
    rounds, rng = check_count(n_rounds, "n_rounds"), random_generator(random_state)
    blocks = check_blocks(blocks)
    alarms = np.zeros(rounds, dtype=np.int64)  # the audit that raised the alarm; 0 if none did
    alive, capital = np.arange(rounds), start(bets, shape=(rounds,))
    while len(alive) and capital.n_audits < n_before + MOST_AUDITS:
        first = capital.n_audits
        rate = np.where(first + np.arange(BLOCK) < n_before, *rates)
        errors, weights = _audits(rng, len(alive), rate, *design)
        capital, path = advance(capital, errors, weights, bets=bets, blocks=blocks)
        refuted = path >= 1 / (1 - level)
        hit = refuted.any(axis=1)
        alarms[alive[hit]] = first + 1 + refuted[hit].argmax(axis=1)
        alive, capital = alive[~hit], Capital(capital.n_audits, capital.stakes[~hit])
    late = (alarms == 0) | (alarms > n_before)
    delays = np.where(alarms[late] == 0, np.inf, alarms[late] - n_before)
    if not late.any():
        delays = np.array([np.inf])
    return RequiredAudits(
        mean=float(delays.mean()),
        percentile_95=float(np.quantile(delays, 0.95, method="inverted_cdf")),
        false_alarms=float(1 - late.mean()),
        n_rounds=rounds,
    )


def _audits(
    rng: np.random.Generator, n_streams: int, rate: FloatArray, ratio: float, inside: float
) -> tuple[FloatArray, FloatArray]:
    """Draw a block of audits: errors, and weights by how often such decisions are audited."""
    draws = rng.random((n_streams, BLOCK))
    if ratio == 1:
        return (draws < rate).astype(float), np.ones_like(draws)
    chance = DOUBTFUL_SHARE * ratio / (1 + DOUBTFUL_SHARE * (ratio - 1))
    doubtful = rng.random(draws.shape) < chance
    factor = np.where(doubtful, inside / DOUBTFUL_SHARE, (1 - inside) / (1 - DOUBTFUL_SHARE))
    return (draws < rate * factor).astype(float), np.where(doubtful, 1 / ratio, 1.0)
