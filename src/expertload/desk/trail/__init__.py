"""What happened, for good: events in a sealed chain, and messages to others."""

from expertload.desk.trail._outbox import announce
from expertload.desk.trail._sealing import seal

__all__ = ["announce", "seal"]
