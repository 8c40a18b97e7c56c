"""The record of what happened: events in a sealed chain, and messages to webhooks."""

from expertload.desk.trail.delivery import add_webhook, deliver, end_webhook, send_again
from expertload.desk.trail.outbox import announce
from expertload.desk.trail.replay import differences, read_changes, replay
from expertload.desk.trail.sealing import seal_events
from expertload.desk.trail.verify import Verdict, verify

__all__ = [
    "Verdict",
    "add_webhook",
    "announce",
    "deliver",
    "differences",
    "end_webhook",
    "read_changes",
    "replay",
    "seal_events",
    "send_again",
    "verify",
]
