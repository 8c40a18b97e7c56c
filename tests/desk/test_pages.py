"""The pages by their forms alone, as a browser without script uses them."""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import re

import pytest
from fastapi.routing import APIRoute

from expertload.desk.app import create_app
from expertload.desk.pages.page import PageRoute
from expertload.desk.people.accounts import set_password, set_roles
from expertload.desk.people.sessions import hash_password, make_link
from tests.desk.people import PASSWORD, Visitor, person, visit
from tests.desk.world import sent


def png(shade: int = 200) -> str:
    from PIL import Image

    out = io.BytesIO()
    Image.new("L", (8, 8), shade).save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


def field(page: str, name: str) -> str:
    return re.search(rf'name="{name}" value="([^"]*)"', page).group(1)


def answer(client: Visitor, label: str):
    page = client.get("/review").text
    fields = {name: field(page, name) for name in ("lease", "submission")}
    return client.form("/review/answer", **fields, label=label)


# ------------------------------------------------------------------ signing in


def test_sign_in_and_out(served):
    ann = person(served.desk, "ann", "reader")
    served.desk.write(set_password, ann, hash_password(PASSWORD))
    with Visitor(served.address) as client:
        assert client.get("/review").headers["location"] == "/sign-in?next=/review"
        assert "Sign in" in client.get("/sign-in").text
        wrong = client.form("/sign-in", name="ann", password="wrong password")
        assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
        unknown = client.form("/sign-in", name="nobody", password="wrong password")
        assert unknown.status_code == 401
        right = client.form("/sign-in", name="ann", password=PASSWORD, next="/review")
        assert (right.status_code, right.headers["location"]) == (303, "/review")
        cookie = right.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=lax" in cookie
        assert "secure" not in cookie, "plain http on the loopback"
        assert client.get("/review").status_code == 200
        out = client.form("/sign-out")
        assert out.headers["clear-site-data"] == '"cache"'
        client.cookies.set(*re.match("([^=]*)=([^;]*)", right.headers["set-cookie"]).groups())
        assert client.get("/review").status_code == 303, "the old cookie is worth nothing"


def test_behind_tls_the_cookie_is_secure(served):
    link = served.desk.write(make_link, person(served.desk, "ann", "reader"))
    headers = {"X-Forwarded-Proto": "https"}
    with Visitor(served.address, headers=headers) as client:
        cookie = client.form(f"/welcome/{link}").headers["set-cookie"]
    assert cookie.startswith("__Host-desk=")
    assert "secure" in cookie.lower()


def test_guessing_is_slowed_down(served):
    ann = person(served.desk, "ann", "reader")
    served.desk.write(set_password, ann, hash_password(PASSWORD))
    with Visitor(served.address) as client:
        for _ in range(5):
            assert client.form("/sign-in", name="ann", password="x").status_code == 401
        refused = client.form("/sign-in", name="ann", password=PASSWORD)
        assert refused.status_code == 429
        assert "Too many attempts" in refused.text


@pytest.mark.parametrize("there", ["https://evil.test/", "//evil.test", "/\\evil.test", "x"])
def test_signing_in_leads_nowhere_else(served, there):
    ann = person(served.desk, "ann", "reader")
    served.desk.write(set_password, ann, hash_password(PASSWORD))
    with Visitor(served.address) as client:
        shown = client.get("/sign-in", params={"next": there}).text
        assert field(shown, "next") == "/"
        answered = client.form("/sign-in", name="ann", password=PASSWORD, next=there)
        assert answered.headers["location"] == "/"


def test_a_link_signs_in_once_and_sets_the_password(served):
    link = served.desk.write(make_link, person(served.desk, "ann", "reader"))
    with Visitor(served.address) as client:
        for _ in range(2):
            assert "Welcome, " in client.get(f"/welcome/{link}").text, "looking does not use it up"
        assert client.form(f"/welcome/{link}", password="short").status_code == 422
        assert client.form(f"/welcome/{link}", password=PASSWORD).status_code == 303
        assert client.get("/review").status_code == 200
        assert client.form(f"/welcome/{link}").status_code == 404
    with Visitor(served.address) as client:
        assert client.form("/sign-in", name="ann", password=PASSWORD).status_code == 303


def test_changing_the_password_ends_other_sessions(served):
    ann = person(served.desk, "ann", "reader")
    served.desk.write(set_password, ann, hash_password(PASSWORD))
    with visit(served, "ann") as here, visit(served, "ann") as there:
        assert here.form("/account/password", old="x", new="y" * 12).status_code == 422
        assert here.form("/account/password", old=PASSWORD, new="y" * 12).status_code == 303
        assert here.get("/account").status_code == 200
        assert there.get("/account").status_code == 303
        assert here.form("/sign-out", everywhere="yes").status_code == 303
        assert here.get("/account").status_code == 303


# ------------------------------------------------------------------ other sites, other roles


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "https://evil.test"},
        {"Origin": "null"},
        {"Origin": ""},
    ],
)
def test_forms_of_other_sites_change_nothing(served, headers):
    served.send_one("a", 0.6)
    with visit(served, "ann", "reader") as client:
        refused = client.post("/review/next", headers=headers)
        assert refused.status_code == 403
        assert "Nothing was changed" in refused.text
        assert "A case waits" in client.get("/review").text


