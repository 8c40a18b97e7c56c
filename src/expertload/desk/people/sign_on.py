"""Single sign-on: an OpenID Connect provider, or a trusted proxy, says who somebody is.

The desk says what they may do: only users whom a manager has added get in. OpenID Connect is the
authorization code flow with PKCE, by authlib.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from expertload._check import require_extra
from expertload.exceptions import DeskRefusedError, ParameterError

ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA"]
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
TIMEOUT = 10
LEEWAY = 60  # seconds by which the provider's clock may differ
SHORTEST_SECRET = 20


@dataclass(frozen=True)
class TrustedProxy:
    """The header that names the user, and the secret that the proxy sends with it.

    The proxy's address would prove nothing: whoever can reach the desk's port could send the same
    header.

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
        """Whether what a request sends as proof is the secret."""
        return hmac.compare_digest(proof.encode(), self.secret.encode())


class Attempt(NamedTuple):
    """What a browser keeps while its user signs in at the provider."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def new(cls) -> Attempt:
        """Start an attempt."""
        return cls(*(secrets.token_urlsafe(32) for _ in cls._fields))

    @classmethod
    def read(cls, text: str) -> Attempt | None:
        """Read an attempt from its parts, joined by dots; return None if the text is none."""
        parts = text.split(".")
        return cls(*parts) if len(parts) == 3 and all(parts) else None


@dataclass
class OpenIdConnect:
    """A provider, and how the desk is registered there.

    Attributes
    ----------
    issuer : str
        The provider's https address; http is allowed for a provider on this machine.
    client_id, client_secret : str
        As assigned by the provider.
    claim : str
        The claim that has the user's name at the desk. The provider must have verified "email".
    """

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    claim: str = "email"

    def __post_init__(self) -> None:
        require_extra("authlib", "desk-oidc", "Sign-in with OpenID Connect")
        if not _is_secure(self.issuer):
            raise ParameterError(
                f"The OpenID Connect issuer must be an https address. Got {self.issuer}. Hint: "
                "http is allowed only for a provider on this machine."
            )

    def address(self, attempt: Attempt, back: str) -> str:
        """Return the address to send the browser to; it comes back to `back`."""
        address, _ = self._client(back).create_authorization_url(
            self._provider["authorization_endpoint"],
            state=attempt.state,
            nonce=attempt.nonce,
            code_verifier=attempt.verifier,
        )
        return str(address)

    def name_of(self, code: str, attempt: Attempt, back: str) -> str:
        """Return the name of the user whom the provider has signed in."""
        claims = self._claims(self._token(code, attempt, back), attempt.nonce)
        name = claims.get(self.claim)
        if self.claim == "email" and claims.get("email_verified") is not True:
            raise _refuse("it has not verified the e-mail address")
        if not isinstance(name, str) or not name:
            raise _refuse(f"its token has no claim '{self.claim}'")
        return name

    def _token(self, code: str, attempt: Attempt, back: str) -> dict[str, Any]:
        import httpx
        from authlib.oauth2 import OAuth2Error

        try:
            with httpx.Client(timeout=TIMEOUT) as session:
                token: dict[str, Any] = self._client(back, session).fetch_token(
                    self._provider["token_endpoint"],
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=attempt.verifier,
                    auth=(self.client_id, self.client_secret),
                )
        except (httpx.HTTPError, OAuth2Error, ValueError) as error:
            raise _refuse(f"it does not accept the sign-in ({type(error).__name__})") from None
        return token

    def _claims(self, token: dict[str, Any], nonce: str) -> dict[str, Any]:
        """Return an ID token's claims; it must be valid now, and signed for us and this attempt."""
        from authlib.oidc.core import CodeIDToken
        from joserfc import errors, jwk, jwt

        expected = {
            "iss": {"essential": True, "value": self.issuer},
            "aud": {"essential": True, "value": self.client_id},
        }
        known = {
            "nonce": nonce,
            "client_id": self.client_id,
            "access_token": token.get("access_token"),
        }
        published = _fetched(self._provider["jwks_uri"])
        try:
            keys = jwk.KeySet.import_key_set(published)  # type: ignore[arg-type]
            signed = jwt.decode(str(token.get("id_token", "")), keys, algorithms=ALGORITHMS)
            claims = CodeIDToken(signed.claims, signed.header, expected, known)
            claims.validate(leeway=LEEWAY)
        except (errors.JoseError, ValueError, KeyError, TypeError) as error:
            raise _refuse(f"its token is not valid ({type(error).__name__})") from None
        return dict(claims)

    def _client(self, back: str, session: Any = None) -> Any:
        from authlib.oauth2 import OAuth2Client

        return OAuth2Client(
            session,
            self.client_id,
            self.client_secret,
            scope="openid email profile",
            redirect_uri=back,
            code_challenge_method="S256",
        )

    @cached_property
    def _provider(self) -> dict[str, Any]:
        """What the provider publishes about itself, which is fetched once."""
        published = _fetched(self.issuer.rstrip("/") + "/.well-known/openid-configuration")
        if published.get("issuer") != self.issuer:
            raise _refuse("its issuer is not the one in the desk's settings")
        if not all(_is_secure(str(published.get(name))) for name in ENDPOINTS):
            raise _refuse("its addresses do not use https")
        return published


def _is_secure(address: str) -> bool:
    """Whether nobody can read or change what is sent: https, or an address on this machine."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        if parts.scheme == "https":
            return bool(host)
        return parts.scheme == "http" and (
            host == "localhost" or ipaddress.ip_address(host).is_loopback
        )
    except ValueError:
        return False


def _fetched(address: str) -> dict[str, Any]:
    import httpx

    try:
        content = httpx.get(address, timeout=TIMEOUT).raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        raise _refuse(f"it does not answer ({type(error).__name__})") from None
    if not isinstance(content, dict):
        raise _refuse("it does not answer with a JSON object")
    return content


def _refuse(why: str) -> DeskRefusedError:
    return DeskRefusedError(
        "sign_in_failed",
        f"The sign-in provider could not be used: {why}.",
        "try again, or ask a manager for a one-time link.",
    )
