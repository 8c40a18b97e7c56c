"""Forms and calls filled in by somebody who wants an accident; on both databases."""

from __future__ import annotations

import re
from urllib.parse import quote

import httpx
import pytest

from expertload.desk.app import create_app
from tests.desk.people import visit
from tests.desk.test_access import every_route
from tests.desk.world import sent

NUMBERS = ["0", "-1", str(2**63 - 1), str(2**63), str(2**64), "9" * 400, "1e3", "\u0661"]
TEXTS = ["\x00", "a\x00b", "x" * 100_000, "\u202e", "\r\n", "😀" * 50, "%s%n", "' OR 1=1 --", ""]
FORMS = {
    "/manage/people": {"name": "{}", "roles": "reader"},
    "/manage/people/{}/link": {},
    "/manage/people/{}/roles": {"roles": "reader"},
    "/manage/people/{}/disable": {},
    "/manage/people/{}/enable": {},
    "/manage/people/tokens": {"name": "{}", "role": "api"},
    "/manage/people/tokens/{}/revoke": {},
    "/manage/policies/{}/activate": {},
    "/manage/policies/{}/withdraw": {"reason": "x"},
    "/manage/policies/1/withdraw": {"reason": "{}"},
    "/manage/policies/{}/look-back": {"share": "1"},
    "/manage/policies/1/look-back": {"share": "{}"},
    "/manage/recertify": {"target_accuracy": "{}", "confidence": "{}"},
    "/audit/verify": {"head": "{}"},
    "/review/answer": {"lease": "{}", "label": "{}", "submission": "{}"},
    "/review/skip": {"lease": "{}", "reason": "{}"},
    "/review/return": {"lease": "{}"},
    "/review/extend": {"lease": "{}"},
    "/review/undo": {"submission": "{}"},
    "/account/password": {"old": "{}", "new": "{}"},
    "/sign-in": {"name": "{}", "password": "{}", "next": "{}"},
    "/welcome/{}": {"password": ""},
    "/sign-out": {"everywhere": ""},
    "/review/next": {"x": "{}"},
    "/review/correct": {"submission": "{}", "label": "{}", "reason": "{}"},
    "/manage/challengers/adopt": {"model": "{}", "share": "0"},
    "/manage/readers/combine": {"on": "{}"},
    "/manage/cases/correct": {"key": "{}", "reader": "{}", "label": "{}", "reason": "{}"},
    "/manage/cases/reopen": {"key": "{}", "reason": "{}"},
    "/manage/cases/void": {"key": "{}", "reason": "{}"},
    "/manage/people/{}/away": {"until": "{}"},
    "/manage/people/1/away": {"until": "{}"},
}
UPLOADS = {"/manage/policies": "policy", "/manage/readers/golden": "golden"}
ADDRESSES = [
    "/audit?case={}",
    "/audit?before={}",
    "/review/body/{}",
    "/manage/export?format={}",
    "/sign-in?next={}",
    "/welcome/{}",
    "/static/{}/desk.css",
    "/api/cases/{}",
    "/api/export?cases={}",
    "/single-sign-on?x={}",
    "/single-sign-on/back?code={}&state={}",
    "/account?x={}",
    "/review?notice={}",
    "/review/waiting?x={}",
    "/review/answers?n={}",
    "/manage?x={}",
    "/manage/policies?notice={}&n={}",
    "/manage/challengers?notice={}&n={}",
    "/manage/readers?added={}",
    "/manage/cases?key={}&notice={}",
    "/manage/cases/body/{}",
    "/manage/people?x={}",
    "/metrics?x={}",
    "/healthz?x={}",
]
CALLS = {
    "/api/claims/{}/return": None,
    "/api/claims/{}/extend": None,
    "/api/answers/{}/undo": None,
    "/api/policies/{}/activate": None,
    "/api/policies/{}/withdraw": {"reason": "{}"},
    "/api/policies/1/withdraw": {"reason": "{}"},
    "/api/look-back": {"policy": 1, "since": "{}"},
    "/api/void": {"key": "{}", "reason": "{}"},
    "/api/webhooks": {"url": "http://{}"},
    "/api/webhooks/{}/end": None,
    "/api/webhooks/{}/replay": {"since": 0},
    "/api/claims": {"x": "{}"},
    "/api/claims/{}/answer": {"label": "{}", "submission": "{}"},
    "/api/claims/{}/skip": {"reason": "{}"},
    "/api/answers/{}/correct": {"label": "{}", "reason": "{}"},
    "/api/cases": {"key": "{}", "confidence": 1, "label": "{}", "group": "{}", "due": "{}"},
    "/api/shadow": {"key": "{}", "model": "{}", "probabilities": {"{}": 1}},
    "/api/golden": {"key": "{}", "label": "{}"},
    "/api/policies": {"{}": "{}"},
    "/api/recertify": {"target_accuracy": 0.9, "model": "{}"},
    "/api/challengers/{}/adopt": {"share": 0, "from": 0},
    "/api/combine": {"on": "{}"},
    "/api/correct": {"key": "{}", "reader": "{}", "label": "{}", "reason": "{}"},
    "/api/reopen": {"key": "{}", "reason": "{}"},
}
# What takes nothing from its sender.
PLAIN = {
    "/",
    "/api/openapi.json",
    "/api/policies",
    "/api/challengers",
    "/api/readers",
    "/api/state",
}