def test_an_address_that_leads_nowhere_is_a_page_for_people(served):
    with Visitor(served.address) as client:
        page = client.get("/nowhere", headers={"Accept": "text/html,*/*"})
        assert (page.status_code, "no page at this address" in page.text) == (404, True)
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert client.get("/api/nowhere").json()["error"]["code"] == "not_found"


def test_endless_forms_are_refused(served):
    with visit(served, "ann", "reader") as client:
        big = client.post("/review/next", data={"x": "y" * 6_000_000})
        assert big.status_code == 413
        assert client.post("/review/next", content=iter([b"x=y"])).status_code == 413


def routes(app) -> list[APIRoute]:
    """Every route of an app; newer versions of FastAPI keep those of a router in the router."""
    found = []
    for route in app.routes:
        inner = getattr(route, "original_router", None)
        found += [route] if inner is None else routes(inner)
    return [route for route in found if isinstance(route, APIRoute)]


def pages(app) -> list[tuple[str, str, tuple[str, ...]]]:
    """Method, path and roles of every page, from the app itself; None for open ones."""
    found = []
    for route in routes(app):
        if isinstance(route, PageRoute):
            calls = [d.call for d in route.dependant.dependencies if hasattr(d.call, "roles")]
            roles = calls[0].roles if calls else None
            found += [(method, route.path, roles) for method in sorted(route.methods)]
    return found


OPEN = {
    "/single-sign-on",
    "/single-sign-on/back",
    "/sign-in",
    "/welcome/{secret}",
    "/static/{digest}/{name}",
}


@pytest.mark.slow
def test_every_page_asks_who_comes(served):
    app = create_app(served.desk)
    every = pages(app)
    assert len(every) > 45
    assert {path for _, path, roles in every if roles is None} == OPEN
    others = {route.path for route in routes(app)}
    assert all(
        p.startswith(("/api", "/metrics", "/healthz")) for p in others - {e[1] for e in every}
    )
    with contextlib.ExitStack() as stack:
        nobody = stack.enter_context(Visitor(served.address))
        old = stack.enter_context(Visitor(served.address, secret="made-up"))
        former = stack.enter_context(visit(served, "eve", "reader"))
        served.desk.write(set_roles, person(served.desk, "eve"), [])
        clients = {
            role: stack.enter_context(visit(served, role, role))
            for role in ("reader", "arbiter", "manager", "auditor")
        }
        for method, path, roles in every:
            if roles is None:
                continue
            address = re.sub(r"\{.*?\}", "1", path)
            for stranger in (nobody, old):
                got = stranger.request(method, address)
                assert (got.status_code, got.headers["location"][:8]) == (303, "/sign-in"), path
            for role, client in {**clients, "": former}.items():
                if roles and role not in roles:
                    assert client.request(method, address).status_code == 403, (role, path)


def test_every_answer_carries_the_strict_headers(served):
    served.send_one("a", 0.6, body={"kind": "image", "content": png()})
    with visit(served, "ann", "reader") as client:
        client.form("/review/next")
        page = client.get("/review")
        files = re.findall(r'(?:href|src)="(/(?:static|review/body)/[^"]*)"', page.text)
        assert len(set(files)) == 5
        for answered in (page, client.get("/sign-in"), *map(client.get, files)):
            assert answered.status_code == 200
            policy = answered.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'")
            assert "unsafe" not in policy
            assert answered.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<script(?! src)|<style| style=| on[a-z]+=", page.text)


def test_the_review_page_is_light(served):
    classes = [f"Class number {i} of a long list" for i in range(1_000)]
    served.with_rules(classes=tuple(classes))
    served.send_one("a", 0.6, body={"kind": "image", "content": png()})
    with visit(served, "ann", "reader") as client:
        client.form("/review/next")
        page = client.get("/review")
        assert page.headers["content-encoding"] == "gzip"
        total = len(gzip.compress(page.content))
        for address in re.findall(r'(?:href|src)="(/static/[^"]*)"', page.text):
            total += len(gzip.compress(client.get(address).content))
        assert page.text.count("<button name=") == 1_000
    assert total < 30_000, total


def test_own_script_is_small():
    from importlib.resources import files

    script = files("expertload.desk.pages").joinpath("static/desk.js").read_bytes()
    assert len(script) <= 10_000


# ------------------------------------------------------------------ reading


