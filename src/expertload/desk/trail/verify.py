"""Checks for changes: computes the chain again, and rebuilds the tables from the events."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from sqlalchemy import func, select

from expertload.desk.store import Transaction
from expertload.desk.store.tables import events, seals
from expertload.desk.trail.replay import differences
from expertload.desk.trail.sealing import FIRST, SEALED, hash_block

__all__ = ["Verdict", "verify"]

MOST_PROBLEMS = 20


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of a verification.

    Attributes
    ----------
    n_blocks, n_events, n_unsealed : int
        Blocks, events in them, and events after the last block.
    head : str or None
        The hash of the last block. Note it outside the desk.
    problems : tuple of str
        One sentence for each problem; empty if there is none.
    """

    n_blocks: int
    n_events: int
    n_unsealed: int
    head: str | None
    problems: tuple[str, ...]

    @property
    def is_intact(self) -> bool:
        """Whether no problem was found."""
        return not self.problems


def _first_differences(transaction: Transaction) -> list[str]:
    found = differences(transaction)
    first = list(islice(found, MOST_PROBLEMS))
    if next(found, None) is not None:
        first.append(f"There are more differences: only the first {MOST_PROBLEMS} are listed.")
    return first


def verify(transaction: Transaction, *, head: str | None = None, tables: bool = True) -> Verdict:
    """Compute the whole chain again, and compare the tables with the events.

    Parameters
    ----------
    transaction : Transaction
        A transaction for reading.
    head : str, optional
        A head that was noted earlier; it must still be in the chain.
    tables : bool, default=True
        Whether to compare the tables too, which needs memory for all rows.
    """
    problems: list[str] = []
    previous, last, n_events, n_blocks, seen = FIRST, 0, 0, 0, head is None
    for block in transaction.connection.execute(select(seals).order_by(seals.c.id)).all():
        n_blocks += 1
        rows = transaction.connection.execute(
            select(*SEALED)
            .where(events.c.id > last, events.c.id <= block.last_event)
            .order_by(events.c.id)
        ).all()
        if block.id != n_blocks or block.previous != previous:
            problems.append(f"Block {n_blocks} does not follow the one before it.")
        elif len(rows) != block.n_events or hash_block(previous, rows) != block.sha256:
            problems.append(
                f"Block {block.id} is not as it was sealed: one of the events {last + 1} to "
                f"{block.last_event} was changed, added or removed."
            )
        seen = seen or block.sha256 == head
        previous, last, n_events = block.sha256, block.last_event, n_events + len(rows)
    if not seen:
        problems.append(
            f"The head {head} is not in the chain: the chain was cut short or rewritten."
        )
    if tables:
        problems += _first_differences(transaction)
    unsealed = transaction.connection.execute(
        select(func.count()).select_from(events).where(events.c.id > last)
    ).scalar_one()
    return Verdict(
        n_blocks=n_blocks,
        n_events=n_events,
        n_unsealed=unsealed,
        head=previous if n_blocks else None,
        problems=tuple(problems),
    )
