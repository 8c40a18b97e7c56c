"""Many at once, and killed at any moment: what was acknowledged is there, and once."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import threading
import time

import httpx
import pytest
from sqlalchemy import func, select

from expertload.desk import Desk
from expertload.desk.client import DeskClient
from expertload.desk.intake.case import read_case
from expertload.desk.intake.receiving import Outcome, receive
from expertload.desk.queue.answers import answer
from expertload.desk.queue.claims import claim, hand_back
from expertload.desk.store.tables import answers, cases
from expertload.desk.trail.chain import seal_events
from expertload.desk.watch.policies import activate, add_policy
from expertload.exceptions import DeskUnavailableError
from tests.desk.invariants import check_all
from tests.desk.processes import RULES, Server, free_port, serve, together, wait_for_more
from tests.desk.world import Clock, World, policy_text, sent


@pytest.mark.slow
def test_sixteen_at_once(place):
    with Desk.open(place, rules=RULES, secret=b"test") as desk:
        world = World(desk, Clock())
        world.activate()
        names = [f"reader-{i}" for i in range(10)]
        users = [world.user(name) for name in names]
        arbiter = world.user("zoe", "arbiter")
        acknowledged: set[str] = set()
        counted: list[str] = []

        def sender(number):
            rng = random.Random(number)
            for _ in range(8):
                batch = [sent(f"case-{rng.randrange(60)}", 0.99) for _ in range(10)]
                for outcome in desk.write(receive, [read_case(each) for each in batch]):
                    assert isinstance(outcome, Outcome)
                    acknowledged.add(outcome.key)

        def reader(user, number, is_arbiter=False):
            rng = random.Random(number)
            for turn in range(20):
                held = desk.write(claim, user, arbiter=is_arbiter)
                if held is None:
                    time.sleep(0.01)
                elif rng.random() < 0.2:
                    desk.write(hand_back, user, held.lease)
                else:
                    name = f"{user}-{turn}"
                    given = desk.write(answer, user, held.lease, rng.choice(("cat", "dog")), name)
                    if given.outcome == "counted":
                        counted.append(name)

        def manager():
            for _ in range(4):
                time.sleep(0.05)
                number = desk.write(add_policy, policy_text())
                desk.write(activate, number)
                seal_events(desk)

        together(
            *(lambda n=n: sender(n) for n in range(4)),
            *(lambda u=u: reader(u, u) for u in users),
            lambda: reader(arbiter, 0, is_arbiter=True),
            manager,
        )
        check_all(desk)
        assert {row.key for row in world.rows(select(cases.c.key))} == acknowledged
        stored = {
            r.submission for r in world.rows(select(answers).where(answers.c.standing == "counted"))
        }
        assert stored == set(counted)


# ------------------------------------------------------------------ real processes


@pytest.mark.processes
def test_killed_at_any_moment(place):
    server, tokens = serve(place)
    acknowledged: dict[str, str | None] = {}
    counted: list[str] = []
    stop = threading.Event()

    def sender():
        number = 0
        with DeskClient(f"http://127.0.0.1:{server.port}", tokens["model"], attempts=1) as client:
            while not stop.is_set():
                batch = [sent(f"case-{number + i}", 0.99 if i % 2 else 0.6) for i in range(20)]
                outcomes = [each for each in client.send_many(batch) if each.is_acknowledged]
                acknowledged.update((each.key, each.label) for each in outcomes)
                if not outcomes:
                    time.sleep(0.02)  # the server needs the time to come back
                number += 10  # half of every batch is sent twice

    def reader(name):
        turn = 0
        headers = {"Authorization": f"Bearer {tokens[name]}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", headers=headers) as client:
            while not stop.is_set():
                turn += 1
                try:
                    held = client.post("/api/claims")
                    if held.status_code != 200:
                        time.sleep(0.02)
                        continue
                    body = {"label": "cat", "submission": f"{name}-{turn}"}
                    path = f"/api/claims/{held.json()['lease']}/answer"
                    given = client.post(path, json=body)
                    if given.status_code == 200 and given.json()["outcome"] == "counted":
                        counted.append(body["submission"])
                except httpx.HTTPError:
                    time.sleep(0.02)

    def killer():
        rng = random.Random(0)
        try:
            for _ in range(2):
                wait_for_more(counted)
                time.sleep(rng.uniform(0, 0.5))  # the moment is any
                server.kill()
                server.start()
                server.wait()
            wait_for_more(counted)
        finally:
            stop.set()

    together(sender, lambda: reader("ann"), lambda: reader("bob"), killer)
    server.end()
    with Desk.open(place, serving=True) as desk:
        check_all(desk)
        world = World(desk, Clock())
        stored = {row.key: row.id for row in world.rows(select(cases.c.key, cases.c.id))}
        assert acknowledged
        assert counted
        assert acknowledged.keys() <= stored.keys()
        kept = {row.submission for row in world.rows(select(answers.c.submission))}
        assert set(counted) <= kept
        for outcome in desk.write(
            receive,
            [
                read_case(sent(key, 0.99 if int(key.split("-")[1]) % 2 else 0.6))
                for key in list(acknowledged)[:50]
            ],
        ):
            assert outcome.label == acknowledged[outcome.key], "the first answer stands"


def hands(role: str, server: Server, token: str, name: str) -> subprocess.Popen:
    """A sender or a reader in a process that can be killed."""
    command = [sys.executable, "-m", "tests.desk.hands", role, str(server.port), token, name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.processes
def test_senders_and_readers_killed_at_any_moment_lose_nothing(place):
    server, tokens = serve(place)
    rng = random.Random(1)
    told: dict[str, list[str]] = {"sender": [], "reader": []}
    for turn in range(3):
        working = [
            ("sender", hands("sender", server, tokens["model"], f"case-{turn}")),
            ("reader", hands("reader", server, tokens["ann"], f"ann-{turn}")),
            ("reader", hands("reader", server, tokens["bob"], f"bob-{turn}")),
        ]
        for role, process in working:
            told[role].append(process.stdout.readline().strip())  # it has begun
        time.sleep(rng.uniform(0, 0.2))  # the moment is any
        for role, process in working:
            process.kill()
            told[role] += process.stdout.read().split()
            process.wait()
            process.stdout.close()
    time.sleep(RULES.lease_seconds)  # what the dead held comes back
    last = hands("reader", server, tokens["ann"], "after")
    told["reader"].append(last.stdout.readline().strip())
    last.kill()
    last.communicate()
    server.end()
    with Desk.open(place, serving=True) as desk:
        check_all(desk)
        world = World(desk, Clock())
        assert set(told["sender"]) <= {row.key for row in world.rows(select(cases.c.key))}
        counted = select(answers.c.submission).where(answers.c.standing == "counted")
        given = [row.submission for row in world.rows(counted)]
        assert set(told["reader"]) <= set(given)
        assert len(given) == len(set(given))


@pytest.mark.processes
def test_two_servers_on_one_postgresql(cluster):
    cluster.empty_desk()
    place = cluster.address("desk")
    with Desk.open(place, rules=RULES, secret=b"test") as desk:
        world = World(desk, Clock())
        world.activate()
        token = world.token("model", "api")
    servers = [Server(place, free_port()) for _ in range(2)]
    outcomes: list[dict] = [{}, {}]
    for server in servers:
        server.wait()

    def sender(number):
        address = f"http://127.0.0.1:{servers[number].port}"
        with DeskClient(address, token) as client:
            # The same cases to both servers, in the opposite order.
            batch = [sent(f"case-{i}", 0.99 if i % 2 else 0.6) for i in range(300)]
            for outcome in client.send_many(batch[:: 1 - 2 * number], batch_size=50):
                outcomes[number][outcome.key] = outcome

    together(lambda: sender(0), lambda: sender(1))
    servers[1].kill()
    servers[0].end()
    assert outcomes[0] == outcomes[1]
    assert all(outcome.is_acknowledged for outcome in outcomes[0].values())
    with Desk.open(place) as desk:
        check_all(desk)
        n = World(desk, Clock()).rows(select(func.count()).select_from(cases))[0][0]
        assert n == 300


def test_a_full_disk_is_told_and_loses_nothing(tmp_path):
    """SQLite's own limit on pages stands for the disk."""
    with Desk.open(tmp_path) as desk:
        world = World(desk, Clock())
        world.send(sent("before"))
        from sqlalchemy import event

        def limit(connection, _):
            connection.execute("PRAGMA max_page_count = 1").close()

        event.listen(desk.database.engine, "connect", limit)
        desk.database.engine.dispose()
        big = {"kind": "text", "content": "x" * 900_000}
        gate = threading.Event()
        desk.database.submit(lambda connection: gate.wait(5))
        wanted = {"small": {}, "large": {"body": big}, "in the same commit": {}}
        futures = {
            key: desk.submit(receive, [read_case(sent(key, **more))])
            for key, more in wanted.items()
        }
        gate.set()
        with pytest.raises(DeskUnavailableError, match="full"):
            futures["large"].result()
        # SQLite drops the one statement or the whole commit; what was told is what is kept.
        kept = {key for key, future in futures.items() if future.exception() is None}
        for key in futures.keys() - kept:
            assert "full" in str(futures[key].exception())
        event.remove(desk.database.engine, "connect", limit)
        desk.database.engine.dispose()
        world.send(sent("after"))
        check_all(desk)
        assert {row.key for row in world.rows(select(cases.c.key))} == {"before", "after", *kept}


