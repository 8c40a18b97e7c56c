"""All tables of a desk, defined once for SQLite and PostgreSQL.

Times are whole microseconds since 1970, which compare, sort and hash the same everywhere. Triggers
guard the tables that only grow (answers, decisions, skips, events, seals), so that not even a
mistake in this package can change them. Columns marked as `secret` are private or large and never
reach an event; of large content, events have the SHA-256, under the name that `digest` gives.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, Boolean, Column, Float, Integer, LargeBinary, Table, Text

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite assigns ids only to a column of type INTEGER; PostgreSQL needs the larger type.
Id = BigInteger().with_variant(Integer(), "sqlite")
SECRET: dict[str, Any] = {"secret": True}


def _digested(name: str) -> dict[str, Any]:
    return {**SECRET, "digest": name}


def _table(name: str, *columns: Column[Any] | sa.UniqueConstraint) -> Table:
    """Return a table with ids; `Table` returns one without."""
    return Table(name, metadata, Column("id", Id, primary_key=True), *columns)


def _to(name: str, table: str, **options: Any) -> Column[int]:
    return Column(name, Id, sa.ForeignKey(f"{table}.id"), **options)


def _index(table: Table, name: str, columns: str, where: str = "", *, unique: bool = False) -> None:
    """Add an index of some columns, of all rows or of those for which a condition holds."""
    condition = sa.text(where) if where else None
    named = [table.c[column] for column in columns.split(", ")]
    sa.Index(name, *named, unique=unique, sqlite_where=condition, postgresql_where=condition)


projects = _table(
    "projects",
    Column("name", Text, nullable=False, unique=True),
    Column("secret", LargeBinary, nullable=False, info=SECRET),
    Column("rules", Text, nullable=False),
    Column("sampling_rate", Float, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("combiner", Text, info=_digested("combiner_sha256")),  # None: answers are not combined
)

users = _table(
    "users",
    Column("name", Text, nullable=False, unique=True),
    Column("password", Text, info=SECRET),
    Column("created", BigInteger, nullable=False),
    Column("disabled", BigInteger),
    Column("away", BigInteger),  # on holiday until then
)

memberships = _table(
    "memberships",
    _to("user_id", "users", nullable=False),
    _to("project_id", "projects", nullable=False),
    Column("role", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("ended", BigInteger),
)
_index(
    memberships, "uq_memberships_current", "user_id, project_id, role", "ended IS NULL", unique=True
)

sessions = _table(
    "sessions",
    _to("user_id", "users", nullable=False, index=True),
    Column("digest", Text, nullable=False, unique=True, info=SECRET),
    Column("kind", Text, nullable=False),  # a browser's session, or a one-time link
    Column("created", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("ended", BigInteger),
)

tokens = _table(
    "tokens",
    _to("user_id", "users", nullable=False),
    _to("project_id", "projects", nullable=False),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("digest", Text, nullable=False, unique=True, info=SECRET),
    Column("created", BigInteger, nullable=False),
    Column("expires", BigInteger),
    Column("revoked", BigInteger),
)

policies = _table(
    "policies",
    _to("project_id", "projects", nullable=False),
    Column("state", Text, nullable=False),
    Column("document", Text, nullable=False, info=_digested("sha256")),
    Column("sha256", Text, nullable=False),
    Column("source", Text, nullable=False),  # uploaded, recertified, challenger or restored
    Column("created", BigInteger, nullable=False),
    Column("activated", BigInteger),
    Column("withdrawn", BigInteger),
    Column("reason", Text),
    Column("share", Float),  # of the cases that it decides while it is on trial
    Column("caught_up", Id),  # the last waiting case that it has looked at; empty if all
)
_index(policies, "uq_policies_active", "project_id", "state = 'active'", unique=True)
_index(policies, "uq_policies_trial", "project_id", "state = 'trial'", unique=True)

cases = _table(
    "cases",
    _to("project_id", "projects", nullable=False),
    Column("key", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("model", Text),
    Column("group_name", Text),
    Column("cluster", Text),
    Column("predicted", Text),
    Column("confidence", Float),
    Column("probabilities", Text, info=_digested("probabilities_sha256")),
    Column("accepted", Boolean, nullable=False),  # whether the policy would decide it alone
    Column("cause", Text, nullable=False),  # why it went where it went
    _to("policy_id", "policies"),
    Column("draw", Float, nullable=False),  # u: can be recomputed from the secret and the key
    Column("rate", Float, nullable=False),  # q: blind labels are wanted iff u < q
    Column("audit", Text),  # of an accepted case in the sample: open, right or wrong
    Column("received", BigInteger, nullable=False),
    Column("due", BigInteger, nullable=False),
    Column("truth", Text),  # of a golden case
    Column("least", Float),  # the smallest rate of any accepted case at that time
    Column("twice", Float),  # the share of audits that two readers see, at that time
    Column("weight", Float),  # how much a settled audit counts; None is 1
    sa.UniqueConstraint("project_id", "key"),
)
_index(cases, "ix_cases_golden", "project_id, id", "truth IS NOT NULL")
_index(cases, "ix_cases_policy_received", "policy_id, received")
_index(cases, "ix_cases_audited", "policy_id, id, audit", "audit IS NOT NULL")
_index(cases, "ix_cases_received", "project_id, received")

shadows = _table(  # what models answered that did not decide the case
    "shadows",
    # No foreign keys: PostgreSQL would take half of a shadow's time to check them. Cases are never
    # deleted, and a shadow is stored only with its case or for one that was found.
    Column("project_id", Id, nullable=False),
    Column("case_id", Id, nullable=False),
    Column("model", Text, nullable=False),
    Column("classes", Text, nullable=False),  # a digest: with other classes it is another model
    Column("predicted", Text),
    Column("confidence", Float),  # empty if the probabilities are not valid
    Column("probabilities", Text, info=_digested("probabilities_sha256")),
    Column("blind", Boolean, nullable=False),  # whether it came before any expert's answer
    Column("received", BigInteger, nullable=False),
    sa.UniqueConstraint("case_id", "model"),
)
_index(shadows, "ix_shadows_model", "project_id, model, id")

bodies = Table(
    "bodies",
    metadata,
    Column("id", Id, sa.ForeignKey("cases.id"), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("content", LargeBinary, nullable=False, info=_digested("sha256")),
)

decisions = _table(
    "decisions",
    _to("case_id", "cases", nullable=False),
    Column("version", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("label", Text),
    _to("policy_id", "policies"),
    Column("reading_id", Id),  # the reading whose answer led to it
    Column("made", BigInteger, nullable=False),
    _to("supersedes", "decisions", unique=True),
    sa.UniqueConstraint("case_id", "version"),
)
_index(decisions, "ix_decisions_policy_made", "policy_id, made")

readings = _table(
    "readings",
    _to("project_id", "projects", nullable=False),
    _to("case_id", "cases", nullable=False),
    Column("root", Id, nullable=False),  # the id of the first reading of the same round
    Column("why", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("due", BigInteger, nullable=False),
    _to("barred", "users"),  # the first reader, who may not read the case again
    _to("reader", "users"),
    Column("lease", Text, unique=True, info=SECRET),
    Column("leased", BigInteger),
    Column("until", BigInteger),
    Column("created", BigInteger, nullable=False),
    Column("finished", BigInteger),
    Column("answer_id", Id),  # the answer that counts; answers point back
)
_index(readings, "ix_readings_waiting", "project_id, due, id, why, barred", "state = 'waiting'")
_index(readings, "ix_readings_waiting_since", "project_id, created", "state = 'waiting'")
_index(readings, "ix_readings_leased", "project_id, until", "state = 'leased'")
_index(readings, "uq_readings_lease_a_reader", "reader", "state = 'leased'", unique=True)
_index(readings, "ix_readings_case", "case_id, reader")
_index(readings, "ix_readings_second", "project_id, id", "why = 'second'")

answers = _table(
    "answers",
    _to("reading_id", "readings", nullable=False, index=True),
    _to("case_id", "cases", nullable=False, index=True),
    _to("reader", "users", nullable=False),
    Column("label", Text, nullable=False),
    Column("submission", Text, nullable=False),
    Column("standing", Text, nullable=False),  # counted or late
    Column("seconds", Float),
    Column("given", BigInteger, nullable=False),
    Column("supersedes", Id),  # the answer that this one corrects
    Column("reason", Text),
    sa.UniqueConstraint("reader", "submission"),
)
_index(answers, "uq_answers_supersedes", "supersedes", "supersedes IS NOT NULL", unique=True)
_index(answers, "ix_answers_given", "given")
_index(answers, "ix_answers_reader_given", "reader, given")

skips = _table(
    "skips",
    _to("reading_id", "readings", nullable=False),
    _to("reader", "users", nullable=False),
    Column("reason", Text, nullable=False),
    Column("skipped", BigInteger, nullable=False),
)
_index(skips, "ix_skips_reading_reader", "reading_id, reader, skipped")

monitors = _table(
    "monitors",
    _to("project_id", "projects", nullable=False),
    _to("policy_id", "policies", nullable=False, unique=True),
    Column("state", Text, nullable=False),
    Column("evidence", Float, nullable=False),
    Column("audited", Integer, nullable=False),
    Column("errors", Integer, nullable=False),
    Column("open", Integer, nullable=False),
    Column("bound", Float),
    Column("memory", Text, nullable=False),
    Column("alarmed", BigInteger),
    Column("counted", Float),  # the weights of settled audits, added up; None before weights
    Column("counted_errors", Float),
    Column("doubtful", Float),  # accepted cases below this confidence are audited more often
)

counters = Table(
    "counters",
    metadata,
    Column("project_id", Id, sa.ForeignKey("projects.id"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("slot", Integer, primary_key=True),  # several rows, so that senders need not wait
    Column("value", BigInteger, nullable=False),
)

events = _table(
    "events",
    _to("project_id", "projects", nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("actor", Id),
    Column("case_id", Id),
    Column("changes", Text, nullable=False),
)
_index(events, "ix_events_case", "case_id")
_index(events, "ix_events_of_no_case", "project_id, kind, id", "case_id IS NULL")

seals = _table(
    "seals",
    Column("first_event", Id, nullable=False),
    Column("last_event", Id, nullable=False),
    Column("n_events", Integer, nullable=False),
    Column("previous", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("sealed", BigInteger, nullable=False),
)

webhooks = _table(
    "webhooks",
    _to("project_id", "projects", nullable=False),
    Column("url", Text, nullable=False),
    Column("secret", LargeBinary, nullable=False, info=SECRET),
    Column("created", BigInteger, nullable=False),
    Column("ended", BigInteger),
)

outbox = _table(
    "outbox",
    _to("project_id", "projects", nullable=False),
    _to("webhook_id", "webhooks", nullable=False),
    Column("kind", Text, nullable=False),
    _to("case_id", "cases"),
    Column("payload", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_try", BigInteger, nullable=False),
    Column("error", Text),
    Column("created", BigInteger, nullable=False),
)
_index(outbox, "ix_outbox_waiting", "next_try", "state = 'waiting'")
_index(outbox, "ix_outbox_case", "case_id")


def in_state(table: Table, state: str) -> sa.ColumnElement[bool]:
    """Return the condition that a row is in a state, written out instead of as a parameter.

    A partial index covers one state. If the state is a parameter, the database scans the table.
    """
    return table.c.state == sa.literal(state, literal_execute=True)


# For queries about cases as c: the decision about each that no later one supersedes.
LIVE = """
    LEFT JOIN decisions AS live ON live.case_id = c.id
      AND NOT EXISTS (SELECT 1 FROM decisions AS later WHERE later.supersedes = live.id)
