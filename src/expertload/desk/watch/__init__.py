"""Checks the promise of the active policy all the time, and acts if it is not kept."""

from expertload.desk.watch.capacity import (
    Capacity,
    capacity_of,
    readers_needed,
    waiting_probability,
)
from expertload.desk.watch.drift import LoadShift, load_shift
from expertload.desk.watch.look_back import look_back, void_case
from expertload.desk.watch.policies import (
    activate,
    active_policy,
    add_policy,
    all_policies,
    find_policy,
    withdraw,
)
from expertload.desk.watch.quality import recount
from expertload.desk.watch.recertify import (
    BlindLabels,
    SampleSize,
    blind_labels,
    blind_sample_size,
    recertify,
)
from expertload.desk.watch.rules import change_rules, edit_rules
from expertload.desk.watch.state import count_of, state_of

__all__ = [
    "BlindLabels",
    "Capacity",
    "LoadShift",
    "SampleSize",
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
