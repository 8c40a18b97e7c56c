"""Warns if new cases differ from those that a policy was made with.

A model may be as accurate as ever while experts get twice the work. Or the confidences may shift
long before there are enough audits. Both can be detected without labels.

The shares a policy was made with are estimates from its calibration cases. Where the true ones lie
is bounded first: the share delegated by Clopper and Pearson's interval, the shares below all stored
quantiles at once by the Dvoretzky-Kiefer-Wolfowitz inequality. Then each share is watched by bets
that it is above the upper bound or below the lower one, with the restarts of `bets`.

Bets find a late change, but pay for being valid at every moment. A small change that was there from
the start is found sooner by looking rarely: whenever the number of new cases has doubled, their
share delegated is compared with that of the calibration cases by Fisher's exact test.

The level is spent in equal parts: an interval and a game for the load, both for the quantiles if
there are any, and the looks. So new cases like the calibration cases are *ever* warned of with a
probability of at most one minus the confidence level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, cast

import numpy as np
from scipy.special import gammaln

from expertload._check import (
    as_floats,
    check_count,
    check_fraction,
    check_level,
    check_same_length,
    check_threshold,
    message,
)
from expertload._typing import ArrayLike, BoolArray, FloatArray
from expertload.cases import reaches
from expertload.exceptions import NotCertifiedError, ParameterError, ShapeError
from expertload.monitoring.audits import as_numbers, check_blocks
from expertload.monitoring.bets import Bets, Capital, advance, share_bets, start
from expertload.significance.interval import clopper_pearson

Change = Literal["higher", "lower"]
N_LEVELS = 19
CHUNK = 5000
FIRST_LOOK = 125  # new cases
# A share of one cannot be exceeded, so bets that it is must lose. The formula needs a number below.
ALMOST = 1e-9


@dataclass
class Game:
    """Bets on several shares at once, each with the cases that count and its upper bound.

    Attributes
    ----------
    cuts : ndarray of shape (n_cuts,)
        Confidences to compare with.
    above : ndarray of bool, shape (n_cuts,)
        Whether confidences above the cut count, or those below it.
    bets : Bets
        One row per cut.
    highest : float
        The highest value so far of all bets together.
    strongest : int
        The bet that led at the highest.
    """

    cuts: FloatArray
    above: BoolArray
    bets: Bets
    highest: float = 0.0
    strongest: int = 0

    def __post_init__(self) -> None:
        self.capital: Capital = start(self.bets, shape=(len(self.cuts),))

    def play(self, confidence: FloatArray, blocks: int | None) -> None:
        """Bet on more cases; all cuts have the same part of the capital."""
        below, beyond = confidence < self.cuts[:, None], confidence > self.cuts[:, None]
        counted = np.where(self.above[:, None], beyond, below).astype(np.float64)
        weights = np.ones_like(counted)
        self.capital, path = advance(self.capital, counted, weights, bets=self.bets, blocks=blocks)
        together = path.mean(axis=0)
        best = int(together.argmax())
        if together[best] > self.highest:
            self.highest, self.strongest = float(together[best]), int(path[:, best].argmax())


class LoadMonitor:
    """Warns when the share delegated, or the distribution of confidence, has changed.

    Parameters
    ----------
    threshold : float or None
        Cases with at least this confidence are decided automatically. None if there are several
        thresholds, for groups or answers; `update` is then told which cases were accepted.
    expected_load : float
        The share of calibration cases that was delegated, in [0, 1].
    n_cases : int
        The number of calibration cases.
    quantiles : array-like, optional
        Equally spaced quantiles of their confidences, from the smallest to the largest. Without
        them, only the load is monitored.
    confidence_level : float, default=0.95
        If new cases are like the calibration cases, the probability of *ever* warning is at most
        one minus this.
    blocks : int, optional
        The number of blocks of 50 cases that the monitor is made for. No limit by default.

    Notes
    -----
    Pass *all* new cases, decided and delegated, in order. Cases must be independent, like the
    calibration cases: many images of one patient would look like a shift.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.monitoring import LoadMonitor
    >>> rng = np.random.default_rng(0)
    >>> monitor = LoadMonitor(threshold=0.7, expected_load=0.7, n_cases=1000)
    >>> monitor.update(rng.random(1000)).warns
    False
    >>> monitor.update(rng.random(500) ** 0.5).load_change
    'lower'
    """

    def __init__(
        self,
        *,
        threshold: float | None,
        expected_load: float,
        n_cases: int,
        quantiles: ArrayLike | None = None,
        confidence_level: float = 0.95,
        blocks: int | None = None,
    ) -> None:
        self.threshold = None if threshold is None else check_threshold(threshold)
        self.expected_load = check_fraction(expected_load, "expected_load")
        self._n_calibration = n = check_count(n_cases, "n_cases")
        self.confidence_level = check_level(confidence_level)
        self._blocks = check_blocks(blocks)
        known = _check_quantiles(quantiles)
        self._part = part = (1 - self.confidence_level) / (3 if known is None else 5)
        self.warning_evidence = 1 / part
        self._load = _load_game(self.expected_load, n, part)
        self._n_looks, self._seen_by_look = 0, cast("Change | None", None)
        self._shape = None if known is None else _shape_game(known, n, part)
        self.n_seen, self.n_delegated = 0, 0

    @classmethod
    def from_policy(cls, policy: Any, **options: Any) -> Self:
        """Return a monitor for a policy.

        Parameters
        ----------
        policy : OperatingPoint, CertifiedGroups or CertifiedClasses
            A policy that decides something, certified on independent cases. For policies saved
            before quantiles were stored, only the load is monitored.
        **options
            ``confidence_level`` and ``blocks``.

        Examples
        --------
        >>> from expertload.monitoring import LoadMonitor
        >>> from expertload import Cases, certify
        >>> cases = Cases.from_correctness([1] * 200, range(200))
        >>> policy = certify(cases, target_accuracy=0.95)
        >>> LoadMonitor.from_policy(policy).expected_load
        0.0
        """
        several = isinstance(policy, Mapping)
        points = list(policy.values()) if several else [policy]
        _check_watched_load(points)
        if is_about_clusters(policy):
            wanted = "must be certified on independent cases"
            hint = "cases of one cluster are alike, and would be taken for a change"
            raise ParameterError(message("policy", wanted, "one for cases in clusters", hint))
        return cls(
            threshold=None if several else policy.threshold,
            expected_load=policy.expert_load,
            n_cases=int(sum(point.n_cases for point in points)),
            quantiles=policy.origin.confidence_quantiles,
            **options,
        )

    def update(self, confidence: ArrayLike, *, accepted: ArrayLike | None = None) -> Self:
        """Count new cases, decided and delegated, in order.

        Parameters
        ----------
        confidence : array-like of shape (n_cases,)
            The confidence that the threshold applies to.
        accepted : array-like of bool, shape (n_cases,), optional
            Which cases were decided automatically, if there is more than one threshold.
        """
        given = as_floats(confidence, "confidence")
        taken = self._accepted(given, accepted)
        for first in range(0, len(given), CHUNK):
            rows = slice(first, first + CHUNK)
            self._load.play(taken[rows].astype(np.float64), self._blocks)
            if self._shape is not None:
                self._shape.play(given[rows].astype(np.float64), self._blocks)
        delegated = ~taken
        while (n_new := FIRST_LOOK * 2**self._n_looks) <= self.n_seen + len(given):
            self._look(n_new, self.n_delegated + int(delegated[: n_new - self.n_seen].sum()))
        self.n_seen += len(given)
        self.n_delegated += int(delegated.sum())
        return self

    def _accepted(self, confidence: FloatArray, accepted: ArrayLike | None) -> BoolArray:
        if (accepted is None) == (self.threshold is None):
            wanted = "must be given if, and only if, the policy has several thresholds"
            got = "none" if accepted is None else "one threshold"
            raise ParameterError(message("accepted", wanted, got))
        if self.threshold is not None:
            return reaches(confidence, self.threshold)
        taken = np.asarray(accepted, dtype=np.bool_)
        check_same_length(confidence=confidence, accepted=taken)
        return taken

    def _look(self, n_new: int, n_delegated: int) -> None:
        """Compare the share delegated among the first new cases with that of calibration cases."""
        self._n_looks += 1
        level = self._part / (self._n_looks * (self._n_looks + 1)) / 2
        n = self._n_calibration
        expected = round(self.expected_load * n)
        if _fisher(n_delegated, n_new, expected, n) <= level:
            self._seen_by_look = self._seen_by_look or "higher"
        elif _fisher(n_new - n_delegated, n_new, n - expected, n) <= level:
            self._seen_by_look = self._seen_by_look or "lower"

    @property
    def load(self) -> float | None:
        """The share of new cases delegated so far; None before the first."""
        return self.n_delegated / self.n_seen if self.n_seen else None

    @property
    def load_evidence(self) -> float:
        """The highest value of the bets so far that the share delegated has changed."""
        return self._load.highest

    @property
    def confidence_evidence(self) -> float | None:
        """The highest evidence so far that confidences have shifted; None without quantiles."""
        return None if self._shape is None else self._shape.highest

    @property
    def load_change(self) -> Change | None:
        """Whether "higher" or "lower" than expected is shown for the load; None if neither is."""
        if self._load.highest < self.warning_evidence:
            return self._seen_by_look
        return "higher" if self._load.strongest == 0 else "lower"

    @property
    def confidence_changed(self) -> bool:
        """Whether the distribution of confidences has changed."""
        return self._shape is not None and self._shape.highest >= self.warning_evidence

    @property
    def warns(self) -> bool:
        """Whether the load or the confidences have changed; a warning is never withdrawn."""
        return self.load_change is not None or self.confidence_changed

    def summary(self) -> str:
        """Return what the new cases show, in words.

        Examples
        --------
        >>> from expertload.monitoring import LoadMonitor
        >>> monitor = LoadMonitor(threshold=0.7, expected_load=0.3, n_cases=500)
        >>> print(monitor.update([0.5] * 60))
        Warning: the share delegated is higher than the policy was made with: 100.0% of 60 new
        cases, 30.0% expected. ...
        """
        if self.load is None:
            return "No new cases yet."
        share = f"{self.load:.1%} of {self.n_seen} new cases, {self.expected_load:.1%} expected"
        not_shown = "" if self._shape else " Confidences are not watched: no quantiles are known."
        if not self.warns:
            return f"As expected: nothing shows a change. Delegated: {share}.{not_shown}"
        what = []
        if self.load_change is not None:
            what.append(f"the share delegated is {self.load_change} than the policy was made with")
        if self.confidence_changed:
            what.append("the distribution of confidences differs from when the policy was made")
        return (
            f"Warning: {', and '.join(what)}: {share}. The accuracy may still be kept; look at "
            f"what has changed, and audit more cases.{not_shown}"
        )

    def __str__(self) -> str:
        return self.summary()


def _load_game(load: float, n: int, part: float) -> Game:
    """Return bets that fewer cases are accepted than the interval allows, and that more are."""
    low, high = clopper_pearson(round(load * n), n, part)
    shares = np.clip([high, 1 - low], ALMOST, 1 - ALMOST)
    return Game(np.array([0.5, 0.5]), np.array([False, True]), share_bets(shares))


def _fisher(k: int, n: int, k_before: int, n_before: int) -> float:
    """Return the probability of k or more of n new cases, given how many there are in all."""
    counts = np.arange(k, min(n, k + k_before) + 1)
    logs = _log_choose(n, counts) + _log_choose(n_before, k + k_before - counts)
    return float(np.exp(logs - _log_choose(n + n_before, k + k_before)).sum())


def _log_choose(n: int, k: Any) -> Any:
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def _shape_game(quantiles: FloatArray, n: int, part: float) -> Game:
    """Return bets at some of the quantiles, that more lies below and that more lies above.

    At most a share p of the calibration cases is below the quantile of level p, and at least p is
    at or below it, also with ties; one case is allowed for interpolated quantiles.
    """
    levels = np.linspace(0, 1, len(quantiles))
    inner = np.unique(np.linspace(0, len(quantiles) - 1, N_LEVELS + 2).round().astype(int)[1:-1])
    slack = math.sqrt(math.log(2 / part) / (2 * n)) + 1 / n
    shares = np.concatenate([levels[inner] + slack, 1 - levels[inner] + slack])
    above = np.repeat([False, True], len(inner))
    cuts = np.tile(quantiles[inner], 2)
    can_be_exceeded = shares < 1 - slack / 2
    kept = can_be_exceeded if can_be_exceeded.any() else np.ones_like(can_be_exceeded)
    bets = share_bets(np.minimum(shares[kept], 1 - ALMOST))
    return Game(cuts[kept], above[kept], bets)


def _check_quantiles(value: ArrayLike | None) -> FloatArray | None:
    """Return ascending quantiles, three or more of them."""
    if value is None:
        return None
    quantiles = as_numbers(value, "quantiles")
    if quantiles.ndim != 1 or len(quantiles) < 3:
        wanted = "must be three or more, from the smallest to the largest"
        raise ShapeError(message("quantiles", wanted, f"shape {quantiles.shape}"))
    if not np.isfinite(quantiles).all() or (np.diff(quantiles) < 0).any():
        raise ParameterError(message("quantiles", "must be finite and ascending", "others"))
    return quantiles


def is_about_clusters(policy: Any) -> bool:
    """Whether a policy was certified on cases in clusters, such as those of patients."""
    parts = [*policy.values()] if isinstance(policy, Mapping) else [policy]
    parts += getattr(policy, "promises", {}).values()
    return any(getattr(part, "clusters", None) is not None for part in parts)


def _check_watched_load(points: Sequence[Any]) -> None:
    """Raise unless a policy has a threshold that decides something."""
    if not any(math.isfinite(point.threshold) for point in points):
        raise NotCertifiedError(
            f"A load monitor needs a policy that decides something. Got a threshold of "
            f"{points[0].threshold:g}: everything is delegated, or nothing is."
        )
