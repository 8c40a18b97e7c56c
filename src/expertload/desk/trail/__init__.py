"""The record of what happened: events in a sealed chain, and messages to webhooks."""

from expertload.desk.trail.chain import (
    Verdict,
    differences,
    read_changes,
    replay,
    seal_events,
    verify,
)
from expertload.desk.trail.webhooks import (
    add_webhook,
    announce,
    deliver,
    end_webhook,
    send_again,
    take_back,
)

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
    "take_back",
    "verify",
]
