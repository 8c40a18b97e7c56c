"""A database that goes away under a running server, and comes back: told, and nothing is lost."""

from __future__ import annotations

import threading
import time

import httpx
import pytest
from sqlalchemy import select

from expertload.desk import Desk
from expertload.desk.client import DeskClient
from expertload.desk.store.tables import answers, cases
from expertload.exceptions import DeskUnavailableError
from tests.desk.invariants import check_all
from tests.desk.people import visitor
from tests.desk.processes import Server, free_port, serve, together, wait_for_more
from tests.desk.world import Clock, World, sent


@pytest.fixture
def address(cluster):
    """An empty desk on a server that may be stopped; it runs again afterwards."""
    cluster.empty_desk()
    yield cluster.address("desk")
    cluster.start_if_stopped()


def test_a_desk_goes_on_when_its_database_comes_back(cluster, address):
    with Desk.open(address) as desk:
        world = World(desk, Clock())
        world.send(sent("before"))
        cluster.stop()
        try:
            with pytest.raises(DeskUnavailableError, match="does not answer"):
                world.send(sent("between"))
            with pytest.raises(DeskUnavailableError, match="does not answer"):
                desk.read(lambda t: None)
        finally:
            cluster.start()
        world.send(sent("after"))
        keys = {row.key for row in world.rows(select(cases.c.key))}
        assert {"before", "after"} <= keys
        assert "between" not in keys


class Workers:
    """Senders and readers who go on whatever they are told, and note what that was."""

    def __init__(self, server: Server, tokens: dict[str, str]) -> None:
        self.server, self.tokens = server, tokens
        self.acknowledged: list[str] = []
        self.counted: list[str] = []
        self.refused: dict[str, list[httpx.Response]] = {"sender": [], "reader": []}
        self.stop = threading.Event()

    def _client(self, name: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.tokens[name]}"}
        return httpx.Client(base_url=self.server.address, headers=headers, timeout=60)

    def send(self) -> None:
        number = 0
        with self._client("model") as client:
            while not self.stop.is_set():
                case = sent(f"case-{number}", 0.99 if number % 2 else 0.6)
                told = client.post("/api/cases", json=case)
                if told.status_code == 200:
                    self.acknowledged.append(case["key"])
                    number += 1
                else:  # the same case again, as the hint says
                    self._note("sender", told)

    def send_many(self) -> None:
        number = 0
        with DeskClient(self.server.address, self.tokens["model"], attempts=1) as client:
            while not self.stop.is_set():
                batch = [sent(f"batch-{number + i}") for i in range(20)]
                outcomes = list(client.send_many(batch))
                self.acknowledged += [each.key for each in outcomes if each.is_acknowledged]
                assert all(each.label is None for each in outcomes if not each.is_acknowledged)
                if not any(each.is_acknowledged for each in outcomes):
                    time.sleep(0.02)
                number += 20

    def read(self, name: str) -> None:
        turn = 0
        with self._client(name) as client:
            while not self.stop.is_set():
                held = client.post("/api/claims")
                if held.status_code != 200:
                    self._note("reader", held)
                    continue
                turn += 1
                given = {"label": "cat", "submission": f"{name}-{turn}"}
                path = f"/api/claims/{held.json()['lease']}/answer"
                told = client.post(path, json=given)
                if told.status_code != 200:
                    self._note("reader", told)
                elif told.json()["outcome"] == "counted":
                    self.counted.append(given["submission"])

    def _note(self, who: str, told: httpx.Response) -> None:
        if told.status_code != 204:
            self.refused[who].append(told)
        time.sleep(0.02)


@pytest.mark.processes
def test_postgresql_stops_and_starts_under_a_server_with_senders_and_readers(cluster, address):
    server, tokens = serve(address)
    with Desk.open(address) as desk:
        manager = visitor(desk, server.address, "mia", "manager")
    work = Workers(server, tokens)

    def outages() -> None:
        try:
            for _ in range(2):
                wait_for_more(work.counted)
                wait_for_more(work.acknowledged)
                cluster.stop()
                for refused in work.refused.values():
                    wait_for_more(refused)
                ill = httpx.get(f"{server.address}/healthz", timeout=60)
                page = manager.get("/manage")
                cluster.start()
                assert ill.status_code == 503
                assert "does not answer" in ill.json()["error"]["message"]
                assert page.status_code == 503
                assert "database does not answer" in page.text
                wait_for_more(work.counted)
                wait_for_more(work.acknowledged)
            assert httpx.get(f"{server.address}/healthz").status_code == 200
            assert manager.get("/manage").status_code == 200
        finally:
            work.stop.set()
            manager.close()

    together(work.send, work.send_many, lambda: work.read("ann"), lambda: work.read("bob"), outages)
    said = server.end()
    assert "Traceback" not in said, said
    for told in work.refused["sender"] + work.refused["reader"]:
        assert told.status_code == 503, told.text
        assert told.json()["error"]["code"] == "unavailable"
        assert told.headers["retry-after"] == "1"
    with Desk.open(address) as desk:
        check_all(desk)
        world = World(desk, Clock())
        assert set(work.acknowledged) <= {row.key for row in world.rows(select(cases.c.key))}
        kept = {row.submission for row in world.rows(select(answers.c.submission))}
        assert set(work.counted) <= kept


@pytest.mark.processes
def test_a_server_ends_cleanly_while_its_database_is_away(cluster, address):
    server, _ = serve(address)
    cluster.stop()
    said = server.end()
    assert "Traceback" not in said, said


@pytest.mark.processes
def test_a_server_without_its_database_says_so_in_a_sentence(cluster, address):
    cluster.stop()
    server = Server(address, free_port())
    assert server.process.wait(60) == 1
    said = server.heard()
    assert "does not answer" in said
    assert "Traceback" not in said
