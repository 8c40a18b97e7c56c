"""Cases come in: they are read, checked, routed by the certified policy, and stored once."""

from expertload.desk.intake.case import (
    CONTROL,
    MOST_CASES,
    Body,
    SentCase,
    read_body,
    read_case,
    read_line,
)
from expertload.desk.intake.receiving import Outcome, Wanted, draw, open_readings, receive
from expertload.desk.intake.routing import Route, RoutingPolicy, read_policy

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
    "read_body",
    "read_case",
    "read_line",
    "read_policy",
    "receive",
]
