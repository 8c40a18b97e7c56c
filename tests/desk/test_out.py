"""What leaves the desk: exports that evaluate to its own numbers, copies, news, the client."""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import duckdb
import httpx
import numpy as np
import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError
from typer.testing import CliRunner

from expertload.cases import Cases
from expertload.cli.app import app
from expertload.desk import Desk
from expertload.desk.app import create_app
from expertload.desk.client import DeskClient
from expertload.desk.pages.audit import write_dossier
from expertload.desk.store import open_database
from expertload.desk.store.migrating import backup, restore
from expertload.desk.store.tables import metadata, monitors, outbox
from expertload.desk.trail.chain import seal_events, verify
from expertload.desk.trail.export import export, export_bytes
from expertload.desk.trail.training import export_annotations, export_for_training
from expertload.desk.trail.webhooks import add_webhook, deliver, send_again
from expertload.desk.watch.state import state_of
from expertload.evaluation import evaluate
from expertload.exceptions import (
    DeskRefusedError,
    DeskUnavailableError,
    FileFormatError,
    FileWriteError,
)
from expertload.io import ColumnNames, read_predictions
from tests.desk.serving import serving
from tests.desk.test_watch import read_all
from tests.desk.world import sent


@pytest.fixture
def used(world):
    world.with_rules(quality_rate=0.5)
    world.activate()
    world.send(*(sent(f"case-{i}", 0.5 + (i % 50) / 100, group=f"g{i % 2}") for i in range(60)))
    read_all(world, lambda key: "dog" if key.endswith("7") else "cat")
    world.send(sent("unread", 0.6))
    return world


# ------------------------------------------------------------------ export


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_an_export_evaluates_to_the_desks_numbers(used, tmp_path, kind):
    file = tmp_path / f"desk.{kind}"
    n = export(used.desk, file, which="audited")
    (monitor,) = used.rows(select(monitors))
    assert n == monitor.audited - monitor.open > 5
    table = read_predictions(file)
    evaluation = evaluate(
        Cases.from_predictions(table.y_true, table.cases.proba), target_accuracy=0.9
    )
    assert evaluation.n_cases == monitor.audited
    assert evaluation.accuracy.estimate == pytest.approx(1 - monitor.errors / monitor.audited)
    by_correctness = read_predictions(
        file, names=ColumnNames(correct="correct", confidence="confidence", label="none")
    )
    again = evaluate(by_correctness.cases)
    assert again.aucoc.estimate == pytest.approx(evaluation.aucoc.estimate)


def test_unequal_audits_give_the_accuracy_of_the_monitor_too(world, tmp_path):
    """Doubtful decisions are audited more often, and of a patient only the first audit counts."""
    world.with_rules(quality_rate=0.3, audit_second_share=0.5)
    world.activate()
    rng = np.random.default_rng(0)
    sure = rng.uniform(0.85, 1, size=400).tolist()
    own = ({"cluster": f"patient-{i % 7}"} if i % 5 == 0 else {} for i in range(400))
    for first in range(0, 400, 200):
        batch = zip(range(first, first + 200), own, strict=False)
        world.send(*(sent(f"case-{i}", sure[i], **more) for i, more in batch))
        read_all(world, lambda key: "dog" if int(key[5:]) % 11 == 0 else "cat")
    monitor = world.desk.read(state_of)["monitor"]
    accuracy = 1 - monitor["counted_errors"] / monitor["counted"]
    assert accuracy != pytest.approx(1 - monitor["errors"] / monitor["audited"], abs=1e-3)
    file = tmp_path / "audited.csv"
    export(world.desk, file, which="audited")
    assert b"".join(export_bytes(world.desk, "csv", which="audited")) == file.read_bytes()
    table = read_predictions(file)
    cases = Cases.from_predictions(
        table.y_true, table.cases.proba, sample_weight=table.cases.weight
    )
    assert evaluate(cases).accuracy.estimate == pytest.approx(accuracy)
    done = CliRunner().invoke(app, ["evaluate", str(file), "--target-accuracy", "0.9"])
    said = " ".join(done.output.split())
    assert f"{100 * accuracy:.1f} %" in said.replace("\u202f", " ")
    assert "Weighted cases cannot be certified" in said


