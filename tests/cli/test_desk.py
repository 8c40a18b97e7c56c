"""`expertload desk` beside the server: what reads or copies a desk makes no new one."""

from __future__ import annotations

import pytest

READING = {
    "verify": ("verify",),
    "export": ("export", "cases.csv"),
    "backup": ("backup", "copy.zip"),
    "rules": ("rules",),
    "token revoke": ("token", "revoke", 1),
    "policy withdraw": ("policy", "withdraw", 1, "--reason", "none"),
    "user link": ("user", "link", "ada"),
    "user disable": ("user", "disable", "ada"),
}


@pytest.mark.parametrize("command", READING.values(), ids=READING)
def test_a_mistyped_folder_is_no_desk_in_which_nothing_has_happened(run, tmp_path, command):
    """A backup of an empty desk, or a trail without a change, would be believed."""
    for folder in ("typo", "."):
        said = run("desk", *command, "--data", folder, code=1).stderr
        assert "There is no desk in the folder" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_desk_that_is_there_is_read(run, tmp_path):
    run("desk", "rules", "quality_rate=0.2", "--data", "desk")
    assert "quality_rate = 0.2" in run("desk", "rules", "--data", "desk").stdout
    assert "Nothing was changed." in run("desk", "verify", "--data", "desk").stdout
    run("desk", "backup", "copy.zip", "--data", "desk")
    assert (tmp_path / "copy.zip").is_file()


@pytest.mark.parametrize("command", ["verify", "rules"])
def test_an_address_of_another_database_is_no_folder(run, tmp_path, command):
    said = run("desk", command, "--database", "sqlite:///desk.db", code=1).stderr
    assert "must be a postgresql:// address" in said
    assert list(tmp_path.iterdir()) == []


def test_links_lead_to_where_the_desk_was_served(run, tmp_path, monkeypatch):
    def link(*options):
        said = run("desk", "user", "add", f"ann {len(options)}", "--role", "reader", *options)
        return said.stdout.splitlines()[-1].partition("/welcome/")[0]

    desk = ("--data", tmp_path / "desk")
    monkeypatch.setattr("expertload.desk.app.serve", lambda app, listening: None)
    assert link(*desk) == "http://127.0.0.1:8765"
    run("desk", "serve", *desk, "--port", 0)
    assert link(*desk, "--role", "auditor") == (tmp_path / "desk" / "address.txt").read_text()
    assert (
        link(*desk, "--address", "https://desk.test/", "--role", "auditor") == "https://desk.test"
    )
    monkeypatch.setenv("EXPERTLOAD_DESK_ADDRESS", "https://env.test")
    assert link(*desk, *("--role", "auditor") * 3) == "https://env.test"
