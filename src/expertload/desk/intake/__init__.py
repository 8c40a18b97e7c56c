"""Cases come in: they are read, checked, routed by the certified policy, and stored once."""

from expertload.desk.intake.body import Body
from expertload.desk.intake.case import CONTROL, MOST_CASES, SentCase, read_case, read_line
from expertload.desk.intake.readings import Wanted, open_readings
from expertload.desk.intake.receiving import Outcome, receive
from expertload.desk.intake.routing import Route, RoutingPolicy, read_policy
from expertload.desk.intake.sampling import draw

__all__ = [
    "CONTROL",
    "MOST_CASES",
    "Body",
    "Outcome",
    "Route",
    "RoutingPolicy",
    "SentCase",
    "Wanted",
    "draw",
    "open_readings",
    "read_case",
    "read_line",
    "read_policy",
    "receive",
]