@pytest.fixture
def small_disk(tmp_path):
    """A file system of six megabytes, where this account may mount one."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this account may not mount a small disk")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_disk_without_room_fails_the_whole_commit_and_loses_nothing(small_disk):
    """A commit that the disk has no room for fails for all who share it, and for nobody else."""
    with Desk.open(small_disk / "desk") as desk:
        world = World(desk, Clock())
        world.send(sent("before"))
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
            while stream.write(bytes(4096)):
                pass
        gate = threading.Event()
        desk.database.submit(lambda connection: gate.wait(5))
        wanted = [
            sent(f"full-{i}", body={"kind": "text", "content": "x" * 50_000}) for i in range(3)
        ]
        futures = [desk.submit(receive, [read_case(each)]) for each in wanted]
        gate.set()
        for future in futures:
            with pytest.raises(DeskUnavailableError, match=r"full|disk I/O"):
                future.result()
        filler.unlink()
        world.send(sent("after"))
        check_all(desk)
        assert {row.key for row in world.rows(select(cases.c.key))} == {"before", "after"}


@pytest.mark.processes
def test_a_second_server_process_is_refused_in_a_sentence(tmp_path):
    environment = {**os.environ, "COLUMNS": "200"}
    with Desk.open(tmp_path, serving=True):
        done = subprocess.run(
            [sys.executable, "-m", "expertload", "desk", "serve", "--data", str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=60,
            env=environment,
        )
    assert done.returncode == 1
    assert "Another server is running on the desk" in done.stderr
    assert "Traceback" not in done.stderr
