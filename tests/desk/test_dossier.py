"""The oversight file: every statement leads to a record that the desk can verify."""

from __future__ import annotations

import json
import re

import pytest
from sqlalchemy import func, select, text

from expertload.desk.pages.audit import write_dossier
from expertload.desk.people.accounts import add_user
from expertload.desk.queue.managing import void_case
from expertload.desk.store.tables import decisions, events, monitors, policies
from expertload.desk.trail.chain import verify
from expertload.desk.watch.policies import add_policy
from expertload.exceptions import FileWriteError
from tests.desk.test_watch import read_all
from tests.desk.world import sent


@pytest.fixture
def used(world):
    """A desk with two policies, an alarm, a correction and people."""
    world.with_rules(quality_rate=1.0, second_share=0.0)
    world.desk.write(add_user, "Ann <b>", ["reader", "manager"])
    world.token("dora", "manager")
    first = world.activate()
    world.send(*(sent(f"bad-{i}") for i in range(30)))
    read_all(world, lambda key: "dog")
    world.activate()
    world.send(*(sent(f"good-{i}") for i in range(10)))
    read_all(world, lambda key: "cat")
    return first


def written(world, tmp_path) -> tuple[str, list[dict]]:
    page = write_dossier(world.desk, tmp_path / "out").read_text()
    lines = (tmp_path / "out/events.jsonl").read_text().splitlines()
    return page, [json.loads(line) for line in lines]


@pytest.mark.slow
def test_every_statement_leads_to_a_sealed_event(world, used, tmp_path):
    page, found = written(world, tmp_path)
    quoted = {int(n) for n in re.findall(r'href="#event-(\d+)"', page)}
    listed = {int(n) for n in re.findall(r'id="event-(\d+)"', page)}
    assert quoted
    assert quoted <= listed == {event["id"] for event in found}
    stored = {row.id: row._asdict() for row in world.rows(select(events))}
    assert all(stored[event["id"]] == event for event in found)
    assert "not sealed" not in page
    head = re.search(r"--head ([0-9a-f]{64})", page)[1]
    assert world.desk.read(verify, head=head).is_intact


@pytest.mark.slow
def test_the_page_says_what_the_tables_say(world, used, tmp_path):
    page, _ = written(world, tmp_path)
    plain = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    for row in world.rows(select(policies)):
        assert f"Policy {row.id}, {row.state}" in plain
        assert row.sha256 in plain
        assert (tmp_path / f"out/policy-{row.id}.json").read_text() == row.document
    for row in world.rows(select(monitors)):
        assert f"{row.policy_id} {row.state} {row.audited} {row.errors} {row.open}" in plain
    assert "monitor alarm" in plain
    assert "Ann &lt;b&gt;" in page, "names are not markup"
    assert "dora (token) manager event" in plain, "programs act, too"
    made = select(func.count()).select_from(decisions).where(decisions.c.kind == "correction")
    ((n,),) = world.rows(made)
    assert n
    assert f"Automatic decisions that experts corrected: {n}." in plain


@pytest.mark.slow
def test_it_offers_evidence_and_no_verdict(world, used, tmp_path):
    page, _ = written(world, tmp_path)
    for article in ("Article 12", "Article 14", "Article 15", "Article 26"):
        assert f"Evidence for {article}" in page
    assert "compl" not in page.lower().replace("completely", "")
    assert not re.search(r'(?:src|href)="https?:', page), "nothing is fetched"


def test_a_new_desk_has_one_too(world, tmp_path):
    page, _ = written(world, tmp_path)
    assert "every case goes to experts" in page
    with pytest.raises(FileWriteError, match="exists already"):
        write_dossier(world.desk, tmp_path / "out")


@pytest.mark.slow
def test_a_changed_desk_is_called_changed(world, used, tmp_path):
    """Somebody with access to the database makes an audit right."""
    change = text("UPDATE monitors SET errors = 0")
    world.desk.database.write(lambda connection: connection.execute(change))
    page, _ = written(world, tmp_path)
    assert "<b>changed</b>" in page
    assert "differs from the events" in page


def test_a_restored_policy_names_where_it_was_certified(world, tmp_path):
    world.activate()
    (before,) = world.rows(select(policies))
    world.desk.write(add_policy, before.document, source="restored")
    page, _ = written(world, tmp_path)
    assert "Restored: the same as policy 1." in page
    assert page.count("from the people who made the policy") == 2
    assert "s stream" not in page


@pytest.mark.slow
def test_cases_have_their_keys_and_audits_their_weighted_share(world, used, tmp_path):
    world.send(sent("mine", 0.6))
    world.desk.write(void_case, "mine", reason="twice")
    page, _ = written(world, tmp_path)
    assert re.search(r"<td>case voided: twice<td>[^<]*<td>mine<td", page)
    row = world.rows(select(monitors).order_by(monitors.c.id))[0]
    assert f">{100 * (1 - row.counted_errors / row.counted):.1f}" in page
    assert "audits are weighted" in page
