"""Sixteen readers and four senders, each in its own process; nothing may get lost."""

from __future__ import annotations

import json
import subprocess
import sys
import time

from benchmarks.desk.caller import Caller

READERS, SENDERS = 16, 4
BATCH = 20


def measure(place, sizes) -> None:  # type: ignore[no-untyped-def]
    """Let them work, then compare the answers that they got with the database."""
    from sqlalchemy import select
    from tests.desk.invariants import check_all
    from tests.desk.world import policy_text

    from benchmarks.desk.places import server
    from benchmarks.measure import row
    from expertload.desk import Desk, Rules
    from expertload.desk.people.accounts import add_token
    from expertload.desk.store.tables import answers, cases
    from expertload.desk.watch.policies import activate, add_policy

    people = [("reader", f"reader-{i}") for i in range(READERS)]
    people += [("sender", f"sender-{i}") for i in range(SENDERS)]
    with Desk.open(place.desk("crowd"), rules=Rules(quality_rate=0.3, second_share=0.2)) as desk:
        desk.write(activate, desk.write(add_policy, policy_text()))
        roles = {"reader": "reader", "sender": "api"}
        tokens = {name: desk.write(add_token, name, roles[role]) for role, name in people}
    with server(place, "crowd") as (host, port):
        command = [sys.executable, "-m", "benchmarks.desk.crowd"]
        options = [host, str(port), str(sizes.crowd_seconds)]
        working = [
            subprocess.Popen(
                [*command, role, name, tokens[name], *options], stdout=subprocess.PIPE, text=True
            )
            for role, name in people
        ]
        results = [json.loads(process.communicate()[0]) for process in working]
    with Desk.open(place.desk("crowd"), serving=True) as desk:
        check_all(desk)
        keys = set(desk.database.read(lambda c: c.execute(select(cases.c.key)).scalars().all()))
        given = set(
            desk.database.read(
                lambda c: (
                    c.execute(select(answers.c.submission).where(answers.c.standing == "counted"))
                    .scalars()
                    .all()
                )
            )
        )
    sent = {key for each in results for key in each["acknowledged"]}
    counted = {name for each in results for name in each["counted"]}
    seconds = sizes.crowd_seconds
    print(
        f"    {READERS} readers and {SENDERS} senders, {seconds:g} s: {len(sent):,} cases "
        f"({len(sent) / seconds:,.0f}/s), {len(counted):,} answers "
        f"({len(counted) / seconds:,.0f}/s); "
        "the invariants hold"
    )
    row(
        "acknowledged cases and answers that got lost",
        len(sent - keys) + len(counted - given),
        unit="",
        at_most=0,
    )
    row(
        "stored answers that were never acknowledged",
        len(given - counted),
        unit="",
        at_most=READERS,
    )


def send(caller: Caller, name: str, end: float) -> dict[str, list[str]]:
    """Send cases until the end, every other one twice; return those that were acknowledged."""
    acknowledged, number = [], 0
    while time.time() < end:
        lines = [
            json.dumps(
                {
                    "key": f"{name}-{number + i}",
                    "probabilities": {"cat": 0.99, "dog": 0.01}
                    if i % 2
                    else {"cat": 0.6, "dog": 0.4},
                }
            )
            for i in range(BATCH)
        ]
        answer = caller.post("/api/cases", "\n".join(lines).encode(), "application/x-ndjson")
        acknowledged += [json.loads(line)["key"] for line in answer.splitlines()]
        number += BATCH // 2
        time.sleep(0.1)  # otherwise the queue would only grow
    return {"acknowledged": acknowledged, "counted": []}


def read(caller: Caller, name: str, end: float) -> dict[str, list[str]]:
    """Claim and answer until the end; return the answers that counted."""
    counted, turn = [], 0
    while time.time() < end:
        body = caller.post("/api/claims")
        if not body:
            time.sleep(0.02)
            continue
        turn += 1
        answer = {"label": "dog" if turn % 7 == 0 else "cat", "submission": f"{name}-{turn}"}
        path = f"/api/claims/{json.loads(body)['lease']}/answer"
        if json.loads(caller.post(path, json.dumps(answer).encode()))["outcome"] == "counted":
            counted.append(answer["submission"])
    return {"acknowledged": [], "counted": counted}


if __name__ == "__main__":
    role, name, token, host, port, seconds = sys.argv[1:]
    work = send if role == "sender" else read
    print(json.dumps(work(Caller(host, int(port), token), name, time.time() + float(seconds))))