def test_every_route_is_tried(world):
    tried = {re.sub(r"/1(?=/|$)", "/{}", path) for path in (*FORMS, *CALLS, *UPLOADS)}
    tried |= {path.partition("?")[0] for path in ADDRESSES} | {"/audit", "/manage/export"}
    for method, path, _ in every_route(create_app(world.desk).routes):
        plain = re.sub(r"\{.*?\}", "{}", path).replace("/static/{}/{}", "/static/{}/desk.css")
        assert plain in tried or (method == "GET" and plain in PLAIN), path


async def nothing_sent(messages, allowed):
    return ["not sent"] * len(messages)


def filled(content, value):
    """The content with the value in every place for it."""
    if isinstance(content, dict):
        return {filled(name, value): filled(inner, value) for name, inner in content.items()}
    return content.replace("{}", value) if isinstance(content, str) else content


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_no_form_ends_in_an_accident(served):
    served.activate()
    served.send(sent("a", 0.6), sent("b"))
    tried = 0
    with visit(served, "eve", "reader", "arbiter", "manager", "auditor") as client:
        for value in (*NUMBERS, *TEXTS):
            for path, fields in FORMS.items():
                answer = client.form(
                    path.replace("{}", quote(value[:3_000])), **filled(fields, value)
                )
                assert answer.status_code < 500, (path, value[:20], answer.text)
                tried += 1
            for path, name in UPLOADS.items():
                for content in (value, f'{{"key": "{value}", "label": {value}}}', "[" * 60_000):
                    answer = client.post(path, files={name: ("x", content.encode())})
                    assert answer.status_code < 500, (path, value[:20], answer.text)
            for path in ADDRESSES:
                answer = client.get(path.replace("{}", quote(value[:3_000])))
                assert answer.status_code < 500, (path, value[:20], answer.text)
                tried += 1
    assert tried > 400


@pytest.mark.slow
def test_no_call_ends_in_an_accident(served, monkeypatch):
    monkeypatch.setattr("expertload.desk.trail.webhooks._post_all", nothing_sent)
    served.activate()
    served.send(sent("a", 0.6), sent("b"))
    held = served.claim()
    with httpx.Client(base_url=served.address, timeout=60) as client:

        def call(role, path, content):
            name = "ann" if role == "reader" else role
            headers = {"Authorization": f"Bearer {served.token(name, role)}"}
            answer = client.post(path, json=content, headers=headers)
            assert answer.status_code < 500, (path, content, answer.text)

        for value in (*NUMBERS, *TEXTS):
            for path, fields in CALLS.items():
                for role in ("manager", "reader", "api"):
                    call(role, path.replace("{}", quote(value[:3_000])), filled(fields, value))
            call("manager", "/api/look-back", {"policy": 1, "share": value})
            lease = f"/api/claims/{held.lease}"
            call("reader", f"{lease}/skip", {"reason": value + "\x00"})
            call("reader", f"{lease}/answer", {"label": value, "submission": "\x00"})
            call("reader", f"{lease}/answer", {"label": value + "\x00", "submission": "a"})
        for number in (2**63, -(2**63) - 1, 2**70, 10**400, 1e308, -1e308):
            known = {"key": f"n{number}"[:99], "label": "x", "confidence": number, "due": number}
            call("api", "/api/cases", known)
            beside = {"m": {"a": number}}
            call("api", "/api/cases", {**known, "probabilities": {"a": number}, "shadow": beside})
            call("api", "/api/shadow", {"key": "a", "model": "m", "probabilities": {"a": number}})
            call("manager", "/api/golden", {**known, "key": "golden"})
            call("manager", "/api/challengers/m/adopt", {"share": number, "from": number})
            call("manager", "/api/look-back", {"policy": number})
            call("manager", "/api/look-back", {"policy": 1, "since": number})
            call("manager", "/api/webhooks/1/replay", {"since": number})
            call("manager", "/api/recertify", {"target_accuracy": number})


def test_any_label_may_be_answered_where_no_classes_are_named(served):
    served.send({"key": "a", "confidence": 0.5, "label": "x"})
    held = served.claim()
    headers = {"Authorization": f"Bearer {served.token('ann')}"}
    for label in ("a\x00b", "\x00"):
        answer = httpx.post(
            f"{served.address}/api/claims/{held.lease}/answer",
            json={"label": label, "submission": "one"},
            headers=headers,
        )
        assert answer.status_code == 422, answer.text