@pytest.mark.slow
def test_all_formats_say_the_same(used, tmp_path):
    read = {}
    for kind in ("jsonl", "csv", "parquet"):
        file = tmp_path / f"desk.{kind}"
        assert export(used.desk, file) == 61
        assert b"".join(export_bytes(used.desk, kind)) == file.read_bytes()
        read[kind] = duckdb.sql(
            f"SELECT key, state, predicted, confidence, y_true, correct, p_cat, accepted "
            f"FROM '{file}' ORDER BY key"
        ).fetchall()
    assert read["jsonl"] == read["parquet"] == read["csv"]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_an_export_of_nothing_has_its_columns(world, tmp_path, kind):
    world.activate()
    file = tmp_path / f"desk.{kind}"
    assert export(world.desk, file) == 0
    if kind == "jsonl":
        assert file.read_bytes() == b""
    else:
        names = duckdb.read_csv(str(file)) if kind == "csv" else duckdb.read_parquet(str(file))
        assert names.columns[:2] == ["key", "state"]
        assert names.columns[-2:] == ["p_cat", "p_dog"]


def test_only_its_owner_can_read_an_export(world, tmp_path):
    world.send(sent("a"))
    export(world.desk, tmp_path / "cases.csv")
    world.with_rules(certify_share=0.0)
    world.answer(world.claim(), "cat")
    export_for_training(world.desk, tmp_path / "set")
    export_annotations(world.desk, tmp_path / "tasks.json", tool="argilla")
    write_dossier(world.desk, tmp_path / "dossier")
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    of_export = {name: modes[name] for name in ("cases.csv", "tasks.json", "set", "dossier")}
    assert of_export == {"cases.csv": 0o600, "tasks.json": 0o600, "set": 0o700, "dossier": 0o700}


def test_an_export_of_many_rows_is_written_in_parts(world, tmp_path, monkeypatch):
    monkeypatch.setattr("expertload.desk.trail.export.FEWEST_ROWS", 7)
    monkeypatch.setattr("expertload.desk.trail.export.CELLS_TOGETHER", 7 * 20 * 3)
    world.activate()
    world.send(*(sent(f"case-{i}", 0.5 + i / 100) for i in range(45)))
    world.send({"key": "none", "confidence": 0.7, "label": "dog"})
    parts = list(export_bytes(world.desk, "jsonl"))
    assert [part.count(b"\n") for part in parts] == [21, 21, 4, 0]
    rows = [json.loads(line) for line in b"".join(parts).splitlines()]
    assert {row["key"]: row["p_cat"] for row in rows} == {
        **{f"case-{i}": 0.5 + i / 100 for i in range(45)},
        "none": None,
    }


def test_an_export_that_nobody_takes_to_its_end_leaves_nothing_behind(world, monkeypatch):
    monkeypatch.setattr("expertload.desk.trail.export.FEWEST_ROWS", 2)
    monkeypatch.setattr("expertload.desk.trail.export.CELLS_TOGETHER", 2)
    world.send(*(sent(f"case-{i}") for i in range(30)))
    for taken in (0, 1, 3):
        parts = export_bytes(world.desk, "jsonl")
        for _ in range(taken):
            next(parts)
        parts.close()
    assert world.desk.database.engine.pool.checkedout() == 0
    assert b"".join(export_bytes(world.desk, "jsonl")).count(b"\n") == 30


def test_an_export_of_a_database_that_fails_ends_with_its_error(world, tmp_path, monkeypatch):
    def broken(*arguments, **options):
        raise OperationalError("SELECT", None, Exception("gone"))

    world.send(sent("a"))
    monkeypatch.setattr("expertload.desk.trail.export._arrays", broken)
    with pytest.raises(DeskUnavailableError, match=r"does not answer \(gone\)"):
        export(world.desk, tmp_path / "desk.jsonl")
    assert list(tmp_path.glob("*.jsonl")) == []
    assert world.desk.database.engine.pool.checkedout() == 0


