"""Checks the promise of the active policy all the time, and acts if it is not kept."""

from expertload.desk.watch.policies import (
    activate,
    active_policy,
    add_policy,
    all_policies,
    find_policy,
    look_back,
    void_case,
    withdraw,
)
from expertload.desk.watch.quality import blind_labels, blind_sample_size, recertify, recount
from expertload.desk.watch.state import (
    capacity_of,
    change_rules,
    count_of,
    edit_rules,
    load_shift,
    readers_needed,
    state_of,
    waiting_probability,
)

__all__ = [
    "activate",
    "active_policy",
    "add_policy",
    "all_policies",
    "blind_labels",
    "blind_sample_size",
    "capacity_of",
    "change_rules",
    "count_of",
    "edit_rules",
    "find_policy",
    "load_shift",
    "look_back",
    "readers_needed",
    "recertify",
    "recount",
    "state_of",
    "void_case",
    "waiting_probability",
    "withdraw",
]
