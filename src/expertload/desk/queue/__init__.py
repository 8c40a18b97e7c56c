"""The queue: one case for one reader, answers kept, disputes settled."""

from expertload.desk.queue._agreement import Settled, next_reading
from expertload.desk.queue._claiming import Claim, ShownBody, claim, holding, upcoming
from expertload.desk.queue._classes import classes_of
from expertload.desk.queue._completing import Answered, answer, extend, hand_back, skip
from expertload.desk.queue._undo import undo

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
