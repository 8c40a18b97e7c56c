"""When the readers of a case have said enough: second reading and arbitration, as one rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Settled", "next_reading"]


class Settled(NamedTuple):
    """Nobody needs to look again."""

    label: str


def next_reading(opinions: Sequence[str], *, wanted: int, arbitrated: bool) -> Settled | str:
    """Return the label that is settled, or who must read next: "second" or "arbiter".

    Parameters
    ----------
    opinions : sequence of str
        In their order; the model's comes first where its decision is being checked.
    wanted : int
        How many opinions must agree.
    arbitrated : bool
        Whether the last opinion is an arbiter's, which ends the dispute.
    """
    if arbitrated:
        return Settled(opinions[-1])
    if len(set(opinions)) > 1:
        return "arbiter"
    if len(opinions) < wanted:
        return "second"
    return Settled(opinions[0])