def test_no_cell_of_a_csv_is_a_formula(world, tmp_path):
    keys = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "plain", "-5", 'a,"b"\nc']
    for key in keys[:-1]:
        world.send({"key": key, "confidence": 0.5, "label": "-1", "group": key})
    text = b"".join(export_bytes(world.desk, "csv")).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["key"] for row in rows] == [
        "'=1+1",
        "'+cmd|' /C calc'!A0",
        "'-2+3",
        "'@SUM(A1)",
        "plain",
        "-5",
    ]
    assert {row["predicted"] for row in rows} == {"-1"}
    assert all(not v or v[0] not in "=+@" for row in rows for v in row.values())


@pytest.mark.slow
def test_an_export_that_cannot_be_written_says_so(used, tmp_path):
    with pytest.raises(FileFormatError, match=".csv, .jsonl or .parquet"):
        export(used.desk, tmp_path / "desk.xlsx")
    with pytest.raises(FileWriteError, match="could not be written"):
        export(used.desk, tmp_path / "nowhere" / "desk.csv")


# ------------------------------------------------------------------ copies


def rows_of(desk):
    return {
        table.name: desk.database.read(
            lambda c, table=table: sorted(map(tuple, c.execute(select(table)).all()), key=repr)
        )
        for table in metadata.sorted_tables
    }


@pytest.mark.slow
def test_a_copy_is_restored_to_either_database(used, tmp_path, request):
    seal_events(used.desk)
    before = rows_of(used.desk)
    copy = tmp_path / "copy.sqlite"
    backup(used.desk.database, copy)
    with pytest.raises(DeskRefusedError, match="already exists"):
        backup(used.desk.database, copy)
    with pytest.raises(DeskRefusedError, match="not empty"):
        restore(copy, used.desk.database)
    with open_database(tmp_path / "again") as database:
        restore(copy, database)
        again = Desk(database, clock=used.clock)
        assert rows_of(again) == before
        verdict = again.read(verify)
        assert verdict.is_intact, verdict.problems
        assert verdict.head == used.desk.read(verify).head


def test_a_copy_moves_a_folder_to_postgresql(used, tmp_path, cluster):
    copy = tmp_path / "copy.sqlite"
    backup(used.desk.database, copy)
    before = rows_of(used.desk)
    cluster.sql("DROP DATABASE IF EXISTS moved")
    cluster.sql("CREATE DATABASE moved")
    with open_database(cluster.address("moved")) as database:
        restore(copy, database)
        desk = Desk(database, clock=used.clock)
        assert rows_of(desk) == before
        assert desk.read(verify).is_intact
        from expertload.desk.intake.case import read_case
        from expertload.desk.intake.receiving import receive

        desk.write(receive, [read_case(sent("new"))])  # ids go on where they were
        assert desk.read(verify).is_intact
    cluster.sql("DROP DATABASE moved")


def test_what_is_no_copy_is_refused(world, tmp_path):
    (tmp_path / "x").write_text("nonsense")
    with pytest.raises(DeskRefusedError, match="not a copy"):
        restore(tmp_path / "x", world.desk.database)
    with pytest.raises(DeskRefusedError, match="no file"):
        restore(tmp_path / "y", world.desk.database)


# ------------------------------------------------------------------ news


