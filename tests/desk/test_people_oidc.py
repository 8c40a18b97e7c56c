"""Single sign-on, against a provider made for the test."""

from __future__ import annotations

import base64
import hashlib
import time
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

pytest.importorskip("authlib")

from joserfc import jwt
from joserfc.jwk import RSAKey

from expertload.desk.app import create_app
from expertload.desk.people.accounts import add_user
from expertload.desk.people.sign_on import OpenIdConnect
from expertload.exceptions import ParameterError
from tests.desk.people import Visitor
from tests.desk.serving import serving

KEY = RSAKey.generate_key(2048, parameters={"kid": "one"}, private=True)
OTHER = RSAKey.generate_key(2048, parameters={"kid": "one"}, private=True)


@dataclass(frozen=True)
class Ago:
    """A time this many seconds before the token is made."""

    seconds: int


@pytest.fixture
def place(tmp_path):
    return tmp_path / "desk"


class Provider:
    """Signs in whoever comes, and says of them what the test wants."""

    def __init__(self):
        self.app, self.changes, self.key, self.asked = FastAPI(), {}, KEY, {}
        self.metadata, self.refusal = {}, None
        self.app.get("/.well-known/openid-configuration")(self.configuration)
        self.app.get("/keys")(self.keys)
        self.app.post("/token")(self.token)

    async def configuration(self, request: Request):
        here = str(request.base_url)
        self.issuer = here.rstrip("/")
        return {
            "issuer": self.issuer,
            "authorization_endpoint": here + "authorize",
            "token_endpoint": here + "token",
            "jwks_uri": here + "keys",
            **self.metadata,
        }

    async def keys(self):
        return {"keys": [KEY.as_dict(private=False)]}

    async def token(self, request: Request):
        if self.refusal is not None:
            return JSONResponse(self.refusal, 400)
        form = await request.form()
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        assert challenge == self.asked["code_challenge"]
        assert form["code"] == "code"
        assert request.headers["authorization"] == httpx.BasicAuth("desk", "hush")._auth_header
        changes = {
            name: int(time.time()) - value.seconds if isinstance(value, Ago) else value
            for name, value in self.changes.items()
        }
        claims = {
            "iss": self.issuer,
            "sub": "ann",
            "aud": "desk",
            "nonce": self.asked["nonce"],
            "iat": int(time.time()),
            "exp": int(time.time()) + 60,
            "email": "ann@example.org",
            "email_verified": True,
            **changes,
        }
        token = jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.key)
        return {"access_token": "access", "token_type": "Bearer", "id_token": token}


@pytest.fixture
def provider():
    made = Provider()
    with serving(made.app) as address:
        made.address = address
        yield made


@pytest.fixture
def client(world, provider):
    world.desk.write(add_user, "ann@example.org", ["reader"])
    known = OpenIdConnect(provider.address, "desk", "hush")
    with serving(create_app(world.desk, provider=known)) as address, Visitor(address) as visitor:
        yield visitor


def sign_in(client, provider, **changes):
    there = urlsplit(client.get("/single-sign-on").headers["location"])
    provider.asked = {name: values[0] for name, values in parse_qs(there.query).items()}
    assert provider.asked["redirect_uri"].endswith("/single-sign-on/back")
    sent = {"code": "code", "state": provider.asked["state"], **changes}
    return client.get("/single-sign-on/back", params=sent)


def test_whom_a_manager_has_added_gets_in(client, provider):
    assert "organisation" in client.get("/sign-in").text
    assert sign_in(client, provider).headers["location"] == "/"
    assert client.get("/review").status_code == 200


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"email": "eve@example.org"}, 403),
        ({"email_verified": False}, 422),
        ({"email": None}, 422),
        ({"iss": "https://evil.test"}, 422),
        ({"aud": "another"}, 422),
        ({"nonce": "old"}, 422),
        ({"exp": 1}, 422),
        ({"exp": Ago(120)}, 422),
        ({"iat": Ago(-120)}, 422),
        ({"nbf": Ago(-120)}, 422),
        ({"azp": "another"}, 422),
        ({"aud": ["desk", "another"]}, 422),
        ({"at_hash": "of another token"}, 422),
        ({"sub": None}, 422),
    ],
)
def test_nobody_else_gets_in(client, provider, changes, status):
    provider.changes = changes
    assert sign_in(client, provider).status_code == status
    assert client.get("/review").status_code == 303


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": Ago(30)},
        {"iat": Ago(-30), "nbf": Ago(-30)},
        {"aud": ["desk", "another"], "azp": "desk"},
    ],
)
def test_clocks_may_differ_a_little_and_a_token_may_have_two_audiences(client, provider, changes):
    provider.changes = changes
    assert sign_in(client, provider).headers["location"] == "/"


def test_a_code_that_the_provider_refuses_signs_nobody_in(client, provider):
    provider.refusal = {"error": "invalid_grant"}
    assert sign_in(client, provider).status_code == 422


@pytest.mark.parametrize(
    "issuer", ["http://login.example.org", "login.example.org", "ftp://localhost", "https://", ""]
)
def test_a_provider_on_another_machine_needs_https(issuer):
    with pytest.raises(ParameterError, match="https"):
        OpenIdConnect(issuer, "desk", "hush")


@pytest.mark.parametrize(
    "issuer",
    ["https://login.example.org/a", "http://localhost:9", "http://[::1]", "http://127.1.2.3"],
)
def test_https_is_not_needed_on_this_machine(issuer):
    assert OpenIdConnect(issuer, "desk", "hush").issuer == issuer


def test_a_provider_that_sends_people_elsewhere_without_https_is_refused(client, provider):
    provider.metadata = {"token_endpoint": "http://evil.test/token"}
    assert client.get("/single-sign-on").status_code == 422


def test_a_token_of_another_key_is_refused(client, provider):
    provider.key = OTHER
    assert sign_in(client, provider).status_code == 422


def test_a_sign_in_that_began_elsewhere_is_refused(client, provider):
    assert sign_in(client, provider, state="made up").status_code == 403
    client.cookies.clear()
    assert client.get("/single-sign-on/back?code=code&state=x").status_code == 403


@pytest.mark.slow
def test_without_a_provider_there_is_none(world):
    with serving(create_app(world.desk)) as address, Visitor(address) as client:
        assert client.get("/single-sign-on").status_code == 404
        assert "organisation" not in client.get("/sign-in").text
