"""Single sign-on, against a provider made for the test."""

from __future__ import annotations

import base64
import hashlib
import time
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from fastapi import FastAPI, Request

pytest.importorskip("joserfc")

from joserfc import jwt
from joserfc.jwk import RSAKey

from expertload.desk.app import create_app
from expertload.desk.people import OpenIdConnect, add_user
from tests.desk.people import Visitor
from tests.desk.serving import serving

KEY = RSAKey.generate_key(2048, parameters={"kid": "one"}, private=True)
OTHER = RSAKey.generate_key(2048, parameters={"kid": "one"}, private=True)


@pytest.fixture
def place(tmp_path):
    return tmp_path / "desk"


class Provider:
    """Signs in whoever comes, and says of them what the test wants."""

    def __init__(self):
        self.app, self.changes, self.key, self.asked = FastAPI(), {}, KEY, {}
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
        }

    async def keys(self):
        return {"keys": [KEY.as_dict(private=False)]}

    async def token(self, request: Request):
        form = await request.form()
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        assert challenge == self.asked["code_challenge"]
        assert form["code"] == "code"
        assert request.headers["authorization"] == httpx.BasicAuth("desk", "hush")._auth_header
        claims = {
            "iss": self.issuer,
            "aud": "desk",
            "nonce": self.asked["nonce"],
            "exp": int(time.time()) + 60,
            "email": "ann@example.org",
            "email_verified": True,
            **self.changes,
        }
        return {"id_token": jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.key)}


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
    ],
)
def test_nobody_else_gets_in(client, provider, changes, status):
    provider.changes = changes
    assert sign_in(client, provider).status_code == status
    assert client.get("/review").status_code == 303


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