"""


# ------------------------------------------------------------------ tables that only grow

APPEND_ONLY = ("events", "seals", "answers", "decisions", "skips")


def _guard(table: Table) -> None:
    """Let the database itself refuse UPDATE and DELETE, from the table's creation on."""
    refusals = {
        "sqlite": f"BEGIN SELECT RAISE(ABORT, 'rows of {table.name} are never changed'); END",
        "postgresql": "FOR EACH ROW EXECUTE FUNCTION desk_refuse_change()",
    }
    for verb in ("UPDATE", "DELETE"):
        name = f"{table.name}_refuse_{verb.lower()}"
        for dialect, refusal in refusals.items():
            trigger = sa.DDL(f"CREATE TRIGGER {name} BEFORE {verb} ON {table.name} {refusal}")  # type: ignore[no-untyped-call]
            sa.event.listen(table, "after_create", trigger.execute_if(dialect=dialect))
    emptied = sa.DDL(refuse_truncate(table.name))  # type: ignore[no-untyped-call]
    sa.event.listen(table, "after_create", emptied.execute_if(dialect="postgresql"))


def refuse_truncate(name: str) -> str:
    """Return the statement that lets PostgreSQL refuse TRUNCATE, which SQLite does not have."""
    return (
        f"CREATE TRIGGER {name}_refuse_truncate BEFORE TRUNCATE ON {name} "
        "FOR EACH STATEMENT EXECUTE FUNCTION desk_refuse_change()"
    )


_REFUSE = sa.DDL(  # type: ignore[no-untyped-call]
    "CREATE OR REPLACE FUNCTION desk_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$ "
    "BEGIN RAISE EXCEPTION 'rows of %% are never changed', TG_TABLE_NAME; END $$"
)
sa.event.listen(metadata, "before_create", _REFUSE.execute_if(dialect="postgresql"))
for _name in APPEND_ONLY:
    _guard(metadata.tables[_name])
