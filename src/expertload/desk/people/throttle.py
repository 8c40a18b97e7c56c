"""A limit on wrong passwords, per name and per address."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque

from expertload.exceptions import DeskRefusedError

__all__ = ["Throttle"]


class Throttle:
    """Counts recent failures, by name or by address.

    Parameters
    ----------
    most : int
        How many failures are allowed within this time.
    seconds : float
        The length of the time.
    kept : int
        How many names are remembered. The oldest are forgotten first, so that made-up names cannot
        fill the memory.
    """

    def __init__(self, most: int, *, seconds: float = 300.0, kept: int = 10_000) -> None:
        self.most, self.seconds, self.kept = most, seconds, kept
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def check(self, who: str, now: float) -> None:
        """Refuse if there were too many failures recently."""
        with self._lock:
            recent = self._recent(who, now)
        if len(recent) >= self.most:
            wait = max(1, round(recent[0] + self.seconds - now))
            raise DeskRefusedError("too_many", f"Too many attempts. Try again in {wait} seconds.")

    def fail(self, who: str, now: float) -> None:
        """Count a failure."""
        with self._lock:
            self._recent(who, now).append(now)
            self._failures.move_to_end(who)
            while len(self._failures) > self.kept:
                self._failures.popitem(last=False)

    def forget(self, who: str) -> None:
        """Forget all failures, after a success."""
        with self._lock:
            self._failures.pop(who, None)

    def _recent(self, who: str, now: float) -> deque[float]:
        times = self._failures.setdefault(who, deque(maxlen=self.most))
        while times and times[0] <= now - self.seconds:
            times.popleft()
        return times