@pytest.mark.slow
def test_a_reader_works_without_script(served):
    served.with_rules(classes=("cat", "dog"))
    served.send({**sent("a", 0.6)}, {**sent("b", 0.6)})
    with visit(served, "ann", "reader") as client:
        assert "A case waits for you" in client.get("/review").text
        assert "A case waits for you" in client.get("/review").text, "looking takes nothing"
        client.form("/review/next")
        assert '<span class="name">a</span>' in client.get("/review").text
        assert answer(client, "dog").headers["location"] == "/review"
        page = client.get("/review").text
        assert '<span class="name">b</span>' in page
        assert "You answered <b" in page
        client.form("/review/undo", submission=page.split('name="submission" value="')[1][:32])
        page = client.get("/review?notice=undone").text
        assert '<span class="name">a</span>' in page
        assert "taken back" in page
        answer(client, "cat")
        lease = field(client.get("/review").text, "lease")
        client.form("/review/extend", lease=lease)
        assert client.form("/review/skip", lease=lease, reason="Not my field", more="x")
        assert "Nothing waits" in client.get("/review").text
    with visit(served, "ben", "reader") as client:
        client.form("/review/next")
        lease = field(client.get("/review").text, "lease")
        back = client.form("/review/return", lease=lease)
        assert back.headers["location"] == "/review?notice=returned"
        assert "A case waits" in client.get("/review").text
        assert client.get("/review/waiting").json() == {"waiting": True}


def test_an_answer_out_of_time_is_kept_and_said(served):
    served.with_rules(classes=("cat", "dog"))
    served.send_one("a", 0.6)
    with visit(served, "ann", "reader") as client:
        client.form("/review/next")
        page = client.get("/review").text
        served.clock.turn(901)
        served.claim("ben")
        fields = {name: field(page, name) for name in ("lease", "submission")}
        late = client.form("/review/answer", **fields, label="cat")
        assert late.headers["location"] == "/review?notice=late"
        assert "marked as late" in client.get("/review?notice=late").text


def test_what_is_sent_is_text_and_never_a_page(served):
    evil = "<script>alert(1)</script>"
    served.with_rules(classes=(evil, "b"))
    bodies = [
        {"kind": "text", "content": evil},
        {"kind": "table", "content": [[evil, "n"], [evil, None]]},
        {"kind": "json", "content": {evil: [evil]}},
    ]
    for i, body in enumerate(bodies):
        served.send_one(f"{evil}{i}", 0.6, body=body)
    with visit(served, "ann", "reader") as client:
        client.form("/review/next")
        for _ in bodies:
            page = client.get("/review").text
            assert evil not in page
            assert "&lt;script&gt;" in page
            answer(client, evil)


def test_images_are_for_who_holds_them(served):
    for key in ("a", "b", "c"):
        served.send_one(key, 0.6, body={"kind": "image", "content": png()})
    numbers = {key: served.case(key).id for key in ("a", "b", "c")}
    with visit(served, "ann", "reader") as client:
        client.form("/review/next")
        got = {key: client.get(f"/review/body/{n}").status_code for key, n in numbers.items()}
        assert got == {"a": 200, "b": 200, "c": 404}, "the held one and the next"
        assert f'data-next="/review/body/{numbers["b"]}"' in client.get("/review").text
        image = client.get(f"/review/body/{numbers['a']}")
        assert image.headers["content-type"] == "image/png"
        assert "sandbox" in image.headers["content-security-policy"]


def _bytes_before_the_answer(served, name: str) -> list[bytes]:
    """Everything a reader is sent until the answer, without what is random or counts time."""
    received = []
    with visit(served, name, "reader") as client:
        client.form("/review/next")
        for path in ("/review", "/review/waiting", "/account"):
            got = client.get(path)
            text = str(sorted(got.headers.items())) + got.text
            lease = re.search(r'name="lease" value="([^"]*)"', got.text)
            if lease:
                text = text.replace(lease.group(1), "LEASE")
                text = re.sub(r'name="submission" value="[^"]*"', "SUBMISSION", text)
                text = re.sub(r"review/body/\d+", "BODY", text)
            received.append(re.sub(r"'(date|content-length)', '[^']*'", "", text).encode())
            images = re.findall(r'"(/review/body/\d+)"', got.text)
            received += [client.get(image).content for image in images]
        lease = field(client.get("/review").text, "lease")
        received.append(
            client.post(
                "/review/extend", data={"lease": lease}, headers={"Accept": "application/json"}
            ).content
        )
        client.form("/review/return", lease=lease)
    return received


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cat", "more"), [(0.9876543, {}), (0.5123456, {}), (0.01234567, {"model": "resnet-99"})]
)
def test_no_byte_before_the_answer_tells_what_the_model_said(served, cat, more):
    """Whatever the model said and why ever the case came, a reader is sent the same bytes."""
    served.with_rules(quality_rate=1.0)
    served.activate()
    body = {"kind": "image", "content": png()}
    served.send_one("case", 0.7, body=body)
    expected = _bytes_before_the_answer(served, "ann")
    served.clock.turn(1)
    held = served.claim("zoe")
    served.answer(held, "cat", "zoe")
    served.send_one("case 2", cat, body=body, **more)
    got = _bytes_before_the_answer(served, "ann")
    assert [part.replace(b"case 2", b"case") for part in got] == expected
    for word in (b"confidence", b"predict", b"quality", b"delegat", b"threshold", b"arbit"):
        assert not any(word in part.lower() for part in got)


def test_keys_for_images_are_offered_only_for_images(served):
    served.send(sent("a", 0.6, body={"kind": "text", "content": "a letter"}))
    with visit(served, "ann", "reader") as client:
        client.form("/review/next")
        page = client.get("/review").text
    assert "a letter" in page
    assert "contrast" not in page
