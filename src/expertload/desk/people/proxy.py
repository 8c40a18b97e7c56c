"""A trusted proxy that has signed people in names them; it proves its identity with a secret.

Its address would prove nothing: whoever can reach the desk's port could send the same header.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field

from expertload.desk.people.accounts import find_user, roles_of
from expertload.desk.people.roles import Principal
from expertload.desk.store import Transaction
from expertload.exceptions import ParameterError

__all__ = ["TrustedProxy", "find_named"]

SHORTEST_SECRET = 20


@dataclass(frozen=True)
class TrustedProxy:
    """The header that names the user, and the secret that the proxy sends with it.

    Attributes
    ----------
    header : str
        For example "X-Remote-User"; its value is the name of a user of the desk.
    secret : str
        The value of `X-Desk-Proxy-Secret`, which browsers never see.
    """

    header: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) < SHORTEST_SECRET:
            raise ParameterError(
                f"The proxy's secret must have at least {SHORTEST_SECRET} characters. Hint: set "
                "EXPERTLOAD_DESK_PROXY_SECRET to what this prints: "
                "python -c 'import secrets; print(secrets.token_urlsafe())'"
            )

    def vouches(self, proof: str) -> bool:
        """Whether the proof is the secret."""
        return hmac.compare_digest(proof.encode(), self.secret.encode())


def find_named(transaction: Transaction, name: str) -> Principal | None:
    """Return a user by name; None if they are unknown or disabled."""
    row = find_user(transaction, name)
    if row is None or row.disabled is not None:
        return None
    return Principal(row.id, row.name, roles_of(transaction, row.id))
