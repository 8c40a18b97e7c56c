"""A second model scores the same cases in shadow: when may it take over?

Model A decides with its policy; model B decides nothing. Experts read what A delegates, and a
random sample of what A decides. B may take over once two things are shown; both must be, so at one
threshold neither level is split.

- *B keeps the promise*, by the evidence of `StreamEvidence`. A case that A delegates is read with
  probability 1, another one with the audit rate.
- *The load is lower.* Of n cases that only one of both accepts, B accepts k. If B accepts no more
  than A, the mean of ``(2 p)^k (2 - 2 p)^(n - k)`` over p in (1/2, 1) is not expected to grow. In
  closed form it is ``2^(n+1) B(k+1, n-k+1) P(Beta(k+1, n-k+1) > 1/2)``. A looser threshold always
  shows more, because 2 p is at least one and 2 - 2 p at most one: choosing the loosest threshold
  that keeps the promise needs no correction.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import betaincc, betaln

from expertload._typing import BoolArray
from expertload.cases import reaches
from expertload.monitoring.bets import MOST_LOG
from expertload.monitoring.stream import StreamEvidence
from expertload.operating_point.point import digits


class ChallengerMonitor(StreamEvidence):
    """Watches a model in shadow, and says when it may take over.

    Pass every case that both models have scored, in the order in which the cases came: with its
    label if an expert has read it, without one if not. You may look as often as you like.

    Parameters
    ----------
    target_accuracy : float
        The accuracy that the new model must keep among the cases it would accept, in (0, 1).
    thresholds : array-like or float
        Thresholds of the new model's confidence to test, fixed before these cases came. See
        `from_confidences`.
    confidence_level : float, default=0.95
        With at least this probability, no threshold is *ever* certified at which the accuracy is
        below the target. The same holds, separately, for calling the load lower when it is not.
    least_inclusion_probability : float, default=1.0
        The smallest probability with which a case is read: the audit rate of what is decided
        today. Fixed before the cases came.
    model_name : str, optional
        The new model. A model that was trained again is another one: see `restarted`.

    Examples
    --------
    The model of today decides the most confident half, of which a tenth is audited. The new one
    decides more:

    >>> import numpy as np
    >>> from expertload.monitoring import ChallengerMonitor
    >>> rng = np.random.default_rng(0)
    >>> confidence = rng.random(6000)
    >>> correct = rng.random(6000) < np.minimum(0.8 + 0.5 * confidence, 0.99)
    >>> decided = confidence + 0.1 * rng.standard_normal(6000) > 0.5
    >>> is_read = ~decided | (rng.random(6000) < 0.1)
    >>> monitor = ChallengerMonitor.from_confidences(
    ...     rng.random(500), target_accuracy=0.95, least_inclusion_probability=0.1
    ... )
    >>> monitor.update(
    ...     confidence,
    ...     np.where(is_read, correct, np.nan),
    ...     accepted_now=decided,
    ...     inclusion_probability=np.where(decided, 0.1, 1),
    ... ).may_switch
    True
    >>> print(f"load {monitor.load_now:.2f} now, {monitor.load_then:.2f} then")
    load 0.50 now, 0.10 then
    """

    @property
    def _then(self) -> BoolArray:
        """What the new model accepts: at `threshold`, or at the one nearest to being certified."""
        nearest = float(self.thresholds[np.argmax(self._highest * self._granted)])
        threshold = self.threshold if self.is_certified else nearest
        return reaches(self._column("confidence"), threshold)

    @property
    def load_now(self) -> float | None:
        """The share of cases that is delegated today; None before the first case."""
        return 1 - float(self._column("accepted_now").mean()) if self.n_cases else None

    @property
    def load_then(self) -> float | None:
        """The share delegated at `threshold`, or at the one that is nearest to being certified."""
        return 1 - float(self._then.mean()) if self.n_cases else None

    @property
    def load_evidence(self) -> float:
        """The evidence that the new model delegates less at this threshold; 1 / alpha is enough."""
        now, then = self._column("accepted_now"), self._then
        return _load_evidence(int((then & ~now).sum()), int((now & ~then).sum()))

    @property
    def may_switch(self) -> bool:
        """Whether it is shown that the promise is kept and that the load is lower."""
        return self.is_certified and self.load_evidence >= self.needed_evidence

    def summary(self) -> str:
        """Return in words whether the new model may take over, and what is missing."""
        if self.load_now is None or self.load_then is None:
            return "Not yet: there are no cases."
        needed, target = f"{self.needed_evidence:.6g}", f"{self.target_accuracy:.6g}"
        if not self.is_certified:
            verdict = (
                f"Not yet: it is not shown that an accuracy of {target} is kept (evidence "
                f"{self.evidence:.3g} of {needed}, cases read: {self.n_read})."
            )
        elif not self.may_switch:
            verdict = (
                f"Not yet: an accuracy of {target} is kept at confidence >= "
                f"{digits(self.threshold)}, but it is not shown that the load is lower (evidence "
                f"{self.load_evidence:.3g} of {needed})."
            )
        else:
            verdict = (
                f"The new model may take over at confidence >= {digits(self.threshold)}: an "
                f"accuracy of {target} is kept, and the load is lower."
            )
        return f"{verdict} Load {self.load_now:.1%} now, {self.load_then:.1%} then."

    def __str__(self) -> str:
        return self.summary()

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain values, for JSON; the threshold is None while there is none."""
        names = ("model_name", "target_accuracy", "confidence_level", "may_switch", "is_certified")
        more = ("evidence", "load_evidence", "needed_evidence", "load_now", "load_then")
        values = {name: getattr(self, name) for name in (*names, *more)}
        counts = {name: getattr(self, name) for name in ("n_cases", "n_read", "n_open")}
        threshold = self.threshold if self.is_certified else None
        return {**values, **counts, "threshold": threshold, "summary": self.summary()}


def _load_evidence(gained: int, lost: int) -> float:
    """Return the evidence that cases are gained more often than lost, of those that differ."""
    won, missed = gained + 1, lost + 1
    with np.errstate(divide="ignore"):  # far below one: the evidence is zero
        log_tail = np.log(betaincc(won, missed, 0.5))
    log = (gained + lost + 1) * math.log(2) + betaln(won, missed) + log_tail
    return float(np.exp(min(log, MOST_LOG)))