@pytest.fixture
def receiver():
    got, answers = [], []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((dict(self.headers), body.decode()))
            self.send_response(answers.pop(0) if answers else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook", got, answers
    server.shutdown()
    server.server_close()


def test_news_is_signed_tried_again_and_replayable(world, receiver):
    url, got, answers = receiver
    number, secret = world.desk.write(add_webhook, url)
    world.activate()
    answers += [500]
    assert deliver(world.desk) == 0
    assert deliver(world.desk) == 0, "not before the pause is over"
    world.clock.turn(3)
    assert deliver(world.desk) == 1
    (first, body), (second, same) = got
    assert body == same
    assert json.loads(body)["kind"] == "policy.activated"
    assert first["X-Desk-Delivery"] == second["X-Desk-Delivery"]
    signed = (second["X-Desk-Delivery"], second["X-Desk-Time"], body)
    said = ".".join(signed).encode()
    expected = hmac.new(bytes.fromhex(secret), said, hashlib.sha256).hexdigest()
    assert second["X-Desk-Signature"] == expected
    assert world.desk.write(send_again, number, since=0) == 1
    assert deliver(world.desk) == 1
    assert len(got) == 3


def test_an_experts_decision_is_told_when_it_can_no_longer_be_taken_back(world, receiver):
    from expertload.desk.queue.answers import undo

    url, got, _ = receiver
    world.desk.write(add_webhook, url)
    world.send(sent("a"))
    world.answer(world.claim(), "cat", submission="s1")
    assert deliver(world.desk) == 0
    world.desk.write(undo, world.user("ann"), "s1")
    world.answer(world.claim(), "dog", submission="s2")
    world.clock.turn(11)
    assert deliver(world.desk) == 1
    assert json.loads(got[0][1])["label"] == "dog"
    states = [row.state for row in world.rows(select(outbox.c.state).order_by(outbox.c.id))]
    assert states == ["cancelled", "sent"]


@pytest.mark.slow
def test_a_receiver_that_never_answers_is_given_up(world):
    world.desk.write(add_webhook, "http://127.0.0.1:9/")
    world.activate()
    for _ in range(13):
        deliver(world.desk)
        world.clock.turn(4_000)
    (row,) = world.rows(select(outbox))
    assert (row.state, row.attempts) == ("failed", 12)


@pytest.mark.parametrize(
    "url",
    ["", "ftp://x", "file:///etc/passwd", "http://", "javascript:1", "http://c].0", "http://a:b"],
)
def test_only_web_addresses_are_told(world, url):
    with pytest.raises(DeskRefusedError, match="http or https"):
        world.desk.write(add_webhook, url)


# ------------------------------------------------------------------ the client


@pytest.fixture
def client(world):
    with (
        serving(create_app(world.desk)) as address,
        DeskClient(address, world.token("model", "api")) as made,
    ):
        yield made


def test_the_client_sends_batches(world, client):
    world.activate()
    outcomes = list(client.send_many((sent(f"case-{i}") for i in range(25)), batch_size=10))
    assert [o.key for o in outcomes] == [f"case-{i}" for i in range(25)]
    assert {(o.status, o.label, o.is_acknowledged) for o in outcomes} == {("decided", "cat", True)}
    assert client.find("case-3")["label"] == "cat"
    (refused,) = client.send_many([{"key": "bad"}])
    assert refused.status == "refused"
    with pytest.raises(DeskRefusedError, match="no prediction"):
        client.send({"key": "bad"})
    with pytest.raises(DeskRefusedError, match="no case"):
        client.find("nobody")


def replying(*answers):
    """A transport that answers, or fails, in turn."""
    waiting = list(answers)

    def answer(request):
        reply = waiting.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    return httpx.MockTransport(answer)


GOOD = '{"key":"a","status":"decided","label":"cat","policy":1}\n'


@pytest.mark.parametrize(
    "answers",
    [
        [httpx.ConnectError("no"), httpx.Response(200, text=GOOD)],
        [httpx.ReadTimeout("no"), httpx.Response(503), httpx.Response(200, text=GOOD)],
        [httpx.Response(200, text=GOOD[:20]), httpx.Response(200, text=GOOD)],
    ],
)
def test_the_client_tries_again(answers, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    client = DeskClient("http://desk", "t", transport=replying(*answers))
    assert client.send(sent("a")).label == "cat"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        GOOD.replace('"a"', '"b"'),
        GOOD.replace("decided", "delegated"),
        GOOD.replace('"cat"', "null"),
        GOOD.replace('"cat"', "1"),
        GOOD + GOOD,
        "[]",
        '"decided"',
        '{"status":"decided"}',
    ],
)
def test_nothing_is_decided_without_the_desks_word(text, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    answers = [httpx.Response(200, text=text)] * 5
    client = DeskClient("http://desk", "t", transport=replying(*answers))
    outcome = client.send(sent("a"))
    assert (outcome.status, outcome.label, outcome.is_acknowledged) == ("delegated", None, False)


def test_a_wrong_token_is_no_reason_to_try_again(world):
    with serving(create_app(world.desk)) as address:
        client = DeskClient(address, "eld_wrong")
        with pytest.raises(DeskRefusedError, match="valid token"):
            client.send(sent("a"))
        client.close()
