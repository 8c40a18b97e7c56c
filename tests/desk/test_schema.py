"""The interface against its own schema, by generated requests: no answer is an accident."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from expertload.desk import Desk, Rules
from expertload.desk.app import create_app
from expertload.desk.people.accounts import add_token
from tests.desk.serving import serving
from tests.desk.world import Clock, World, sent
from tests.postgres import MEMORY

ROLES = {
    "/api/cases": "api",
    "/api/shadow": "api",
    "/api/claims": "reader",
    "/api/answers": "reader",
}
FEW = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


async def nothing_sent(messages):
    return ["not sent"] * len(messages)


@pytest.fixture(scope="module")
def address():
    """A server with something on its desk; on SQLite, for the interface is the same on both."""
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(dir=MEMORY) as folder,
        Desk.open(folder, rules=Rules(second_share=0.5)) as desk,
    ):
        # News of made-up webhooks must not leave the machine.
        patch.setattr("expertload.desk.trail.webhooks._post_all", nothing_sent)
        world = World(desk, Clock())
        world.activate()
        world.send(*(sent(f"case-{i}", 0.99 if i % 2 else 0.6) for i in range(20)))
        tokens = {role: desk.write(add_token, role, role) for role in ("api", "reader", "manager")}
        with serving(create_app(desk)) as url:
            yield url, tokens


def fuzzed(operation, url, token, tried):
    """Send generated requests to one operation, and look at every answer."""

    @FEW
    @given(case=operation.as_strategy())
    def ask(case):
        headers = {"Authorization": f"Bearer {token}"}
        answer = case.call(base_url=url, headers=headers, timeout=30)
        assert answer.status_code < 500, (case.method, case.path, case.body, answer.text)
        assert answer.status_code not in (401, 403)
        if answer.status_code >= 400:
            assert set(answer.json()["error"]) == {"code", "message", "hint"}
        tried["refused" if answer.status_code >= 400 else "done"] += 1

    ask()


@pytest.mark.slow
def test_no_request_is_answered_by_an_accident(address):
    import schemathesis  # half a second

    url, tokens = address
    schema = schemathesis.openapi.from_url(f"{url}/api/openapi.json")
    tried = {"done": 0, "refused": 0}
    for found in schema.get_all_operations():
        operation = found.ok()
        role = next((r for path, r in ROLES.items() if operation.path.startswith(path)), "manager")
        fuzzed(operation, url, tokens[role], tried)
    assert tried["done"] > 15, tried
    assert tried["refused"] > 50, tried
