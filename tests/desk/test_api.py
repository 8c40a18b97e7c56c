"""The JSON interface: what each call answers, and whom it refuses."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import httpx
import pytest

from expertload.desk import api
from expertload.desk.app import create_app
from tests.desk.serving import Caller, serving
from tests.desk.world import dumps, policy_text, sent


@pytest.fixture
def call(world):
    with (
        serving(create_app(world.desk)) as address,
        httpx.Client(base_url=address, timeout=30) as client,
    ):
        yield Caller(world, client)


def test_one_case(call):
    call.world.activate()
    answer = call("POST", "/api/cases", "api", json=sent("a"))
    assert answer.status_code == 200
    decided = {"key": "a", "status": "decided", "label": "cat", "policy": 1}
    assert answer.json() == {**decided, "cause": "above_threshold"}
    shown = call("GET", "/api/cases/a", "api").json()
    assert (shown["status"], shown["label"], shown["cause"]) == (
        "decided",
        "cat",
        "above_threshold",
    )
    for role in ("manager", "auditor"):
        assert call("GET", "/api/cases/a", role).json() == shown
    assert call("GET", "/api/cases/a", "reader").status_code == 403
    assert call("GET", "/api/cases/b", "api").status_code == 404


def test_a_bad_line_is_an_error_line_and_the_others_stand(call):
    lines = dumps(sent("a"), {"key": "b"}) + b"nonsense\n\n" + dumps(sent("a", 0.7), sent("c"))
    answer = call(
        "POST",
        "/api/cases",
        "api",
        content=lines,
        headers={"Content-Type": "application/x-ndjson"},
    )
    read = [json.loads(line) for line in answer.text.splitlines()]
    assert [line.get("status") for line in read] == ["delegated", None, None, None, "delegated"]
    codes = [line["error"]["code"] for line in read if "error" in line]
    assert codes == ["bad_case", "bad_case", "conflict"]
    refused = [(line["line"], line["key"]) for line in read if "error" in line]
    assert refused == [(2, "b"), (3, None), (5, "a")], "a blank line counts"
    assert all({"code", "message", "hint"} == set(e["error"]) for e in read if "error" in e)


def test_a_case_with_another_content_is_a_conflict(call):
    call("POST", "/api/cases", "api", json=sent("a"))
    answer = call("POST", "/api/cases", "api", json=sent("a", 0.6))
    assert answer.status_code == 409
    assert answer.json()["error"]["code"] == "conflict"


def test_keys_with_tricks_in_them_are_only_names(call):
    for key in ("../../etc/passwd", "a/b/c", "%2e%2e", "a?b#c", "'; DROP TABLE cases; --", "ключ"):
        assert call("POST", "/api/cases", "api", json=sent(key)).status_code == 200
    from urllib.parse import quote

    for key in ("a/b/c", "a?b#c", "'; DROP TABLE cases; --", "ключ"):
        assert call("GET", "/api/cases/" + quote(key, safe=""), "api").json()["key"] == key


def test_a_reader_works(call):
    assert call("POST", "/api/claims", "reader").status_code == 204
    call("POST", "/api/cases", "api", json=sent("a", body={"kind": "text", "content": "look"}))
    held = call("POST", "/api/claims", "reader").json()
    assert set(held) == {"lease", "until", "key", "body", "classes"}
    assert held["body"] == {
        "kind": "text",
        "media_type": "text/plain; charset=utf-8",
        "content": "look",
    }
    path = f"/api/claims/{held['lease']}"
    assert call("POST", f"{path}/extend", "reader").json()["outcome"] == "extended"
    assert call("POST", f"{path}/return", "reader").json()["outcome"] == "returned"
    assert call("POST", f"{path}/skip", "reader", json={"reason": "?"}).json()["outcome"] == "lost"
    held = call("POST", "/api/claims", "reader").json()
    body = {"label": "dog", "submission": "s1"}
    path = f"/api/claims/{held['lease']}/answer"
    assert call("POST", path, "reader", json=body).json()["outcome"] == "counted"
    assert call("POST", path, "reader", json=body).json()["outcome"] == "replayed"
    again = call("POST", "/api/answers/s1/undo", "reader").json()
    assert again["key"] == "a"
    assert call("POST", path, "reader", json={"label": "x"}).status_code == 422


def test_a_manager_has_policies(call):
    answer = call("POST", "/api/policies", "manager", content=policy_text())
    assert answer.status_code == 201
    assert answer.json()["state"] == "draft"
    number = answer.json()["id"]
    assert call("POST", f"/api/policies/{number}/activate", "manager").json()["state"] == "active"
    assert call("POST", f"/api/policies/{number}/activate", "manager").status_code == 409
    state = call("GET", "/api/state", "auditor").json()
    assert state["policy"]["id"] == number
    assert state["monitor"]["state"] == "not refuted"
    ended = call("POST", f"/api/policies/{number}/withdraw", "manager", json={"reason": "old"})
    assert ended.json()["state"] == "withdrawn"
    assert call("GET", "/api/policies", "auditor").json()[0]["reason"] == "old"
    assert call("POST", "/api/cases", "api", json=sent("a")).json()["status"] == "delegated"


def test_metrics_and_health(call):
    assert call("GET", "/healthz").json() == {"status": "ok"}
    call("POST", "/api/cases", "api", json=sent("a"))
    text = call("GET", "/metrics", "api").text
    assert "expertload_desk_counts_received 1\n" in text
    assert "expertload_desk_backlog_waiting 1\n" in text


@pytest.mark.parametrize("odd", ["%00", "%ff", "%ed%a0%80", "..%2f..%2fetc", "9" * 400, "%0d%0a"])
def test_odd_paths_are_not_found_on_either_database(call, odd):
    for method, path, role in (
        ("GET", f"/api/cases/a{odd}", "api"),
        ("POST", f"/api/claims/{odd}/return", "reader"),
        ("POST", f"/api/answers/{odd}/undo", "reader"),
    ):
        assert call(method, path, role).status_code in (404, 405), (path, role)
    for path in (f"/api/policies/{odd}/activate", f"/api/webhooks/{odd}/end"):
        assert call("POST", path, "manager").status_code in (404, 405, 422)


def test_a_request_that_never_ends_is_refused(call):
    sent_bytes = 0

    def endless():
        nonlocal sent_bytes
        while sent_bytes < 500_000_000:
            sent_bytes += 1_000_000
            yield b" " * 1_000_000

    headers = {"Content-Type": "application/x-ndjson"}
    with contextlib.suppress(httpx.WriteError, httpx.ReadError):  # the server hangs up
        answer = call("POST", "/api/cases", "api", content=endless(), headers=headers)
        assert answer.status_code == 413
    assert sent_bytes < 200_000_000


def test_a_batch_has_an_end(call):
    many = dumps(*(sent(f"case-{i}") for i in range(5_001)))
    headers = {"Content-Type": "application/x-ndjson"}
    answer = call("POST", "/api/cases", "api", content=many, headers=headers)
    assert answer.status_code == 413
    assert "at most 5000" in answer.json()["error"]["message"]


@pytest.mark.parametrize("kind", ["", "text/plain", "application/xml", "multipart/form-data"])
def test_cases_come_in_two_forms_alone(call, kind):
    answer = call("POST", "/api/cases", "api", content=b"{}", headers={"Content-Type": kind})
    assert answer.status_code == 415


def test_the_interface_does_not_know_the_pages():
    files = list(Path(api.__file__).parent.glob("*.py"))
    assert len(files) >= 5
    assert [file.name for file in files if "desk.pages" in file.read_text()] == []


def test_the_senders_page_has_every_call(world):
    """Calls that are alike share a row, `…/skip` for the later ones."""
    page = Path(__file__).parents[2] / "docs/desk/sender.md"
    rows = [row for row in _plain(page.read_text("utf-8")).splitlines() if row.startswith("| `")]
    for path in map(_plain, create_app(world.desk).openapi()["paths"]):
        stem, _, last = path.rpartition("/")
        short = re.compile(rf"{re.escape(stem.removesuffix('/{}'))}.*`…(/{{}})?/{last}`")
        whole = re.compile(rf" {re.escape(path)}[`?]")
        assert any(whole.search(row) or short.search(row) for row in rows), path


def _plain(text: str) -> str:
    return re.sub(r"{[\w:]+}", "{}", text)
