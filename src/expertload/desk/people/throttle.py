"""A limit on guesses: a few a minute for a name, a few more for an address."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque

from expertload.exceptions import DeskRefusedError

__all__ = ["Throttle"]


class Throttle:
    """Counts failures by name and by address, for a while.

    Parameters
    ----------
    most : int
        Failures allowed within the time.
    seconds : float
        The time.
    kept : int
        How many names are remembered; the oldest are forgotten first, so that nobody fills the
        memory by making names up.
    """

    def __init__(self, most: int, *, seconds: float = 300.0, kept: int = 10_000) -> None:
        self.most, self.seconds, self.kept = most, seconds, kept
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def check(self, who: str, now: float) -> None:
        """Refuse where there were too many failures lately."""
        with self._lock:
            recent = self._recent(who, now)
        if len(recent) >= self.most:
            wait = max(1, round(recent[0] + self.seconds - now))
            raise DeskRefusedError("too_many", f"Too many attempts. Try again in {wait} seconds.")

    def fail(self, who: str, now: float) -> None:
        """Note a failure."""
        with self._lock:
            self._recent(who, now).append(now)
            self._failures.move_to_end(who)
            while len(self._failures) > self.kept:
                self._failures.popitem(last=False)

    def forget(self, who: str) -> None:
        """Begin anew, after a success."""
        with self._lock:
            self._failures.pop(who, None)

    def _recent(self, who: str, now: float) -> deque[float]:
        times = self._failures.setdefault(who, deque(maxlen=self.most))
        while times and times[0] <= now - self.seconds:
            times.popleft()
        return times
