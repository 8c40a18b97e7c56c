"""What people see when something does not work: a page of theirs, in words, with a way back."""

from __future__ import annotations

import re

import pytest

from expertload.desk.pages import review
from expertload.desk.people.accounts import disable_user, enable_user, find_user, set_roles
from expertload.desk.people.sessions import (
    check_password,
    first_link,
    hash_password,
    make_link,
    use_link,
)
from expertload.exceptions import DeskRefusedError
from tests.desk.people import PASSWORD, Visitor, person, visit
from tests.desk.test_pages import field
from tests.desk.world import sent

BROWSER = {"Accept": "text/html,*/*"}


def back(page: str) -> str:
    """Where a refusal leads."""
    return re.search(r'<a href="([^"]*)">(?:Go back|Go to your page)<', page).group(1)


@pytest.mark.parametrize(
    ("path", "fields", "there"),
    [
        ("/manage/policies", {}, "/manage/policies"),
        ("/manage/policies/99/activate", {}, "/manage/policies"),
        ("/manage/people/99/link", {}, "/manage/people"),
        ("/manage/people", {"name": "max", "roles": "reader"}, "/manage/people"),
        ("/review/undo", {"submission": "none"}, "/review"),
        ("/account/password", {"old": ""}, "/account"),
    ],
)
def test_a_refusal_leads_back_and_the_other_pages_stay_in_reach(served, path, fields, there):
    with visit(served, "max", "manager", "reader") as client:
        refused = client.form(path, **fields)
        assert refused.status_code in (404, 409, 422)
        assert back(refused.text) == there
        assert client.get(there).status_code == 200
        for each in ("/review", "/manage", "/sign-out"):
            assert f'"{each}"' in refused.text
        came_from = {"Referer": f"{served.address}/manage/policies?notice=added"}
        again = client.post("/manage/recertify", headers=came_from)
        assert back(again.text) == "/manage/policies"


def test_a_refusal_does_not_lead_to_another_site_or_to_what_is_forbidden(served):
    with visit(served, "ann", "reader") as client:
        evil = client.post("/review/undo", headers={"Referer": "https://evil.test/manage"})
        assert back(evil.text) == "/review"
        assert back(client.get("/manage").text) == "/"
        served.desk.write(set_roles, person(served.desk, "ann"), [])
        assert back(client.form("/review/next").text) == "/"


def test_the_address_of_a_form_opens_its_page(served):
    with visit(served, "max", "manager") as client:
        opened = client.get("/manage/people/tokens", headers=BROWSER)
        assert (opened.status_code, opened.headers["location"]) == (303, "/manage/people")
        assert client.get("/review/answer", headers=BROWSER).headers["location"] == "/review"
        assert client.get("/api/claims", headers=BROWSER).headers["location"] == "/"
        assert client.get("/api/claims").json()["error"]["code"] == "wrong_method"
        assert client.put("/manage", headers=BROWSER).status_code == 405


def test_an_accident_is_a_page_too(served, monkeypatch, caplog):
    def breaks(*_):
        raise ZeroDivisionError("secret inside")

    monkeypatch.setattr(review, "_page", breaks)
    with visit(served, "ann", "reader") as client:
        page = client.get("/review")
        assert page.status_code == 500
        assert "Something went wrong inside the desk" in page.text
        assert "secret inside" not in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "ZeroDivisionError" in caplog.text


def test_too_large_a_file_is_said_so(served):
    with visit(served, "max", "manager") as client:
        refused = client.post("/manage/policies", files={"policy": ("p", b"x" * 5_100_000)})
        assert refused.status_code == 413
        assert "Too large: at most 4.1 MB" in refused.text


# ------------------------------------------------------------------ two windows


def test_two_answers_from_two_windows_are_the_first(served):
    served.with_rules(classes=("cat", "dog"))
    served.send(sent("a", 0.6), sent("b", 0.6))
    with visit(served, "ann", "reader") as client:
        client.form("/review/next")
        page = client.get("/review").text
        fields = {name: field(page, name) for name in ("lease", "submission")}
        client.form("/review/answer", **fields, label="cat")
        other = client.form("/review/answer", **fields, label="dog")
        assert other.headers["location"] == "/review?notice=twice"
        page = client.get("/review?notice=twice").text
        assert "The first answer stands" in page
        assert '<span class="name">b</span>' in page
    assert served.counts()["answers.counted"] == 1


# ------------------------------------------------------------------ links


def test_whoever_is_disabled_gets_no_link_that_does_not_work(served):
    ann = person(served.desk, "ann", "reader")
    served.desk.write(disable_user, ann)
    with pytest.raises(DeskRefusedError, match="ann is disabled"):
        served.desk.write(make_link, ann)
    with visit(served, "max", "manager") as client:
        assert f"/manage/people/{ann}/link" not in client.get("/manage/people").text
        assert client.form(f"/manage/people/{ann}/link").status_code == 409
        served.desk.write(enable_user, ann)
        assert f"/manage/people/{ann}/link" in client.get("/manage/people").text


def test_a_desk_starts_although_its_first_user_is_disabled(world):
    world.desk.write(first_link)
    person(world.desk, "mia", "manager")
    world.desk.write(disable_user, world.desk.read(find_user, "admin").id)
    assert world.desk.write(first_link) is None


def test_a_link_that_was_used_meanwhile_sets_no_password(world):
    ann = person(world.desk, "ann", "reader")
    link = world.desk.write(make_link, ann)
    world.desk.write(use_link, link, stretched=hash_password(PASSWORD))
    with pytest.raises(DeskRefusedError):
        world.desk.write(use_link, link, stretched=hash_password("another password"))
    assert check_password(world.desk.read(find_user, "ann").password, PASSWORD)


def test_a_link_in_two_windows_at_once_sets_one_password(served, monkeypatch):
    """The second one was looked at before the first was used, and comes after it."""
    link = served.desk.write(make_link, person(served.desk, "ann", "reader"))

    def slow(password):
        if password == "another password":
            with Visitor(served.address) as first:
                assert first.form(f"/welcome/{link}", password=PASSWORD).status_code == 303
        return hash_password(password)

    monkeypatch.setattr("expertload.desk.people.sessions.hash_password", slow)
    with Visitor(served.address) as second:
        refused = second.form(f"/welcome/{link}", password="another password")
        assert refused.status_code == 404
        assert second.form("/sign-in", name="ann", password=PASSWORD).status_code == 303
