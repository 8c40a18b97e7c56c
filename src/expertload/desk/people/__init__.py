"""Who may do what: people and their roles, sessions, and tokens for programs."""

from expertload.desk.people.accounts import (
    PERSONAL,
    Person,
    add_user,
    disable_user,
    enable_user,
    find_user,
    people_of,
    roles_of,
    set_password,
    set_roles,
)
from expertload.desk.people.oidc import Attempt, OpenIdConnect
from expertload.desk.people.passwords import check_password, hash_password
from expertload.desk.people.proxy import TrustedProxy, find_named
from expertload.desk.people.roles import Principal, Role, require
from expertload.desk.people.sessions import (
    FIRST,
    begin_session,
    end_session,
    end_sessions,
    find_session,
    first_link,
    make_link,
    peek_link,
    shut_out,
    use_link,
)
from expertload.desk.people.throttle import Throttle
from expertload.desk.people.tokens import add_token, find_token, find_tokens, revoke_token

__all__ = [
    "FIRST",
    "PERSONAL",
    "Attempt",
    "OpenIdConnect",
    "Person",
    "Principal",
    "Role",
    "Throttle",
    "TrustedProxy",
    "add_token",
    "add_user",
    "begin_session",
    "check_password",
    "disable_user",
    "enable_user",
    "end_session",
    "end_sessions",
    "find_named",
    "find_session",
    "find_token",
    "find_tokens",
    "find_user",
    "first_link",
    "hash_password",
    "make_link",
    "peek_link",
    "people_of",
    "require",
    "revoke_token",
    "roles_of",
    "set_password",
    "set_roles",
    "shut_out",
    "use_link",
]
