"""The pages of managers and auditors, by their forms alone."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from PIL import Image
from sqlalchemy import update
from typer.testing import CliRunner

from expertload.cli.app import app
from expertload.desk.people.accounts import add_token, disable_user
from expertload.desk.people.sessions import first_link, peek_link, use_link
from expertload.desk.store.tables import cases
from expertload.desk.watch import state
from expertload.desk.watch.policies import add_policy
from expertload.exceptions import DeskRefusedError
from tests.desk.people import person, visit
from tests.desk.test_intake import encoded
from tests.desk.world import CLASSES, policy_text, sent


@pytest.mark.slow
def test_policies_come_and_go_by_forms(served):
    with visit(served, "boss", "manager") as client:
        bad = client.post("/manage/policies", files={"policy": ("p.json", b"\xff\xfe")})
        assert bad.status_code == 422
        assert "not a policy" in bad.text
        added = client.post("/manage/policies", files={"policy": ("p.json", policy_text())})
        assert added.headers["location"] == "/manage/policies?notice=added"
        assert client.form("/manage/policies/1/look-back", percent="50").status_code == 409
        assert client.form("/manage/policies/1/activate").status_code == 303
        assert client.form("/manage/policies/1/activate").status_code == 409
        assert client.form("/manage/policies/99/activate").status_code == 404
        assert client.form(f"/manage/policies/{10**30}/activate").status_code == 404
        assert client.form("/manage/policies/1/withdraw", reason="").status_code == 422
        assert client.form("/manage/policies/1/withdraw", reason="<b>old</b>").status_code == 303
        page = client.get("/manage/policies").text
        assert "&lt;b&gt;old&lt;/b&gt;" in page
        refused = client.form("/manage/recertify", target_accuracy="0.9")
        assert refused.status_code == 422
        assert "which set the thresholds" in refused.text


@pytest.mark.slow
def test_the_overview_says_what_is_known(served):
    with visit(served, "boss", "manager") as client:
        assert "No policy yet" in client.get("/manage").text
        served.with_rules(quality_rate=1.0)
        served.activate()
        assert "Not refuted yet" in client.get("/manage").text
        served.send(*(sent(f"c{i}", 0.99) for i in range(120)))
        for _ in range(120):
            served.answer(served.claim(), "cat")
        page = client.get("/manage").text
        assert "Confirmed" in page
        assert re.search(r'<path class="line s0" d="M[\d. l-]+"/>', page)
        for form in ("csv", "jsonl", "parquet"):
            got = client.get("/manage/export", params={"format": form, "cases": "audited"})
            assert got.status_code == 200
            assert "attachment" in got.headers["content-disposition"]


@pytest.mark.slow
def test_the_overview_says_when_a_promise_is_refuted(served):
    served.with_rules(quality_rate=1.0)
    served.activate()
    said = []
    with visit(served, "boss", "manager") as client:
        while not said or "Refuted" not in said[-1]:
            truth = "cat" if len(said) < 30 else "dog"
            assert served.send_one(f"case-{len(said)}", 0.99).status == "decided"
            served.answer(served.claim(), truth)
            if truth == "dog":
                served.answer(served.claim("judge", "arbiter"), truth, "judge", "arbiter")
            said.append(client.get("/manage").text)
    assert any("In doubt" in page for page in said[:-1])
    assert "every case goes to experts now" in said[-1]


def test_the_overview_counts_why_cases_went_to_experts(served, monkeypatch):
    served.send(sent("early"))
    served.activate(policy_text(model_name="net"))
    served.clock.turn(1)
    served.send(*(sent(f"c{i}") for i in range(20)), sent("named", model="net"))
    with visit(served, "boss", "manager") as client:
        page = client.get("/manage").text
        assert "20 cases: model not named" in page
        assert "1 case: no policy" in page
        assert "above threshold" not in page
        monkeypatch.setattr(state, "LATEST_CASES", 21)
        assert "no policy" not in client.get("/manage").text


def test_managers_learn_which_model_a_policy_decides_for(served, place, tmp_path):
    """Cases that do not name it all go to experts."""
    served.desk.write(add_policy, policy_text())
    served.desk.write(add_policy, policy_text(model_name="<b>net</b> 7"))
    file = tmp_path / "policy.json"
    file.write_text(policy_text(model_name="[net] 7"))
    option = "--data" if isinstance(place, Path) else "--database"
    said = CliRunner().invoke(app, ["desk", "policy", "activate", str(file), option, str(place)])
    assert "It decides only cases whose 'model' is '[net] 7'." in " ".join(said.output.split())
    with visit(served, "boss", "manager") as client:
        page = client.get("/manage/policies").text
        assert page.count("It decides only cases whose ") == 2
        assert '<span class="name">&lt;b&gt;net&lt;/b&gt; 7</span>' in page
    headers = {"Authorization": f"Bearer {served.token('prog', 'manager')}"}
    shown = httpx.get(f"{served.address}/api/policies", headers=headers).json()
    assert [each["model"] for each in shown] == ["[net] 7", "<b>net</b> 7", None]
    assert served.send_one("a", 0.99).status == "delegated"
    assert served.send_one("b", 0.99, model="[net] 7").status == "decided"


def test_a_desk_with_one_reader_says_what_audits_need(served):
    served.with_rules(audit_second_share=1.0)
    served.activate()
    person(served.desk, "ann", "reader", "arbiter")
    with visit(served, "boss", "manager") as client:
        page = client.get("/manage").text
        assert "Fewer than two people can read here" in page
        assert "audit_second_share=0" in page
        bob = person(served.desk, "bob", "reader")
        page = client.get("/manage").text
        assert "Fewer than two" not in page
        assert "trust a single reader" not in page
        served.desk.write(disable_user, bob)
        assert "Fewer than two" in client.get("/manage").text
        served.with_rules(audit_second_share=0.0)
        page = client.get("/manage").text
        assert "Audits trust a single reader" in page
        assert "Fewer than two" not in page


@pytest.mark.slow
def test_managers_read_a_case_and_readers_do_not(served):
    served.activate()
    text = {"kind": "text", "content": "what a reader sees"}
    image = {"kind": "image", "content": encoded(Image.new("L", (4, 4), 9))}
    served.with_rules(quality_rate=0.0)
    served.send(sent("a", 0.99, body=text), sent("b", 0.6, body=image))
    served.with_rules(quality_rate=1.0)
    served.send(sent("c", 0.99, body=text))
    assert served.case("c").audit == "open"
    with visit(served, "boss", "manager") as client:
        page = client.get("/manage/cases", params={"key": "a"}).text
        assert "what a reader sees" in page
        assert "a confidence of 99" in page
        page = client.get("/manage/cases", params={"key": "b"}).text
        address = re.search(r"/manage/cases/body/\d+", page).group()
        assert client.get(address).headers["content-type"] == "image/png"
        assert client.get("/manage/cases/body/99").status_code == 404
        assert client.get(f"/manage/cases/body/{10**30}").status_code == 422
        assert 'href="/manage/cases?key=a"' in client.get("/audit", params={"case": "a"}).text
    with visit(served, "eve", "reader") as client:
        for forbidden in ("/manage/cases?key=a", address):
            refused = client.get(forbidden)
            assert refused.status_code == 403
            assert "what a reader sees" not in refused.text
    with visit(served, "both", "manager", "reader") as client:
        for key in ("b", "c"):
            page = client.get("/manage/cases", params={"key": key}).text
            assert "You may still be asked to read this case" in page
            assert "confidence" not in page
            assert "<h3>Decisions" not in page
            page = client.get("/audit", params={"case": key}).text
            assert "cases that you may still be asked to read are not shown" in page
            assert "No event." in page
        assert "confidence" in client.get("/manage/cases", params={"key": "a"}).text
        assert "predicted = cat" in client.get("/audit", params={"case": "a"}).text
        everything = client.get("/audit").text
        assert "policy.activated" in everything
        assert "predicted = cat" in everything
        assert everything.count("predicted = ") == 1  # of case a alone


@pytest.mark.slow
def test_nobody_locks_themselves_out(served):
    boss = person(served.desk, "boss", "manager")
    with visit(served, "boss") as client:
        assert client.form(f"/manage/people/{boss}/disable").status_code == 409
        assert client.form(f"/manage/people/{boss}/roles", roles="reader").status_code == 409
        assert client.form("/manage/people/999/link").status_code == 404
        assert client.form("/manage/people", name="x", roles="king").status_code == 422
        assert client.form("/manage/people/tokens", name="x", role="king").status_code == 422
        assert client.get("/manage/people").status_code == 200


def test_an_auditor_sees_every_event_and_finds_a_change(served):
    served.with_rules(classes=("cat", "dog"))
    served.send(sent("<i>a</i>", 0.6), sent("b", 0.6))
    served.answer(served.claim(), "dog")
    with visit(served, "eve", "auditor") as client:
        page = client.get("/audit").text
        assert "answer.given" in page
        assert "&lt;i&gt;a&lt;/i&gt;" in page
        one = client.get("/audit", params={"case": "b"}).text
        assert "case.received" in one
        assert "answer.given" not in one
        assert "No event" in client.get("/audit", params={"case": "none"}).text
        assert "Nothing was changed" in client.form("/audit/verify").text
        assert "not in the chain" in client.form("/audit/verify", head="f" * 64).text
        assert "abc is mistyped" in client.form("/audit/verify", head="abc").text
        served.desk.database.write(lambda c: c.execute(update(cases).values(predicted="dog")))
        found = client.form("/audit/verify").text
        assert "Something was changed" in found
        assert "predicted" in found


def test_an_auditor_finds_the_acts_of_those_in_charge_among_many_cases(served):
    served.activate()
    served.send(*(sent(f"case-{i}", 0.6) for i in range(60)))
    with visit(served, "eve", "auditor") as client:
        assert "policy.activated" not in client.get("/audit").text, "it is pages away"
        policies = client.get("/audit", params={"about": "policies"}).text
        assert "policy.activated" in policies
        assert "case.received" not in policies
        assert "user.added" not in policies
        people = client.get("/audit", params={"about": "people"}).text
        assert "user.roles_set" in people
        assert "policy.activated" not in people
        assert "case.received" in client.get("/audit", params={"about": "made up"}).text
        assert "activated = 2023-11-14 22:13:20.000000 UTC" in policies, "a moment, not a number"
        for i in range(60):
            served.desk.write(add_token, f"program {i}", "api")
        first = client.get("/audit", params={"about": "people"}).text
        earlier = re.search(r'href="(/audit\?before=[^"]*about=people)"', first).group(1)
        assert "token.added" in client.get(earlier.replace("&amp;", "&")).text


def test_a_new_desk_prints_one_first_link(world):
    secret = world.desk.write(first_link)
    assert world.desk.read(peek_link, secret).roles == {"manager", "auditor", "reader"}
    newer = world.desk.write(first_link)
    with pytest.raises(DeskRefusedError):
        world.desk.read(peek_link, secret)
    world.desk.write(use_link, newer)
    assert world.desk.write(first_link) is None


def test_a_manager_who_may_read_a_case_sees_no_answer_to_it(served):
    served.with_rules(classes=CLASSES, second_share=1.0)
    served.send(sent("a", 0.6))
    served.answer(served.claim("ann"), "dog")
    with visit(served, "max", "manager", "reader") as client:
        page = client.get("/manage/cases?key=a").text
        assert "what others answered are not shown" in page
        assert "ann" not in page
        assert '<b class="name">dog' not in page
    with visit(served, "mia", "manager") as client:
        assert '<b class="name">dog' in client.get("/manage/cases?key=a").text


def test_nothing_is_sure_before_the_first_audit(served):
    served.activate()
    with visit(served, "max", "manager") as client:
        page = client.get("/manage").text
    assert "There are no audits yet." in page
    assert "is sure" not in page
