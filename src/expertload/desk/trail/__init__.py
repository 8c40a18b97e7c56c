"""What happened, for good: events in a sealed chain, and messages to others."""

from expertload.desk.trail._outbox import announce
from expertload.desk.trail._replay import differences, replay
from expertload.desk.trail._sealing import seal_events
from expertload.desk.trail._verify import Verdict, verify

__all__ = ["Verdict", "announce", "differences", "replay", "seal_events", "verify"]
