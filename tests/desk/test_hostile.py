"""Forms and calls filled in by somebody who wants an accident; on both databases."""

from __future__ import annotations

from urllib.parse import quote

import httpx
import pytest

from tests.desk.people import visit
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
}
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
}


async def nothing_sent(messages, allowed):
    return ["not sent"] * len(messages)


def filled(fields, value):
    return {name: text.replace("{}", value) for name, text in fields.items()}


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
                content = fields and {
                    name: text.replace("{}", value) if isinstance(text, str) else text
                    for name, text in fields.items()
                }
                for role in ("manager", "reader"):
                    call(role, path.replace("{}", quote(value[:3_000])), content)
            call("manager", "/api/look-back", {"policy": 1, "share": value})
            lease = f"/api/claims/{held.lease}"
            call("reader", f"{lease}/skip", {"reason": value + "\x00"})
            call("reader", f"{lease}/answer", {"label": value, "submission": "\x00"})
            call("reader", f"{lease}/answer", {"label": value + "\x00", "submission": "a"})
        for number in (2**63, -(2**63) - 1, 2**70, 10**400, 1e308, -1e308):
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
