"""What a review tried against a desk that is open to a network; every attack fails."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from urllib.parse import quote, urlsplit

import httpx
import pytest
from PIL import Image
from sqlalchemy import select, text, update
from typer.testing import CliRunner

from expertload.cli.app import app
from expertload.desk import Desk
from expertload.desk import app as server
from expertload.desk.api import cases as endpoint
from expertload.desk.api.access import MOST_BYTES_ELSEWHERE
from expertload.desk.api.cases import NDJSON, read_lines
from expertload.desk.app import create_app
from expertload.desk.intake import case, images
from expertload.desk.intake.case import read_body, read_line
from expertload.desk.pages import page, sign_in
from expertload.desk.people import sessions
from expertload.desk.people.accounts import (
    add_token,
    add_user,
    disable_user,
    enable_user,
    find_user,
    revoke_token,
    set_password,
    set_roles,
)
from expertload.desk.people.sessions import (
    IDLE_SECONDS,
    begin_session,
    find_session,
    first_link,
    hash_password,
    make_link,
    peek_link,
    use_link,
)
from expertload.desk.store import tables
from expertload.desk.store.tables import events
from expertload.desk.trail import webhooks
from expertload.desk.trail.chain import seal_events, verify
from expertload.desk.trail.webhooks import add_webhook
from expertload.exceptions import DeskRefusedError
from tests.desk.people import PASSWORD, Visitor, person, visit
from tests.desk.serving import serving
from tests.desk.world import dumps, sent


def ask(world, method, path, *, token="", parts=(), more=()):
    """Send a request to the app itself; return the status, and how many parts it has read."""
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"} | dict(more)
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    waiting, told, read = list(parts), [], []

    async def receive():
        if not waiting:
            return {"type": "http.disconnect"}
        read.append(waiting.pop(0))
        return {"type": "http.request", "body": read[-1], "more_body": bool(waiting)}

    async def send(message):
        told.append(message)

    with ThreadPoolExecutor(1) as apart:
        apart.submit(asyncio.run, create_app(world.desk)(scope, receive, send)).result()
    return told[0]["status"], len(read)


# ------------------------------------------------------------------ bodies before tokens

CALLS = ["/api/look-back", "/api/policies", "/api/cases", "/api/webhooks", "/api/claims/1/answer"]


@pytest.mark.parametrize("path", CALLS)
def test_nothing_that_a_stranger_sends_is_read(world, path):
    for token in ("", "eld_" + "x" * 43):
        assert ask(world, "POST", path, token=token, parts=[b"[" * 1000]) == (401, 0)


@pytest.mark.parametrize("path", ["/api/look-back", "/api/void", "/api/webhooks"])
def test_a_long_body_is_refused_before_it_is_read_to_its_end(world, path):
    parts = [b"[[],[],[]," * 1_000] * 1_000
    status, n_read = ask(world, "POST", path, token=world.token("eve", "manager"), parts=parts)
    assert status == 413
    assert n_read <= MOST_BYTES_ELSEWHERE // len(parts[0]) + 1


def test_a_long_form_is_refused_before_it_is_read_to_its_end(world):
    status, n_read = ask(world, "POST", "/sign-in", parts=[b"a" * 10_000] * 1_000)
    assert status in (403, 413)
    assert n_read <= MOST_BYTES_ELSEWHERE // 10_000 + 1


FORMS = ["/manage/readers/golden", "/manage/policies", "/review/answer", "/account/password"]


@pytest.mark.parametrize("path", FORMS)
@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "x-www-form-urlencoded"])
def test_no_form_of_a_stranger_is_read(world, path, kind):
    more = {"origin": "http://desk", "host": "desk", "content-length": "60000"}
    more["content-type"] = kind if "/" in kind else f"application/{kind}"
    assert ask(world, "POST", path, parts=[b"a" * 30_000] * 2, more=more) == (303, 0)


@pytest.mark.parametrize("path", ["/api/shadow", "/api/golden"])
def test_what_a_token_that_has_ended_meanwhile_sends_is_not_stored(world, path):
    """A long body may take many minutes to come."""
    world.send_one("a", 0.6)
    role = "api" if path == "/api/shadow" else "manager"
    token = world.token("boss", role)
    (number,) = (row.id for row in world.rows(select(tables.tokens.c.id)))
    line = {"key": "a", "model": "m", "probabilities": {"cat": 1}}
    if role == "manager":
        line = {"key": "g", "label": "cat"}

    def slowly():
        yield json.dumps(line).encode()
        world.desk.write(revoke_token, number)
        yield b"\n"

    with serving(create_app(world.desk)) as address:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/x-ndjson"}
        answer = httpx.post(f"{address}{path}", headers=headers, content=slowly())
    assert answer.status_code == 401, answer.text
    assert world.rows(select(tables.shadows)) == []
    assert len(world.rows(select(tables.cases))) == 1


def test_what_somebody_disabled_meanwhile_sends_is_not_stored(served):
    ann = person(served.desk, "ann", "manager")
    person(served.desk, "ben", "manager")
    head = "POST /manage/people HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    with visit(served, "ann") as client:
        own = f"Cookie: {'; '.join('='.join(pair) for pair in client.cookies.items())}\r\n"
    address = urlsplit(served.address)
    own += f"Host: {address.netloc}\r\nOrigin: {served.address}\r\nContent-Length: 21\r\n\r\n"
    with socket.create_connection((address.hostname, address.port), timeout=30) as line:
        line.sendall(f"{head}{own}name=eve&".encode())
        time.sleep(0.3)
        served.desk.write(disable_user, ann)
        line.sendall(b"roles=reader")
        assert line.recv(65_536).startswith(b"HTTP/1.1 303")
    assert served.desk.read(find_user, "eve") is None


def test_a_case_of_too_many_values_is_refused_before_it_is_parsed(monkeypatch):
    monkeypatch.setattr("orjson.loads", None)
    monkeypatch.setattr("json.loads", None)
    (refused,) = read_lines(b"[" + b"[]," * 2_000_000 + b"[]]", NDJSON, read_line).values()
    assert refused.code == "too_large"


@pytest.fixture
def line(served):
    """A bare connection to a served desk."""
    host, _, port = served.address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        yield connection


def is_cut(line, data=b""):
    """Whether a connection ends although data is still being sent."""
    try:
        for _ in range(3_000):
            line.sendall(data or b"")
            if not data:
                return line.recv(65_536) == b""
            time.sleep(0.0005)
    except (BrokenPipeError, ConnectionResetError):
        return True
    return False


def test_headers_after_a_body_end_the_connection(served, line):
    head = f"Host: desk\r\nAuthorization: Bearer {served.token('model', 'api')}\r\n"
    kind = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    line.sendall(f"POST /api/cases HTTP/1.1\r\n{head}{kind}\r\n2\r\n{{}}\r\n0\r\n".encode())
    assert is_cut(line, b"X-Long: " + b"a" * 1_000 + b"\r\n")


def test_long_batches_are_parsed_one_after_the_other(served, monkeypatch):
    """While several are, everything else would wait for all of them."""
    now, most = [], []

    def slow(data, *arguments):
        now.append(data)
        most.append(len(now))
        time.sleep(0.1)
        now.pop()
        return {}

    monkeypatch.setattr(endpoint, "read_lines", slow)
    headers = {"authorization": f"Bearer {served.token('x', 'api')}"}
    headers["content-type"] = NDJSON
    with ThreadPoolExecutor(4) as crowd:
        data = b" " * endpoint.SMALL
        for _ in range(4):
            crowd.submit(httpx.post, f"{served.address}/api/cases", content=data, headers=headers)
    assert most == [1] * 4


# ------------------------------------------------------------------ slow senders and receivers


@pytest.fixture
def in_a_hurry(monkeypatch):
    monkeypatch.setattr(server, "MOST_SECONDS", 0.2)


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /heal",
        b"POST /sign-in HTTP/1.1\r\nHost: desk\r\nContent-Length: 100\r\n\r\na",
        b"POST /healthz HTTP/1.1\r\nHost: desk\r\nContent-Length: 100\r\n\r\na",
    ],
)
def test_a_request_that_does_not_go_on_ends_the_connection(in_a_hurry, line, begun):
    line.sendall(begun)
    line.settimeout(10)
    while line.recv(65_536):  # an answer may come before the request has ended
        pass


def test_a_receiver_who_takes_nothing_ends_the_connection(in_a_hurry, served, line):
    served.activate()
    served.send(*(sent(f"{i}", model="m" * 190) for i in range(3_000)))
    head = f"Host: desk\r\nAuthorization: Bearer {served.token('eve', 'auditor')}\r\n"
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**17)  # with less, it lasts
    line.sendall(f"GET /api/export?format=jsonl HTTP/1.1\r\n{head}\r\n".encode() * 8)
    time.sleep(1.5)
    got = b""
    try:
        while part := line.recv(65_536):
            got += part
    except ConnectionResetError:
        pass
    assert not got.endswith(b"0\r\n\r\n")
    assert httpx.get(f"{served.address}/healthz").status_code == 200


def test_too_many_connections_leave_those_who_came_before_in_peace(monkeypatch, served):
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 5)
    address = urlsplit(served.address)
    with httpx.Client(base_url=served.address) as client, contextlib.ExitStack() as stack:
        assert client.get("/healthz").status_code == 200
        crowd = [
            stack.enter_context(socket.create_connection((address.hostname, address.port)))
            for _ in range(10)
        ]
        for one in crowd[4:]:
            one.settimeout(10)
            with contextlib.suppress(ConnectionResetError):
                assert one.recv(1) == b"", "it is refused"
        assert client.get("/healthz").status_code == 200
    assert httpx.get(f"{served.address}/healthz").status_code == 200, "and later others come in"


# ------------------------------------------------------------------ images


def jpeg_of_many_scans(n):
    """A small progressive JPEG whose last scan is repeated; each repeats a pass over all pixels."""
    out = io.BytesIO()
    Image.new("RGB", (640, 640), "white").save(out, "JPEG", progressive=True)
    data = out.getvalue()
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * n + data[-2:]


def body_of(data):
    return {"kind": "image", "content": base64.b64encode(data).decode()}


def test_a_jpeg_of_many_scans_is_refused():
    with pytest.raises(DeskRefusedError, match="scans"):
        read_body(body_of(jpeg_of_many_scans(1_000)))


def test_an_image_that_takes_too_long_is_refused_and_the_next_is_read(monkeypatch):
    out = io.BytesIO()
    Image.new("RGB", (6_000, 6_000)).save(out, "PNG")
    monkeypatch.setattr(images, "SECONDS", 0.02)
    with pytest.raises(DeskRefusedError, match="within"):
        read_body(body_of(out.getvalue()))
    monkeypatch.undo()
    assert read_body(body_of(jpeg_of_many_scans(1))).media_type == "image/jpeg"


def test_an_image_that_would_grow_out_of_proportion_is_refused(monkeypatch):
    out = io.BytesIO()
    Image.effect_noise((300, 300), 90).convert("RGB").save(out, "WEBP", quality=1)
    assert read_body(body_of(out.getvalue())).kind == "image"
    monkeypatch.setattr(images, "ALWAYS_ALLOWED", 0)
    with pytest.raises(DeskRefusedError, match="drawn again"):
        read_body(body_of(out.getvalue()))


@pytest.mark.parametrize("how", ["plain", "escaped", "UTF-16", "golden"])
def test_no_image_is_drawn_where_requests_are_answered(served, monkeypatch, how):
    """However its sender spells that it is one."""
    drawn = []

    def draw(data):
        drawn.append(threading.current_thread().name)
        return "image/png", b"x"

    monkeypatch.setattr(case, "redrawn", draw)
    content = {"key": "a", "label": "cat", "body": body_of(jpeg_of_many_scans(1))}
    written = json.dumps(content if how == "golden" else {**content, "confidence": 0.5})
    if how == "escaped":
        written = written.replace("image", "im\\u0061ge")
    data = written.encode("utf-16-le" if how == "UTF-16" else "utf-8")
    role, path = ("manager", "/api/golden") if how == "golden" else ("api", "/api/cases")
    headers = {"authorization": f"Bearer {served.token('x', role)}"}
    headers["content-type"] = "application/json"
    answer = httpx.post(f"{served.address}{path}", content=data, headers=headers)
    if how == "UTF-16":
        assert (answer.status_code, drawn) == (422, [])
    else:
        assert answer.status_code in (200, 201)
        assert [name.rpartition("_")[0] for name in drawn] == ["desk-images"]


# ------------------------------------------------------------------ passwords, links and sessions


def try_password(address, number, name="ann", password="wrong password"):
    """Sign in from an address of its own; return the status."""
    with Visitor(address, headers={"X-Forwarded-For": f"10.0.0.{number}"}) as visitor:
        return visitor.form("/sign-in", name=name, password=password).status_code


def test_guesses_at_the_same_time_are_limited_like_others(served, monkeypatch):
    evaluated = []

    def slow(stored, password):
        evaluated.append(password)
        time.sleep(0.1)
        return False

    monkeypatch.setattr(sessions, "check_password", slow)
    with ThreadPoolExecutor(30) as crowd:
        statuses = list(crowd.map(lambda _: try_password(served.address, 1), range(30)))
    assert len(evaluated) <= 5
    assert statuses.count(429) >= 25


def test_few_wait_for_their_password_to_be_checked(served, monkeypatch):
    monkeypatch.setattr(sessions, "check_password", lambda *_: time.sleep(0.2))
    with ThreadPoolExecutor(60) as crowd:
        guesses = crowd.map(lambda i: try_password(served.address, i, name=f"n{i}"), range(60))
        time.sleep(0.3)
        began = time.monotonic()
        assert served.desk.read(lambda transaction: transaction.now)
        assert httpx.get(f"{served.address}/healthz", timeout=60).status_code == 200
        assert time.monotonic() - began < 5
        assert 429 in set(guesses)


def test_a_stranger_elsewhere_locks_nobody_out(served):
    user = person(served.desk, "ann", "reader")
    served.desk.write(set_password, user, hash_password(PASSWORD))
    assert [try_password(served.address, 1) for _ in range(6)] == [401] * 5 + [429]
    assert try_password(served.address, 2, password=PASSWORD) == 303
    refused = served.rows(select(events).where(events.c.kind == "session.refused"))
    assert len(refused) == 5
    assert '"ann"' in refused[0].changes


def test_the_addresses_of_one_network_are_one_guesser():
    hosts = ["2001:db8::1", "2001:db8::2:3", "2001:db8:0:1::1", "10.0.0.1", "::ffff:10.0.0.1", "?"]
    requests = [SimpleNamespace(client=SimpleNamespace(host=host)) for host in hosts]
    found = [sign_in._address(request) for request in requests]
    assert found[0] == found[1] != found[2]
    assert found[3:] == hosts[3:]


def test_the_trail_says_for_whom_a_link_was_made(world):
    ann = person(world.desk, "ann", "reader")
    manager = person(world.desk, "eve", "manager")
    world.desk.acting(manager).write(make_link, ann)
    (made,) = world.rows(select(events).where(events.c.kind == "link.made"))
    assert made.actor == manager
    assert '"ann"' in made.changes
    assert world.desk.read(verify).is_intact


def test_a_password_set_by_link_ends_earlier_sessions(world):
    ann = person(world.desk, "ann", "reader")
    old = world.desk.write(begin_session, ann)
    link = world.desk.write(make_link, ann)
    new = world.desk.write(use_link, link, stretched=hash_password(PASSWORD))
    assert world.desk.read(find_session, old) is None
    assert world.desk.read(find_session, new).name == "ann"


def test_no_token_acts_in_the_name_of_a_person(world):
    person(world.desk, "ann", "reader")
    with pytest.raises(DeskRefusedError, match="person"):
        world.desk.write(add_token, "ann", "reader")


def test_sessions_and_links_of_one_project_open_no_other(world):
    ann = person(world.desk, "ann", "reader")
    session, link = world.desk.write(begin_session, ann), world.desk.write(make_link, ann)
    other = Desk(world.desk.database, project="other", clock=world.clock)
    assert other.read(find_session, session) is None
    with pytest.raises(DeskRefusedError, match="link"):
        other.read(peek_link, link)


def test_people_of_one_project_belong_to_no_other(world):
    """A manager of one project could set a password that opens another."""
    ann = person(world.desk, "ann", "reader")
    world.desk.write(set_password, ann, hash_password(PASSWORD))
    world.token("scanner", "api")
    other = Desk(world.desk.database, project="other", clock=world.clock)
    boss = other.acting(other.write(add_user, "boss", ["manager"]))
    assert boss.read(find_user, "ann") is None
    for name in ("ann", "scanner"):
        with pytest.raises(DeskRefusedError, match="another project"):
            boss.write(add_user, name, ["reader"])
        with pytest.raises(DeskRefusedError, match="another project"):
            boss.write(add_token, name, "api")
    for act in (make_link, disable_user, enable_user):
        with pytest.raises(DeskRefusedError, match="no user"):
            boss.write(act, ann)
    with pytest.raises(DeskRefusedError, match="no user"):
        boss.write(set_roles, ann, ["reader"])
    with serving(create_app(other)) as address:
        assert try_password(address, 1, password=PASSWORD) == 401
    with serving(create_app(world.desk)) as address:
        assert try_password(address, 1, password=PASSWORD) == 303
    new = Desk(world.desk.database, project="third", clock=world.clock)
    assert new.write(first_link) is not None  # whoever has signed in elsewhere
    assert new.read(find_user, "admin of third") is not None
    assert world.desk.read(verify).is_intact


def test_a_session_that_nobody_uses_ends(served):
    with visit(served, "ann", "reader") as ann, visit(served, "ben", "reader") as ben:
        for _ in range(3):
            served.clock.turn(IDLE_SECONDS * 0.6)
            assert ben.get("/review").status_code == 200
            idle = ann.get("/review/waiting")  # asked by the page itself, whoever sits there
        assert idle.status_code == 303
        for _ in range(30):
            served.clock.turn(IDLE_SECONDS * 0.6)
            last = ben.get("/review").status_code
        assert last == 303  # after a working day at the latest


def test_a_desk_without_passwords_has_no_other_way_in(world):
    link = world.desk.write(make_link, person(world.desk, "ann", "manager"))
    with serving(create_app(world.desk, passwords=False)) as address, Visitor(address) as visitor:
        assert "password" not in visitor.get("/sign-in").text.lower()
        assert visitor.form("/sign-in", name="ann", password=PASSWORD).status_code == 404
        assert visitor.get(f"/welcome/{link}").status_code == 404
        assert visitor.form(f"/welcome/{link}", password="").status_code == 404


def test_a_slow_provider_holds_up_nothing_else(world):
    """Anybody can start such a sign-in, as often as they like."""
    over = threading.Event()

    class Slow:
        def name_of(self, *_):
            over.wait(30)
            return "nobody"

    made = create_app(world.desk)
    made.state.provider = Slow()

    def come_back(address):
        with httpx.Client(base_url=address, timeout=60) as client:
            client.cookies.set(f"desk-{client.base_url.port}-attempt", "a.b.c")
            return client.get("/single-sign-on/back?code=x&state=a").status_code

    headers = {"authorization": f"Bearer {world.token('x', 'api')}"}
    headers["content-type"] = "application/x-ndjson"
    with serving(made) as address, ThreadPoolExecutor(60) as crowd:
        came = [crowd.submit(come_back, address) for _ in range(60)]
        time.sleep(0.5)
        batch = dumps(*(sent(f"{i}", model="m" * 190) for i in range(300)))
        try:
            stored = httpx.post(f"{address}/api/cases", content=batch, headers=headers, timeout=5)
        finally:
            over.set()
        assert stored.status_code == 200
        statuses = [each.result() for each in came]
    assert statuses.count(429) >= 30
    assert set(statuses) == {403, 429}


# ------------------------------------------------------------------ webhooks


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://a:99999999", "ftp://a", "http://", "http://\x00"]
)
def test_an_address_that_cannot_be_used_is_refused(world, url):
    with pytest.raises(DeskRefusedError, match="address"):
        world.desk.write(add_webhook, url)


def test_an_address_that_fails_in_any_way_silences_no_other(world, monkeypatch):
    """Also one that an earlier version stored, and one that answers a byte at a time."""
    monkeypatch.setattr(webhooks, "TIMEOUT", 1.0)
    dripping, receiving = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    ended = threading.Event()

    def drip():
        connection, _ = dripping.accept()
        with connection, contextlib.suppress(OSError):
            while not ended.wait(0.1):
                connection.sendall(b"H")

    def take():
        connection, _ = receiving.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    threads = [threading.Thread(target=work, daemon=True) for work in (drip, take)]
    for thread in threads:
        thread.start()
    number, _ = world.desk.write(add_webhook, "http://broken")
    broken = update(tables.webhooks).where(tables.webhooks.c.id == number)
    world.desk.database.write(lambda c: c.execute(broken.values(url="http://[::1")))
    for listening in (dripping, receiving):
        world.desk.write(add_webhook, f"http://127.0.0.1:{listening.getsockname()[1]}")
    world.activate()
    began = time.monotonic()
    assert webhooks.deliver(world.desk) == 1
    assert time.monotonic() - began < 10
    ended.set()
    for thread, listening in zip(threads, (dripping, receiving), strict=True):
        thread.join()
        listening.close()


INTERNAL = ["127.0.0.1", "10.1.2.3", "169.254.169.254", "[::1]", "[::ffff:10.0.0.1]", "localhost"]
# Addresses of IPv6 that lead to one of IPv4: through a gateway, a tunnel, or an old notation.
INTERNAL += [
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::a00:1]",
    "[2002:a00:1::]",
    "[::10.0.0.1]",
    "[fec0::1]",
]


@pytest.mark.parametrize("host", ["64:ff9b::5db8:d822", "2002:5db8:d822::1", "2606:4700::1111"])
def test_public_addresses_are_not_internal(host):
    assert not webhooks.is_internal(host)


@pytest.mark.parametrize("host", INTERNAL)
def test_a_webhook_to_an_internal_address_must_be_allowed(world, host):
    world.with_rules(webhook_hosts=())
    with pytest.raises(DeskRefusedError, match="internal address"):
        world.desk.write(add_webhook, f"http://{host}:8000/x")
    world.with_rules(webhook_hosts=(host.strip("[]"),))
    assert world.desk.write(add_webhook, f"http://{host}:8000/x")


def test_a_name_that_leads_to_an_internal_address_gets_no_message(world, monkeypatch):
    """Also if the name leads there only after it was checked: it is looked up once."""
    addresses, asked = ["93.184.216.34", "10.0.0.1"], []

    async def found(self, host, port, **options):
        return [(0, 0, 0, "", (address, port)) for address in addresses]

    async def sent_to(client, request, **options):
        asked.append((request.url.host, request.headers["host"], request.extensions))
        return httpx.Response(204)

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", found)
    monkeypatch.setattr(httpx.AsyncClient, "send", sent_to)
    world.desk.write(add_webhook, "https://rebound.example.org/x")
    world.activate()
    assert webhooks.deliver(world.desk) == 0
    (row,) = world.rows(select(tables.outbox))
    assert (row.state, "internal" in row.error, asked) == ("waiting", True, [])
    del addresses[1]
    world.clock.turn(60)
    assert webhooks.deliver(world.desk) == 1
    ((address, name, more),) = asked
    assert (address, name) == ("93.184.216.34", "rebound.example.org")
    assert more["sni_hostname"] == "rebound.example.org"


def test_a_name_that_nobody_answers_for_silences_no_other(world, monkeypatch):
    """All lookups share a few threads; here one takes longer than a message may."""
    monkeypatch.setattr(webhooks, "TIMEOUT", 1.0)

    def look_up(host, *_, **__):
        if host == "slow.example.org":
            time.sleep(1.5)
        return [(0, 0, 0, "", ("93.184.216.34", 0))]

    async def sent_to(client, request, **options):
        return httpx.Response(204)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(httpx.AsyncClient, "send", sent_to)
    for name in ("slow", "fast"):
        world.desk.write(add_webhook, f"https://{name}.example.org")
    for n in range(20):
        world.desk.write(webhooks.announce, "test", {"n": n})
    assert webhooks.deliver(world.desk) == 20
    failed = world.rows(select(tables.outbox.c.error).where(tables.outbox.c.state == "waiting"))
    assert [row.error for row in failed] == ["TimeoutError"] * 20


# ------------------------------------------------------------------ the trail


def emptied(world, *names):
    """Empty tables as somebody does who may do everything in the database."""

    def remove(connection):
        is_postgres = connection.dialect.name == "postgresql"
        for name in names:
            if is_postgres:
                connection.execute(text(f"ALTER TABLE {name} DISABLE TRIGGER USER"))
                connection.execute(text(f"TRUNCATE {name}"))
                connection.execute(text(f"ALTER TABLE {name} ENABLE TRIGGER USER"))
            else:
                connection.execute(text(f"DROP TRIGGER {name}_refuse_delete"))
                connection.execute(text(f"DELETE FROM {name}"))

    world.desk.database.write(remove)


@pytest.mark.parametrize("table", tables.APPEND_ONLY)
def test_the_tables_that_only_grow_cannot_be_emptied(world, table):
    if world.desk.database.engine.dialect.name == "sqlite":
        pytest.skip("SQLite has no TRUNCATE")
    with pytest.raises(Exception, match=f"rows of {table} are never changed"):
        world.desk.database.write(lambda c: c.execute(text(f"TRUNCATE {table} CASCADE")))


def test_the_chain_alone_shows_that_events_were_removed(world):
    """Also if the desk has gone on since, and sealed a chain that fits."""
    world.activate()
    seal_events(world.desk)
    assert world.desk.read(verify, tables=False).is_intact
    emptied(world, "events", "seals")
    assert "first event" in world.desk.read(verify, tables=False).problems[0]
    world.send_one("a")
    seal_events(world.desk)
    verdict = world.desk.read(verify, tables=False)
    assert (verdict.n_blocks, len(verdict.problems)) == (1, 1)


# ------------------------------------------------------------------ headers


def test_every_answer_has_the_headers_of_caution(served):
    person(served.desk, "ann", "reader")
    token = {"Authorization": f"Bearer {served.token('model', 'api')}"}
    with httpx.Client(base_url=served.address) as client:
        for method, path, headers in (
            ("GET", "/healthz", {}),
            ("GET", "/sign-in", {}),
            ("GET", "/api/state", {}),
            ("POST", "/api/cases", token),
            ("GET", "/api/openapi.json", {}),
            ("GET", "/nowhere", {}),
        ):
            plain = client.request(method, path, headers=headers)
            secure = client.request(method, path, headers={**headers, "X-Forwarded-Proto": "https"})
            assert plain.headers["x-content-type-options"] == "nosniff", path
            assert plain.headers["cache-control"] == "no-store", path
            assert "strict-transport-security" not in plain.headers, path
            assert secure.headers["strict-transport-security"] == "max-age=31536000", path
        script = client.get(client.get("/sign-in").text.partition('src="')[2].partition('"')[0])
        assert "immutable" in script.headers["cache-control"]


# ------------------------------------------------------------------ large pages


def test_a_deep_body_makes_no_huge_page(served):
    served.activate()
    deep = []
    for _ in range(40):
        deep = [deep]
    content = [deep for _ in range(4_000)]
    served.send(sent("deep", 0.6, body={"kind": "json", "content": content}))
    with visit(served, "ann", "reader") as ann:
        ann.form("/review/next")
        page = ann.get("/review")
    assert page.status_code == 200
    assert len(page.content) < 1_000_000


# ------------------------------------------------------------------ markup in what is sent

MARKUP = "<script>alert(1)</script>\"'><img src=x onerror=y>"


def test_markup_in_names_labels_keys_and_reasons_is_text_on_every_page(served):
    number = served.activate()
    shown = {"body": {"kind": "json", "content": {MARKUP: MARKUP}}, "shadow": {MARKUP: {"cat": 1}}}
    for key in (f"1 {MARKUP}", f"2 {MARKUP}"):
        served.send(sent(key, 0.6, group=MARKUP, model=MARKUP[:9], **shown))
    person(served.desk, MARKUP, "reader")
    served.desk.write(add_token, f"program {MARKUP}", "api")
    seen = {}
    with visit(served, f"eve {MARKUP}", "reader", "manager", "auditor") as eve:
        eve.form("/review/next")
        seen["/review"] = eve.get("/review").text
        lease = re.search(r'name="lease" value="([^"]*)"', seen["/review"]).group(1)
        eve.form("/review/skip", lease=lease, reason="This case seems wrong", more=MARKUP)
        seen["next /review"] = eve.get("/review").text
        lease = re.search(r'name="lease" value="([^"]*)"', seen["next /review"]).group(1)
        eve.form("/review/answer", lease=lease, label="cat", submission=MARKUP)
        eve.form(f"/manage/policies/{number}/withdraw", reason=MARKUP)
        pages = [*(place for place, *_ in page.PLACES), "/review/answers", "/account"]
        asked = quote(f"1 {MARKUP}")
        pages += [f"/manage/cases?key={asked}", f"/audit?case={asked}", f"/sign-in?next=/{asked}"]
        for path in pages:
            answer = eve.get(path)
            assert answer.status_code == 200, path
            seen[path] = answer.text
    for path, text_ in seen.items():
        assert "<script>alert" not in text_, path
        assert "<img src=x" not in text_, path
    for path in ("/review", "/manage/policies", "/manage/people", "/audit", "/manage/challengers"):
        assert "&lt;script&gt;alert" in seen[path], path


# ------------------------------------------------------------------ secrets in messages


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("mysql://desk:geheim@host/desk", "postgresql://"),
        ("postgresql://desk:geheim@127.0.0.1:1/desk", "does not answer"),
        ("postgresql://127.0.0.1:1/desk?password=geheim", "does not answer"),
        ("postgresql://desk:geheim@127.0.0.1:geheim/desk", "cannot be read"),
        ("postgresql://desk:geheim/x@127.0.0.1:1/desk", "does not answer"),
    ],
)
def test_no_error_shows_the_password_of_a_database(address, said):
    done = CliRunner().invoke(app, ["desk", "verify", "--database", address])
    assert (done.exit_code, isinstance(done.exception, SystemExit)) == (1, True)
    assert said in " ".join(done.output.split())
    assert "geheim" not in done.output
