"""How many readers are needed: the Erlang C formula for queues."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sqlalchemy import func, select

from expertload.desk.store import Transaction
from expertload.desk.store.tables import answers, counters

__all__ = ["Capacity", "capacity_of", "readers_needed", "waiting_probability"]

HOUR = 3_600_000_000
MOST_READERS = 100_000


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """How much work arrives for experts, and how many readers it needs.

    Attributes
    ----------
    readings_an_hour : float
        How many readings arrive per hour, averaged over the last day.
    seconds_a_reading : float or None
        How long a reading takes on average; None until there are five answers.
    hours_needed : float or None
        Hours of work that arrive per hour, which is the number of readers who are always busy.
    readers_needed : int or None
        The smallest number with which at most one reading in five waits for a minute or longer.
    """

    readings_an_hour: float
    seconds_a_reading: float | None
    hours_needed: float | None
    readers_needed: int | None


def waiting_probability(readers: int, load: float) -> float:
    """Return the probability that a reading has to wait (Erlang C).

    Parameters
    ----------
    readers : int
        How many work at the same time.
    load : float
        Arrivals per hour times hours per reading. From `readers` on, every reading waits.
    """
    if load >= readers:
        return 1.0
    blocked = 1.0  # Erlang B by its recursion: no overflow, no cancellation
    for n in range(1, readers + 1):
        blocked = load * blocked / (n + load * blocked)
    return blocked / (1 - load / readers * (1 - blocked))


def readers_needed(
    arrivals_an_hour: float,
    seconds_a_reading: float,
    *,
    wait_seconds: float = 60.0,
    share_waiting: float = 0.2,
) -> int:
    """Return the smallest number of readers with which few readings wait for long.

    Parameters
    ----------
    arrivals_an_hour, seconds_a_reading : float
        How many readings arrive, and how long one takes on average.
    wait_seconds, share_waiting : float
        At most this share may wait for this time or longer.
    """
    load = arrivals_an_hour * seconds_a_reading / 3_600
    if load <= 0:
        return 0
    readers = math.floor(load) + 1
    while readers < MOST_READERS:
        rate = (readers - load) / seconds_a_reading
        if waiting_probability(readers, load) * math.exp(-rate * wait_seconds) <= share_waiting:
            break
        readers += 1
    return readers


def capacity_of(transaction: Transaction, *, hours: int = 24) -> Capacity:
    """Return the capacity that the readings of the last hours need."""
    this_hour = transaction.now // HOUR
    names = [f"readings@{hour}" for hour in range(this_hour - hours, this_hour + 1)]
    rows = transaction.connection.execute(
        select(counters.c.name, func.sum(counters.c.value).label("n"))
        .where(counters.c.project_id == transaction.project.id, counters.c.name.in_(names))
        .group_by(counters.c.name)
    ).all()
    arrived = {int(row.name.partition("@")[2]): int(row.n) for row in rows}
    first = min(arrived, default=this_hour)
    elapsed = max((transaction.now - first * HOUR) / HOUR, 1.0)
    arrivals = sum(arrived.values()) / elapsed
    seconds = transaction.connection.execute(
        select(func.avg(answers.c.seconds), func.count()).where(
            answers.c.standing == "counted", answers.c.given > transaction.now - hours * HOUR
        )
    ).one()
    mean = float(seconds[0]) if seconds[1] >= 5 and seconds[0] else None
    return Capacity(
        readings_an_hour=arrivals,
        seconds_a_reading=mean,
        hours_needed=None if mean is None else arrivals * mean / 3_600,
        readers_needed=None if mean is None else readers_needed(arrivals, mean),
    )
