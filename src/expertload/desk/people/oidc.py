"""Sign-in with an OpenID Connect provider: the authorization code flow with PKCE.

The provider says who somebody is. The desk says what they may do: only users whom a manager has
added get in.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from expertload._validation import require_extra
from expertload.exceptions import DeskRefusedError

__all__ = ["Attempt", "OpenIdConnect"]

ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA"]
FEATURE = "Sign-in with OpenID Connect"


@dataclass(frozen=True)
class Attempt:
    """What a browser keeps while its user signs in at the provider."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def new(cls) -> Attempt:
        """Start an attempt."""
        return cls(*(secrets.token_urlsafe(32) for _ in range(3)))

    @classmethod
    def read(cls, text: str) -> Attempt | None:
        """Read an attempt from its text; return None if the text is not an attempt."""
        parts = text.split(".")
        return cls(*parts) if len(parts) == 3 and all(parts) else None

    @property
    def written(self) -> str:
        """The attempt as text."""
        return f"{self.state}.{self.nonce}.{self.verifier}"


@dataclass
class OpenIdConnect:
    """A provider, and how the desk is registered there.

    Attributes
    ----------
    issuer : str
        The provider's address.
    client_id, client_secret : str
        As assigned by the provider.
    claim : str
        The claim that has the user's name at the desk. The provider must have verified "email".
    """

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    claim: str = "email"
    _found: dict[str, Any] = field(default_factory=dict, repr=False)

    def address(self, attempt: Attempt, back: str) -> str:
        """Return the address to send the browser to; it comes back to `back`."""
        digest = hashlib.sha256(attempt.verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "scope": "openid email profile",
            "client_id": self.client_id,
            "redirect_uri": back,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        return f"{self._discovered()['authorization_endpoint']}?{urlencode(asked)}"

    def name_of(self, code: str, attempt: Attempt, back: str) -> str:
        """Return the name of the user whom the provider has signed in."""
        sent = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "code_verifier": attempt.verifier,
        }
        answer = self._ask("POST", self._discovered()["token_endpoint"], data=sent)
        claims = self._verified(str(answer.get("id_token", "")), attempt.nonce)
        name = claims.get(self.claim)
        if self.claim == "email" and claims.get("email_verified") is not True:
            raise _refuse("it has not verified the e-mail address")
        if not isinstance(name, str) or not name:
            raise _refuse(f"its token has no claim '{self.claim}'")
        return name

    def _verified(self, token: str, nonce: str) -> dict[str, Any]:
        """Return a token's claims; it must be valid now, and signed for us and this attempt."""
        jwt = require_extra("joserfc.jwt", "desk-oidc", FEATURE)
        errors = require_extra("joserfc.errors", "desk-oidc", FEATURE)
        keys = require_extra("joserfc.jwk", "desk-oidc", FEATURE)
        wanted = {
            "iss": {"essential": True, "value": self.issuer},
            "aud": {"essential": True, "value": self.client_id},
            "nonce": {"essential": True, "value": nonce},
            "exp": {"essential": True},
        }
        published = self._ask("GET", self._discovered()["jwks_uri"])
        try:
            known = keys.KeySet.import_key_set(published)
            claims: dict[str, Any] = jwt.decode(token, known, algorithms=ALGORITHMS).claims
            jwt.JWTClaimsRegistry(**wanted).validate(claims)
        except (errors.JoseError, ValueError, KeyError) as error:
            raise _refuse(f"its token is not valid ({type(error).__name__})") from None
        return claims

    def _discovered(self) -> dict[str, Any]:
        if not self._found:
            where = self.issuer.rstrip("/") + "/.well-known/openid-configuration"
            found = self._ask("GET", where)
            if found.get("issuer") != self.issuer:
                raise _refuse("its issuer is not the one in the desk's settings")
            self._found.update(found)
        return self._found

    def _ask(self, method: str, address: str, **options: Any) -> dict[str, Any]:
        httpx = require_extra("httpx", "desk-oidc", FEATURE)
        if method == "POST":
            options["auth"] = (self.client_id, self.client_secret)
        try:
            answer = httpx.request(method, address, timeout=10, **options)
            read = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise _refuse(f"it does not answer ({type(error).__name__})") from None
        if answer.status_code != 200 or not isinstance(read, dict):
            raise _refuse(f"it answers with status {answer.status_code}")
        return read


def _refuse(why: str) -> DeskRefusedError:
    return DeskRefusedError(
        "sign_in_failed",
        f"The sign-in provider could not be used: {why}.",
        "try again, or ask a manager for a one-time link.",
    )
