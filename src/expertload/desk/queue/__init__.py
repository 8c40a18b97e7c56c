"""The queue: gives each reader one case at a time, stores answers, settles disputes."""

from expertload.desk.queue.answers import Answered, Settled, answer, next_reading, undo
from expertload.desk.queue.claims import (
    Claim,
    ShownBody,
    claim,
    classes_of,
    extend,
    hand_back,
    holding,
    skip,
    upcoming,
)

__all__ = [
    "Answered",
    "Claim",
    "Settled",
    "ShownBody",
    "answer",
    "claim",
    "classes_of",
    "extend",
    "hand_back",
    "holding",
    "next_reading",
    "skip",
    "undo",
    "upcoming",
]
