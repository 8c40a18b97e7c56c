"""The queue: gives each reader one case at a time, stores answers, settles disputes."""

from expertload.desk.queue.claiming import Claim, ShownBody, claim, classes_of, holding, upcoming
from expertload.desk.queue.completing import Answered, answer, extend, hand_back, skip
from expertload.desk.queue.settling import Settled, next_reading
from expertload.desk.queue.undo import undo

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
