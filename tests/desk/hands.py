"""A sender or a reader in a process of its own, until it is killed: prints what it was told.

`python -m tests.desk.hands sender|reader PORT TOKEN NAME`, with nothing that is slow to import.
"""

from __future__ import annotations

import http.client
import itertools
import json
import sys
import time


def post(connection, token, path, content=None):
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = None if content is None else json.dumps(content)
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def send(connection, token, name):
    for number in itertools.count():
        p = 0.99 if number % 2 else 0.6
        case = {"key": f"{name}-{number}", "probabilities": {"cat": p, "dog": 1 - p}}
        status, _ = post(connection, token, "/api/cases", case)
        assert status == 200
        print(case["key"], flush=True)


def read(connection, token, name):
    for number in itertools.count():
        status, body = post(connection, token, "/api/claims")
        if status == 204:
            time.sleep(0.01)
            continue
        given = {"label": "cat", "submission": f"{name}-{number}"}
        path = f"/api/claims/{json.loads(body)['lease']}/answer"
        status, body = post(connection, token, path, given)
        if status == 200 and json.loads(body)["outcome"] == "counted":
            print(given["submission"], flush=True)


if __name__ == "__main__":
    role, port, token, name = sys.argv[1:]
    work = {"sender": send, "reader": read}[role]
    work(http.client.HTTPConnection("127.0.0.1", int(port)), token, name)
