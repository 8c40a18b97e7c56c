"""The promise, watched while it is used, and what happens when it is not kept."""

from expertload.desk.watch._policies import (
    activate,
    active_policy,
    add_policy,
    change_rules,
    find_policy,
    withdraw,
)
from expertload.desk.watch._quality import recount
from expertload.desk.watch._state import count_of, state_of

__all__ = [
    "activate",
    "active_policy",
    "add_policy",
    "change_rules",
    "count_of",
    "find_policy",
    "recount",
    "state_of",
    "withdraw",
]
