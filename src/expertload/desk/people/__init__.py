"""Who may do what: roles, and tokens for programs."""

from expertload.desk.people._roles import Principal, Role, require
from expertload.desk.people._tokens import add_token, find_token, revoke_token

__all__ = [
    "Principal",
    "Role",
    "add_token",
    "find_token",
    "require",
    "revoke_token",
]
