"""Passwords, roles, sessions, links, and the limit on guesses."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from sqlalchemy import select
from typer.testing import CliRunner

from expertload.cli.app import app
from expertload.desk.people.accounts import (
    add_user,
    disable_user,
    enable_user,
    end_sessions,
    find_token,
    find_user,
    people_of,
    roles_of,
    set_password,
    set_roles,
)
from expertload.desk.people.sessions import (
    IDLE_SECONDS,
    LINK_SECONDS,
    Throttle,
    begin_session,
    check_password,
    end_session,
    find_session,
    hash_password,
    is_idle,
    keep_session,
    make_link,
    peek_link,
    use_link,
)
from expertload.desk.people.sign_on import TrustedProxy
from expertload.desk.store.tables import sessions, users
from expertload.desk.trail.chain import differences
from expertload.exceptions import DeskRefusedError, ParameterError


@pytest.mark.slow
def test_a_password_is_stretched_as_the_standard_says():
    stored = hash_password("correct horse battery")
    name, n, r, p, salt, digest = stored.split("$")
    import base64

    expected = hashlib.scrypt(
        b"correct horse battery",
        salt=base64.b64decode(salt),
        n=int(n),
        r=int(r),
        p=int(p),
        maxmem=2**27,
        dklen=32,
    )
    assert (name, base64.b64decode(digest)) == ("scrypt", expected)
    assert int(n) * int(r) >= 2**17
    assert stored != hash_password("correct horse battery")


@pytest.mark.slow
def test_only_the_same_password_is_the_same():
    stored = hash_password("caf\u00e9 au lait!")
    assert check_password(stored, "caf\u00e9 au lait!")
    assert check_password(stored, "cafe\u0301 au lait!")
    assert not check_password(stored, "cafe au lait!")
    assert not check_password(stored, "")
    assert not check_password(None, "caf\u00e9 au lait!")
    assert not check_password(stored, "x" * 5_000)


@pytest.mark.parametrize("password", ["", "short", "x" * 1_001])
def test_passwords_have_a_length(password):
    with pytest.raises(DeskRefusedError, match=f"10 to 1000 characters. Got {len(password)}"):
        hash_password(password)


def test_people_have_roles(world):
    desk = world.desk
    ann = desk.write(add_user, "ann", ["reader"])
    assert desk.read(roles_of, ann) == {"reader"}
    desk.write(set_roles, ann, ["arbiter", "manager"])
    assert desk.read(roles_of, ann) == {"arbiter", "manager"}
    (person,) = desk.read(people_of)
    assert (person.name, person.roles) == ("ann", {"arbiter", "manager"})
    assert not list(desk.read(lambda t: list(differences(t))))


@pytest.mark.parametrize(
    ("name", "roles", "said"),
    [
        ("", ["reader"], "1 to 100"),
        (" ann", ["reader"], "without spaces"),
        ("a\nb", ["reader"], "printable"),
        ("ann", [], "at least one role"),
        ("ann", ["api"], "not a role"),
        ("ann", ["king"], "not a role"),
        ("taken", ["reader"], "already"),
    ],
)
def test_who_cannot_be_added(world, name, roles, said):
    world.desk.write(add_user, "taken", ["reader"])
    with pytest.raises(DeskRefusedError, match=said):
        world.desk.write(add_user, name, roles)
    assert world.desk.read(find_user, "ann") is None


def test_whoever_has_a_token_can_become_a_person(world):
    world.token("ann", "api")
    ann = world.desk.write(add_user, "ann", ["reader"])
    assert ann == world.user("ann", "api")


def test_a_session_ends(world):
    desk = world.desk
    ann = desk.write(add_user, "ann", ["reader"])
    first, second = (desk.acting(ann).write(begin_session, ann) for _ in range(2))
    assert desk.read(find_session, first).roles == {"reader"}
    desk.write(end_session, first)
    assert desk.read(find_session, first) is None
    assert desk.read(find_session, second).user == ann
    desk.write(end_sessions, ann)
    assert desk.read(find_session, second) is None
    third = desk.write(begin_session, ann)
    while not desk.read(is_idle, third):
        world.clock.turn(60)
    desk.write(keep_session, third)
    world.clock.turn(IDLE_SECONDS - 1)
    assert desk.read(find_session, third) is not None
    world.clock.turn(2)
    assert desk.read(find_session, third) is None
    assert desk.read(find_session, "made up") is None


def test_what_is_stored_is_no_secret(world):
    desk = world.desk
    ann = desk.write(add_user, "ann", ["reader"])
    secret = desk.write(begin_session, ann)
    link = desk.write(make_link, ann)
    desk.write(set_password, ann, hash_password("correct horse battery"))
    rows = str(world.rows(select(sessions))) + str(world.rows(select(users)))
    assert secret not in rows
    assert link not in rows
    assert "correct horse" not in rows


def test_a_disabled_person_is_out_at_once(world):
    desk = world.desk
    token = world.token("ann", "reader")
    ann = desk.write(add_user, "ann", ["reader"])
    secret, link = desk.write(begin_session, ann), desk.write(make_link, ann)
    desk.write(disable_user, ann)
    assert desk.read(find_session, secret) is None
    assert desk.read(find_token, token) is None
    with pytest.raises(DeskRefusedError):
        desk.read(peek_link, link)
    begun_meanwhile = desk.write(begin_session, ann)
    assert desk.read(find_session, begun_meanwhile) is None
    desk.write(enable_user, ann)
    assert desk.read(find_session, secret) is None
    assert desk.read(find_session, begun_meanwhile) is not None


def test_the_last_manager_is_not_disabled_from_the_command_line(world, place):
    mia = world.desk.write(add_user, "mia", ["manager"])
    world.desk.write(add_user, "ann", ["reader"])
    option = "--data" if isinstance(place, Path) else "--database"
    out = ["desk", "user", "disable"], [option, str(place)]

    def disable(name):
        return CliRunner().invoke(app, [*out[0], name, *out[1]])

    refused = disable("mia")
    assert refused.exit_code == 1
    said = " ".join(refused.output.split())
    assert "Without mia, nobody could manage the desk. Hint: make somebody else" in said
    assert world.desk.read(find_user, "mia").disabled is None
    assert disable("ann").exit_code == 0
    with pytest.raises(DeskRefusedError, match="nobody could manage"):
        world.desk.write(set_roles, mia, ["reader", "auditor"])
    world.desk.write(set_roles, mia, ["reader", "manager"])
    world.desk.write(add_user, "max", ["manager"])
    assert disable("mia").exit_code == 0
    assert disable("mia").exit_code == 0, "who is out already is not the last one"
    assert disable("max").exit_code == 1
    world.desk.write(set_roles, mia, ["reader"])


def test_a_command_says_that_a_token_is_revoked(world, place):
    token = world.token("ann")
    option = "--data" if isinstance(place, Path) else "--database"
    done = CliRunner().invoke(app, ["desk", "token", "revoke", "1", option, str(place)])
    assert "Token 1 is revoked." in done.output
    assert world.desk.read(find_token, token) is None


def test_sessions_of_somebody_disabled_by_a_command_do_not_come_back(world, place):
    ann = world.desk.write(add_user, "ann", ["reader"])
    secret, link = world.desk.write(begin_session, ann), world.desk.write(make_link, ann)
    option = "--data" if isinstance(place, Path) else "--database"
    CliRunner().invoke(app, ["desk", "user", "disable", "ann", option, str(place)])
    world.desk.write(enable_user, ann)
    assert world.desk.read(find_session, secret) is None
    with pytest.raises(DeskRefusedError, match="already used"):
        world.desk.read(peek_link, link)


def test_a_link_works_once(world):
    desk = world.desk
    ann = desk.write(add_user, "ann", ["reader"])
    link = desk.write(make_link, ann)
    assert desk.read(peek_link, link).name == "ann"
    assert desk.read(find_session, link) is None, "a link is no session"
    secret = desk.write(use_link, link)
    assert desk.read(find_session, secret).user == ann
    with pytest.raises(DeskRefusedError, match="already used"):
        desk.write(use_link, link)


def test_a_newer_link_ends_the_older_and_all_end_in_time(world):
    desk = world.desk
    ann = desk.write(add_user, "ann", ["reader"])
    old, new = desk.write(make_link, ann), desk.write(make_link, ann)
    with pytest.raises(DeskRefusedError):
        desk.write(use_link, old)
    world.clock.turn(LINK_SECONDS + 1)
    with pytest.raises(DeskRefusedError):
        desk.write(use_link, new)


def test_guesses_are_limited_for_a_while():
    throttle = Throttle(3, seconds=60)
    for now in (0, 10, 20):
        throttle.attempt("ann", now)
    with pytest.raises(DeskRefusedError, match="35 seconds"):
        throttle.attempt("ann", 25)
    throttle.attempt("ben", 25)
    throttle.attempt("ann", 61)
    with pytest.raises(DeskRefusedError):
        throttle.attempt("ann", 62)
    throttle.forgive("ann")
    throttle.attempt("ann", 62)


def test_made_up_names_do_not_fill_the_memory():
    throttle = Throttle(3, kept=100)
    for i in range(1_000):
        throttle.attempt(str(i), i)
    assert len(throttle._attempts) == 100


@pytest.mark.slow
def test_a_proxy_is_believed_only_with_its_secret(world):
    from expertload.desk.app import create_app
    from tests.desk.people import Visitor
    from tests.desk.serving import serving

    world.desk.write(add_user, "ann", ["reader"])
    out = world.desk.write(add_user, "ben", ["reader"])
    world.desk.write(disable_user, out)
    secret = "a secret of the proxy alone"
    proxy = TrustedProxy("X-Remote-User", secret)
    with serving(create_app(world.desk, proxy=proxy)) as address, Visitor(address) as client:

        def status(name, proof):
            headers = {"X-Remote-User": name, "X-Desk-Proxy-Secret": proof}
            return client.get("/review", headers=headers).status_code

        assert status("ann", secret) == 200
        assert status("ann", "") == 303
        assert status("ann", secret[:-1]) == 303
        assert status("ben", secret) == 303
        assert status("nobody", secret) == 303
        assert status("", secret) == 303
    with serving(create_app(world.desk)) as address, Visitor(address) as client:
        assert client.get("/review", headers={"X-Remote-User": "ann"}).status_code == 303


def test_a_short_secret_is_refused():
    with pytest.raises(ParameterError, match="20 characters"):
        TrustedProxy("X-Remote-User", "short")
